"""GIF: the first frame, by Pillow's reader and codec."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from PIL import GifImagePlugin, Image

from lazymedia.media.image.header import FormatHeader, check_size
from lazymedia.media.image.memory import CodecMemory
from lazymedia.media.image.pixels import StoredPixels, blank, decode_with, open_with, pieces, transparency_mask

if TYPE_CHECKING:
    from lazymedia.limits import Limits

_HEADER_BYTES: Final = 1 << 20
"""In which the first frame must begin. Pillow takes 0.13 s for as much of empty blocks. XMP, the longest thing there,
has some hundred kilobytes."""
_LARGEST: Final = (1 << 17, 1 << 17)
"""Larger than the right and lower edge of any frame, which are sums of two 16-bit numbers."""


class _FirstFrame(GifImagePlugin.GifImageFile):
    """A GIF at its first frame, read without the two things that depend on a frame's size: Pillow compares it with
    ``MAX_IMAGE_PIXELS`` where it exceeds the screen, and allocates what a disposal method of 2 or 3 needs.
    """

    @property
    def disposal_method(self) -> int:
        return 0

    @disposal_method.setter
    def disposal_method(self, value: int) -> None:
        pass

    def _seek(self, frame: int, update_image: bool = True) -> None:
        width, height = self.size
        self._size = _LARGEST  # no frame exceeds such a screen
        super()._seek(frame, update_image)
        _, _, right, bottom = self.frame
        self._size = max(width, right), max(height, bottom)

    @property
    def frame(self) -> tuple[int, int, int, int]:
        """Left, upper, right and lower edge of the frame."""
        extents = self.tile[0].extents
        assert extents is not None
        return extents

    @property
    def has_palette(self) -> bool:
        """Whether its colours are others than the greys in order."""
        return bool(self._frame_palette)

    @property
    def transparency(self) -> int | None:
        return self._frame_transparency


@dataclass(frozen=True, slots=True)
class GifHeader(FormatHeader):
    """Attributes beyond `FormatHeader`'s.

    frame_pixels: Width x height of the first frame, which may be smaller than the picture.
    transparent: Whether one of the colours is transparent.
    """

    frame_pixels: int
    transparent: bool

    def codec_memory(self) -> CodecMemory:
        share = self.frame_pixels / (self.width * self.height)
        assert self.mode is not None
        return CodecMemory(
            self.mode, self.transparent, self.transparent and self.mode == "L", share if share < 1 else 0.0
        )

    def decode(self, data: bytes, limits: Limits) -> StoredPixels:
        opened = _open(data)
        check_size(*opened.size, limits)
        left, top, right, bottom = opened.frame
        image = blank("L", (right - left, bottom - top))
        _, _, offset, args = opened.tile[0]
        decode_with("gif", args, image, pieces(memoryview(data)[offset:]))
        if image.size != opened.size:
            frame = image
            image = Image.new("L", opened.size, opened.transparency or 0)
            image.paste(frame, (left, top))
        if opened.has_palette and opened.palette is not None:
            image.putpalette(opened.palette.palette)
        if opened.transparency is not None:
            image.info["transparency"] = opened.transparency
        return StoredPixels(image, 1, transparency_mask(image))


def read_header(data: bytes, _limits: Limits) -> GifHeader | None:
    """The header of a GIF and of its first frame. A frame that exceeds the screen makes the picture larger."""
    opened = open_with(_open, data)
    if opened is None:
        return None
    left, top, right, bottom = opened.frame
    frame_pixels = (right - left) * (bottom - top)
    if frame_pixels == 0:
        return None
    mode = "P" if opened.has_palette else "L"
    return GifHeader("GIF", *opened.size, mode, frame_pixels, opened.transparency is not None)


def _open(data: bytes) -> _FirstFrame:
    return _FirstFrame(io.BytesIO(data[:_HEADER_BYTES]))


__all__ = ["GifHeader", "read_header"]
