"""Private files of the download cache: read only if they are this user's alone, written whole or not at all.

Names are looked up in the open folder, and no link is followed. A new file is written under a name that no reader looks
for, flushed to the disk, and renamed, so that a reader finds the old file, the new one or none. The rename itself is
not flushed: after a power cut a file may be missing, which costs one download.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, final

from lazymedia.contexts import contextmanager
from lazymedia.fetch.disk_cache.entry import BrokenEntryError

ENTRY: Final = ".entry"
RENEWAL: Final = ".renewed"
UNFINISHED: Final = ".unfinished"

SAFELY: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)  # a platform without them is rejected
_READ: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | SAFELY  # opening a FIFO waits for a writer otherwise
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | SAFELY
_MODE: Final = 0o600
_NO_FILE_OF_OURS: Final = frozenset({errno.ELOOP, errno.EMLINK, errno.ENXIO, errno.EACCES})
"""Links (EMLINK is FreeBSD's word), sockets, and files whose mode was changed."""


@final
class PrivateFile:
    """A file that was checked when it was opened."""

    def __init__(self, descriptor: int, size: int) -> None:
        self._descriptor = descriptor
        self.size = size

    def read(self, size: int) -> bytes:
        """The next ``size`` bytes; fewer only at the end. Where one read gives all, nothing is copied."""
        data = os.read(self._descriptor, size)
        if len(data) == size:
            return data
        pieces = [data]
        while pieces[-1] and (left := size - sum(map(len, pieces))):
            pieces.append(os.read(self._descriptor, left))
        return b"".join(pieces)


@contextmanager
def opened_file(folder: int, name: str, max_bytes: int) -> Iterator[PrivateFile]:
    """A file of the cache, to be read.

    Raises:
        FileNotFoundError: There is none.
        BrokenEntryError: It is not a regular file of this user alone with one name, or is larger than ``max_bytes``.
        OSError: It cannot be opened.
    """
    try:
        descriptor = os.open(name, _READ, dir_fd=folder)
    except OSError as exc:
        if exc.errno in _NO_FILE_OF_OURS:
            raise BrokenEntryError("no private file") from None
        raise
    with closing(descriptor):
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or stat.S_IMODE(status.st_mode) != _MODE or status.st_nlink > 1:
            raise BrokenEntryError("no private file")
        if status.st_uid != os.geteuid() or status.st_size > max_bytes:
            raise BrokenEntryError("not this user's file, or too large")
        yield PrivateFile(descriptor, status.st_size)


@final
class UnfinishedFile:
    """A file that is being written. From the start it has the size that it will have, for others to count.

    Raises:
        OSError: It cannot be made; so do the methods.
    """

    def __init__(self, folder: int, size: int) -> None:
        self._folder = folder
        self._name = os.urandom(16).hex() + UNFINISHED
        self._descriptor = os.open(self._name, _WRITE, _MODE, dir_fd=folder)
        try:
            os.ftruncate(self._descriptor, size)
        except BaseException:
            self._discard()
            raise

    def publish(self, name: str, pieces: tuple[bytes, ...], at: float, *, flush: bool) -> None:
        """Write the file and give it its name; or, whatever happens, remove it.

        Args:
            name: A file that has it is replaced.
            pieces: What is written.
            at: The time that the file will bear, in POSIX seconds.
            flush: Wait until the disk has it.
        """
        try:
            for piece in pieces:
                _write_all(self._descriptor, piece)
            os.utime(self._descriptor, (at, at))
            if flush:
                os.fsync(self._descriptor)
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)  # some file systems say only here that a write failed
            os.rename(self._name, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except BaseException:
            self._discard()
            raise

    def _discard(self) -> None:
        if self._descriptor >= 0:
            with closing(self._descriptor):
                pass
        remove(self._folder, self._name)


def remove(folder: int, name: str) -> bool:
    """Whether a file is gone now. A folder in its place goes if it is empty."""
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return True
    except OSError:
        try:
            os.rmdir(name, dir_fd=folder)
        except OSError:
            return False
    return True


@contextmanager
def closing(descriptor: int) -> Iterator[int]:
    """Closes what was only read; how that ends changes nothing."""
    try:
        yield descriptor
    finally:
        with suppress(OSError):
            os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


__all__ = [
    "ENTRY",
    "RENEWAL",
    "SAFELY",
    "UNFINISHED",
    "PrivateFile",
    "UnfinishedFile",
    "closing",
    "opened_file",
    "remove",
]
