"""From stored pixels to the picture that was asked for: upright, flat on a background, in one mode, as image or array.

Comes in: a `Raster`, or a picture that somebody else opened with Pillow. Goes out: media. Never here: a payload.

Rules, the same for every way in:

* What can be seen through is laid on the background wherever the result has no alpha: alpha channels, palettes with
  alpha, premultiplied pixels, and the one see-through colour of a PNG or GIF.
* Sixteen bits become eight by dropping the lower eight. Nothing is clipped, so black to white stays black to white.
* CMYK, YCbCr, LAB and HSV become RGB by Pillow's formulas. Colour profiles are ignored.
* Floating point has no range that could be known, and is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy import typing as npt
from PIL import Image

from lazymedia.media.image import exif, png
from lazymedia.media.image.outline import Metadata, check_size
from lazymedia.media.image.pixels import bare, opaque_of, region
from lazymedia.media.image.raster import Raster

if TYPE_CHECKING:
    from lazymedia.limits import Limits

_TURNS: Final = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_SIXTEEN: Final = frozenset({"I", "I;16", "I;16B", "I;16L", "I;16N"})
_GREY: Final = frozenset({"1", "L", "LA", "La"}) | _SIXTEEN
_FOREIGN: Final = frozenset({"CMYK", "YCbCr", "LAB", "HSV", "RGBX"})
_UPRIGHT: Final = frozenset({"TIFF"})
_STRIP: Final = 1 << 20
"""Bytes of an array that are filled at a time, few enough to stay in the processor's cache."""


class Target(NamedTuple):
    """What a picture is turned into.

    Attributes:
        mode: "RGB", "RGBA", "L", or None to keep what is stored.
        background: Red, green, blue, 0 to 255.
        as_array: Whether it becomes uint8 (H, W, C) rather than an image.
    """

    mode: str | None
    background: tuple[int, int, int]
    as_array: bool


def finish(raster: Raster, target: Target) -> Image.Image | npt.NDArray[np.uint8]:
    """Turn stored pixels into media.

    Raises:
        ValueError: Pixels that have no meaning in eight bits. The picture's fault.
    """
    image, opaque = raster.image, raster.opaque
    turn = _TURNS.get(raster.orientation)
    if turn is not None:
        image = image.transpose(turn)
        opaque = None if opaque is None else opaque.transpose(turn)
    if target.mode is None and not target.as_array:
        return image
    mode = _natural_mode(image, opaque) if target.mode is None else target.mode
    image = _in_mode(image, opaque, mode, target.background)
    image.info = {}
    return to_array(image) if target.as_array else image


def adopt(image: Image.Image, limits: Limits) -> Raster:
    """The pixels of an opened picture, in the frame that it stands at, copied.

    The picture itself stays as it is, except that it is loaded now if it was not.

    Raises:
        UnprocessableMediaError: Over a limit; found before anything is loaded.
        Exception: Whatever Pillow raises while it loads.
    """
    check_size(*image.size, limits)
    image.load()
    check_size(*image.size, limits)
    copied = bare(image)
    return Raster(copied, orientation_of(image), opaque_of(copied))


def orientation_of(image: Image.Image) -> int:
    """How an opened picture must be turned, 1 to 8. Part of its identity, so that what turns differently is told
    apart.
    """
    if image.format in _UPRIGHT:  # Pillow turns it as it loads
        return 1
    info = image.info
    block = info.get("exif")
    if not isinstance(block, bytes):
        profile = info.get("Raw profile type exif")
        block = png.profile(profile.encode("latin-1", "replace")) if isinstance(profile, str) else None
    packet = info.get("XML:com.adobe.xmp") or info.get("xmp")
    if isinstance(packet, str):
        packet = packet.encode("utf-8", "replace")
    if image.format == "AVIF" or not isinstance(packet, bytes):
        packet = None
    return exif.orientation(Metadata(block, packet))


def _has_alpha(image: Image.Image, opaque: Image.Image | None) -> bool:
    if opaque is not None or image.mode in {"LA", "La", "PA", "RGBA", "RGBa"}:
        return True
    palette = image.palette.mode if image.palette is not None else "RGB"
    return image.mode == "P" and ("transparency" in image.info or palette.endswith("A"))


def _natural_mode(image: Image.Image, opaque: Image.Image | None) -> str:
    colours = "L" if image.mode in _GREY else "RGB"
    return colours + "A" if _has_alpha(image, opaque) else colours


def _in_mode(
    image: Image.Image, opaque: Image.Image | None, mode: str, background: tuple[int, int, int]
) -> Image.Image:
    see_through = _has_alpha(image, opaque)
    if image.mode in _SIXTEEN:
        image = _eight_bits(image)
    elif image.mode == "F":
        raise ValueError("floating-point pixels have no known range; convert them to 8 bits first")
    elif image.mode in _FOREIGN:
        image = image.convert("RGB")
    if opaque is not None:
        image.info.pop("transparency", None)  # or Pillow would look for the colour once more
        image = image.convert("RGBA")
        image.putalpha(opaque)
    elif see_through:
        image = _straight(image)
    if mode in {"RGBA", "LA"}:
        return image if image.mode == mode else image.convert(mode)
    if see_through:
        image = flatten(image, background)
    return image if image.mode == mode else image.convert(mode)


def _straight(image: Image.Image) -> Image.Image:
    """Any picture with alpha as RGBA."""
    if image.mode == "La":
        image = image.convert("LA")
    return image if image.mode == "RGBA" else image.convert("RGBA")


def flatten(image: Image.Image, background: tuple[int, int, int]) -> Image.Image:
    """An RGBA picture laid on a background: RGB, rounded as Pillow's `paste` does."""
    if image.getchannel("A").getextrema() == (255, 255):
        return image.convert("RGB")
    ground = Image.new("RGB", image.size, background)
    ground.paste(image, mask=image)
    return ground


def _eight_bits(image: Image.Image) -> Image.Image:
    """Sixteen bits of grey without their lower half. Mode "I" is taken to hold sixteen bits, as it does for a PNG."""
    samples = np.asarray(image)
    if image.mode == "I" and samples.size and (samples.min() < 0 or samples.max() > 0xFFFF):
        raise ValueError("grey values beyond 16 bits have no known range; convert them to 8 bits first")
    reduced = Image.fromarray((samples >> 8).astype(np.uint8))
    reduced.info = dict(image.info)
    return reduced


def to_array(image: Image.Image) -> npt.NDArray[np.uint8]:
    """An "L", "LA", "RGB" or "RGBA" picture as an array: uint8 (H, W, C), C-contiguous, C at least 1, not writable.

    Not writable, because one decode may serve several requests. Filled in strips, which is three times as fast as
    `numpy.asarray` on a large picture and gives the same bytes.
    """
    width, height = image.size
    channels = len(image.getbands())
    array = np.empty((height, width, channels), np.uint8)
    rows = max(1, _STRIP // (width * channels))
    for top in range(0, height, rows):
        strip = np.asarray(region(image, (0, top), (width, min(rows, height - top))))
        array[top : top + rows] = strip.reshape(strip.shape[0], width, channels)
    array.flags.writeable = False
    return array


__all__ = ["Target", "adopt", "finish", "flatten", "to_array"]
