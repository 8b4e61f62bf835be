"""How much memory a decode takes at its peak, by a picture's header.

A picture passes two stages, and the larger one counts. First its codec holds what it needs beside the stored pixels;
then the stored pixels lie beside the result (`convert.finish`). The factors are bytes a pixel, taken from
``python -m benchmarks.memory_of_pictures`` with Pillow 13 (libjpeg-turbo 3.2, libwebp 1.6, libavif 1.4); a test holds
them against a measurement.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Final, NamedTuple

from lazymedia.media.image import avif, header, heif, jpeg, plain, png

_STORED: Final = {"1": 1, "L": 1, "P": 1, "I;16": 2}
"""Bytes a pixel of Pillow's modes; four in all others."""
_CHANNELS: Final = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4}
_WEBP: Final = 12.0
"""libwebp's two canvases of four bytes, and the frame as Pillow hands it on."""
_COEFFICIENTS: Final = 128
"""Bytes of a block of 64 samples; libjpeg keeps all of them where a JPEG has several scans."""
_MARGIN: Final = 1.15
_ALWAYS: Final = 1 << 19
"""Bytes: the strips in which pixels are converted, and what codecs allocate at any size."""


class _Stored(NamedTuple):
    """How a codec leaves a picture.

    Attributes:
        mode: Pillow's mode of the pixels.
        alpha: Whether some of them may be see-through.
        mask: Whether a mask lies beside them, one byte a pixel, for a see-through colour.
        codec: Bytes a pixel that the codec holds beside them.
    """

    mode: str
    alpha: bool = False
    mask: bool = False
    codec: float = 0.0


def decoded_bytes(data: bytes, outline: header.AnyOutline, mode: str | None, *, as_array: bool) -> int:
    """An estimate of the bytes that decoding takes at its peak, result included and payload not: 1.0 to 1.6 times what
    is measured, for pictures of some megapixels.

    Args:
        data: The payload.
        outline: Its header.
        mode: "RGB", "RGBA", "L", or None for the stored one.
        as_array: Whether it becomes an array.
    """
    stored = _stored(outline)
    kept = _STORED.get(stored.mode, 4) + stored.mask
    result = _result(stored, mode, as_array=as_array)
    turned = header.orientation(data, outline) != 1 and not isinstance(outline, heif.HeifOutline)
    copies = 2 if turned else 1
    if as_array and isinstance(outline, jpeg.JpegOutline) and outline.layout(mode) and _has_simplejpeg():
        peak = max(stored.codec + result, result * copies)
    else:
        peak = max(stored.codec + kept, kept * copies, kept + result)
    read = len(data) if isinstance(outline, plain.WebpOutline | avif.AvifOutline | heif.HeifOutline) else 0
    return int(_MARGIN * peak * outline.width * outline.height) + read + _ALWAYS


@cache
def _has_simplejpeg() -> bool:
    return find_spec("simplejpeg") is not None


def _result(stored: _Stored, mode: str | None, *, as_array: bool) -> int:
    """Bytes a pixel of what is made of the stored pixels; 0 where they are the result."""
    if as_array:
        grey = stored.mode in {"1", "L", "LA", "I;16"}
        return _CHANNELS[mode or ("L" if grey else "RGB") + "A" * stored.alpha]
    if mode is None or (mode == stored.mode and not stored.mask and (not stored.alpha or mode == "RGBA")):
        return 0
    return _STORED.get(mode, 4)


def _stored(outline: header.AnyOutline) -> _Stored:
    match outline:
        case jpeg.JpegOutline(mode=str(mode), blocks=blocks, scans=scans):
            pixels = outline.width * outline.height
            return _Stored(mode, codec=_COEFFICIENTS * blocks / pixels if scans else 0.0)
        case png.PngOutline(mode=str(mode)):
            named = outline.transparency is not None
            mask = named and outline.colour in {0, 2}
            second = 4.0 if mask and outline.bits == 16 and outline.colour == 2 else 0.0  # see `png_raster`
            return _Stored(mode, mode in {"LA", "RGBA"} or named, mask, second)
        case plain.GifOutline(mode=str(mode)):
            named = outline.transparency is not None
            across, down = outline.frame[2:]
            frame = across * down / (outline.width * outline.height)
            return _Stored(mode, named, named and mode == "L", frame if frame < 1 else 0.0)
        case plain.WebpOutline(mode=str(mode)):
            return _Stored(mode, mode == "RGBA", codec=_WEBP - 4)
        case heif.HeifOutline(mode=str(mode)):
            return _Stored(mode, mode.endswith("A"), codec=outline.codec)
        case avif.AvifOutline() | plain.BmpOutline() | plain.TiffOutline():
            return _Stored(outline.stored, outline.stored.endswith("A"), codec=outline.codec)
    raise AssertionError(outline)


__all__ = ["decoded_bytes"]
