"""How much of a download cache stays on the disk, by bytes and by age. Files of writers that were killed go too.

The oldest download leaves first: times of files are those of downloads, and no reader changes them. No list is shared
between processes. A process lists the folder and makes room under a lock, and begins its file there, at its full size,
so that the limit holds for all. Between two listings it writes at most 1/128 of the limit without one, so that eight
processes may exceed it by a sixteenth.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, TypeVar, final

from lazymedia.fetch.disk_cache.entry import CLOCK_SLACK
from lazymedia.fetch.disk_cache.private_folder import Found, PrivateFolder

T = TypeVar("T")

_BLOCK: Final = 4096  # what a small file takes on most disks
_PARTS: Final = 128
_ROOM: Final = 20  # a sweep leaves a twentieth free, so that it need not come again at once
_SECONDS_BETWEEN: Final = 600.0
_LEFTOVER_AFTER: Final = 3600.0  # a file that nobody wrote to for so long has lost its writer
_LONGEST_WAIT: Final = 1.0


def billed(size: int) -> int:
    """Bytes that a file of ``size`` bytes counts as."""
    return max(1, -(-size // _BLOCK)) * _BLOCK


@final
class Budget:
    """Keeps a folder within its limits. Any number of threads and processes may.

    Args:
        folder: Whose files.
        max_bytes: Most bytes of all files, each counted in blocks.
        max_age: Seconds after which a file goes.
    """

    def __init__(self, folder: PrivateFolder, max_bytes: int, max_age: float) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._max_age = max_age
        self._lock = threading.Lock()
        self._held: int | None = None  # at the last look
        self._written = 0  # since then
        self._looked_at = 0.0

    def reserve(self, size: int, now: float, begin: Callable[[], T]) -> T | None:
        """Begin a file of ``size`` bytes, if there is room; older files leave where it would not fit.

        Args:
            size: Bytes that the file will have.
            now: POSIX seconds.
            begin: Makes the file, with the size that it will have, so that others count it.

        Returns:
            What ``begin`` made, or None.

        Raises:
            OSError: The folder cannot be looked at, or the file cannot be made.
        """
        size = billed(size)
        if size > self._max_bytes or not self._max_age or not self._lock.acquire(timeout=_LONGEST_WAIT):
            return None
        try:
            if not self._is_due(size, now):
                return self._begun(size, begin)
            with self._folder.locked(_LONGEST_WAIT) as is_locked:
                if not is_locked:
                    return None
                self._held = None  # until the look succeeds
                self._held = self._sweep(size, now)
                self._written = 0
                self._looked_at = now
                return self._begun(size, begin)
        finally:
            self._lock.release()

    def _begun(self, size: int, begin: Callable[[], T]) -> T | None:
        if (self._held or 0) + self._written + size > self._max_bytes:
            return None
        self._written += size
        return begin()

    def _is_due(self, size: int, now: float) -> bool:
        written = self._written + size
        if self._held is None or written > self._max_bytes // _PARTS or self._held + written > self._max_bytes:
            return True
        return not 0 <= now - self._looked_at < _SECONDS_BETWEEN

    def _sweep(self, room: int, now: float) -> int:
        """Remove what is too old, then what is oldest until ``room`` bytes fit. Returns the bytes left."""
        files = sorted(self._folder.files(), key=lambda file: self._age(file, now), reverse=True)
        held = sum(billed(file.size) for file in files)
        goal = self._max_bytes
        if held + room > goal:
            goal = max(0, goal - goal // _ROOM - room)
        for file in files:
            if (held > goal or self._is_over(file, now)) and self._folder.remove(file):
                held -= billed(file.size)
        return held

    def _age(self, file: Found, now: float) -> float:
        """Seconds; endless for a file from the future, which would never leave otherwise."""
        age = now - file.mtime
        return age if age >= -CLOCK_SLACK else float("inf")

    def _is_over(self, file: Found, now: float) -> bool:
        return self._age(file, now) >= (_LEFTOVER_AFTER if file.is_unfinished else self._max_age)


__all__ = ["Budget", "billed"]
