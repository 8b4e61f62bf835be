"""Clips made to cost their reader time or memory, or to end its process; and codecs that no encoder here writes."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Self

from tests.media.ogg_pages import FIRST, LAST, packed, sheet_of


class _Bits:
    """Bits packed from the lowest of each byte on. Vorbis I specification, section 2.1.4."""

    def __init__(self) -> None:
        self._value = self._count = 0

    def put(self, *fields: tuple[int, int]) -> Self:
        """Values, each with a number of bits."""
        for value, count in fields:
            self._value |= value << self._count
            self._count += count
        return self

    def packed(self) -> bytes:
        return self._value.to_bytes(-(-self._count // 8), "little")


def vorbis_headers(bits: int, books: int, rate: int = 16_000) -> list[bytes]:
    """Identification, comments and setup of a Vorbis whose codebooks have 2^bits entries each, all of one length, which
    takes some ten bytes to say. Sections 3.2.1 and 4.2.
    """
    identification = b"\1vorbis" + struct.pack("<IBIiiiBB", 0, 1, rate, 0, 64_000, 0, 0x88, 1)
    comments = b"\3vorbis" + bytes(8) + b"\1"
    setup = _Bits().put((books - 1, 8))
    for _ in range(books):
        # The sync pattern, one dimension, the entries, ordered; the first length; how many have it; no values.
        setup.put((0x564342, 24), (1, 16), (1 << bits, 24), (1, 1), (bits - 1, 5), (1 << bits, bits + 1), (0, 4))
    setup.put((0, 6), (0, 16))  # a placeholder for times
    setup.put((0, 6), (1, 16), (0, 5), (0, 2), (7, 4))  # a floor of type 1 without partitions
    setup.put((0, 6), (1, 16), (0, 24), (0, 24), (0, 24), (0, 6), (0, 8), (0, 3), (0, 1))  # a residue
    setup.put((0, 6), (0, 16), (0, 1), (0, 1), (0, 2), (0, 8), (0, 8), (0, 8))  # a mapping
    setup.put((0, 6), (0, 1), (0, 16), (0, 16), (0, 8), (1, 1))  # a mode, and the end
    return [identification, comments, b"\5vorbis" + setup.packed()]


def in_ogg(headers: list[bytes], sound: Iterable[bytes], samples: int, serial: int = 7) -> bytes:
    """Headers and packets of one stream as an OGG."""
    first, *others = headers
    pages = [sheet_of([first], serial, 0, FIRST), sheet_of(others, serial, 1)]
    return packed([*pages, sheet_of(sound, serial, 2, LAST, samples)])


def vorbis_bomb(bits: int, books: int = 1) -> bytes:
    """In some 200 bytes, tables that would take more than the stack or the memory has."""
    return in_ogg(vorbis_headers(bits, books), [b"\0\0"] * 4, 512)


def element(name: str, *content: bytes) -> bytes:
    """An element of Matroska. RFC 8794, sections 4 and 5."""
    body = b"".join(content)
    return b"".join((bytes.fromhex(name), (1 << 56 | len(body)).to_bytes(8), body))


def in_matroska(
    codec: bytes,
    private: bytes,
    packets: Iterable[bytes],
    *,
    rate: float = 16_000,
    channels: int = 1,
    kind: bytes = b"webm",
) -> bytes:
    """A Matroska or WebM of one track. RFC 9559, section 5.1."""
    sound = element("B5", struct.pack(">d", rate)) + element("9F", bytes([channels]))
    name, settings = element("86", codec), element("63A2", private)
    entry = (
        element("D7", b"\1") + element("73C5", b"\1") + element("83", b"\2") + name + settings + element("E1", sound)
    )
    blocks = b"".join(element("A3", b"\x81\0\0\x80", data) for data in packets)
    cluster = element("1F43B675", element("E7", b"\0"), blocks)
    return element("1A45DFA3", element("4282", kind)) + element(
        "18538067", element("1654AE6B", element("AE", entry)), cluster
    )


def vorbis_in_matroska(bits: int, books: int, kind: bytes) -> bytes:
    """The same bomb, its headers in the private data of a track: two sizes less than 255 or in steps of it."""
    headers = vorbis_headers(bits, books)
    sizes = b"".join(b"\xff" * (len(header) // 255) + bytes([len(header) % 255]) for header in headers[:2])
    return in_matroska(b"A_VORBIS", b"\2" + sizes + b"".join(headers), [b"\0\0"] * 4, kind=kind)


def opus(head: bytes, sound: Iterable[bytes], samples: int) -> bytes:
    """With another identification. RFC 7845, section 5.1."""
    return in_ogg([b"OpusHead" + head, b"OpusTags" + bytes(8)], sound, samples)


def opus_head(channels: int = 1, skip: int = 0, gain: int = 0, family: int = 0, mapping: bytes = b"") -> bytes:
    return struct.pack("<BBHIhB", 1, channels, skip, 48_000, gain, family) + mapping


def speex_head(*, rate: int = 8_000, channels: int = 1, frames: int = 1, mode: int = 0, size: int = 160) -> bytes:
    """The Speex Manual, section 7.3 and table 7.1."""
    numbers = (1, 80, rate, mode, 4, channels, 16_000, size, 0, frames, 0, 0, 0)
    return b"Speex   " + b"1.2rc1".ljust(20, b"\0") + struct.pack("<13i", *(_signed(number) for number in numbers))


def _signed(number: int) -> int:
    return number - (1 << 32) if number >= 1 << 31 else number


def speex(head: bytes | None = None, packets: int = 50) -> bytes:
    """Silence: frames of submode 0 take five bits. Section 9."""
    sound = [b"\x07\xff"] * packets  # 0, 0000, and the end: 01111
    return in_ogg([speex_head() if head is None else head, bytes(8)], sound, 160 * packets)


def flac_frames(samples: list[int], bits: int, rate: int = 16_000) -> bytes:
    """Mono, whole numbers as they are, 192 in a frame. RFC 9639, section 9."""
    size = 192
    depth = {8: 1, 12: 2, 16: 4, 20: 5, 24: 6, 32: 7}[bits]
    count = len(samples) // size * size
    told = (rate << 44 | bits - 1 << 36 | count).to_bytes(8, "big")
    made = b"fLaC\x80\0\0\x22" + struct.pack(">HH", size, size) + bytes(6) + told + bytes(16)
    for number in range(count // size):
        head = bytes([0xFF, 0xF8, 0x10, depth << 1, number])
        block = 0b00000010  # a verbatim subframe
        width = 8
        for sample in samples[number * size : (number + 1) * size]:
            block, width = block << bits | sample & (1 << bits) - 1, width + bits
        body = (block << -width % 8).to_bytes(-(-width // 8), "big")
        frame = head + bytes([_crc(head, 0x07, 8)]) + body
        made += frame + _crc(frame, 0x8005, 16).to_bytes(2, "big")
    return made


def _crc(data: bytes, polynomial: int, width: int) -> int:
    """RFC 9639, section 9.1.8 and 9.3."""
    value = 0
    for byte in data:
        value ^= byte << width - 8
        for _ in range(8):
            value = value << 1 ^ (polynomial if value >> width - 1 else 0)
            value &= (1 << width) - 1
    return value
