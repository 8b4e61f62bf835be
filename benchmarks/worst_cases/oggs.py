"""OGGs by hand: pages of any packets, and Vorbis whose tables declare far more than they hold.

RFC 3533 has the pages; the Vorbis I specification, sections 3.2.1 and 4.2, the headers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final

FIRST, LAST = 2, 4
"""Flags of a page."""

_POLYNOMIAL: Final = 0x04C11DB7


def _crc_table() -> Iterator[int]:
    for byte in range(256):
        value = byte << 24
        for _ in range(8):
            value = (value << 1 ^ _POLYNOMIAL if value & 0x80000000 else value << 1) & 0xFFFFFFFF
        yield value


_TABLE: Final = tuple(_crc_table())


def checksum(data: bytes, value: int = 0) -> int:
    """Of a page; or of a table in a transport stream, which begins with another value."""
    for byte in data:
        value = (value << 8 & 0xFFFFFFFF) ^ _TABLE[value >> 24 ^ byte]
    return value


def page(packets: Sequence[bytes], serial: int, number: int, granule: int, flags: int = 0) -> bytes:
    """Whole packets, at most 255 rows of 255 bytes of them."""
    rows = b"".join(b"\xff" * (len(packet) // 255) + bytes([len(packet) % 255]) for packet in packets)
    return _page(rows, b"".join(packets), serial, number, granule, flags)


def _page(rows: bytes, body: bytes, serial: int, number: int, granule: int, flags: int) -> bytes:
    head = struct.pack("<4sBBqIII", b"OggS", 0, flags, granule, serial, number, 0) + bytes([len(rows)]) + rows
    return head[:22] + struct.pack("<I", checksum(head + body)) + head[26:] + body


def long_packet(packet: bytes, serial: int, number: int) -> list[bytes]:
    """A packet of any length, on as many pages as it takes."""
    rows = b"\xff" * (len(packet) // 255) + bytes([len(packet) % 255])
    pages: list[bytes] = []
    for at in range(0, len(rows), 255):
        part = rows[at : at + 255]
        body = packet[at * 255 : at * 255 + sum(part)]
        granule = 0 if at + 255 >= len(rows) else -1
        pages.append(_page(part, body, serial, number + len(pages), granule, 1 if at else 0))
    return pages


class Bits:
    """Numbers of any width, the lowest bit first, as Vorbis packs them."""

    def __init__(self) -> None:
        self._value = self._used = 0

    def put(self, value: int, width: int) -> None:
        """Add a number."""
        self._value |= value << self._used
        self._used += width

    def zeros(self, *widths: int) -> None:
        """Add several that are 0."""
        self._used += sum(widths)

    def data(self) -> bytes:
        """All of them."""
        return self._value.to_bytes(-(-self._used // 8), "little")


def vorbis_headers(bits: int, books: int, rate: int = 16_000, comments: bytes = b"") -> tuple[bytes, bytes, bytes]:
    """The three headers of mono Vorbis with ``books`` code books of 2^``bits`` entries.

    All entries of a book have one length, so that it takes some forty bits. The one floor, residue and mapping decode
    to silence.
    """
    identity = b"\x01vorbis" + struct.pack("<IBIiii", 0, 1, rate, 0, 64_000, 0) + bytes([0x88, 1])
    comment = b"\x03vorbis" + (comments or bytes(8)) + b"\x01"
    setup = Bits()
    setup.put(books - 1, 8)
    for _ in range(books):
        setup.put(0x564342, 24)
        setup.put(1, 16)
        setup.put(1 << bits, 24)
        setup.put(1, 1)
        setup.put(bits - 1, 5)
        setup.put(1 << bits, bits + 1)
        setup.zeros(4)
    setup.zeros(6, 16)
    setup.zeros(6)
    setup.put(1, 16)
    setup.zeros(5, 2)
    setup.put(7, 4)
    setup.zeros(6)
    setup.put(1, 16)
    setup.zeros(24, 24, 24, 6, 8, 3, 1)
    setup.zeros(6, 16, 1, 1, 2, 8, 8, 8)
    setup.zeros(6, 1, 16, 16, 8)
    setup.put(1, 1)
    return identity, comment, b"\x05vorbis" + setup.data()


def vorbis(bits: int, books: int, *, packets: int = 4, serial: int = 1, comments: bytes = b"") -> bytes:
    """Such a clip, of packets that hold nothing."""
    identity, *others = vorbis_headers(bits, books, comments=comments)
    pages = [page([identity], serial, 0, 0, FIRST)]
    for header in others:
        pages += long_packet(header, serial, len(pages))
    granule = 0
    for start in range(0, packets, 255):
        count = min(255, packets - start)
        granule += 128 * count
        last = LAST if start + 255 >= packets else 0
        pages.append(page([b"\0"] * count, serial, len(pages), granule, last))
    return b"".join(pages)


def comments(count: int) -> bytes:
    """A block of comments, each of another name."""
    texts = [b"K%d=v" % number for number in range(count)]
    block = b"".join(struct.pack("<I", len(text)) + text for text in texts)
    return struct.pack("<II", 0, count) + block


def opus(packets: int, packet: bytes, samples: int, *, channels: int = 1, tags: bytes = b"") -> bytes:
    """Opus of one packet repeated, which holds ``samples`` at 48 kHz. RFC 7845."""
    family = 1 if channels > 2 else 0
    mapping = bytes([channels, 0, *range(channels)]) if family else b""
    head = b"OpusHead" + struct.pack("<BBHIhB", 1, channels, 0, 48_000, 0, family) + mapping
    pages = [page([head], 1, 0, 0, FIRST), *long_packet(b"OpusTags" + (tags or bytes(8)), 1, 1)]
    rows = len(packet) // 255 + 1
    each = 255 // rows
    granule = 0
    for start in range(0, packets, each):
        count = min(each, packets - start)
        granule += samples * count
        last = LAST if start + each >= packets else 0
        pages.append(page([packet] * count, 1, len(pages), granule, last))
    return b"".join(pages)


__all__ = ["Bits", "checksum", "comments", "long_packet", "opus", "page", "vorbis", "vorbis_headers"]
