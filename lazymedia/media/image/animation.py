"""The frames of an animated WebP, one after the other, by Pillow's codec.

Comes in: a payload whose canvas was held against the limits. Goes out: pixels of the frames that are asked for, RGB and
upright, by the rules for pictures: the first frame is what the same payload becomes as a picture. Never here: a choice
of frames, or their times.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy import typing as npt
from PIL import Image

from lazymedia.media.image import raster
from lazymedia.media.image.convert import flatten
from lazymedia.media.image.pixels import put_upright

_WHITE: Final = (255, 255, 255)


class Animation:
    """Decodes one WebP from its first frame on. For one thread. Lets go of the interpreter while a frame is decoded.

    Args:
        data: The payload.
        size: Width and height of its canvas, as its header has them.
        orientation: The turn its frames need, 1 to 8 as in EXIF.

    Raises:
        ImportError: This build of Pillow has no WebP codec.
        Exception: Whatever Pillow raises; the payload's fault.
    """

    def __init__(self, data: bytes, size: tuple[int, int], orientation: int) -> None:
        self._opened: Any = raster.open_webp(data)
        if self._opened.size != size:
            raise ValueError("the header contradicts itself")
        self._orientation = orientation
        self._canvas = b""

    def advance(self) -> None:
        """Decode the next frame over those before it. Nothing is converted yet.

        Raises:
            OSError: It cannot be decoded, or there is none. No later one can be.
        """
        canvas = raster.next_canvas(self._opened)
        if canvas is None:
            raise OSError("no further frame")
        self._canvas = canvas

    def write(self, place: npt.NDArray[np.uint8]) -> None:
        """Put the frame that was decoded last into ``place``, uint8 (H, W, 3)."""
        width, height = self._opened.size
        # Also where the file has no alpha: what no frame covers is see-through.
        image = Image.frombuffer("RGBA", (width, height), self._canvas, "raw", "RGBA", 0, 1)
        if image.getchannel("A").getextrema() == (255, 255):
            pixels = np.frombuffer(self._canvas, np.uint8).reshape(height, width, 4)[..., :3]
        else:
            pixels = np.asarray(flatten(image, _WHITE))
        put_upright(pixels, self._orientation, place)


__all__ = ["Animation"]
