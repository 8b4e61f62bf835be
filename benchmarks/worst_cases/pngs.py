"""PNGs by hand: any colour type, interlaced or not, of one byte repeated, so that zlib makes a thousandth of them."""

from __future__ import annotations

import struct
import zlib
from typing import Final

SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"

CHANNELS: Final = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
"""By colour type."""

DEPTHS: Final = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
"""Bits of a sample, by colour type."""

_PASSES: Final = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
"""Adam7: first column and row, and steps between them."""

_FILL: Final = 0x5A
"""The byte of every sample."""


def chunk(kind: bytes, body: bytes) -> bytes:
    """With length and checksum."""
    return struct.pack(">L", len(body)) + kind + body + struct.pack(">L", zlib.crc32(kind + body))


def header(size: tuple[int, int], bits: int, colour: int, *, interlaced: bool = False) -> bytes:
    """IHDR."""
    return chunk(b"IHDR", struct.pack(">LLBBBBB", *size, bits, colour, 0, 0, int(interlaced)))


def solid(
    size: tuple[int, int],
    bits: int,
    colour: int,
    *,
    interlaced: bool = False,
    see_through: bool = False,
    extra: bytes = b"",
    split: int = 0,
) -> bytes:
    """A whole picture.

    Args:
        size: Width and height.
        bits: Of a sample.
        colour: The colour type.
        interlaced: Whether rows are stored in seven passes.
        see_through: Whether the colour of all pixels is (tRNS); in a palette, every colour by half.
        extra: Chunks before the pixels.
        split: Bytes of each IDAT chunk but the last; 0 for a single one.
    """
    packed = _pixels(size, bits * CHANNELS[colour], interlaced=interlaced)
    parts = [header(size, bits, colour, interlaced=interlaced)]
    if colour == 3:
        parts.append(chunk(b"PLTE", bytes(range(256)) * 3))
    if see_through:
        sample = (_FILL << 8 | _FILL) & ((1 << bits) - 1)
        parts.append(chunk(b"tRNS", b"\x80" * 256 if colour == 3 else struct.pack(">H", sample) * CHANNELS[colour]))
    cuts = range(0, len(packed), split or len(packed))
    parts += [extra, *(chunk(b"IDAT", packed[cut : cut + (split or len(packed))]) for cut in cuts)]
    return SIGNATURE + b"".join(parts) + chunk(b"IEND", b"")


def _pixels(size: tuple[int, int], bits: int, *, interlaced: bool) -> bytes:
    packer = zlib.compressobj(9)
    packed = []
    for left, top, across, down in _PASSES if interlaced else ((0, 0, 1, 1),):
        width, height = -(-(size[0] - left) // across), -(-(size[1] - top) // down)
        row = b"\0" + bytes([_FILL]) * -(-width * bits // 8)
        if width > 0:
            packed += [packer.compress(row) for _ in range(height)]
    return b"".join([*packed, packer.flush()])


__all__ = ["DEPTHS", "SIGNATURE", "chunk", "header", "solid"]
