"""A JPEG straight into an array, by libjpeg-turbo's own interface, where simplejpeg is installed.

Comes in: the payload and outline of a JPEG, and what is wanted of it. Goes out: the array that Pillow's codec and the
conversion would make, byte for byte, or None wherever that is not certain. Never here: a verdict on a damaged picture;
Pillow gives it.

Pillow keeps four bytes a pixel, which must be packed into three for an array; that costs as much as the decode itself.
Whether the two libraries give the same pixels depends on how each was built, so that is tried once, on small pictures
of every subsampling. A payload over which libjpeg-turbo so much as warns is left to Pillow, because Pillow, which
feeds the same library in another way, may refuse it or end it in another place.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import typing as npt

from lazymedia.media.image import header, jpeg
from lazymedia.media.image.pixels import blank, put_upright, upright_shape
from lazymedia.media.stopping import checkpoint

if TYPE_CHECKING:
    from lazymedia.media.image.convert import Target

Pixels = npt.NDArray[np.uint8]


def decode(data: bytes, outline: header.AnyOutline, target: Target) -> Pixels | None:
    """An upright, read-only picture, uint8 (H, W, C); None where Pillow has to decode.

    Lets go of the interpreter while it decodes. Takes no memory beyond the array, and a second one for a turn.

    Raises:
        DecodeStopped: The request was cancelled; noticed before a turn, or before Pillow would have to decode anew.
    """
    if not isinstance(outline, jpeg.JpegOutline) or not target.as_array:
        return None
    layout = outline.layout(target.mode)
    if layout is None or not agrees():
        return None
    name, channels = layout
    # Room of the size that was checked: a decoder that finds another size has none for it.
    pixels = np.empty((outline.height, outline.width, channels), np.uint8)
    whole = _fill(pixels, data, name)
    checkpoint()
    if not whole:
        return None
    orientation = header.orientation(data, outline)
    if orientation != 1:
        turned = np.empty((*upright_shape(pixels, orientation), channels), np.uint8)
        put_upright(pixels, orientation, turned)
        pixels = turned
    pixels.flags.writeable = False
    return pixels


@cache
def agrees() -> bool:
    """Whether simplejpeg is here and gives the pixels that this Pillow gives, found out by trying, once."""
    try:
        import simplejpeg
    except ImportError:
        return False
    texture = np.random.default_rng(0).integers(0, 256, (35, 51, 3), dtype=np.uint8)
    texture[::2] = np.linspace(0, 255, 51, dtype=np.uint8)[:, None]
    for subsampling in ("444", "422", "420", "440", "411"):
        data = simplejpeg.encode_jpeg(texture, 90, "RGB", subsampling)
        pixels = np.empty_like(texture)
        pillows = blank("RGB", (51, 35))
        try:
            pillows.frombytes(data, "jpeg", ("RGB", ""))
        except OSError:  # a Pillow without the codec
            return False
        if not _fill(pixels, data, "RGB") or not np.array_equal(pixels, np.asarray(pillows)):
            return False
    return True


def _fill(pixels: Pixels, data: bytes, name: str) -> bool:
    """Decode into an array; False where that cannot be done, or not without a warning of the library's."""
    import simplejpeg

    try:
        decoded: Any = simplejpeg.decode_jpeg(data, name, buffer=pixels, strict=True)
    except (ValueError, RuntimeError):
        return False
    return bool(decoded.shape == pixels.shape)


__all__ = ["agrees", "decode"]
