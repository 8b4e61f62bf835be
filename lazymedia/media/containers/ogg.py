"""Headers of the streams in an OGG: comments, and the code books of Vorbis. RFC 3533, section 6."""

from __future__ import annotations

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
    overlaps = end = 0
    setup = len(data)
    is_large = b"\xff" * (least // 255)
    page = data.find(b"OggS")
    while page >= 0 and page + _HEAD <= len(data):
        checkpoint()
        overlaps += page < end
        if overlaps > _MOST_OVERLAPS:
            raise UnprocessableMediaError("the pages of the OGG lie within each other", modality=modality)
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


__all__ = ["check"]
