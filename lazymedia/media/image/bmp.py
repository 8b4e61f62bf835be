"""BMP, by Pillow's reader."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from PIL.BmpImagePlugin import BmpImageFile

from lazymedia.media.image.header import FormatHeader, check_size
from lazymedia.media.image.memory import CodecMemory
from lazymedia.media.image.pixels import StoredPixels, blank, open_with, pixels_of, without_empty_alpha

if TYPE_CHECKING:
    from lazymedia.limits import Limits

_RUN_LENGTH: Final = frozenset({1, 2})
"""Values of the header's field for compression."""
_MAX_RUN_LENGTH_PIXELS: Final = 1 << 21
"""Pixels of a run-length coded BMP, which Pillow decodes in Python: up to half a microsecond for each of them."""
_MAX_COLOURS: Final = 256
"""Colours of a palette. Pillow accepts 65,536, also where they are missing, and takes 30 ms to compare them."""


@dataclass(frozen=True, slots=True)
class BmpHeader(FormatHeader):
    """Attributes beyond `FormatHeader`'s.

    run_length: Whether its rows are coded by run length.
    """

    run_length: bool

    def codec_memory(self) -> CodecMemory:
        # Pillow's decoder of runs collects the rows, one byte a pixel, before it makes a picture of them.
        assert self.mode is not None
        return CodecMemory(self.mode, self.mode == "RGBA", extra=2.0 if self.run_length else 0.0)

    def decode(self, data: bytes, limits: Limits) -> StoredPixels:
        if self.run_length:
            self._check_runs(len(data))
        opened = BmpImageFile(io.BytesIO(data))
        check_size(*opened.size, limits)
        if self.run_length:
            opened.load()
            return StoredPixels(pixels_of(opened))
        _, _, offset, args = opened.tile[0]
        image = blank(opened.mode, opened.size)
        image.frombytes(memoryview(data)[offset:], "raw", args)
        if opened.palette is not None and opened.mode == "P":
            image.putpalette(opened.palette)
        return StoredPixels(without_empty_alpha(image))

    def _check_runs(self, size: int) -> None:
        pixels = self.width * self.height
        if pixels > _MAX_RUN_LENGTH_PIXELS:
            raise ValueError(f"a run-length coded picture may have {_MAX_RUN_LENGTH_PIXELS} pixels at most")
        # Two bytes a pixel and four a row are the most that any writer needs; padding and the palette come on top.
        if size > 2 * pixels + 4 * self.height + 65_536:
            raise ValueError("more runs than the picture has pixels")


def read_header(data: bytes, _limits: Limits) -> BmpHeader | None:
    """The header of a BMP."""
    if _has_too_many_colours(data):
        return None
    opened = open_with(lambda data: BmpImageFile(io.BytesIO(data)), data)
    if opened is None:
        return None
    return BmpHeader("BMP", *opened.size, opened.mode, opened.info["compression"] in _RUN_LENGTH)


def _has_too_many_colours(data: bytes) -> bool:
    """By the fields of a BITMAPINFOHEADER and of those that extend it."""
    if len(data) < 54 or data[14] < 40:
        return False
    bits, colours = int.from_bytes(data[28:30], "little"), int.from_bytes(data[46:50], "little")
    return bits <= 8 and colours > _MAX_COLOURS


__all__ = ["BmpHeader", "read_header"]
