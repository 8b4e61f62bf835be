"""The pages of an OGG, and where the recordings in it begin: several may follow each other, as a radio station's songs
do.

Comes in: a payload that begins as an OGG. Goes out: its pages; where its links lie, each a whole OGG. Never here: a
codec, or a copy of the payload.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lazymedia.media.audio.bounds import refused
from lazymedia.media.stopping import checkpoint

_FIRST_PAGE: Final = b"OggS\x00\x02"
"""How the first page of a logical stream begins (RFC 3533, section 6): version 0, and the flag "beginning of stream"
alone."""

_HEAD: Final = struct.Struct("<5sBqII4xB")
"""Capture pattern and version 0, flags, granule position, serial, number, checksum, and rows of the table. RFC 3533,
section 6."""

CONTINUED, FIRST, LAST = 1, 2, 4
"""Flags of a page: its first packet began on the one before; the stream begins; the stream ends."""

_AT_ONCE: Final = 1 << 20
"""Bytes that are searched without a pause: half a millisecond."""

MAX_LINKS: Final = 256
"""Recordings in one payload: the setup of a codec costs about a millisecond for each."""


def links_of(data: bytes) -> list[slice]:
    """Which bytes each recording is, in order. Streams that begin together, page after page, belong to one.

    Raises:
        UnprocessableMediaError: More than `MAX_LINKS`.
    """
    starts: list[int] = []
    together = -1
    position = _next_first(data, 0)
    while position >= 0:
        if position != together:
            starts.append(position)
        if len(starts) > MAX_LINKS:
            raise refused(f"an OGG may hold {MAX_LINKS} recordings at most")
        together = position + _page_bytes(data, position)
        position = _next_first(data, together)
    return [slice(start, stop) for start, stop in zip([0, *starts[1:]], [*starts[1:], len(data)])]


def _next_first(data: bytes, start: int) -> int:
    """Where the next logical stream begins; -1 where none does. Nothing else runs in the interpreter while it looks, so
    that it looks at a part at a time.
    """
    while start < len(data):
        checkpoint()
        place = data.find(_FIRST_PAGE, start, start + _AT_ONCE + len(_FIRST_PAGE) - 1)
        if place >= 0:
            return place
        start += _AT_ONCE
    return -1


def share_a_serial(data: bytes, links: Sequence[slice]) -> bool:
    """Whether two recordings go by one number, which RFC 3533 (section 4) forbids. FFmpeg loses samples of them."""
    serials = [data[link.start + 14 : link.start + 18] for link in links]
    return len(set(serials)) < len(serials)


@dataclass(frozen=True, slots=True)
class Page:
    """One page, whose checksum nobody looked at.

    Attributes:
        start: Where it begins.
        table: A byte for each 255 bytes of a packet and for what is left; a packet ends with each that is below 255.
        stop: Where it ends.
        flags: `CONTINUED`, `FIRST`, `LAST`.
        granule: What its codec makes of it; -1 where no packet ends on it.
        serial: The number of the stream.
        number: Its own.
    """

    start: int
    table: bytes
    stop: int
    flags: int
    granule: int
    serial: int
    number: int

    @property
    def body(self) -> int:
        """Where its packets begin."""
        return self.start + _HEAD.size + len(self.table)


def pages(data: bytes) -> Iterator[Page]:
    """The pages from the start on, as long as each begins where the last one ended, and ends within the payload."""
    start = 0
    while start + _HEAD.size <= len(data):
        pattern, flags, granule, serial, number, _ = _HEAD.unpack_from(data, start)
        table = _table(data, start)
        stop = start + _HEAD.size + len(table) + sum(table)
        if pattern != b"OggS\0" or stop > len(data):
            return
        yield Page(start, table, stop, flags, granule, serial, number)
        start = stop


def _page_bytes(data: bytes, position: int) -> int:
    table = _table(data, position)
    return _HEAD.size + len(table) + sum(table)


def _table(data: bytes, position: int) -> bytes:
    """As many bytes behind the head as its last byte tells."""
    start = position + _HEAD.size
    return data[start : start + int.from_bytes(data[start - 1 : start])]


__all__ = ["CONTINUED", "FIRST", "LAST", "MAX_LINKS", "Page", "links_of", "pages", "share_a_serial"]
