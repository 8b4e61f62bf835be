"""The script that runs tests on other Pythons says which of them are missing."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "scripts" / "pythons"


def test_a_python_that_is_missing_is_reported() -> None:
    done = subprocess.run(
        [SCRIPT], capture_output=True, text=True, check=False, timeout=60, env={**os.environ, "PYTHONS": "3.98 3.99"}
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "== Python 3.98: skipped: no Python 3.98",
        "== Python 3.99: skipped: no Python 3.99",
    ]
