"""MP4s by hand: tables that claim many samples of a few bytes, or the same bytes many times. ISO/IEC 14496-12."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.worst_cases.avifs import box, full

_UNTURNED = struct.pack(">9i", 1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30)


def table(kind: bytes, row: str, rows: Sequence[tuple[int, ...]], *, claimed: int | None = None) -> bytes:
    """A box of rows, and how many it says there are."""
    packed = b"".join(struct.pack(">" + row, *values) for values in rows)
    return full(kind, struct.pack(">L", len(rows) if claimed is None else claimed), packed)


def sizes(size: int, count: int) -> bytes:
    """Samples that all have one size. Empty ones are listed, since a size of 0 means that a list follows."""
    return full(b"stsz", struct.pack(">LL", size, count), b"" if size else bytes(4 * count))


@dataclass
class Track:
    """A track and all its tables.

    Attributes:
        entry: The sample entry: which codec.
        data: What the samples lie in.
        samples: How many.
        chunks: In how many chunks, each at the start of ``data``.
        size: Bytes of a sample.
        ticks: The length of a sample.
        scale: Ticks in a second.
        shown: Width and height; none for sound.
        extra: More tables.
        edits: Rows of an edit list: length in the movie's time, start in the track's, rate.
        head: What comes behind the tracks in the movie's header.
    """

    entry: bytes
    data: bytes
    samples: int
    chunks: int = 1
    size: int = 1
    ticks: int = 1
    scale: int = 25
    shown: tuple[int, int] = (0, 0)
    extra: bytes = b""
    edits: Sequence[tuple[int, int, int]] = field(default=())
    head: bytes = b""

    def movie(self) -> bytes:
        """The file; of the samples that the chunks hold alike, each chunk has as many."""
        brand = box(b"ftyp", b"qt  ", bytes(4), b"qt  ")
        start = len(brand) + len(self._moov(0)) + 8
        return brand + self._moov(start) + box(b"mdat", self.data)

    def _moov(self, start: int) -> bytes:
        length = self.samples * self.ticks
        kind = (b"vide", full(b"vmhd", bytes(8), flags=1)) if any(self.shown) else (b"soun", full(b"smhd", bytes(4)))
        samples = box(
            b"stbl",
            full(b"stsd", struct.pack(">L", 1), self.entry),
            table(b"stts", "LL", [(self.samples, self.ticks)]),
            table(b"stsc", "LLL", [(1, self.samples // self.chunks, 1)]),
            sizes(self.size, self.samples),
            full(b"stco", struct.pack(">L", self.chunks), struct.pack(">L", start) * self.chunks),
            self.extra,
        )
        reference = box(b"dinf", full(b"dref", struct.pack(">L", 1), full(b"url ", flags=1)))
        media = box(
            b"mdia",
            full(b"mdhd", struct.pack(">LLLLL", 0, 0, self.scale, length & 0xFFFFFFFF, 0)),
            full(b"hdlr", bytes(4), kind[0], bytes(13)),
            box(b"minf", kind[1], reference, samples),
        )
        header = full(
            b"tkhd",
            struct.pack(">LLLLL", 0, 0, 1, 0, length & 0xFFFFFFFF),
            bytes(16),
            _UNTURNED,
            struct.pack(">LL", self.shown[0] << 16, self.shown[1] << 16),
            flags=7,
        )
        edits = box(b"edts", table(b"elst", "LlL", self.edits)) if self.edits else b""
        movie = struct.pack(">LLLLLH", 0, 0, self.scale, length & 0xFFFFFFFF, 1 << 16, 0x100)
        return box(
            b"moov",
            full(b"mvhd", movie, bytes(10), _UNTURNED, bytes(24), struct.pack(">L", 2)),
            box(b"trak", header, edits, media),
            self.head,
        )


def jpeg_entry(size: tuple[int, int]) -> bytes:
    """Motion JPEG: its decoder needs no more than the packets."""
    return box(
        b"jpeg", bytes(6), struct.pack(">H", 1), bytes(16), struct.pack(">HH", *size), bytes(48), b"\0\x18\xff\xff"
    )


def aac_entry(config: bytes, rate: int, channels: int) -> bytes:
    """AAC. ISO/IEC 14496-1, 7.2.6, has the descriptors."""

    def descriptor(tag: int, body: bytes) -> bytes:
        return bytes([tag, len(body)]) + body

    decoder = descriptor(4, b"\x40\x15" + bytes(11) + descriptor(5, config))
    esds = full(b"esds", descriptor(3, b"\0\0\0" + decoder + descriptor(6, b"\2")))
    sound = struct.pack(">HHHHL", channels, 16, 0, 0, rate << 16)
    return box(b"mp4a", bytes(6), struct.pack(">H", 1), bytes(8), sound, esds)


def metadata(count: int) -> bytes:
    """QuickTime's user data, each of another name."""
    names = [b"mdta" + b"K%d" % one for one in range(count)]
    keys = full(b"keys", struct.pack(">L", count), *(struct.pack(">L", len(name) + 4) + name for name in names))
    value = full(b"data", bytes(4), b"v", flags=1)
    items = (struct.pack(">LL", len(value) + 8, one + 1) + value for one in range(count))
    return box(b"meta", full(b"hdlr", bytes(4), b"mdta", bytes(13)), keys, box(b"ilst", *items))


__all__ = ["Track", "aac_entry", "jpeg_entry", "metadata", "sizes", "table"]
