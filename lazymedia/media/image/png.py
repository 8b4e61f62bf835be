"""The chunks of a PNG: size, layout, palette, transparency, and where pixels and EXIF lie.

Comes in: a payload that begins as a PNG. Goes out: a `PngOutline`, None for a header that is broken, or a refusal by
count. Never here: Pillow, or a compressed pixel.

Only IHDR, PLTE, tRNS and the first run of IDAT make the picture; of an animation that is the default image.
Everything else is stepped over unread, save for what tells the orientation: eXIf before or behind the pixels,
ImageMagick's "Raw profile type exif" text, and XMP.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lazymedia.media.image.outline import Metadata, Outline, Span, check_count

if TYPE_CHECKING:
    from lazymedia.limits import Limits

SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"

LAYOUTS: Final = {
    # (bits, colour type): (Pillow's mode, Pillow's name for the packed samples)
    (1, 0): ("1", "1"),
    (2, 0): ("L", "L;2"),
    (4, 0): ("L", "L;4"),
    (8, 0): ("L", "L"),
    (16, 0): ("I;16", "I;16B"),
    (8, 2): ("RGB", "RGB"),
    (16, 2): ("RGB", "RGB;16B"),
    (1, 3): ("P", "P;1"),
    (2, 3): ("P", "P;2"),
    (4, 3): ("P", "P;4"),
    (8, 3): ("P", "P"),
    (8, 4): ("LA", "LA"),
    (16, 4): ("RGBA", "LA;16B"),
    (8, 6): ("RGBA", "RGBA"),
    (16, 6): ("RGBA", "RGBA;16B"),
}

_COUNTED_BELOW: Final = 1024
"""Bytes: an IDAT chunk of at least this many pays for itself and is not counted. libpng writes them 8 KiB long."""
_MAX_TEXT: Final = 1 << 20
"""Bytes that a text chunk may inflate to; what is larger holds no orientation."""
_PROFILE: Final = b"Raw profile type exif"
_XMP: Final = b"XML:com.adobe.xmp"
_KEYS: Final = frozenset({_PROFILE, _XMP})
_TEXTS: Final = frozenset({b"tEXt", b"zTXt", b"iTXt"})


@dataclass(frozen=True, slots=True)
class PngOutline(Outline):
    """Attributes beyond `Outline`'s.

    bits, colour: The IHDR's bit depth and colour type; a key of `LAYOUTS`.
    interlaced: Whether rows are stored in Adam7's seven passes.
    palette, transparency: Content of PLTE and tRNS.
    pixels: Content of the first run of IDAT chunks.
    exif: Content of an eXIf chunk before the pixels.
    late_exif: Content of an eXIf chunk behind them.
    texts: Type and content of the last text chunk of each kind that may tell an orientation.
    """

    bits: int
    colour: int
    interlaced: bool
    palette: Span | None
    transparency: Span | None
    pixels: tuple[Span, ...]
    exif: Span | None
    late_exif: Span | None
    texts: tuple[tuple[bytes, Span], ...]

    def metadata(self, data: bytes) -> Metadata:
        span = self.exif or self.late_exif
        exif = None if span is None else data[slice(*span)]
        xmp = None
        for kind, (start, stop) in self.texts:
            key, _, content = data[start:stop].partition(b"\0")
            text = _text(kind, content)
            if text is not None and key == _XMP:
                xmp = text if kind == b"iTXt" else xmp
            elif text is not None and exif is None:
                exif = profile(text)
        return Metadata(exif, xmp)


def outline(data: bytes, limits: Limits) -> PngOutline | None:
    """The header of a PNG, after one pass over the chunks. None where IHDR is broken or no pixels follow.

    Raises:
        UnprocessableMediaError: More chunks than `Limits.max_image_chunks`, larger IDAT chunks not counted.
    """
    header = data[8:33]
    if len(header) < 25 or header[:8] != b"\0\0\0\x0dIHDR" or not sound(data, (16, 29)):
        return None
    width, height, bits, colour, _, filtering, interlaced = struct.unpack_from(">LLBBBBB", header, 8)
    layout = LAYOUTS.get((bits, colour))
    if width == 0 or height == 0 or layout is None or filtering:
        return None
    chunks = _Chunks()
    chunks.walk(data, limits.max_image_chunks)
    if not chunks.pixels:
        return None
    return PngOutline(
        "PNG",
        width,
        height,
        layout[0],
        bits,
        colour,
        bool(interlaced),
        chunks.palette,
        chunks.transparency,
        tuple(chunks.pixels),
        chunks.exif,
        chunks.late_exif,
        tuple(chunks.texts.values()),
    )


def sound(data: bytes, content: Span) -> bool:
    """Whether the checksum behind a chunk's content is that of its type and content."""
    start, stop = content
    return data[stop : stop + 4] == zlib.crc32(memoryview(data)[start - 4 : stop]).to_bytes(4)


class _Chunks:
    """What one pass over the chunks collects."""

    __slots__ = ("exif", "late_exif", "palette", "pixels", "texts", "transparency")

    def __init__(self) -> None:
        self.palette: Span | None = None
        self.transparency: Span | None = None
        self.exif: Span | None = None
        self.late_exif: Span | None = None
        self.pixels: list[Span] = []
        self.texts: dict[bytes, tuple[bytes, Span]] = {}

    def walk(self, data: bytes, limit: int) -> None:
        read = struct.Struct(">L4s").unpack_from
        position, counted, end = 33, 0, len(data)
        run = True
        while position + 8 <= end:
            length, kind = read(data, position)
            start = position + 8
            position = start + length + 4
            if kind == b"IDAT":
                if run:
                    self.pixels.append((start, start + length))
                if length >= _COUNTED_BELOW:
                    continue
            elif kind == b"IEND":
                return
            else:
                run = not self.pixels
                self._note(data, kind, (start, start + length))
            counted += 1
            if counted > limit:
                check_count(counted, "chunks", limit)

    def _note(self, data: bytes, kind: bytes, content: Span) -> None:
        before = not self.pixels
        if kind == b"PLTE" and before:
            self.palette = content
        elif kind == b"tRNS" and before:
            self.transparency = content
        elif kind == b"eXIf" and before:
            self.exif = content
        elif kind == b"eXIf":
            self.late_exif = content
        elif kind in _TEXTS:
            key = data[content[0] : content[0] + len(_PROFILE) + 1].partition(b"\0")[0]
            if key in _KEYS:  # only the last of each is ever inflated
                self.texts[key] = kind, content


def _text(kind: bytes, content: bytes) -> bytes | None:
    """The text of a chunk, inflated where it is compressed; None where it is damaged or too long."""
    if kind == b"tEXt":
        return content
    if kind == b"zTXt":
        return _inflate(content[1:]) if content[:1] == b"\0" else None
    flags = content[:2]
    _, _, rest = content[2:].partition(b"\0")
    _, _, text = rest.partition(b"\0")
    if flags == b"\1\0":
        return _inflate(text)
    return text if flags[:1] == b"\0" else None


def _inflate(packed: bytes) -> bytes | None:
    stream = zlib.decompressobj()
    try:
        text = stream.decompress(packed, _MAX_TEXT)
    except zlib.error:
        return None
    return None if stream.unconsumed_tail else text


def profile(text: bytes) -> bytes | None:
    """The bytes of a raw profile: a line break, a name, a length, then hexadecimal lines."""
    try:
        return bytes.fromhex(b"".join(text.split(b"\n")[3:]).decode("ascii"))
    except ValueError:
        return None


__all__ = ["LAYOUTS", "SIGNATURE", "PngOutline", "outline", "profile", "sound"]
