"""Bounds on CPU seconds that hold on a slow or busy machine too: a fixed loop is timed beside what is bounded."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from lazymedia.contexts import contextmanager

_LOOP: Final = 500_000
_USUAL_SECONDS: Final = 0.03
"""What the loop takes on a virtual core of 2024 with Python 3.11, on which the bounds of the tests were chosen."""


def slowness() -> float:
    """How many times longer than usual Python's own work takes now; at least 1."""
    start = time.process_time()
    for _ in range(_LOOP):
        pass
    sum(range(_LOOP))
    return max(1.0, (time.process_time() - start) / _USUAL_SECONDS)


@contextmanager
def cpu_seconds_below(bound: float) -> Iterator[None]:
    """Fail where the block takes more CPU seconds of this process than ``bound``, times `slowness`."""
    start = time.process_time()
    yield
    spent = time.process_time() - start
    allowed = bound * slowness()
    assert spent < allowed, f"{spent:.2f} CPU seconds where {allowed:.2f} are allowed"
