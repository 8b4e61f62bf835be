"""From payload and outline to stored pixels, by Pillow's codecs.

Comes in: a payload with the outline that was read from it. Goes out: a `Raster`: a plain Pillow image without a file
behind it, and the turn it still needs. Never here: the caller's wishes (mode, background), or a header that nobody
has checked.

JPEG, PNG, GIF and BMP go straight to the codec that `Image.frombytes` names, so that none of Pillow's switches matters:
``Image.MAX_IMAGE_PIXELS``, ``ImageFile.LOAD_TRUNCATED_IMAGES``, warnings turned into errors. No EXIF, text or profile
is parsed, and a codec that runs out of data raises. WebP, AVIF, TIFF and the header of a BMP need Pillow's own file
classes, which are made directly and, TIFF aside, see nothing of the payload that they would warn about.

Every function here is free of shared state and lets go of the interpreter while a codec runs.
"""

from __future__ import annotations

import io
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from PIL import BmpImagePlugin, Image, features

from lazymedia.media.image import avif, exif, header, heif, jpeg, plain, png, png_raster
from lazymedia.media.image.outline import Metadata, check_size
from lazymedia.media.image.pixels import blank, decode, opaque_of, steps, taken_from
from lazymedia.media.stopping import checkpoint

if TYPE_CHECKING:
    from PIL.WebPImagePlugin import WebPImageFile

    from lazymedia.limits import Limits

_CODECS = {"JPEG": "jpg", "PNG": "zlib", "WEBP": "webp", "AVIF": "avif"}

MAX_RLE_PIXELS = 1 << 21
"""Pixels of a run-length coded BMP, which Pillow decodes in Python: up to half a microsecond for each of them."""


class Raster(NamedTuple):
    """Pixels as stored.

    Attributes:
        image: Plain pixels; `info` holds at most "transparency".
        orientation: The turn they need, 1 to 8 as in EXIF.
        opaque: Where a single colour is see-through, an "L" picture of 255 for every other pixel.
    """

    image: Image.Image
    orientation: int
    opaque: Image.Image | None = None


def rasterise(data: bytes, outline: header.AnyOutline, limits: Limits) -> Raster:
    """Decode the (first) picture of a payload.

    Raises:
        Exception: Whatever Pillow raises; the payload's fault unless it is an ImportError or a MemoryError.
    """
    _require(outline.format)
    match outline:
        case jpeg.JpegOutline():
            raster = Raster(_jpeg(data, outline), header.orientation(data, outline))
        case png.PngOutline():
            image, opaque = png_raster.rasterise(data, outline)
            raster = Raster(image, header.orientation(data, outline), opaque)
        case plain.GifOutline():
            image = _gif(data, outline)
            raster = Raster(image, 1, opaque_of(image))
        case plain.BmpOutline():
            raster = Raster(_bmp(data, outline), 1)
        case plain.WebpOutline():
            raster = _webp(data, limits)
        case avif.AvifOutline():
            raster = _avif(data, outline, limits)
        case heif.HeifOutline():
            raster = Raster(_heif(data, limits), 1)
        case plain.TiffOutline():
            from lazymedia.media.image import tiff_raster

            raster = Raster(tiff_raster.rasterise(data, limits), 1)
    return raster


@cache
def _require(kind: str) -> None:
    if kind in _CODECS and not features.check(_CODECS[kind]):
        raise ImportError(f"this build of Pillow has no {kind} codec")


def _jpeg(data: bytes, outline: jpeg.JpegOutline) -> Image.Image:
    """Four components are taken as inverted, as every program writes them; libjpeg turns YCCK into CMYK."""
    assert outline.mode is not None
    image = blank(outline.mode, (outline.width, outline.height))
    # The arithmetic decoder cannot wait for data, so that a step ends where a scan does.
    ends = outline.scans or (() if outline.frame in jpeg.ARITHMETIC else None)
    decode(image, steps(data, ends), "jpeg", ("CMYK;I" if outline.mode == "CMYK" else outline.mode, ""))
    return image


def _gif(data: bytes, outline: plain.GifOutline) -> Image.Image:
    left, top, across, down = outline.frame
    assert outline.mode is not None
    frame = blank("L", (across, down))
    codec = (outline.code_bits, int(outline.interlaced), -1)
    decode(frame, steps(memoryview(data)[outline.pixels :]), "gif", codec)
    image = frame
    if (across, down) != (outline.width, outline.height):
        image = Image.new("L", (outline.width, outline.height), outline.transparency or 0)
        image.paste(frame, (left, top))
    if outline.palette is not None:
        image.putpalette(data[slice(*outline.palette)])
    if outline.transparency is not None:
        image.info["transparency"] = outline.transparency
    return image


def _bmp(data: bytes, outline: plain.BmpOutline) -> Image.Image:
    if outline.compressed:
        _check_runs(len(data), outline)
    opened = BmpImagePlugin.BmpImageFile(io.BytesIO(data))
    if opened.size != (outline.width, outline.height):
        raise ValueError("the header contradicts itself")
    codec, _, offset, args = opened.tile[0]
    if codec != "raw":
        opened.load()
        return taken_from(opened)
    image = blank(opened.mode, opened.size)
    image.frombytes(memoryview(data)[offset:], "raw", args)
    if opened.palette is not None and opened.mode == "P":
        image.putpalette(opened.palette)
    return without_empty_alpha(image)


def without_empty_alpha(image: Image.Image) -> Image.Image:
    """A BMP's pixels; as RGB where its alpha is 0 throughout. Programs leave the fourth byte empty, and browsers take
    such a picture for opaque.
    """
    empty = image.mode == "RGBA" and image.getchannel("A").getextrema() == (0, 0)
    return image.convert("RGB") if empty else image


def _check_runs(size: int, outline: plain.BmpOutline) -> None:
    pixels = outline.width * outline.height
    if pixels > MAX_RLE_PIXELS:
        raise ValueError(f"a run-length coded picture may have {MAX_RLE_PIXELS} pixels at most")
    # Two bytes a pixel and four a row are the most that any writer needs; padding and the palette come on top.
    if size > 2 * pixels + 4 * outline.height + 65_536:
        raise ValueError("more runs than the picture has pixels")


class _ShortFirstRead(io.BytesIO):
    """A file whose first read ends early, as any file's may.

    Pillow reads 30 bytes and, when they tell a size, holds it against ``MAX_IMAGE_PIXELS``. Sixteen tell the format
    only; the rest is read next, and the size was checked before.
    """

    def read(self, size: int | None = -1, /) -> bytes:
        if self.tell() == 0 and size is not None and size > 16:
            size = 16
        return super().read(size)


def open_webp(data: bytes) -> WebPImageFile:
    """A WebP of a checked size as Pillow's file: of its frames, none is decoded yet.

    Raises:
        ImportError: This build of Pillow has no WebP codec.
        Exception: Whatever Pillow raises; the payload's fault.
    """
    from PIL import WebPImagePlugin

    _require("WEBP")
    return WebPImagePlugin.WebPImageFile(_ShortFirstRead(data))


def _webp(data: bytes, limits: Limits) -> Raster:
    opened = open_webp(data)
    size, mode = opened.size, opened.mode
    check_size(*size, limits)
    turn = exif.orientation(Metadata(opened.info.get("exif"), opened.info.get("xmp")))
    pixels = next_canvas(opened)
    del opened  # and with it three times the picture's memory
    if pixels is None:
        raise ValueError("no frame can be decoded")
    checkpoint()
    image = blank("RGBA", size)
    image.frombytes(pixels, "raw", ("RGBA", 0, 1))
    # Without alpha, what no frame of an animation covers is see-through all the same.
    covered = mode == "RGB" and image.getchannel("A").getextrema() == (255, 255)
    return Raster(image.convert("RGB") if covered else image, turn)


def next_canvas(opened: WebPImageFile) -> bytes | None:
    """The next frame laid over those before it, four bytes a pixel: red, green, blue, alpha. None where there is none,
    or it cannot be decoded; then no later one can be.
    """
    # Of the file class's own ways to a frame, each converts all on the way, or cannot be stopped between them.
    decoder: Any = opened._decoder  # noqa: SLF001
    following = decoder.get_next()
    return None if following is None else following[0]


def _avif(data: bytes, outline: avif.AvifOutline, limits: Limits) -> Raster:
    """EXIF items are renamed first: Pillow would parse them, and refuse the picture for damage there."""
    from PIL import AvifImagePlugin

    if outline.exif_names:
        renamed = bytearray(data)
        for at in outline.exif_names:
            renamed[at : at + 4] = b"free"
        data = bytes(renamed)
    opened = AvifImagePlugin.AvifImageFile(io.BytesIO(data))
    check_size(*opened.size, limits)
    turn = exif.orientation(Metadata(opened.info.get("exif")))
    opened.load()
    return Raster(taken_from(opened), turn)


def _heif(data: bytes, limits: Limits) -> Image.Image:
    """The primary picture, upright, by libheif. Pillow's registry of formats stays as it is."""
    from pillow_heif import HeifFile

    opened = HeifFile(data, remove_stride=False)
    frame = opened[opened.primary_index]
    width, height = frame.size
    check_size(width, height, limits)
    checkpoint()
    pixels = frame.data
    width, height = frame.size  # which may have changed
    mode, stride = frame.mode, frame.stride
    del opened, frame  # and with them the decoder's memory
    check_size(width, height, limits)
    image = blank(mode, (width, height))
    image.frombytes(pixels, "raw", (mode, stride))
    return image


__all__ = ["MAX_RLE_PIXELS", "Raster", "next_canvas", "open_webp", "rasterise", "without_empty_alpha"]
