"""What ``import lazymedia`` costs beside ``import anyio, trio`` alone, in fresh processes, in turn."""

from __future__ import annotations

import subprocess
import sys
from argparse import Namespace
from statistics import median

from lazymedia.cli.show import milliseconds, table

ROWS = {
    "import anyio, trio": "import anyio, trio",
    "... and lazymedia": "import anyio, trio, lazymedia",
    "... and every name of it, for a renderer": "import anyio, trio, lazymedia; lazymedia.open_renderer",
}


def _seconds(program: str) -> float:
    timed = (
        f"import time; start = time.perf_counter(); {program.replace(chr(10), ';')}; print(time.perf_counter() - start)"
    )
    return float(subprocess.run([sys.executable, "-c", timed], capture_output=True, text=True, check=True).stdout)


def run(arguments: Namespace) -> None:
    """The table."""
    rounds = [{name: _seconds(program) for name, program in ROWS.items()} for _ in range(arguments.rounds)]
    seconds = {name: median(round_[name] for round_ in rounds) for name in ROWS}
    first = next(iter(seconds.values()))
    rows = [(name, milliseconds(value), milliseconds(value - first)) for name, value in seconds.items()]
    print(table([("import", "time", "more"), *rows]), end="\n\n")
