"""The private folder of a download cache.

The folder belongs to this user and nobody else can write into it. That is checked each time it is opened, and
everything else goes by descriptors from there, so that nothing that is swapped meanwhile leads outside.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, final

from lazymedia.contexts import contextmanager
from lazymedia.fetch.disk_cache.private_file import SAFELY, UNFINISHED, closing, remove

_NAME: Final = re.compile(r"[0-9a-f]{64}(\.entry|\.renewed)|[0-9a-f]{32}\.unfinished")
_SHARD: Final = re.compile(r"[0-9a-f]{2}")
_FOLDER: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | SAFELY
_LOCK: Final = os.O_RDWR | os.O_CREAT | getattr(os, "O_NONBLOCK", 0) | SAFELY
_SECONDS_BETWEEN_TRIES: Final = 0.002


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
        return self.name.endswith(UNFINISHED)


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
            os.makedirs(os.path.dirname(self.path), exist_ok=True)  # noqa: PTH103, PTH120  # beside the other calls of os
            os.mkdir(self.path, 0o700)  # noqa: PTH102
        with self._opened():
            pass

    @contextmanager
    def _opened(self) -> Iterator[int]:
        with closing(os.open(self.path, _FOLDER)) as folder:
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
                    os.mkdir(name[:2], 0o700, dir_fd=folder)
            with closing(os.open(name[:2], _FOLDER, dir_fd=folder)) as shard:
                yield shard

    def files(self) -> Iterator[Found]:
        """Every file of the cache's. What else lies in the folder is none of its business.

        Raises:
            OSError: A folder cannot be listed, or is not private.
        """
        with self._opened() as folder:
            for shard in filter(_SHARD.fullmatch, os.listdir(folder)):  # noqa: PTH208  # Path knows no descriptors
                try:
                    with closing(os.open(shard, _FOLDER, dir_fd=folder)) as inside:
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

    @contextmanager
    def locked(self, seconds: float) -> Iterator[bool]:
        """Whether no other process has the folder's lock, which this one then has for the length of the block.

        Where a file system has no locks, everybody has it: it only makes limits exact.

        Args:
            seconds: How long to wait for it.
        """
        import fcntl  # only where there are folders like ours

        with self._opened() as folder, closing(os.open("lock", _LOCK, 0o600, dir_fd=folder)) as lock:
            end = time.monotonic() + seconds
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    if time.monotonic() < end:
                        time.sleep(_SECONDS_BETWEEN_TRIES)
                        continue
                    yield False
                    return
                except OSError:
                    pass
                yield True
                return


def _listed(shard: str, inside: int) -> Iterator[Found]:
    for name in filter(_NAME.fullmatch, os.listdir(inside)):
        try:
            status = os.stat(name, dir_fd=inside, follow_symlinks=False)
        except FileNotFoundError:
            continue
        yield Found(shard, name, status.st_size, status.st_mtime)


__all__ = ["Found", "NotPrivateError", "PrivateFolder"]
