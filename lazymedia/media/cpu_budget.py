"""Counts the cores that decodes use, so that one decode alone may take several and many take one each.

Only this process is counted. Nothing waits for a core.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Final

from lazymedia.contexts import contextmanager


class CpuBudget:
    """Counts cores in use.

    Args:
        number: How many cores there are.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._used = 0
        self._lock = threading.Lock()
        self._busy = threading.local()

    @contextmanager
    def one(self) -> Iterator[None]:
        """Count this thread as busy inside the block. A decode within a decode counts once."""
        if getattr(self._busy, "here", False):
            yield
            return
        self._busy.here = True
        self._take(1)
        try:
            yield
        finally:
            self._take(-1)
            self._busy.here = False

    @contextmanager
    def idle(self, most: int) -> Iterator[int]:
        """Reserve idle cores for the block, ``most`` at most, and return their number, which may be 0."""
        with self._lock:
            taken = max(0, min(most, self._number - self._used))
            self._used += taken
        try:
            yield taken
        finally:
            self._take(-taken)

    def _take(self, number: int) -> None:
        with self._lock:
            self._used += number

    def reset_after_fork(self) -> None:
        """A forked process has only the calling thread."""
        self._lock = threading.Lock()
        self._used = int(getattr(self._busy, "here", False))


def _available() -> int:
    """CpuBudget that this process may run on; all of the machine's where the system has no affinity."""
    allowed = getattr(os, "sched_getaffinity", None)  # not on macOS and Windows
    return len(allowed(0)) if allowed is not None else os.cpu_count() or 1


CPU_BUDGET: Final = CpuBudget(_available())
"""Of this process."""

if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=CPU_BUDGET.reset_after_fork)

__all__ = ["CPU_BUDGET", "CpuBudget"]
