"""PNG: one pass over the chunks, and the pixels by Pillow's codec.

Only IHDR, PLTE, tRNS and the first run of IDAT make the picture; of an animation that is the default image.
Everything else is skipped, except for what may hold the orientation: eXIf before or behind the pixels, ImageMagick's
"Raw profile type exif" text, and XMP.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lazymedia.media.image.exif import Metadata, raw_profile
from lazymedia.media.image.header import FormatHeader, check_count
from lazymedia.media.image.memory import CodecMemory
from lazymedia.media.isobmff import Span

if TYPE_CHECKING:
    from PIL import Image

    from lazymedia.limits import Limits
    from lazymedia.media.image.pixels import StoredPixels

_GREY: Final = 0
_RGB: Final = 2
_PALETTE: Final = 3
"""Colour types. PNG specification, 11.2.1."""
_LAYOUTS: Final = {
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
"""Bytes: an IDAT chunk of at least this many is not counted. libpng writes them 8 KiB long."""
_MAX_TEXT: Final = 1 << 20
"""Bytes that a text chunk may inflate to; what is larger holds no orientation."""
_PROFILE: Final = b"Raw profile type exif"
_XMP: Final = b"XML:com.adobe.xmp"
_KEYS: Final = frozenset({_PROFILE, _XMP})
_TEXTS: Final = frozenset({b"tEXt", b"zTXt", b"iTXt"})


class _Chunks:
    """What one pass over the chunks collects.

    Attributes:
        palette, transparency: Content of PLTE and tRNS.
        pixels: Content of the first run of IDAT chunks.
        exif: Content of an eXIf chunk before the pixels.
        late_exif: Content of an eXIf chunk behind them.
        texts: Type and content of the last text chunk with each key that may hold an orientation.
    """

    __slots__ = ("exif", "late_exif", "palette", "pixels", "texts", "transparency")

    def __init__(self, data: bytes, limit: int) -> None:
        self.palette: Span | None = None
        self.transparency: Span | None = None
        self.exif: Span | None = None
        self.late_exif: Span | None = None
        self.pixels: list[Span] = []
        self.texts: dict[bytes, tuple[bytes, Span]] = {}
        self._walk(data, limit)

    def _walk(self, data: bytes, limit: int) -> None:
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


@dataclass(frozen=True, slots=True)
class PngHeader(FormatHeader):
    """Attributes beyond `FormatHeader`'s.

    bits, colour: The IHDR's bit depth and colour type; a key of `_LAYOUTS`.
    interlaced: Whether rows are stored in Adam7's seven passes.
    chunks: Where the chunks are.
    """

    bits: int
    colour: int
    interlaced: bool
    chunks: _Chunks

    def metadata(self, data: bytes) -> Metadata:
        span = self.chunks.exif or self.chunks.late_exif
        block = None if span is None else data[slice(*span)]
        xmp = None
        for kind, (start, stop) in self.chunks.texts.values():
            key, _, content = data[start:stop].partition(b"\0")
            text = _text(kind, content)
            if text is not None and key == _XMP:
                xmp = text if kind == b"iTXt" else xmp
            elif text is not None and block is None:
                block = raw_profile(text)
        return Metadata(block, xmp)

    def early_exif(self, data: bytes) -> bytes | None:
        """EXIF that comes before the pixels."""
        return None if self.chunks.exif is None else data[slice(*self.chunks.exif)]

    def codec_memory(self) -> CodecMemory:
        assert self.mode is not None
        transparent = self.chunks.transparency is not None
        mask = transparent and self.colour in {_GREY, _RGB}
        # The lower bytes of a transparent colour's samples are decoded to a second picture.
        second = 4.0 if mask and self.bits == 16 and self.colour == _RGB else 0.0
        return CodecMemory(self.mode, self.mode in {"LA", "RGBA"} or transparent, mask, second)

    def decode(self, data: bytes, limits: Limits) -> StoredPixels:  # noqa: ARG002  # the header's size is the picture's
        from lazymedia.media.image.pixels import StoredPixels, require_codec

        require_codec("zlib")
        image = _decode(data, self)
        palette, transparency = self.chunks.palette, self.chunks.transparency
        for part, name in ((palette, "PLTE"), (transparency, "tRNS")):
            if part is not None and not _is_sound(data, part):
                raise ValueError(f"the checksum of {name} is wrong")
        if self.colour == _PALETTE and palette is not None:  # without a palette every colour is black, as in Pillow
            image.putpalette(data[slice(*palette)])
        mask = None if transparency is None else _mask(image, data, data[slice(*transparency)], self)
        return StoredPixels(image, self.find_orientation(data), mask)


def read_header(data: bytes, limits: Limits) -> PngHeader | None:
    """The header of a PNG, after one pass over the chunks. None where IHDR is broken or no pixels follow.

    Raises:
        UnprocessableMediaError: More chunks than `Limits.max_image_chunks`, larger IDAT chunks not counted.
    """
    header = data[8:33]
    if len(header) < 25 or header[:8] != b"\0\0\0\x0dIHDR" or not _is_sound(data, (16, 29)):
        return None
    width, height, bits, colour, _, filtering, interlaced = struct.unpack_from(">LLBBBBB", header, 8)
    layout = _LAYOUTS.get((bits, colour))
    if width == 0 or height == 0 or layout is None or filtering:
        return None
    chunks = _Chunks(data, limits.max_image_chunks)
    if not chunks.pixels:
        return None
    return PngHeader("PNG", width, height, layout[0], bits, colour, bool(interlaced), chunks)


def _is_sound(data: bytes, content: Span) -> bool:
    """Whether the checksum behind a chunk's content is that of its type and content."""
    start, stop = content
    return data[stop : stop + 4] == zlib.crc32(memoryview(data)[start - 4 : stop]).to_bytes(4)


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


def _decode(data: bytes, header: PngHeader) -> Image.Image:
    """The pixels of a PNG, all of them.

    A compressed stream that ends between two rows is no error to Pillow's codec, which leaves the rest black. So what
    would be written last is marked before and compared afterwards. A picture that looks like the mark there is decoded
    once more, over another mark.

    Raises:
        ValueError: Damaged, or fewer rows than there should be.
    """
    from lazymedia.media.image.pixels import blank, region

    mode, packing = _LAYOUTS[header.bits, header.colour]
    corner, size = _written_last(header)
    for pattern in (b"\x5a", b"\xa5"):
        mark = blank(mode, size)
        mark.frombytes(pattern * len(mark.tobytes()))
        image = blank(mode, (header.width, header.height))
        image.paste(mark, corner)
        _inflate_pixels(data, header, image, packing)
        if region(image, corner, size).tobytes() != mark.tobytes():
            return image
    raise ValueError("fewer rows of pixels than the header says")


def _inflate_pixels(data: bytes, header: PngHeader, image: Image.Image, packing: str) -> None:
    from lazymedia.media.image.pixels import decode_with, pieces

    view = memoryview(data)
    parts = (piece for span in header.chunks.pixels for piece in pieces(view[slice(*span)]))
    decode_with("zip", (packing, int(header.interlaced)), image, parts)


def _written_last(header: PngHeader) -> tuple[tuple[int, int], tuple[int, int]]:
    """Corner and size of a box of pixels that all belong to the last row that is decoded.

    Of Adam7's passes the last fills the odd rows; where there is none, the one before it fills the odd columns.
    """
    width, height = header.width, header.height
    if header.interlaced and height > 1:
        return (0, height - 1 - height % 2), (width, 1)
    if header.interlaced and width > 1:
        return (width - 1 - width % 2, 0), (1, 1)
    return (0, height - 1), (width, 1)


def _mask(image: Image.Image, data: bytes, chunk: bytes, header: PngHeader) -> Image.Image | None:
    """Write tRNS to the picture's `info`, in the units of its pixels; for one transparent colour, return a mask.

    The chunk counts in the units of the file, whatever Pillow makes of the samples: 0 to 3 for two bits, which become
    0 to 255, and 0 to 65535 for sixteen, of which Pillow keeps the upper eight. The lower eight are read as if the
    file were little-endian, so that only an exact match is transparent.
    """
    from lazymedia.media.image.pixels import blank, colour_mask

    if header.colour == _PALETTE:
        image.info["transparency"] = chunk[:256]
        return None
    if header.colour not in {_GREY, _RGB}:
        return None
    size = 2 if header.colour == _GREY else 6
    if len(chunk) < size:
        raise ValueError("tRNS is too short for a colour")
    key = tuple(int.from_bytes(chunk[at : at + 2]) for at in range(0, size, 2))
    if header.colour == _RGB and header.bits == 16:
        lower = blank("RGB", image.size)
        _inflate_pixels(data, header, lower, "RGB;16L")
        upper_key = tuple(value >> 8 for value in key)
        image.info["transparency"] = upper_key
        return colour_mask(image, (image, upper_key), (lower, tuple(value & 255 for value in key)))
    if header.bits < 16:
        scale = 255 // ((1 << header.bits) - 1)
        key = tuple((value & ((1 << header.bits) - 1)) * scale for value in key)
    image.info["transparency"] = key if header.colour == _RGB else key[0]
    return colour_mask(image, (image, key))


__all__ = ["PngHeader", "read_header"]
