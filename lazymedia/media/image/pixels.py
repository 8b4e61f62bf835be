"""Work on pixels that the formats and the conversion share: Pillow's codecs, masks, strips and rotation.

No function of Pillow's is used that compares a size with ``Image.MAX_IMAGE_PIXELS`` or reads
``ImageFile.LOAD_TRUNCATED_IMAGES``: limits are checked before, and a truncated picture is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy import typing as npt
from PIL import Image, features

from lazymedia.media.cancellation import checkpoint

Opened = TypeVar("Opened")

STEP: Final = 1 << 20
"""Bytes of coded pixels that are decoded between two checkpoints; some tens of milliseconds."""
_STRIP: Final = 1 << 16
"""Pixels of a strip."""
_KEYED: Final = frozenset({"1", "L", "I", "I;16", "I;16B", "I;16L", "I;16N", "RGB"})
"""Modes without alpha in which one colour may be transparent."""
_TILE: Final = 256
"""Side of the squares of an array that are turned one by one, small enough to stay in the processor's cache."""


class StoredPixels(NamedTuple):
    """A decoded picture as it is stored.

    Attributes:
        image: Plain pixels, without a file behind them; `info` holds at most "transparency".
        orientation: How they must be turned, 1 to 8 as in EXIF.
        mask: Where a single colour is transparent, an "L" picture of 255 for every other pixel.
    """

    image: Image.Image
    orientation: int = 1
    mask: Image.Image | None = None


@cache
def require_codec(name: str) -> None:
    """Check that this build of Pillow has a codec, by its name in `PIL.features`.

    Raises:
        ImportError: It has not.
    """
    if not features.check(name):
        raise ImportError(f"this build of Pillow has no {name} codec")


def open_with(opener: Callable[[bytes], Opened], data: bytes) -> Opened | None:
    """A payload opened by one of Pillow's file classes, for its header; None where that fails in any way."""
    try:
        return opener(data)
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001  # Pillow documents none; seen are SyntaxError, OSError, ValueError and warnings
        return None


def pixels_of(opened: Image.Image) -> Image.Image:
    """The pixels of a file that is loaded, not copied; of the metadata only a "transparency"."""
    image = opened._new(opened.im)  # noqa: SLF001  # copy() would take as much memory again
    image.info = {name: value for name, value in image.info.items() if name == "transparency"}
    return image


def without_empty_alpha(image: Image.Image) -> Image.Image:
    """A BMP's pixels; as RGB where its alpha is 0 throughout. Programs leave the fourth byte empty, and browsers take
    such a picture for opaque.
    """
    empty = image.mode == "RGBA" and image.getchannel("A").getextrema() == (0, 0)
    return image.convert("RGB") if empty else image


def blank(mode: str, size: tuple[int, int]) -> Image.Image:
    """A picture of zeros, made without the pass that fills in a colour."""
    return Image.new(mode, size, None)


def decode_with(codec: str, args: object, image: Image.Image, parts: Iterable[bytes | memoryview]) -> None:
    """What `Image.frombytes` does with one of Pillow's codecs, part by part, so that a cancelled request can stop it.

    Args:
        codec: Pillow's name of it.
        args: Its arguments.
        image: Its pixels are overwritten.
        parts: What the codec reads, all of it together. What it leaves of a part is put in front of the next.

    Raises:
        ValueError: Data that are damaged, or end too early.
        DecodeStopped: The request was cancelled; noticed before each part.
    """
    decoder = Image._getdecoder(image.mode, codec, args)  # noqa: SLF001  # what frombytes itself calls
    decoder.setimage(image.im, (0, 0, *image.size))
    left = b""
    for part in parts:
        checkpoint()
        data = b"".join((left, part)) if left else part
        read, error = decoder.decode(data)
        if error:
            raise ValueError("cannot decode image data")
        if read < 0:
            return
        left = bytes(data[read:])
    raise ValueError("not enough image data")


def pieces(data: bytes | memoryview, ends: Iterable[int] | None = None) -> Iterator[memoryview]:
    """Pieces of ``data``, cut at some offsets in ascending order; without them, at each `STEP`."""
    view = memoryview(data)
    position = 0
    for end in (*(range(STEP, len(view), STEP) if ends is None else ends), len(view)):
        yield view[position:end]
        position = end


def region(image: Image.Image, corner: tuple[int, int], size: tuple[int, int]) -> Image.Image:
    """A copy of a part. `Image.crop` would compare its size with ``MAX_IMAGE_PIXELS``."""
    part = blank(image.mode, size)
    part.paste(image, (-corner[0], -corner[1]))
    return part


def rows(image: Image.Image, top: int, bottom: int) -> Image.Image:
    """A copy of some rows, with palette and "transparency"."""
    return image._new(image.im.crop((0, top, image.width, bottom)))  # noqa: SLF001  # see `region`


def strips(size: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """First row, and the one behind the last, of parts of a picture that are small enough for the processor's cache."""
    width, height = size
    count = max(1, _STRIP // width)
    for top in range(0, height, count):
        yield top, min(top + count, height)


def colour_mask(image: Image.Image, *colours: tuple[Image.Image, tuple[int, ...]]) -> Image.Image:
    """An alpha channel, "L": 0 where each of the pictures, which have one size, has exactly its colour; else 255.

    Args:
        image: Gives the size.
        colours: Pictures, each with one value for each of its bands.
    """
    alpha = blank("L", image.size)
    for top, bottom in strips(image.size):
        same = np.ones((bottom - top, image.width), np.bool_)
        for picture, colour in colours:
            strip = rows(picture, top, bottom)
            samples = np.asarray(strip.convert("L") if strip.mode == "1" else strip)
            for band, value in enumerate(colour):
                same &= (samples if samples.ndim == 2 else samples[..., band]) == value
        alpha.paste(Image.fromarray(np.where(same, np.uint8(0), np.uint8(255))), (0, top))
    return alpha


def transparency_mask(image: Image.Image) -> Image.Image | None:
    """An alpha channel, "L", for the "transparency" in the ``info`` of a picture in which one colour is transparent;
    None for other pictures.

    Raises:
        ValueError: "transparency" has no meaning in the picture's mode, to Pillow neither.
    """
    key = image.info.get("transparency")
    if key is None or image.mode not in _KEYED:
        return None
    if isinstance(key, bytes) and image.mode in {"1", "L"}:  # an alpha for each grey, as for each colour of a palette
        greys = image if image.mode == "L" else image.convert("L")
        return greys.point([*key[:256], *(255 for _ in range(256 - len(key)))])
    bands = 3 if image.mode == "RGB" else 1
    if isinstance(key, int):  # Pillow reads a single number for three bands so
        key = (key, 0, 0)[:bands]
    elif bands == 1 and isinstance(key, tuple | list) and len(key) == 3:  # and looks for three bands in greys
        if len(set(key)) > 1:
            return None
        key = key[:1]
    if not isinstance(key, tuple | list) or len(key) != bands or not all(isinstance(value, int) for value in key):
        raise ValueError(f'"transparency" of a picture of mode {image.mode} is no colour of it')
    colour = tuple(key)
    if image.mode == "RGB" and max(colour) > 255:  # of a PNG of 16 bits, whose pixels Pillow has reduced
        colour = tuple(value >> 8 for value in colour)
    return colour_mask(image, (image, colour))


def oriented_shape(pixels: npt.NDArray[np.uint8], orientation: int) -> tuple[int, int]:
    """Height and width of an array (H, W, C) once its orientation is applied."""
    height, width = pixels.shape[:2]
    return (width, height) if orientation >= 5 else (height, width)


def copy_oriented(pixels: npt.NDArray[np.uint8], orientation: int, target: npt.NDArray[np.uint8]) -> None:
    """Copy an array (H, W, C) into one of its `oriented_shape`, turned by an orientation of EXIF, 1 to 8."""
    view = pixels.swapaxes(0, 1) if orientation >= 5 else pixels
    view = view[:: -1 if orientation in {3, 4, 7, 8} else 1, :: -1 if orientation in {2, 3, 6, 7} else 1]
    height, width, channels = view.shape
    # Channel by channel: numpy is slow where its innermost loop has three steps.
    for top in range(0, height, _TILE):
        for left in range(0, width, _TILE):
            tile = slice(top, top + _TILE), slice(left, left + _TILE)
            for channel in range(channels):
                target[(*tile, channel)] = view[(*tile, channel)]


__all__ = [
    "STEP",
    "StoredPixels",
    "blank",
    "colour_mask",
    "copy_oriented",
    "decode_with",
    "open_with",
    "oriented_shape",
    "pieces",
    "pixels_of",
    "region",
    "require_codec",
    "rows",
    "strips",
    "transparency_mask",
    "without_empty_alpha",
]
