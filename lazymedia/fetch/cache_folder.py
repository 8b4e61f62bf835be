"""A private folder of private files: read only if they are ours alone, written whole or not at all.

Comes in: names of two kinds, and bytes. Goes out: descriptors of judged files. Never here: what the bytes mean, or
which files are worth keeping.

The folder belongs to this user and nobody else can write into it; that is looked at each time it is opened. Everything
else goes by descriptors from there, and follows no link. A new file is written under a name that no reader looks for,
flushed to the disk, and renamed, so that a reader finds the old file, the new one or none. The rename itself is not
flushed: after a power cut a file may be missing, which costs one download.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from lazymedia.fetch.cache_entry import BrokenEntryError

ENTRY: Final = ".entry"
RENEWAL: Final = ".renewed"
_UNFINISHED: Final = ".unfinished"

_NAME: Final = re.compile(r"[0-9a-f]{64}(\.entry|\.renewed)|[0-9a-f]{32}\.unfinished")
_SHARD: Final = re.compile(r"[0-9a-f]{2}")
_SAFELY: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)  # a platform without them is refused
_FOLDER: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _SAFELY
_READ: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _SAFELY  # opening a FIFO waits for a writer otherwise
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFELY
_NO_FILE_OF_OURS: Final = frozenset({errno.ELOOP, errno.EMLINK, errno.ENXIO, errno.EACCES})
"""Links (EMLINK is FreeBSD's word), sockets, and files whose mode was changed."""


class NotPrivateError(OSError):
    """The folder is not one that only this user can write into."""


@final
@dataclass(frozen=True, slots=True)
class Found:
    """A file of the cache, as a listing sees it."""

    shard: str
    name: str
    size: int
    mtime: float

    @property
    def is_unfinished(self) -> bool:
        return self.name.endswith(_UNFINISHED)


@final
class PrivateFolder:
    """The cache's folder.

    Args:
        path: Where it is, or where it is made when something is to be written.

    Raises:
        TypeError: No path.
        ValueError: An empty path, or a platform that cannot open a file relative to a folder. The operator's fault.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        given = os.fsdecode(path)
        if not given or "\0" in given:
            raise ValueError("a download cache needs a folder")
        if os.open not in os.supports_dir_fd or not hasattr(os, "O_NOFOLLOW"):
            raise ValueError("a download cache needs a platform with openat and O_NOFOLLOW, such as Linux or macOS")
        self.path: Final = os.path.abspath(given)  # noqa: PTH100  # Path.absolute keeps ".."

    def make(self) -> None:
        """Make the folder if it is missing, and look whether it is private.

        Raises:
            OSError: It cannot be made, or is no folder, or not private.
        """
        with suppress(FileExistsError):
            Path(self.path).parent.mkdir(parents=True, exist_ok=True)
            os.mkdir(self.path, 0o700)  # noqa: PTH102  # beside the other calls of os
        with self._opened():
            pass

    @contextmanager
    def _opened(self) -> Iterator[int]:
        with _closing(os.open(self.path, _FOLDER)) as folder:
            status = os.fstat(folder)
            if status.st_uid != os.geteuid() or status.st_mode & 0o022:
                raise NotPrivateError(errno.EPERM, "the folder is another user's, or others can write into it")
            yield folder

    @contextmanager
    def shard_of(self, name: str, *, make: bool = False) -> Iterator[int]:
        """The descriptor of the sub-folder that a file belongs into.

        Raises:
            FileNotFoundError: There is none, and it is not to be made.
            OSError: It cannot be opened or made.
        """
        if make:
            self.make()
        with self._opened() as folder:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(name[:2], 0o700, dir_fd=folder)  # Path knows no descriptors
            with _closing(os.open(name[:2], _FOLDER, dir_fd=folder)) as shard:
                yield shard

    def files(self) -> Iterator[Found]:
        """Every file of the cache's. What else lies in the folder is none of its business.

        Raises:
            OSError: A folder cannot be listed, or is not private.
        """
        with self._opened() as folder:
            for shard in filter(_SHARD.fullmatch, os.listdir(folder)):  # noqa: PTH208
                try:
                    with _closing(os.open(shard, _FOLDER, dir_fd=folder)) as inside:
                        yield from _listed(shard, inside)
                except (FileNotFoundError, NotADirectoryError):
                    continue

    def remove(self, file: Found) -> bool:
        """Whether a listed file is gone now."""
        try:
            with self.shard_of(file.shard) as shard:
                return remove(shard, file.name)
        except FileNotFoundError:
            return True
        except OSError:
            return False


@final
class PrivateFile:
    """A file that was judged when it was opened."""

    def __init__(self, descriptor: int, size: int) -> None:
        self._descriptor = descriptor
        self.size = size

    def read(self, size: int) -> bytes:
        """The next ``size`` bytes; fewer only at the end. One read of the usual kind makes no copy."""
        data = os.read(self._descriptor, size)
        if len(data) == size:
            return data
        pieces = [data]
        while data and (left := size - sum(map(len, pieces))):
            data = os.read(self._descriptor, left)
            pieces.append(data)
        return b"".join(pieces)


@contextmanager
def opened_file(shard: int, name: str, max_bytes: int) -> Iterator[PrivateFile]:
    """A file of the cache, to be read.

    Raises:
        FileNotFoundError: There is none.
        BrokenEntryError: It is not a regular file of this user alone with one name, or is larger than ``max_bytes``.
        OSError: It cannot be opened.
    """
    try:
        descriptor = os.open(name, _READ, dir_fd=shard)
    except OSError as exc:
        if exc.errno in _NO_FILE_OF_OURS:
            raise BrokenEntryError("no private file") from None
        raise
    with _closing(descriptor):
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_mode & 0o077 or status.st_nlink > 1:
            raise BrokenEntryError("no private file")
        if status.st_uid != os.geteuid() or status.st_size > max_bytes:
            raise BrokenEntryError("not this user's file, or too large")
        yield PrivateFile(descriptor, status.st_size)


def write_file(shard: int, name: str, pieces: tuple[bytes, ...], at: float, *, flush: bool) -> None:
    """Write a file under its name, whole or not at all.

    Args:
        shard: Where.
        name: As what. A file of that name is replaced.
        pieces: What.
        at: The time that the file bears, in POSIX seconds.
        flush: Wait until the disk has it.

    Raises:
        OSError: It could not be written; nothing is left of it, unless even that fails.
    """
    unfinished = os.urandom(16).hex() + _UNFINISHED
    descriptor = os.open(unfinished, _WRITE, 0o600, dir_fd=shard)
    try:
        try:
            for piece in pieces:
                _write_all(descriptor, piece)
            os.utime(descriptor, (at, at))
            if flush:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(unfinished, name, src_dir_fd=shard, dst_dir_fd=shard)
    except BaseException:
        remove(shard, unfinished)
        raise


def remove(shard: int, name: str) -> bool:
    """Whether a file is gone now. A folder in its place goes if it is empty."""
    try:
        os.unlink(name, dir_fd=shard)
    except FileNotFoundError:
        return True
    except OSError:
        try:
            os.rmdir(name, dir_fd=shard)
        except OSError:
            return False
    return True


def _listed(shard: str, inside: int) -> Iterator[Found]:
    for name in filter(_NAME.fullmatch, os.listdir(inside)):
        try:
            status = os.stat(name, dir_fd=inside, follow_symlinks=False)
        except FileNotFoundError:
            continue
        yield Found(shard, name, status.st_size, status.st_mtime)


def _write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


@contextmanager
def _closing(descriptor: int) -> Iterator[int]:
    """Closes what was only read; how that ends changes nothing."""
    try:
        yield descriptor
    finally:
        with suppress(OSError):
            os.close(descriptor)


__all__ = [
    "ENTRY",
    "RENEWAL",
    "Found",
    "NotPrivateError",
    "PrivateFile",
    "PrivateFolder",
    "opened_file",
    "remove",
    "write_file",
]
