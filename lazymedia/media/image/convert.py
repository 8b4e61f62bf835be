"""From stored pixels to the picture that is asked for: its orientation applied, on a background, in one mode, as an
image or an array.

The rules are the same for payloads and for pictures that were opened with Pillow:

* Transparent pixels are laid on the background wherever the result has no alpha: alpha channels, palettes with alpha,
  premultiplied pixels, and a transparent colour, whatever the mode.
* Sixteen bits of grey become eight by dropping the lower eight. Where no value is above 255 they are eight bits
  already, as in Pillow, and not black.
* Whole numbers of 32 bits are taken as in Pillow, 0 for black and 255 for white, and rejected beyond that: Pillow
  would clip them.
* CMYK, YCbCr, LAB and HSV become RGB by Pillow's formulas. Colour profiles are ignored.
* Floating point has no range that could be known, and is rejected.

All of these except the orientation look at single pixels, so that the result is filled strip by strip: no other copy
of the picture is made on the way, which is also faster.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from numpy import typing as npt
from PIL import Image

from lazymedia.media.cancellation import checkpoint
from lazymedia.media.image.exif import Metadata, find_orientation, raw_profile
from lazymedia.media.image.header import check_size
from lazymedia.media.image.pixels import (
    StoredPixels,
    blank,
    pixels_of,
    rows,
    strips,
    transparency_mask,
    without_empty_alpha,
)

if TYPE_CHECKING:
    from lazymedia.limits import Limits
    from lazymedia.media.image.io import Target

_TRANSPOSES: Final = {
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
_TO_RGB: Final = frozenset({"CMYK", "YCbCr", "LAB", "HSV", "RGBX"})
_ORIENTED_BY_PILLOW: Final = frozenset({"TIFF"})
"""Formats whose orientation Pillow applies as it loads."""

_Change: TypeAlias = Callable[[Image.Image, Image.Image | None], Image.Image]
"""Converts a strip, given with the same part of the mask, to the mode that is asked for."""


def finish(stored: StoredPixels, target: Target) -> Image.Image | npt.NDArray[np.uint8]:
    """Turn stored pixels into media.

    Raises:
        ValueError: Pixels that have no meaning in eight bits. The picture's fault.
        DecodeStopped: The request was cancelled.
    """
    image, orientation, mask = stored
    del stored  # what is not used any more is freed where the caller keeps no name for it either
    transpose = _TRANSPOSES.get(orientation)
    if transpose is not None:
        image = image.transpose(transpose)
        mask = None if mask is None else mask.transpose(transpose)
    if target.mode is None and not target.as_array:
        return image
    alpha = _has_alpha(image, mask)
    mode = _natural_mode(image, alpha=alpha) if target.mode is None else target.mode
    change = partial(_in_mode, mode=mode, background=target.background, alpha=alpha, shift=_shift(image))
    if target.as_array:
        return _fill_array(image, mask, Image.getmodebands(mode), change)
    if image.mode == mode and mask is None and (not alpha or mode == "RGBA"):
        image.info = {}
        return image
    return _fill_image(image, mask, mode, change)


def adopt(image: Image.Image, limits: Limits) -> StoredPixels:
    """The pixels of an opened picture, in the frame that it stands at, copied.

    The picture itself stays as it is, except that it is loaded now if it was not.

    Raises:
        UnprocessableMediaError: Over a limit; found before anything is loaded.
        Exception: Whatever Pillow raises while it loads.
    """
    check_size(*image.size, limits)
    image.load()
    check_size(*image.size, limits)
    copied = pixels_of(image.copy())
    if image.format == "BMP":
        copied = without_empty_alpha(copied)
    return StoredPixels(copied, orientation_of(image), transparency_mask(copied))


def orientation_of(image: Image.Image) -> int:
    """How an opened picture must be turned, 1 to 8. Part of its identity, so that pictures that are turned differently
    have different keys.
    """
    if image.format in _ORIENTED_BY_PILLOW:
        return 1
    info = image.info
    block = info.get("exif")
    if not isinstance(block, bytes):
        profile = info.get("Raw profile type exif")
        block = raw_profile(profile.encode("latin-1", "replace")) if isinstance(profile, str) else None
    packet = info.get("XML:com.adobe.xmp") or info.get("xmp")
    if isinstance(packet, str):
        packet = packet.encode("utf-8", "replace")
    if image.format == "AVIF" or not isinstance(packet, bytes):
        packet = None
    return find_orientation(Metadata(block, packet))


def flatten(image: Image.Image, background: tuple[int, int, int]) -> Image.Image:
    """An RGBA picture laid on a background: RGB, rounded as Pillow's `paste` does."""
    if image.getchannel("A").getextrema() == (255, 255):
        return image.convert("RGB")
    ground = Image.new("RGB", image.size, background)
    ground.paste(image, mask=image)
    return ground


def _fill_image(image: Image.Image, mask: Image.Image | None, mode: str, change: _Change) -> Image.Image:
    filled = blank(mode, image.size)
    for top, bottom in strips(image.size):
        checkpoint()
        filled.paste(change(rows(image, top, bottom), None if mask is None else rows(mask, top, bottom)), (0, top))
    return filled


def _fill_array(image: Image.Image, mask: Image.Image | None, channels: int, change: _Change) -> npt.NDArray[np.uint8]:
    """An array: uint8 (H, W, C), C-contiguous, C at least 1, not writable, because one decode may serve several
    requests.
    """
    array = np.empty((image.height, image.width, channels), np.uint8)
    for top, bottom in strips(image.size):
        checkpoint()
        strip = change(rows(image, top, bottom), None if mask is None else rows(mask, top, bottom))
        array[top:bottom] = np.asarray(strip).reshape(bottom - top, image.width, channels)
    array.flags.writeable = False
    return array


def _has_alpha(image: Image.Image, mask: Image.Image | None) -> bool:
    if mask is not None or image.mode in {"LA", "La", "PA", "RGBA", "RGBa"}:
        return True
    palette = image.palette.mode if image.palette is not None else "RGB"
    return image.mode == "P" and ("transparency" in image.info or palette.endswith("A"))


def _natural_mode(image: Image.Image, *, alpha: bool) -> str:
    colours = "L" if image.mode in _GREY else "RGB"
    return colours + "A" if alpha else colours


def _in_mode(
    image: Image.Image,
    mask: Image.Image | None,
    *,
    mode: str,
    background: tuple[int, int, int],
    alpha: bool,
    shift: int,
) -> Image.Image:
    """A strip in a mode. ``shift``: bits of grey that are dropped."""
    if image.mode in _WIDE:
        image = Image.fromarray((np.asarray(image) >> shift).astype(np.uint8))
    elif image.mode in _TO_RGB:
        image = image.convert("RGB")
    if mask is not None:
        image.info.pop("transparency", None)  # or Pillow would search for the colour again
        image = image.convert("RGBA")
        image.putalpha(mask)
    elif alpha:
        image = _as_rgba(image)
    if mode in {"RGBA", "LA"}:
        return image if image.mode == mode else image.convert(mode)
    if alpha:
        image = flatten(image, background)
    return image if image.mode == mode else image.convert(mode)


def _as_rgba(image: Image.Image) -> Image.Image:
    """Any picture with alpha as RGBA."""
    if image.mode == "La":
        image = image.convert("LA")
    return image if image.mode == "RGBA" else image.convert("RGBA")


def _shift(image: Image.Image) -> int:
    """How many bits of grey are dropped: 8 where a picture has more than eight bits and needs them, 0 for others.

    Raises:
        ValueError: Floating point, or 32-bit numbers other than 0 to 255.
    """
    if image.mode == "F":
        raise ValueError("floating-point pixels have no known range; convert them to 8 bits first")
    if image.mode not in _WIDE:
        return 0
    arrays = (np.asarray(rows(image, top, bottom)) for top, bottom in strips(image.size))
    extremes = [(int(array.min()), int(array.max())) for array in arrays]
    highest = max(high for _, high in extremes)
    if image.mode == "I" and (highest > 255 or min(low for low, _ in extremes) < 0):
        raise ValueError("whole numbers beyond 0 to 255 have no known range; convert them to 8 bits first")
    return 8 if highest > 255 else 0


__all__ = ["adopt", "finish", "flatten", "orientation_of"]
