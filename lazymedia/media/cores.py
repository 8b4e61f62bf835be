"""Which of the machine's cores decodes are using, so that one decode alone may take several and many take one each.

Comes in: the beginning and the end of decodes. Goes out: how many cores one of them may use now. Never here: a thread,
or a wait: nobody is held up for a core.

Counted within this process; what else the machine does is not seen.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Final

from lazymedia.contexts import contextmanager


class Cores:
    """A count of cores in use.

    Args:
        number: How many there are.
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
        """Take the cores that nobody uses, ``most`` of them at most, for the block. How many there were; may be 0."""
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

    def forget_other_threads(self) -> None:
        """In a forked process, which has none of them."""
        self._lock = threading.Lock()
        self._used = int(getattr(self._busy, "here", False))


def _available() -> int:
    """Cores that this process may run on; those that the machine has where the system does not tell."""
    allowed = getattr(os, "sched_getaffinity", None)  # not on macOS and Windows
    return len(allowed(0)) if allowed is not None else os.cpu_count() or 1


CORES: Final = Cores(_available())
"""The machine's."""

if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=CORES.forget_other_threads)

__all__ = ["CORES", "Cores"]
