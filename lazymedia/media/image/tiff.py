"""TIFF, for operators who allow it: the first page, by Pillow and libtiff.

Pillow reads every tag and warns about damaged ones. Where warnings are errors, such a file is rejected. BigTIFF is not
read.
"""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from PIL import ExifTags, Image
from PIL.TiffImagePlugin import TiffImageFile

from lazymedia.media.image.exif import Metadata
from lazymedia.media.image.header import FormatHeader, check_size
from lazymedia.media.image.memory import CodecMemory
from lazymedia.media.image.pixels import StoredPixels, open_with, pixels_of

if TYPE_CHECKING:
    from lazymedia.limits import Limits

_MAX_LIST_BYTES: Final = 1 << 18
"""Bytes of a tag of numbers: 65,536 strips, of which a picture of 16,384 rows has as many at most. Pillow makes Python
objects of each, in two microseconds and 300 bytes."""
_LISTS: Final = (
    ExifTags.Base.BitsPerSample,
    ExifTags.Base.StripOffsets,
    ExifTags.Base.ColorMap,
    ExifTags.Base.TileOffsets,
    ExifTags.Base.ExtraSamples,
    ExifTags.Base.SampleFormat,
)


@dataclass(frozen=True, slots=True)
class TiffHeader(FormatHeader):
    """Attributes beyond `FormatHeader`'s.

    orientation: 1 to 8. Pillow applies it as it loads.
    strip: Bytes a pixel of the picture that a strip takes, which libtiff decodes whole.
    """

    orientation: int
    strip: float

    def metadata(self, data: bytes) -> Metadata:
        return Metadata(exif=data)

    def find_orientation(self, data: bytes) -> int:  # noqa: ARG002  # it was read with the header
        return self.orientation

    def codec_memory(self) -> CodecMemory:
        assert self.mode is not None
        return CodecMemory(self.mode, self.mode.endswith(("A", "a")), extra=self.strip)

    def decode(self, data: bytes, limits: Limits) -> StoredPixels:
        opened = _open(data)
        check_size(*opened.size, limits)
        opened.load()
        return StoredPixels(pixels_of(opened))


class _Whole(TiffImageFile):
    """A TIFF that is complete or an error, and whose size has been checked already, whatever Pillow's switches are."""

    def _setup(self) -> None:
        for tag in _LISTS:
            if len(self.tag_v2._tagdata.get(tag, b"")) > _MAX_LIST_BYTES:  # noqa: SLF001  # not unpacked yet
                raise ValueError("too many strips, tiles, samples or colours")
        super()._setup()

    def load_read(self, size: int) -> bytes:
        assert self.fp is not None
        data = self.fp.read(size)
        if not data:
            raise OSError("image file is truncated")
        return data

    def load_prepare(self) -> None:
        # With its memory there, Pillow does not compare the size with MAX_IMAGE_PIXELS.
        if self._im is None:
            self.im = Image.new(self.mode, self._tile_size).im
        super().load_prepare()


def read_header(data: bytes, _limits: Limits) -> TiffHeader | None:
    """The header of the first page, with its directory, which may lie behind the pixels."""
    directory = struct.unpack_from("<L" if data.startswith(b"II") else ">L", data.ljust(8, b"\0"), 4)
    if directory[0] >= len(data):  # a beginning; Pillow would warn
        return None
    opened = open_with(_open, data)
    if opened is None:
        return None
    tags = opened.tag_v2
    width, height = tags[ExifTags.Base.ImageWidth], tags[ExifTags.Base.ImageLength]
    orientation = tags.get(ExifTags.Base.Orientation)
    orientation = orientation if isinstance(orientation, int) and 1 <= orientation <= 8 else 1
    return TiffHeader("TIFF", width, height, opened.mode, orientation, _strip(opened, height))


def _open(data: bytes) -> _Whole:
    return _Whole(io.BytesIO(data))


def _strip(opened: TiffImageFile, height: int) -> float:
    if opened.info["compression"] == "raw":
        return 0.0
    samples = opened.tag_v2.get(ExifTags.Base.SamplesPerPixel, Image.getmodebands(opened.mode))
    bits = opened.tag_v2.get(ExifTags.Base.BitsPerSample, (1,))[0]
    rows = opened.tag_v2.get(ExifTags.Base.RowsPerStrip)
    share = rows / height if isinstance(rows, int) and 0 < rows < height else 1.0
    return float(samples * bits / 8 * share)


__all__ = ["TiffHeader", "read_header"]
