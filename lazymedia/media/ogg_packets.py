"""Packets of an OGG that may be headers, put together from its pages. RFC 3533, section 6."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lazymedia.media.cancellation import checkpoint
from lazymedia.media.vorbis_books import SETUP

_HEAD: Final = 27
"""Bytes of a page before its table."""
_VORBIS: Final = b"\x01vorbis"
_MOST_OVERLAPS: Final = 1_000
"""Pages within pages: where one is damaged, another may begin in it."""


def packets(data: bytes, least: int, whole: tuple[bytes, ...]) -> Iterator[tuple[bytes, bytes, bool]]:
    """Large packets, those that are not in one page, set-up headers of Vorbis, and others of pages with any of these.

    Args:
        data: The payload.
        least: Bytes of a large packet.
        whole: How streams begin of which every packet is wanted.

    Yields:
        The serial number of a packet's stream; the packet; whether every packet of the stream is wanted.
    """
    unfinished: dict[bytes, bytearray] = {}
    wanted: dict[bytes, bool] = {}
    overlaps = end = 0
    setup = len(data)
    is_large = b"\xff" * (least // 255)
    page = data.find(b"OggS")
    while page >= 0 and page + _HEAD <= len(data) and overlaps <= _MOST_OVERLAPS:
        checkpoint()
        overlaps += page < end
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


__all__ = ["packets"]
