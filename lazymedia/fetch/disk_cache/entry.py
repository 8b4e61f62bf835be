"""The format of the files of the download cache.

An entry is a head and a body. The head carries its own checksum and the body's, and the digest that its file is named
by, so that an entry under another's name is noticed. A renewal is the small file beside an entry that says when the
server last confirmed it; it names the head that it belongs to. Anything else raises `BrokenEntryError`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, Self, final

_MAGIC: Final = b"lzmedia\x02"  # the last byte is the format's version
_RENEWAL_MAGIC: Final = b"lzrenew\x01"
_FIXED: Final = struct.Struct("<8s32s32sQddHHHH")
_RENEWAL: Final = struct.Struct("<8s32sdd")
_CHECKSUM: Final = 32
_LONGEST_TEXT: Final = 16_384

RENEWAL_BYTES: Final = _RENEWAL.size + _CHECKSUM
CLOCK_SLACK: Final = 5.0
"""Seconds by which clocks of one folder's users may differ. What is further in the future has no age."""


class BrokenEntryError(Exception):
    """A file is not what was written under its name."""


@final
@dataclass(frozen=True, slots=True)
class CachedDownload:
    """A body from the disk, verified.

    Attributes:
        data: The body.
        final_url: Where it came from in the end, after redirects. The rules of today are to be asked about it.
        etag: As the server sent it, for If-None-Match.
        last_modified: As the server sent it, for If-Modified-Since.
        stored_at: When it was downloaded, in POSIX seconds.
        fresh_until: Until when the server vouches for it unasked, in POSIX seconds.
        vouched_at: When the server was last asked, in POSIX seconds.
        name: Names the entry in its cache, for `DownloadCache.refresh`.
        checksum: That of the entry's head, for the same.
        way: As it was given to `DownloadCache.put`. The rules of today are to be asked about it, too.
    """

    data: bytes = field(repr=False)
    final_url: str = field(repr=False)
    etag: str | None
    last_modified: str | None
    stored_at: float
    fresh_until: float
    vouched_at: float
    name: str = field(repr=False)
    checksum: bytes = field(repr=False)
    way: tuple[str, ...] = field(default=(), repr=False)

    def is_fresh(self, now: float) -> bool:
        """Whether it may be used at a time, in POSIX seconds, without asking the server."""
        return self.vouched_at - CLOCK_SLACK <= now < self.fresh_until

    @property
    def conditions(self) -> list[tuple[bytes, bytes]]:
        """Headers that ask a server whether it has anything newer; a 304 says no."""
        etag, since = self.etag, self.last_modified
        pairs = ((b"If-None-Match", etag), (b"If-Modified-Since", since))
        return [(name, value.encode("ascii")) for name, value in pairs if value is not None]


@final
@dataclass(frozen=True, slots=True)
class Head:
    """All that an entry says of its body.

    Attributes:
        key: The digest that the file is named by.
        digest: SHA-256 of the body.
        length: Bytes of the body.
        stored_at: When it was downloaded, in POSIX seconds.
        fresh_for: Seconds from then for which the server vouched for it.
        final_url: Where it came from in the end. Empty texts stand for None in the next two.
        etag: As `lazymedia.fetch.http_rules.freshness.Terms`.
        last_modified: As `lazymedia.fetch.http_rules.freshness.Terms`.
        way: The lines of `CachedDownload.way`.
    """

    key: bytes
    digest: bytes
    length: int
    stored_at: float
    fresh_for: float
    final_url: str
    etag: str
    last_modified: str
    way: str = ""

    def encoded(self) -> bytes:
        """The bytes that stand before the body.

        Raises:
            BrokenEntryError: A text that is longer than a file may hold.
        """
        texts = [text.encode("utf-8", "surrogatepass") for text in self._texts]
        if any(len(text) > _LONGEST_TEXT for text in texts):
            raise BrokenEntryError("a text is too long")
        numbers = (self.length, self.stored_at, self.fresh_for, *map(len, texts))
        return _sealed(_FIXED.pack(_MAGIC, self.key, self.digest, *numbers) + b"".join(texts))

    @property
    def _texts(self) -> tuple[str, ...]:
        return self.final_url, self.etag, self.last_modified, self.way

    @classmethod
    def read(cls, read: Callable[[int], bytes]) -> tuple[Self, bytes]:
        """The head at the beginning of a file, and its encoded form.

        Args:
            read: Returns the next bytes, as many as it is asked for unless the file ends.

        Raises:
            BrokenEntryError: Not such a head, whole and unchanged.
        """
        fixed = read(_FIXED.size)
        if len(fixed) != _FIXED.size or not fixed.startswith(_MAGIC):
            raise BrokenEntryError("no entry of this format")
        _, key, digest, length, stored_at, fresh_for, *sizes = _FIXED.unpack(fixed)
        if max(sizes) > _LONGEST_TEXT:
            raise BrokenEntryError("a text is too long")
        encoded = fixed + read(sum(sizes) + _CHECKSUM)
        content = _unsealed(encoded, _FIXED.size + sum(sizes))
        if not (math.isfinite(stored_at) and math.isfinite(fresh_for)):
            raise BrokenEntryError("a time is no number")
        return cls(key, digest, length, stored_at, fresh_for, *_texts(content[_FIXED.size :], sizes)), encoded


@final
@dataclass(frozen=True, slots=True)
class Renewal:
    """That a server vouched for an entry again.

    Attributes:
        of: The last bytes of the entry's head, its checksum.
        at: When, in POSIX seconds.
        fresh_for: Seconds from then.
    """

    of: bytes
    at: float
    fresh_for: float

    def encoded(self) -> bytes:
        return _sealed(_RENEWAL.pack(_RENEWAL_MAGIC, self.of, self.at, self.fresh_for))

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """What `encoded` made.

        Raises:
            BrokenEntryError: Anything else.
        """
        content = _unsealed(data, _RENEWAL.size)
        magic, of, at, fresh_for = _RENEWAL.unpack(content)
        if magic != _RENEWAL_MAGIC or not (math.isfinite(at) and math.isfinite(fresh_for)):
            raise BrokenEntryError("no renewal of this format")
        return cls(of, at, fresh_for)


def checksum_of(head: bytes) -> bytes:
    """The checksum at the end of an encoded head."""
    return head[-_CHECKSUM:]


def _texts(data: bytes, sizes: list[int]) -> list[str]:
    found, start = [], 0
    for size in sizes:
        try:
            found.append(data[start : start + size].decode("utf-8", "surrogatepass"))
        except UnicodeDecodeError:
            raise BrokenEntryError("a text is no text") from None
        start += size
    return found


def _sealed(content: bytes) -> bytes:
    return content + sha256(content).digest()


def _unsealed(data: bytes, size: int) -> bytes:
    content = data[:size]
    if len(data) != size + _CHECKSUM or sha256(content).digest() != data[size:]:
        raise BrokenEntryError("the checksum does not fit")
    return content


__all__ = ["CLOCK_SLACK", "RENEWAL_BYTES", "BrokenEntryError", "CachedDownload", "Head", "Renewal", "checksum_of"]
