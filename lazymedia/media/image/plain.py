"""The headers of GIF, WebP, BMP and TIFF, each of which is a few fixed fields.

Comes in: a payload of one of the four. Goes out: its outline, or None. Never here: Pillow, a second frame, or a pixel.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lazymedia.media.image import exif
from lazymedia.media.image.outline import Metadata, Outline, Span

if TYPE_CHECKING:
    from lazymedia.limits import Limits

_RAMP: Final = bytes(grey for grey in range(256) for _ in range(3))
_RGB: Final = 2
_CMYK: Final = 5
_YCBCR: Final = 6
"""Values of a TIFF's PhotometricInterpretation."""
_MAX_GIF_BLOCKS: Final = 1 << 16
"""Blocks and sub-blocks looked at in front of a GIF's first frame. XMP, the longest thing there, has thousands."""


@dataclass(frozen=True, slots=True)
class GifOutline(Outline):
    """Attributes beyond `Outline`'s.

    frame: Left, top, width and height of the first frame, inside the picture.
    palette: Red, green, blue of the frame's colours; None where the colours are the greys in order.
    transparency: The index of the colour that is see-through, or None.
    code_bits: Initial code size of the pixels' compression.
    interlaced: Whether rows are stored in four passes.
    pixels: Offset of the first compressed block.
    """

    frame: tuple[int, int, int, int]
    palette: Span | None
    transparency: int | None
    code_bits: int
    interlaced: bool
    pixels: int


def gif(data: bytes, _limits: Limits) -> GifOutline | None:
    """The header of a GIF and of its first frame. A frame that sticks out of the screen makes the picture larger."""
    try:
        return _gif(data)
    except (IndexError, struct.error):
        return None


def _gif(data: bytes) -> GifOutline | None:
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    shared, position = _colours(flags, 13)
    transparency = None
    inside = False
    for _ in range(_MAX_GIF_BLOCKS):
        byte = data[position]
        if inside:
            position += byte + 1
            inside = byte != 0
        elif byte == 0x2C:
            break
        elif byte == 0x3B:
            return None
        elif byte == 0x21:
            label, size, settings = data[position + 1], data[position + 2], data[position + 3]
            if label == 0xF9 and size >= 4 and settings & 1:
                transparency = data[position + 6]
            position += 2
            inside = True
        else:
            position += 1
    else:
        return None
    left, top, across, down, flags = struct.unpack_from("<HHHHB", data, position + 1)
    own, position = _colours(flags, position + 10)
    palette = own or shared
    width, height = max(width, left + across), max(height, top + down)
    if width == 0 or height == 0 or across == 0 or down == 0:
        return None
    if palette is not None and _is_ramp(data[slice(*palette)]):
        palette = None
    return GifOutline(
        "GIF",
        width,
        height,
        "L" if palette is None else "P",
        (left, top, across, down),
        palette,
        transparency,
        data[position],
        bool(flags & 0x40),
        position + 1,
    )


def _colours(flags: int, position: int) -> tuple[Span | None, int]:
    if not flags & 0x80:
        return None, position
    stop = position + (6 << (flags & 7))
    return (position, stop), stop


def _is_ramp(colours: bytes) -> bool:
    """Whether colour n is the grey n throughout, which Pillow reads as a grey picture."""
    return colours == _RAMP[: len(colours)]


@dataclass(frozen=True, slots=True)
class WebpOutline(Outline):
    extended: int = 0

    def metadata(self, data: bytes, limit: int = 4096) -> Metadata:
        """EXIF and XMP, which mostly lie behind the pixels. Not found where more than ``limit`` chunks lie in front."""
        found: dict[bytes, bytes] = {}
        wanted = {b"EXIF": 0x08, b"XMP ": 0x04}
        wanted = {kind: flag for kind, flag in wanted.items() if self.extended & flag}
        position = 12
        for _ in range(limit if wanted else 0):
            if position + 8 > len(data):
                break
            kind, size = data[position : position + 4], int.from_bytes(data[position + 4 : position + 8], "little")
            if kind in wanted and kind not in found:
                found[kind] = data[position + 8 : position + 8 + size]
            position += 8 + size + (size & 1)
        return Metadata(found.get(b"EXIF"), found.get(b"XMP "))


def webp(data: bytes, _limits: Limits) -> WebpOutline | None:
    """The canvas of a WebP, from its first chunk. libwebp holds the frames against it."""
    kind, body = data[12:16], data[20:30]
    if kind == b"VP8L" and len(body) >= 5 and body[0] == 0x2F:
        bits = int.from_bytes(body[1:5], "little")
        return WebpOutline("WEBP", (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1, "RGBA" if bits >> 28 & 1 else "RGB")
    if len(body) < 10:
        return None
    if kind == b"VP8X":
        width, height = int.from_bytes(body[4:7], "little") + 1, int.from_bytes(body[7:10], "little") + 1
        return WebpOutline("WEBP", width, height, "RGBA" if body[0] & 0x10 else "RGB", body[0])
    if kind == b"VP8 " and body[3:6] == b"\x9d\x01\x2a":
        width, height = (int.from_bytes(body[start : start + 2], "little") & 0x3FFF for start in (6, 8))
        return WebpOutline("WEBP", width, height, "RGB") if width and height else None
    return None


@dataclass(frozen=True, slots=True)
class BmpOutline(Outline):
    """Attributes beyond `Outline`'s.

    compressed: Whether its rows are coded by run length.
    stored: The mode in which Pillow keeps it.
    codec: Bytes a pixel that its codec holds beside the pixels.
    """

    compressed: bool = False
    stored: str = "RGB"
    codec: float = 0.0


def bmp(data: bytes, _limits: Limits) -> BmpOutline | None:
    """The header of a BMP. A negative height means rows from the top, as in Pillow by its topmost byte alone."""
    try:
        (size,) = struct.unpack_from("<L", data, 14)
        if size == 12:
            width, height, _, bits = struct.unpack_from("<HHHH", data, 18)
            compression = 0
        else:
            width, height, _, bits, compression = struct.unpack_from("<LLHHL", data, 18)
    except struct.error:
        return None
    if size not in {12, 40, 52, 56, 64, 108, 124}:
        return None
    if size != 12 and height >> 24 == 0xFF:
        height = (1 << 32) - height
    if width == 0 or height == 0:
        return None
    mode = {16: "RGB", 24: "RGB"}.get(bits)
    # Masks for the colours and one for alpha come with the longer headers.
    masked = bits == 32 and compression == 3 and size >= 56 and any(data[66:70])
    stored = mode or ("1" if bits == 1 else "P" if bits <= 8 else "RGBA" if masked else "RGB")
    # Pillow's decoder of runs collects the rows, one byte a pixel, before it makes a picture of them.
    coded = compression in {1, 2}
    return BmpOutline("BMP", width, height, mode, coded, stored, 2.0 if coded else 0.0)


@dataclass(frozen=True, slots=True)
class TiffOutline(Outline):
    """Attributes beyond `Outline`'s.

    stored: The mode in which Pillow keeps it, as far as the first directory shows it.
    codec: Bytes a pixel that its codec holds beside the pixels: a strip or tile that is decoded whole.
    """

    stored: str = "RGB"
    codec: float = 0.0

    def metadata(self, data: bytes) -> Metadata:
        return Metadata(exif=data)


def tiff(data: bytes, _limits: Limits) -> TiffOutline | None:
    """The first page of a TIFF. BigTIFF is not read."""
    width, height = exif.number(data, exif.IMAGE_WIDTH), exif.number(data, exif.IMAGE_LENGTH)
    if width is None or height is None or width <= 0 or height <= 0:
        return None
    samples = exif.number(data, exif.SAMPLES) or 1
    bits = exif.number(data, exif.BITS) or (1 if samples == 1 else 8)
    photometric = exif.number(data, exif.PHOTOMETRIC)
    if samples == 1 and photometric != _YCBCR:
        stored = "L" if bits <= 8 else "I;16" if bits <= 16 else "I"
    else:
        alpha = samples == 2 or (samples == 4 and photometric == _RGB)
        stored = "RGBA" if alpha else "CMYK" if photometric == _CMYK else "RGB"
    codec = 0.0
    if exif.number(data, exif.COMPRESSION) not in {None, 1}:
        rows = min(exif.number(data, exif.ROWS_PER_STRIP) or height, height)
        codec = max(0, samples) * bits / 8 * rows / height
    return TiffOutline("TIFF", width, height, None, stored, codec)


__all__ = ["BmpOutline", "GifOutline", "TiffOutline", "WebpOutline", "bmp", "gif", "tiff", "webp"]
