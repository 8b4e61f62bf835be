"""From stored pixels to the picture that was asked for: upright, flat on a background, in one mode, as image or array.

The rules are the same for payloads and for pictures that somebody opened with Pillow:

* What can be seen through is laid on the background wherever the result has no alpha: alpha channels, palettes with
  alpha, premultiplied pixels, and a see-through colour, whatever the mode.
* Sixteen bits of grey become eight by dropping the lower eight. Where no value is above 255 they are eight bits
  already, as Pillow takes them, and not black.
* Whole numbers of 32 bits are taken as Pillow does, 0 for black and 255 for white, and rejected beyond that: Pillow
  would clip them.
* CMYK, YCbCr, LAB and HSV become RGB by Pillow's formulas. Colour profiles are ignored.
* Floating point has no range that could be known, and is rejected.

All of these but the turn look at single pixels, so that the result is filled strip by strip: no other copy of the
picture is made on the way, which is also faster.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np
from numpy import typing as npt
from PIL import Image

from lazymedia.media.image import exif, png
from lazymedia.media.image.outline import Metadata, check_size
from lazymedia.media.image.pixels import blank, opaque_of, rows, strips, taken_from
from lazymedia.media.image.raster import Raster, without_empty_alpha
from lazymedia.media.stopping import checkpoint

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
_WIDE: Final = frozenset({"I", "I;16", "I;16B", "I;16L", "I;16N"})
_GREY: Final = frozenset({"1", "L", "LA", "La"}) | _WIDE
_FOREIGN: Final = frozenset({"CMYK", "YCbCr", "LAB", "HSV", "RGBX"})
_UPRIGHT: Final = frozenset({"TIFF"})


_Change: TypeAlias = Callable[[Image.Image, Image.Image | None], Image.Image]
"""A strip, and the same part of where it is opaque, in the mode that was asked for."""


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
        DecodeStopped: The request was cancelled.
    """
    image, orientation, opaque = raster
    del raster  # what the turn and the strips have read is freed where the caller keeps no name for it either
    turn = _TURNS.get(orientation)
    if turn is not None:
        image = image.transpose(turn)
        opaque = None if opaque is None else opaque.transpose(turn)
    if target.mode is None and not target.as_array:
        return image
    see_through = _has_alpha(image, opaque)
    mode = _natural_mode(image, see_through=see_through) if target.mode is None else target.mode
    change = partial(_in_mode, mode=mode, background=target.background, see_through=see_through, shift=_shift(image))
    if target.as_array:
        return _fill_array(image, opaque, len(Image.new(mode, (1, 1)).getbands()), change)
    if image.mode == mode and opaque is None and (not see_through or mode == "RGBA"):
        image.info = {}
        return image
    return _fill_image(image, opaque, mode, change)


def _fill_image(image: Image.Image, opaque: Image.Image | None, mode: str, change: _Change) -> Image.Image:
    filled = blank(mode, image.size)
    for top, bottom in strips(image.size):
        checkpoint()
        filled.paste(change(rows(image, top, bottom), None if opaque is None else rows(opaque, top, bottom)), (0, top))
    return filled


def _fill_array(
    image: Image.Image, opaque: Image.Image | None, channels: int, change: _Change
) -> npt.NDArray[np.uint8]:
    """An array: uint8 (H, W, C), C-contiguous, C at least 1, not writable, because one decode may serve several
    requests.
    """
    array = np.empty((image.height, image.width, channels), np.uint8)
    for top, bottom in strips(image.size):
        checkpoint()
        strip = change(rows(image, top, bottom), None if opaque is None else rows(opaque, top, bottom))
        array[top:bottom] = np.asarray(strip).reshape(bottom - top, image.width, channels)
    array.flags.writeable = False
    return array


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
    copied = taken_from(image.copy())
    if image.format == "BMP":
        copied = without_empty_alpha(copied)
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


def _natural_mode(image: Image.Image, *, see_through: bool) -> str:
    colours = "L" if image.mode in _GREY else "RGB"
    return colours + "A" if see_through else colours


def _in_mode(
    image: Image.Image,
    opaque: Image.Image | None,
    *,
    mode: str,
    background: tuple[int, int, int],
    see_through: bool,
    shift: int,
) -> Image.Image:
    """A strip in a mode. ``shift``: bits of grey that are dropped."""
    if image.mode in _WIDE:
        image = Image.fromarray((np.asarray(image) >> shift).astype(np.uint8))
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


def _shift(image: Image.Image) -> int:
    """How many bits of grey are dropped: 8 where a picture has more than eight bits and needs them, 0 for others.

    Raises:
        ValueError: Floating point, or 32-bit numbers other than 0 to 255.
    """
    if image.mode == "F":
        raise ValueError("floating-point pixels have no known range; convert them to 8 bits first")
    if image.mode not in _WIDE:
        return 0
    extremes = [
        (int(part.min()), int(part.max()))
        for part in map(np.asarray, map(partial(rows, image), *zip(*strips(image.size))))
    ]
    highest = max(high for _, high in extremes)
    if image.mode == "I" and (highest > 255 or min(low for low, _ in extremes) < 0):
        raise ValueError("whole numbers beyond 0 to 255 have no known range; convert them to 8 bits first")
    return 8 if highest > 255 else 0


__all__ = ["Target", "adopt", "finish", "flatten"]
