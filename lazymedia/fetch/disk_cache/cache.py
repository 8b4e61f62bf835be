"""`DownloadCache`: downloads kept on disk from one run to the next, for one process or several.

One file per URL, named by a digest of scope and URL and by nothing that a client can choose. Its checksum is verified
at each read, so that a torn, flipped, swapped or planted file is a miss, and is removed. Age counts from the download:
neither a read nor a server's "not modified" lengthens it. Whatever is wrong with the disk, the folder or a file costs a
download and is no error.

The libraries there are do less: diskcache unpickles what it finds and, like hishel, keeps one SQLite index, which a
flipped bit makes an error for every URL; none verifies bodies, and hishel wants to be the HTTP client's transport.
"""

from __future__ import annotations

import copy
import errno
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from typing import Final, Self, final

from lazymedia.contexts import contextmanager
from lazymedia.fetch.disk_cache.budget import Budget, billed
from lazymedia.fetch.disk_cache.entry import (
    CLOCK_SLACK,
    RENEWAL_BYTES,
    BrokenEntryError,
    CachedDownload,
    Head,
    Renewal,
    checksum_of,
)
from lazymedia.fetch.disk_cache.private_file import ENTRY, RENEWAL, PrivateFile, UnfinishedFile, opened_file, remove
from lazymedia.fetch.disk_cache.private_folder import PrivateFolder
from lazymedia.fetch.http_rules.freshness import is_whole, terms_after
from lazymedia.fetch.http_rules.messages import Headers

log = logging.getLogger("lazymedia.fetch")

_WRONG: Final = (OSError, MemoryError, OverflowError)
"""What calls of the operating system raise, and what it takes to hold a file or to write a time of year 292 billion."""
_GIB: Final = 1 << 30


@final
class DownloadCache:
    """Downloads in a folder on disk.

    Any number of threads and processes may use one folder at once. Nothing here raises but the constructor: a call that
    cannot be done is a miss, and the first such failure of the system is logged.

    Args:
        folder: Where. Made with mode 0700 if missing. A folder of another user, one that others can write into, or a
            symbolic link is not used.
        max_bytes: Most bytes on disk, each file counted in blocks of 4 KiB. Zero keeps nothing.
        max_age: Seconds after its download for which a body may be used. Zero keeps nothing.
        scope: Whose downloads. What is stored in one scope is not found in another.
        clock: Says the time, in POSIX seconds.

    Raises:
        TypeError: A setting of the wrong type. The operator's fault, as is the next.
        ValueError: An empty path, or a number that is negative or not finite; or a platform without openat.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        max_bytes: int = 5 * _GIB,
        max_age: float = 86_400.0,
        scope: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        _reject_unless_number("max_bytes", max_bytes, int)
        _reject_unless_number("max_age", max_age, float)
        self._folder = PrivateFolder(folder)
        self._max_bytes = max_bytes
        self._max_age = max_age
        self._clock = clock
        self._budget = Budget(self._folder, max_bytes, max_age)
        self._has_warned = threading.Event()
        self._scope = _scope_bytes(scope)
        if max_bytes and max_age:
            with self._harmless():
                self._folder.make()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of at most {self._max_bytes} bytes and {self._max_age:g} s>"

    def scoped(self, scope: str) -> Self:
        """The same cache for another scope: one folder, one limit, and downloads that neither finds of the other.

        Raises:
            TypeError: A scope that is no text.
        """
        other = copy.copy(self)
        other._scope = _scope_bytes(scope)  # noqa: SLF001  # a copy of its own class
        return other

    def get(self, url: str) -> CachedDownload | None:
        """The download of a URL, if it is here, whole, young enough, and either fresh or to be asked for.

        Args:
            url: As it was stored, but for the fragment. Which texts mean the same URL is the caller's business.
        """
        key = self._key(url)
        name = key.hex()
        with self._harmless(), self._folder.shard_of(name) as shard:
            try:
                with opened_file(shard, name + ENTRY, self._max_bytes) as file:
                    return self._read(shard, file, key)
            except BrokenEntryError:
                _remove_both(shard, name)
        return None

    def put(
        self,
        url: str,
        data: bytes,
        *,
        final_url: str,
        headers: Headers,
        redirects: Sequence[Headers] = (),
        way: Sequence[str] = (),
    ) -> None:
        """Store a download, if its server allows it and there is room.

        What is stored must have been accepted: the body of a 200, complete, and no media that was rejected. Not stored
        are bodies whose headers do not say that they are whole, and those that could never be used: neither fresh nor
        to be asked for.

        Args:
            url: What was asked for.
            data: The body, without transfer coding.
            final_url: Where it came from in the end.
            headers: Of the final response.
            redirects: Headers of each redirect on the way. They bound how long the body stands for ``url`` unasked.
            way: Where it was asked for, one line for each URL; kept as it is. A connector holds what it stored itself
                against its rules again, by these lines.
        """
        now = self._clock()
        terms = terms_after(redirects, headers, now)
        key = self._key(url)
        name = key.hex()
        if terms is None or not terms.are_useful or not data or not is_whole(headers, len(data)):
            self._remove(name)  # what is here from another time is out of date
            return
        with self._harmless():
            texts = (final_url, terms.etag or "", terms.last_modified or "", "\n".join(way))
            head = Head(key, sha256(data).digest(), len(data), now, terms.fresh_for, *texts).encoded()
            self._write(name + ENTRY, (head, data), now, flush=True)

    def refresh(self, cached: CachedDownload, headers: Headers, redirects: Sequence[Headers] = ()) -> None:
        """Note that a server answered 304 (not modified): what was cached is as fresh as the answer says.

        A 304 repeats what a 200 would say of freshness, so that one that says nothing gives none. One that forbids
        keeping removes the download. The age counts from the download on, as before.

        Args:
            cached: What was asked about, at its final URL: another URL may use the same validators for other things.
            headers: Of the 304.
            redirects: Headers of each redirect on the way.
        """
        now = self._clock()
        terms = terms_after(redirects, headers, now)
        if terms is None:
            self._remove(cached.name)
            return
        if terms.fresh_for <= 0 and cached.fresh_until <= cached.vouched_at:
            return  # asked for each time, before and after
        with self._harmless():
            renewal = Renewal(cached.checksum, now, terms.fresh_for).encoded()
            self._write(cached.name + RENEWAL, (renewal,), now, flush=False)

    def remove(self, url: str) -> None:
        """Remove the download of a URL, if it is here."""
        self._remove(self._key(url).hex())

    def clear(self) -> None:
        """Remove every download, of every scope."""
        with self._harmless():
            for file in self._folder.files():
                self._folder.remove(file)

    def size(self) -> int:
        """Bytes on disk at this moment, each file counted in blocks of 4 KiB. Looks at every file."""
        with self._harmless():
            return sum(billed(file.size) for file in self._folder.files())
        return 0

    def _key(self, url: str) -> bytes:
        """The digest that names a URL's file: neither scope nor URL can end where the other begins."""
        parts = (self._scope, url.partition("#")[0].encode("utf-8", "surrogatepass"))
        return sha256(b"".join(len(part).to_bytes(8, "little") + part for part in parts)).digest()

    def _read(self, shard: int, file: PrivateFile, key: bytes) -> CachedDownload:
        head, encoded = Head.read(file.read)
        now = self._clock()
        if head.key != key:
            raise BrokenEntryError("the entry of another URL")
        if file.size != len(encoded) + head.length:
            raise BrokenEntryError("not as long as it says")
        if not -CLOCK_SLACK <= now - head.stored_at < self._max_age:
            raise BrokenEntryError("too old, or from the future")
        vouched = self._renewal(shard, key.hex(), checksum_of(encoded)) or head
        at = head.stored_at if isinstance(vouched, Head) else vouched.at
        cached = CachedDownload(
            data=file.read(head.length),
            final_url=head.final_url,
            etag=head.etag or None,
            last_modified=head.last_modified or None,
            stored_at=head.stored_at,
            fresh_until=at + vouched.fresh_for,
            vouched_at=at,
            name=key.hex(),
            checksum=checksum_of(encoded),
            way=tuple(head.way.split("\n")) if head.way else (),
        )
        if len(cached.data) != head.length or sha256(cached.data).digest() != head.digest:
            raise BrokenEntryError("the body is not what was stored")
        if not cached.is_fresh(now) and not cached.conditions:
            raise BrokenEntryError("cannot be used any more")
        return cached

    def _renewal(self, shard: int, name: str, checksum: bytes) -> Renewal | None:
        """What the server said last of the entry with this checksum, if it was asked since."""
        try:
            with opened_file(shard, name + RENEWAL, RENEWAL_BYTES) as file:
                renewal = Renewal.parse(file.read(RENEWAL_BYTES))
        except BrokenEntryError:
            remove(shard, name + RENEWAL)
            return None
        except OSError:
            return None
        return renewal if renewal.of == checksum else None

    def _write(self, name: str, pieces: tuple[bytes, ...], now: float, *, flush: bool) -> None:
        size = sum(map(len, pieces))
        with self._folder.shard_of(name, make=True) as shard:
            file = self._budget.reserve(size, now, partial(UnfinishedFile, shard, size))
            if file is not None:
                file.publish(name, pieces, now, flush=flush)

    def _remove(self, name: str) -> None:
        with self._harmless(), self._folder.shard_of(name) as shard:
            _remove_both(shard, name)

    @contextmanager
    def _harmless(self) -> Iterator[None]:
        """What goes wrong inside is no error: a miss, or nothing stored."""
        try:
            yield
        except (FileNotFoundError, BrokenEntryError):
            return
        except _WRONG as error:
            self._warn(error)

    def _warn(self, error: Exception) -> None:
        if not self._has_warned.is_set():
            self._has_warned.set()
            number = error.errno if isinstance(error, OSError) else None
            reason = errno.errorcode.get(number or 0, type(error).__name__)
            log.warning(
                "the download cache in %s cannot be used (%s: %s); downloads go on without it, and it is tried again"
                " silently",
                self._folder.path,
                reason,
                error.strerror if isinstance(error, OSError) else error,
            )


def _remove_both(shard: int, name: str) -> None:
    remove(shard, name + ENTRY)
    remove(shard, name + RENEWAL)


def _scope_bytes(scope: str) -> bytes:
    if not isinstance(scope, str):
        raise TypeError(f"a scope is text, not {type(scope).__name__}")
    return scope.encode("utf-8", "surrogatepass")


def _reject_unless_number(name: str, value: float, kind: type[float]) -> None:
    if isinstance(value, bool) or not isinstance(value, kind if kind is int else int | float):
        raise TypeError(f"{name} must be a number of type {kind.__name__}, not {type(value).__name__}")
    if not 0 <= value < float("inf"):
        raise ValueError(f"{name} must be finite and not negative")


__all__ = ["CachedDownload", "DownloadCache"]
