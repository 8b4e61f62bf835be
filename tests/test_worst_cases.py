"""No input of the short form of ``python -m benchmarks.worst_cases`` costs more than the bound or ends the process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.worst_cases.case import Case, bound
from benchmarks.worst_cases.measure import ASKS, run
from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import Limits
from lazymedia.media import MediaRef

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")


def test_no_worst_case_is_over_the_bound() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.worst_cases", "--short", "--json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
        cwd=Path(__file__).parents[1],
    )

    rows = [json.loads(line) for line in done.stdout.splitlines()]
    over = [
        f"{row['case']}, {row['ask']}: {row['cpu']:.2f} CPU s where {row['bound']:.2f} are allowed; {row['outcome']}"
        for row in rows
        if row["over"]
    ]
    assert {row["modality"] for row in rows} == {"image", "video", "audio"}, done.stderr
    assert not over, "\n".join(over)
    assert done.returncode == 0, done.stderr


def test_the_bound_counts_bytes_and_what_is_asked_for() -> None:
    assert bound(0, 0, "image") == pytest.approx(0.1)
    assert bound(3_000_000, 20e6, "video") - bound(0, 0, "video") == pytest.approx(8)
    assert bound(500_000, 120, "audio") - bound(0, 0, "audio") == pytest.approx(3)


def _behave(data: bytes, limits: Limits) -> MediaRef[object]:
    """A decoder that does what the payload says."""
    if not data:
        os.kill(os.getpid(), signal.SIGSEGV)
    while data == b"\1":
        pass
    if data == b"\2":
        raise UnprocessableMediaError("no")
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "crashed by SIGSEGV"),
        (b"\0", "raised ZeroDivisionError"),
        (b"\1", "ended: too many CPU seconds"),
        (b"\2", "rejected: no"),
    ],
)
def test_what_becomes_of_a_process_is_a_row(
    data: bytes, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ASKS, "image", {"any": _behave})
    path = tmp_path / "payload"
    path.write_bytes(data)

    row = run(Case("any", "image", lambda _: data), "any", path, cap=1)

    assert row.outcome.startswith(what)
    assert row.over == (data != b"\2")
