"""Small tools on pixels, of Pillow images and of arrays, that the codecs and the conversion share.

Comes in: Pillow images and arrays, which stay as they are. Goes out: others. Never here: a payload, or a function of
Pillow's that holds a size against ``Image.MAX_IMAGE_PIXELS``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy import typing as npt
from PIL import Image

from lazymedia.media.stopping import checkpoint

STEP: Final = 1 << 20
"""Bytes of coded pixels that are decoded between two checkpoints; some tens of milliseconds."""
_TILE: Final = 256
"""Side of the squares of an array that are turned one by one, small enough to stay in the processor's cache."""


def blank(mode: str, size: tuple[int, int]) -> Image.Image:
    """A picture of zeros, made without the pass that fills in a colour."""
    return Image.new(mode, size, None)


def decode(
    image: Image.Image, data: bytes | memoryview, codec: str, args: tuple[object, ...], ends: Iterable[int]
) -> None:
    """What `Image.frombytes` does with one of Pillow's codecs, step by step, so that a cancelled request can stop it.

    Args:
        image: Its pixels are overwritten.
        data: What the codec reads.
        codec: Pillow's name of it.
        args: Its arguments.
        ends: Offsets, ascending, at which data may be cut: the codec has read what comes before one, as far as it can,
            before the next `checkpoint`.

    Raises:
        ValueError: Data that are damaged, or end too early.
        DecodeStopped: The request was cancelled.
    """
    decoder = Image._getdecoder(image.mode, codec, args)  # noqa: SLF001  # what frombytes itself calls
    decoder.setimage(image.im, (0, 0, *image.size))
    view = memoryview(data)
    position = 0
    for end in (*ends, len(view)):
        checkpoint()
        read, error = decoder.decode(view[position:end])
        if error:
            raise ValueError("cannot decode image data")
        if read < 0:
            return
        position += read
    raise ValueError("not enough image data")


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


def upright_shape(pixels: npt.NDArray[np.uint8], orientation: int) -> tuple[int, int]:
    """Height and width of an array (H, W, C) once it is upright."""
    height, width = pixels.shape[:2]
    return (width, height) if orientation >= 5 else (height, width)


def put_upright(pixels: npt.NDArray[np.uint8], orientation: int, place: npt.NDArray[np.uint8]) -> None:
    """Copy an array (H, W, C) into one of its `upright_shape`, turned as an orientation of EXIF, 1 to 8, asks for."""
    view = pixels.swapaxes(0, 1) if orientation >= 5 else pixels
    view = view[:: -1 if orientation in {3, 4, 7, 8} else 1, :: -1 if orientation in {2, 3, 6, 7} else 1]
    height, width, channels = view.shape
    # Channel by channel: numpy is slow where its innermost loop has three steps.
    for top in range(0, height, _TILE):
        for left in range(0, width, _TILE):
            tile = slice(top, top + _TILE), slice(left, left + _TILE)
            for channel in range(channels):
                place[(*tile, channel)] = view[(*tile, channel)]


__all__ = [
    "STEP",
    "bare",
    "blank",
    "colour_matches",
    "decode",
    "opaque_but",
    "opaque_of",
    "put_upright",
    "region",
    "upright_shape",
]
