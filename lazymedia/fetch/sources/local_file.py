"""Files of this host, below one folder that the operator named. For worker threads.

What is checked is what is read: the way down is walked folder by folder from a descriptor of the root, which is held
from the beginning, no symbolic link is followed on it, and type and size are those of the opened descriptor. So nothing
that is swapped in between leads outside. Missing, forbidden and unreadable files are rejected in the same words, which
do not show what exists.
"""

from __future__ import annotations

import errno
import os
import stat
import weakref
from typing import Final, final

from lazymedia.errors import NotAllowedError, OverloadedError, UnprocessableMediaError
from lazymedia.fetch.body_buffer import CappedBuffer, too_large
from lazymedia.fetch.policy.url import FileUrl

_BLOCK: Final = 1 << 20
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


@final
class LocalRoot:
    """A folder whose files may be read.

    Args:
        path: An existing folder, which is opened now and stays open: what stands under its name later, a symbolic link
            or another folder, is not read. A relative path is resolved now, as are symbolic links on the way to it.

    Raises:
        ValueError: No such folder, one that cannot be opened, or a platform that cannot open a file relative to one.
            The operator's fault.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        given = os.fspath(path)
        if not given or not os.path.isdir(given):  # noqa: PTH112  # os.path throughout: pathlib cannot open below a folder
            raise ValueError("allowed_local_media_path is not an existing folder")
        if os.open not in os.supports_dir_fd or not hasattr(os, "O_NOFOLLOW"):
            raise ValueError(
                "allowed_local_media_path needs a platform with openat and O_NOFOLLOW, such as Linux or macOS"
            )
        root = os.path.realpath(given)
        try:
            self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as exc:
            raise ValueError("allowed_local_media_path is a folder that cannot be opened") from exc
        weakref.finalize(self, os.close, self._root)
        spellings = {root, os.path.abspath(given)}  # noqa: PTH100  # Path.absolute keeps ".."
        self._prefixes = tuple(os.fsencode(spelling).rstrip(b"/") + b"/" for spelling in spellings)

    def read(self, url: FileUrl, max_bytes: int) -> bytes:
        """The bytes of a file.

        Raises:
            NotAllowedError: Outside the folder, missing, not readable, not a regular file, or behind a symbolic link.
            OverloadedError: No file descriptor is left.
            PayloadTooLargeError: More than ``max_bytes``.
            UnprocessableMediaError: Empty.
        """
        parts = self._parts(url.path)
        try:
            descriptor = self._open(parts)
            try:
                data = _read_regular(descriptor, max_bytes)
            finally:
                os.close(descriptor)
        except OSError as exc:
            if exc.errno in _EXHAUSTED:
                raise OverloadedError("no file descriptor is left") from exc
            raise NotAllowedError from None
        if not data:
            raise UnprocessableMediaError("the file is empty")
        return data

    def _parts(self, path: bytes) -> list[bytes]:
        """Names to walk down from the root."""
        prefix = next((prefix for prefix in self._prefixes if path.startswith(prefix)), None)
        if prefix is None or path.endswith(b"/"):
            raise NotAllowedError
        parts = [part for part in path[len(prefix) :].split(b"/") if part not in {b"", b"."}]
        if not parts or b".." in parts:
            raise NotAllowedError
        return parts

    def _open(self, parts: list[bytes]) -> int:
        *folders, name = parts
        folder = os.dup(self._root)
        try:
            for below in folders:
                inner = os.open(below, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
                os.close(folder)
                folder = inner
            # Without O_NONBLOCK, opening a FIFO waits for a writer.
            return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        finally:
            os.close(folder)


def _read_regular(descriptor: int, max_bytes: int) -> bytes:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise NotAllowedError
    if status.st_size > max_bytes:
        raise too_large(max_bytes)
    buffer = CappedBuffer(max_bytes)
    while chunk := os.read(descriptor, _BLOCK):
        buffer.write(chunk)
    return buffer.getvalue()


__all__ = ["LocalRoot"]
