"""Where the recordings in an OGG begin (several may follow each other, as a radio station's songs do), and whether it
is complete.
"""

from __future__ import annotations

import zlib
from typing import Final

from lazymedia.media.audio.bounds import refused
from lazymedia.media.cancellation import checkpoint

_FIRST_PAGE: Final = b"OggS\x00\x02"
"""How the first page of a logical stream begins (RFC 3533, section 6): version 0, and the flag "beginning of stream"
alone."""
_HEAD: Final = 27
"""Bytes of a page before its table, the last of which says how many bytes the table has. The same section."""
_LAST: Final = 4
"""The flag of the page that ends a stream. The same section."""
_MOST: Final = 27 + 255 + 255 * 255
"""Bytes of a page."""
_TURNED: Final = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
"""Each byte with its bits in the other order."""
_AT_ONCE: Final = 1 << 20
"""Bytes that are searched without a pause: half a millisecond."""

MAX_LINKS: Final = 256
"""Recordings in one payload: to decode one costs a millisecond and a half, however short it is."""
_FEW_LINKS, _BYTES_PER_LINK = 32, 1024
"""Recordings that a payload of any size may have, and bytes for each further one. The headers of Vorbis alone have
4 KiB."""


def links_of(data: bytes) -> list[slice]:
    """Which bytes each recording is, in order. Streams that begin together, page after page, belong to one.

    Raises:
        UnprocessableMediaError: More than `MAX_LINKS`, or more than a payload of this size may have.
    """
    most = min(MAX_LINKS, _FEW_LINKS + len(data) // _BYTES_PER_LINK)
    starts: list[int] = []
    together = -1
    position = _next_first(data, 0)
    while position >= 0:
        if position != together:
            starts.append(position)
        if len(starts) > most:
            raise refused(f"an OGG of this size may hold {most} recordings at most")
        together = _page_end(data, position)
        position = _next_first(data, together)
    return [slice(start, stop) for start, stop in zip([0, *starts[1:]], [*starts[1:], len(data)])]


def is_complete(data: bytes) -> bool:
    """Whether the last page is whole, undamaged, and ends a stream."""
    start = data.rfind(b"OggS")
    page = data[start : start + _MOST]
    if start < 0 or len(page) < _HEAD or not page[5] & _LAST or _page_end(page, 0) > len(page):
        return False
    page = page[: _page_end(page, 0)]
    return _checksum(page[:22] + bytes(4) + page[26:]) == int.from_bytes(page[22:26], "little")


def has_one_page_of_sound(data: bytes) -> bool:
    """Whether one page alone has a time, as all pages of sound have, and those of headers have not."""
    found = 0
    page = data.find(b"OggS")
    while page >= 0 and found < 2:
        found += int.from_bytes(data[page + 6 : page + 14], "little", signed=True) > 0
        page = data.find(b"OggS", page + 4)
    return found == 1


def _checksum(page: bytes) -> int:
    """The CRC of RFC 3533, section 6, which takes each byte's bits the other way round than zlib's."""
    turned = zlib.crc32(page.translate(_TURNED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{turned:032b}"[::-1], 2)


def _next_first(data: bytes, start: int) -> int:
    """Where the next logical stream begins; -1 where none does. Nothing else runs in the interpreter during a search,
    so it goes a part at a time.
    """
    while start < len(data):
        checkpoint()
        place = data.find(_FIRST_PAGE, start, start + _AT_ONCE + len(_FIRST_PAGE) - 1)
        if place >= 0:
            return place
        start += _AT_ONCE
    return -1


def _page_end(data: bytes, page: int) -> int:
    table = data[page + _HEAD : page + _HEAD + int.from_bytes(data[page + _HEAD - 1 : page + _HEAD])]
    return page + _HEAD + len(table) + sum(table)


__all__ = ["MAX_LINKS", "has_one_page_of_sound", "is_complete", "links_of"]
