"""TIFF, for operators who allow it: the first page, by Pillow and libtiff.

Comes in: a payload whose outline is within limits. Goes out: upright pixels. Never here: any other format; importing
this loads Pillow's TIFF reader.

Pillow reads every tag and warns about damaged ones. Where warnings are errors, such a file is refused.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from PIL import Image, TiffImagePlugin

from lazymedia.media.image.outline import check_size
from lazymedia.media.image.pixels import taken_from

if TYPE_CHECKING:
    from lazymedia.limits import Limits


class _Whole(TiffImagePlugin.TiffImageFile):
    """A TIFF that is complete or an error, and whose size has been checked already, whatever Pillow's switches say."""

    def load_read(self, size: int) -> bytes:
        assert self.fp is not None
        data = self.fp.read(size)
        if not data:
            raise OSError("image file is truncated")
        return data

    def load_prepare(self) -> None:
        # With its memory there, Pillow does not hold the size against MAX_IMAGE_PIXELS.
        if self._im is None:
            self.im = Image.new(self.mode, self._tile_size).im
        super().load_prepare()


def rasterise(data: bytes, limits: Limits) -> Image.Image:
    """The first page, turned upright by Pillow as it loads."""
    opened = _Whole(io.BytesIO(data))
    check_size(*opened.size, limits)
    opened.load()
    return taken_from(opened)


__all__ = ["rasterise"]
