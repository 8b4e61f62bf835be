"""The benchmarks' short form runs: what it prints is no measurement, and nothing here looks at a time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.measure import optional


def test_the_short_form_prints_every_table() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--quick"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=Path(__file__).parents[1],
    )

    assert done.returncode == 0, done.stderr
    headings = (
        "import ",
        "JPEG of ",
        "plan of new sizes",
        "to an array",
        "32 frames of",
        "requests at once",
        "cancelled in the middle",
        "x 20 kB",
        "WAV to 16 kHz mono",
        "M4A to 16 kHz mono",
        "target ",
    )
    for heading in headings:
        assert heading in done.stdout


def test_a_library_that_is_not_there_is_no_reason_to_fail() -> None:
    assert optional("no_library_has_this_name") is None
