"""JPEG to an array, by libjpeg-turbo's own interface, where simplejpeg is installed.

Pillow keeps four bytes a pixel, which must be packed into three for an array; that costs as much as the decode itself.
Whether the two libraries give the same pixels depends on how each was built, so that they are compared once, on small
pictures of every subsampling. A payload over which libjpeg-turbo only warns is left to Pillow too: Pillow feeds the
same library in another way, and may reject it or end it in another place.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import typing as npt

from lazymedia.media.cancellation import checkpoint
from lazymedia.media.image.pixels import blank, copy_oriented, oriented_shape

if TYPE_CHECKING:
    from lazymedia.media.image.header import FormatHeader
    from lazymedia.media.image.io import Target

Pixels = npt.NDArray[np.uint8]


def decode(data: bytes, header: FormatHeader, target: Target) -> Pixels | None:
    """A read-only picture, uint8 (H, W, C), its orientation applied; None where Pillow has to decode.

    Releases the GIL while it decodes. Takes no memory beyond the array, and a second one to apply an orientation.

    Raises:
        DecodeStopped: The request was cancelled; noticed after the decode.
    """
    layout = header.simplejpeg_layout(target.mode) if target.as_array else None
    if layout is None or not agrees_with_pillow():
        return None
    name, channels = layout
    # Room of the size that was checked: a decoder that finds another size has none for it.
    pixels = np.empty((header.height, header.width, channels), np.uint8)
    whole = _fill(pixels, data, name)
    checkpoint()
    if not whole:
        return None
    orientation = header.find_orientation(data)
    if orientation != 1:
        oriented = np.empty((*oriented_shape(pixels, orientation), channels), np.uint8)
        copy_oriented(pixels, orientation, oriented)
        pixels = oriented
    pixels.flags.writeable = False
    return pixels


@cache
def agrees_with_pillow() -> bool:
    """Whether simplejpeg is installed and gives the pixels that this Pillow gives."""
    try:
        import simplejpeg
    except ImportError:
        return False
    texture = np.random.default_rng(0).integers(0, 256, (35, 51, 3), dtype=np.uint8)
    texture[::2] = np.linspace(0, 255, 51, dtype=np.uint8)[:, None]
    for subsampling in ("444", "422", "420", "440", "411"):
        data = simplejpeg.encode_jpeg(texture, 90, "RGB", subsampling)
        pixels = np.empty_like(texture)
        by_pillow = blank("RGB", (51, 35))
        try:
            by_pillow.frombytes(data, "jpeg", ("RGB", ""))
        except OSError:  # a Pillow without the codec
            return False
        if not _fill(pixels, data, "RGB") or not np.array_equal(pixels, np.asarray(by_pillow)):
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


__all__ = ["agrees_with_pillow", "decode"]
