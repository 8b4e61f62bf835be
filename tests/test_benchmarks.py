"""The benchmarks' short form runs: what it prints is no measurement, and nothing here looks at a time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


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
    for heading in ("12-megapixel JPEG", "32 frames of", "to 16 kHz mono"):
        assert heading in done.stdout
