"""Bytes on their way through a pipe to a library that reads a descriptor: a piece for each call, written before it.

So many bytes lie in the pipe before each call that the library never comes to the end of them, and nobody ever waits.

Comes in: what is to be read for each call, and what may be decoded by one. Goes out: a descriptor. Never here: a
codec, a thread, or a wait.
"""

from __future__ import annotations

import os
import sys
from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final, Protocol

AHEAD: Final = 1 << 15
"""Bytes that a library may read beyond the samples that come out."""

_PIPE: Final = (1 << 17, 1 << 20)
"""Bytes that a pipe is asked to hold, and that it is asked for at most where a header alone is longer. Linux gives as
much until a user's pipes hold 64 MiB, then less.
"""

_HERE: Final = sys.platform == "linux"
"""Elsewhere pipes do not tell how much they hold."""


def is_possible() -> bool:
    """Whether this system has such pipes."""
    return _HERE


class Feedable(Protocol):
    """What is read a piece at a time."""

    def most_bytes(self, samples: int) -> int:
        """Bytes that may have to be read for a call of so many samples."""

    def pieces(self, samples: int) -> Iterator[bytes | memoryview]:
        """What is read for each call, and at last the rest, if there is any. They may end early."""


class Feed:
    """A pipe, and the pieces that go through it.

    Attributes:
        end: The descriptor to read from. It never blocks.
        samples: For each call.
    """

    def __init__(self, ends: tuple[int, int], pieces: Iterator[bytes | memoryview], samples: int) -> None:
        self.end, self._entry = ends
        self.samples = samples
        self._pieces = pieces
        self._rest = memoryview(b"")
        self._made = self._written = 0
        self._calls: deque[int] = deque()

    @classmethod
    def of(cls, track: Feedable, calls: Sequence[int]) -> Feed | None:
        """For the first of these numbers of samples that the pipe has room for; None where there is none."""
        if not is_possible():
            return None
        wanted = {samples: track.most_bytes(samples) + 2 * AHEAD for samples in calls}
        try:
            ends = os.pipe()
        except OSError:  # too many files are open
            return None
        for end in ends:
            os.set_blocking(end, False)
        room = _widened(ends[1], min(wanted.values()))
        samples = next((samples for samples, size in wanted.items() if size <= room), 0)
        feed = cls(ends, track.pieces(samples) if samples else iter(()), samples)
        if not samples:
            feed.close()
            return None
        return feed

    def fill(self) -> None:
        """Write until the pipe takes no more, or all is written and the pipe has an end."""
        while self._entry >= 0:
            if not self._rest:
                piece = next(self._pieces, None)
                if piece is None:
                    self._close_entry()
                    return
                self._made += len(piece)
                self._calls.append(self._made)
                self._rest = memoryview(piece)
            try:
                written = os.write(self._entry, self._rest)
            except BlockingIOError:
                return
            self._written += written
            self._rest = self._rest[written:]

    def holds_a_call(self) -> bool:
        """Whether the library will not come to the end of what there is before it has decoded the next frames. Each
        time is for another call.
        """
        if not self._calls or self._calls[0] + AHEAD > self._written:
            self.fill()
        return self._entry < 0 or (bool(self._calls) and self._calls.popleft() + AHEAD <= self._written)

    def ran_dry(self) -> bool:
        """Whether the library may have come to the end of what there was while more was to come."""
        return self._entry >= 0 and _held(self.end) == 0

    def close(self) -> None:
        """Close both ends; more than once does no harm."""
        self._close_entry()
        if self.end >= 0:
            os.close(self.end)
            self.end = -1

    def _close_entry(self) -> None:
        if self._entry >= 0:
            os.close(self._entry)
            self._entry = -1


def _held(end: int) -> int:
    """Bytes that lie in a pipe."""
    import fcntl  # not everywhere
    import termios

    count = array("i", [0])
    fcntl.ioctl(end, termios.FIONREAD, count)
    return count[0]


def _widened(end: int, wanted: int) -> int:
    """Bytes that a pipe holds, after it was asked to hold more."""
    import fcntl  # not everywhere

    usual, most = _PIPE
    with suppress(OSError):  # this user's pipes hold enough already
        return fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, min(max(usual, wanted), most))
    return fcntl.fcntl(end, fcntl.F_GETPIPE_SZ)


__all__ = ["AHEAD", "Feed", "Feedable", "is_possible"]
