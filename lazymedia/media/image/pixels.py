"""Small tools on Pillow images that the codecs and the conversion share.

Comes in: Pillow images, which stay as they are. Goes out: others. Never here: a payload, or a function of Pillow's that
holds a size against ``Image.MAX_IMAGE_PIXELS``.
"""

from __future__ import annotations

import numpy as np
from numpy import typing as npt
from PIL import Image


def blank(mode: str, size: tuple[int, int]) -> Image.Image:
    """A picture of zeros, made without the pass that fills in a colour."""
    return Image.new(mode, size, None)


def region(image: Image.Image, corner: tuple[int, int], size: tuple[int, int]) -> Image.Image:
    """A copy of a part. `Image.crop` would hold its size against ``MAX_IMAGE_PIXELS``."""
    part = blank(image.mode, size)
    part.paste(image, (-corner[0], -corner[1]))
    return part


def bare(image: Image.Image) -> Image.Image:
    """A copy of loaded pixels that holds no file, and of the metadata only a "transparency"."""
    copied = image.copy()
    copied.info = {name: value for name, value in image.info.items() if name == "transparency"}
    return copied


def colour_matches(image: Image.Image, colour: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    """Where a picture's pixels have exactly one colour: booleans (H, W)."""
    samples = np.asarray(image if image.mode != "1" else image.convert("L"))
    same: npt.NDArray[np.bool_] = samples == np.asarray(colour)
    return same if samples.ndim == 2 else np.asarray(same.all(axis=2))


def opaque_but(see_through: npt.NDArray[np.bool_]) -> Image.Image:
    """An alpha channel out of booleans (H, W)."""
    return Image.fromarray(np.where(see_through, np.uint8(0), np.uint8(255)))


def opaque_of(image: Image.Image) -> Image.Image | None:
    """For an opened picture in which one colour is see-through, what `Raster.opaque` would be; None for others."""
    key = image.info.get("transparency")
    if key is None or image.mode not in {"1", "L", "I", "I;16", "I;16B", "I;16L", "RGB"}:
        return None
    colour = tuple(key) if isinstance(key, tuple) else (key,)
    if image.mode == "RGB" and max(colour) > 255:  # of a PNG of 16 bits, whose pixels Pillow has reduced
        colour = tuple(value >> 8 for value in colour)
    return opaque_but(colour_matches(image, colour))


__all__ = ["bare", "blank", "colour_matches", "opaque_but", "opaque_of", "region"]
