"""What the header of a picture says, read without decoding it, and the limits on it.

Each format has a module of its own with a function ``read_header`` and a `FormatHeader`, which also decodes. Nothing is
decompressed for a header except the text of a PNG that may hold an orientation. Pillow is loaded for GIF, BMP and TIFF.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import DEFAULT_LIMITS, Limits
from lazymedia.media import formats
from lazymedia.media.image.exif import Metadata, find_orientation

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazymedia.media.image.memory import CodecMemory
    from lazymedia.media.image.pixels import StoredPixels

FORMATS: Final = tuple(known.name for known in formats.IMAGES)
"""Every format that can be read."""


@dataclass(frozen=True)
class ImageHeader:
    """What the header of a picture says; nothing is decoded for it.

    Attributes:
        format: "JPEG", "PNG", "WEBP", "GIF", "AVIF", "HEIF", "BMP" or "TIFF".
        width: Pixels, as stored.
        height: Pixels, as stored.
        mode: Pillow's name of the stored layout ("RGB", "L", "P", ...); None where the header does not say it.
        orientation: How the stored pixels are turned when decoded, 1 to 8 as in EXIF.
    """

    format: str
    width: int
    height: int
    mode: str | None
    orientation: int

    @property
    def upright_size(self) -> tuple[int, int]:
        """Width and height of the decoded picture."""
        return (self.height, self.width) if self.orientation >= 5 else (self.width, self.height)


@dataclass(frozen=True, slots=True)
class FormatHeader(ABC):
    """A header that could be read.

    Attributes:
        format: One of `FORMATS`.
        width: Pixels, as stored (before the orientation is applied).
        height: Pixels, as stored.
        mode: Pillow's name of the stored pixels' layout, where the header says it.
    """

    format: str
    width: int
    height: int
    mode: str | None

    @abstractmethod
    def decode(self, data: bytes, limits: Limits) -> StoredPixels:
        """Decode the (first) picture of a payload.

        Raises:
            UnprocessableMediaError: The library found a larger picture than the header says. No cause.
            Exception: Whatever Pillow raises; the payload's fault unless it is an ImportError or a MemoryError.
        """

    @abstractmethod
    def codec_memory(self) -> CodecMemory:
        """What `decode` allocates, by format and mode."""

    def metadata(self, data: bytes) -> Metadata:  # noqa: ARG002  # for the formats that have none
        """EXIF and XMP, wherever in the payload they lie."""
        return Metadata()

    def early_exif(self, data: bytes) -> bytes | None:
        """EXIF that may identify a picture."""
        return self.metadata(data).exif

    def find_orientation(self, data: bytes) -> int:
        """How the stored pixels must be turned, 1 to 8 as in EXIF."""
        return find_orientation(self.metadata(data))

    def simplejpeg_layout(self, mode: str | None) -> tuple[str, int] | None:  # noqa: ARG002  # for JPEG
        """Simplejpeg's name of a layout, and its channels, where it may decode this to an array of a mode."""
        return None

    def takes_too_long(self, size: int, limits: Limits) -> bool:  # noqa: ARG002  # for JPEG
        """Whether a whole payload of ``size`` bytes may take longer to decode than is allowed."""
        return False

    def describe(self, data: bytes) -> ImageHeader:
        """The public form of it."""
        return ImageHeader(self.format, self.width, self.height, self.mode, self.find_orientation(data))


@cache
def has_heif() -> bool:
    """Whether pillow-heif, of the extra "heif", is installed."""
    return find_spec("pillow_heif") is not None


def identify(data: bytes) -> str | None:
    """The format of a payload by its first bytes; None for one that is not among `FORMATS`."""
    found = formats.identify(data, formats.IMAGES)
    return None if found is None else found.name


def supported(limits: Limits) -> tuple[str, ...]:
    """The formats that an operator allows and this installation can read."""
    return tuple(name for name in limits.image_formats if name != "HEIF" or has_heif())


def read_header(data: bytes, limits: Limits) -> tuple[str | None, FormatHeader | None]:
    """A payload's format, where it is an allowed one, and its header, where that can be read and is within limits.

    Raises:
        UnprocessableMediaError: Over a limit on size, scans, chunks or parts. No cause.
    """
    name = identify(data)
    if name is None or name not in limits.image_formats or (name == "HEIF" and not has_heif()):
        return None, None
    header = reader(name)(data, limits)
    if header is not None:
        check_size(header.width, header.height, limits)
    return name, header


def reader(name: str) -> Callable[[bytes, Limits], FormatHeader | None]:
    """The function that reads the header of a format."""
    read: Callable[[bytes, Limits], FormatHeader | None]
    read = import_module(f"lazymedia.media.image.{name.lower()}").read_header
    return read


def probe(data: bytes, limits: Limits | None = None) -> ImageHeader:
    """Read a picture's header, of any format that can be read and at any size.

    Args:
        data: The payload, or as much of its beginning as holds the header. An orientation that lies behind the pixels
            is found only when it is there.
        limits: Counts of chunks and scans are taken from here.

    Raises:
        UnprocessableMediaError: Not a picture, a header that cannot be read, or one of too many parts.
    """
    name = identify(data)
    header = None if name is None else reader(name)(data, DEFAULT_LIMITS if limits is None else limits)
    if header is None:
        raise rejected(f"the {name} header cannot be read" if name else "not a supported picture format")
    return header.describe(data)


def rejected(message: str) -> UnprocessableMediaError:
    """The error for a picture that is at fault itself."""
    return UnprocessableMediaError(message, modality="image")


def check_size(width: int, height: int, limits: Limits) -> None:
    """Reject a picture, or the part of one, that is larger than an operator allows.

    Raises:
        UnprocessableMediaError: Over `Limits.max_image_side` or `Limits.max_image_pixels`. No cause.
    """
    if max(width, height) > limits.max_image_side:
        raise rejected(f"{width} x {height}: a side of a picture may have {limits.max_image_side} pixels at most")
    if width * height > limits.max_image_pixels:
        raise rejected(f"{width} x {height}: a picture may have {limits.max_image_pixels} pixels at most")


def check_count(count: int, what: str, limit: int) -> None:
    """Reject a picture of too many parts.

    Raises:
        UnprocessableMediaError: ``count`` is above ``limit``. No cause.
    """
    if count > limit:
        raise rejected(f"a picture may have {limit} {what} at most")


__all__ = [
    "FORMATS",
    "FormatHeader",
    "ImageHeader",
    "check_count",
    "check_size",
    "has_heif",
    "identify",
    "probe",
    "read_header",
    "reader",
    "rejected",
    "supported",
]
