"""OGG: comments, code books of Vorbis, and where the recordings begin that follow each other. RFC 3533, section 6."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import Limits
from lazymedia.media.cancellation import checkpoint
from lazymedia.media.containers.entries import BOOKS, Entries, check_entries, vorbis_comments
from lazymedia.media.containers.vorbis import SETUP, book_entries

_HEAD: Final = 27
"""Bytes of a page before its table."""
_VORBIS: Final = b"\x01vorbis"
_MOST_OVERLAPS: Final = 1_000
"""Pages within pages: where one is damaged, another may begin in it. More are rejected."""
_REPEATABLE: Final = (b"\x7fFLAC", b"fLaC", b"\x80theora", b"\x80daala", b"OVP80", b"\1video", b"\1audio", b"\1text")
"""How streams of an OGG begin whose comments may be in any number of packets; FFmpeg puts them into one table."""
_COMMENT: Final = 6
"""Bytes of a comment at least: its length, a name of one letter, and a sign."""
_BEFORE_COMMENTS: Final = (0, 4, 7, 8)
"""Bytes before the comments, by codec: Speex and CELT; FLAC; Vorbis, Theora, VP8 and OGM; Opus."""


def check(data: bytes, limits: Limits, modality: str) -> None:
    """Reject an OGG with too many comments, or entries of code books."""
    check_entries(_entries(data, limits.max_metadata_entries, modality), data, limits, modality)


def _entries(data: bytes, most: int, modality: str) -> Entries:
    """Which packet has comments depends on the codec, so that each is tried. One of another kind has no list that fits
    its length.
    """
    for number, (serial, packet, is_repeatable) in enumerate(_packets(data, most * _COMMENT, _REPEATABLE, modality)):
        if packet.startswith(SETUP):
            yield BOOKS, book_entries(packet)
        for start in _BEFORE_COMMENTS:
            for name in vorbis_comments(packet, start, len(packet)):
                yield (serial if is_repeatable else number, start), name


def _packets(data: bytes, least: int, whole: tuple[bytes, ...], modality: str) -> Iterator[tuple[bytes, bytes, bool]]:
    """Large packets, those that are not in one page, set-up headers of Vorbis, and others of pages with any of these.

    Args:
        data: The payload.
        least: Bytes of a large packet.
        whole: How streams begin of which every packet is wanted.
        modality: For the error.

    Yields:
        The serial number of a packet's stream; the packet; whether every packet of the stream is wanted.
    """
    unfinished: dict[bytes, bytearray] = {}
    wanted: dict[bytes, bool] = {}
    setup = len(data)
    is_large = b"\xff" * (least // 255)
    for page in _pages(data, modality):
        serial = data[page + 14 : page + 18]
        start = page + _HEAD + data[page + _HEAD - 1]
        table = data[page + _HEAD : start]
        end = start + sum(table)
        if serial not in wanted:
            wanted[serial] = data.startswith(whole, start)
            if data.startswith(_VORBIS, start):
                setup = min(setup, page)
        if setup < start:
            setup = data.find(SETUP, start) % (len(data) + 1)  # its length where there is none
        is_special = wanted[serial] or serial in unfinished or setup < end
        if is_special or is_large in table or table[-1:] == b"\xff":
            for size, is_last in _sizes(table):
                packet = unfinished.pop(serial, bytearray())
                packet += data[start : start + size]
                start += size
                if is_last:
                    yield serial, bytes(packet), wanted[serial]
                else:
                    unfinished[serial] = packet


def _pages(data: bytes, modality: str) -> Iterator[int]:
    """Where each page begins; those within another one only if that is damaged, since FFmpeg then looks into it."""
    overlaps = outer = end = 0
    page = data.find(b"OggS")
    while page >= 0 and page + _HEAD <= len(data):
        checkpoint()
        if page < end and _is_intact(data[outer:end]):
            page = data.find(b"OggS", end)
            continue
        overlaps += page < end
        if overlaps > _MOST_OVERLAPS:
            raise UnprocessableMediaError("the pages of the OGG lie within each other", modality=modality)
        yield page
        outer, end = page, _page_end(data, page)
        page = data.find(b"OggS", page + 4)


def _sizes(table: bytes) -> Iterator[tuple[int, bool]]:
    """Bytes of each packet of a page, and whether it ends there."""
    size = 0
    for row in table:
        size += row
        if row < 255:
            yield size, True
            size = 0
    if size:
        yield size, False


_FIRST_PAGE: Final = b"OggS\x00\x02"
"""How the first page of a logical stream begins (RFC 3533, section 6): version 0, and the flag "beginning of stream"
alone."""
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


def links_of(data: bytes, modality: str) -> list[slice]:
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
            raise UnprocessableMediaError(f"an OGG of this size may hold {most} recordings at most", modality=modality)
        together = _page_end(data, position)
        position = _next_first(data, position + 4)
    return [slice(start, stop) for start, stop in zip([0, *starts[1:]], [*starts[1:], len(data)])]


def is_complete(data: bytes) -> bool:
    """Whether the last page is whole, undamaged, and ends a stream."""
    start = data.rfind(b"OggS")
    page = data[start : start + _MOST]
    if start < 0 or len(page) < _HEAD or not page[5] & _LAST or _page_end(page, 0) > len(page):
        return False
    return _is_intact(page[: _page_end(page, 0)])


def has_one_page_of_sound(data: bytes) -> bool:
    """Whether one page alone has a time, as all pages of sound have, and those of headers have not."""
    found = 0
    page = data.find(b"OggS")
    while page >= 0 and found < 2:
        found += int.from_bytes(data[page + 6 : page + 14], "little", signed=True) > 0
        page = data.find(b"OggS", page + 4)
    return found == 1


def _is_intact(page: bytes) -> bool:
    return _checksum(page[:22] + bytes(4) + page[26:]) == int.from_bytes(page[22:26], "little")


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


__all__ = ["MAX_LINKS", "check", "has_one_page_of_sound", "is_complete", "links_of"]
