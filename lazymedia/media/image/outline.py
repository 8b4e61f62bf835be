"""What the header of a picture says, as a value, and the limits that apply to it.

Comes in: numbers that a format's reader found in the payload. Goes out: an `Outline`, or the refusal of one that is
over a limit. Never here: a format, or a pixel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lazymedia.errors import UnprocessableMediaError
from lazymedia.media.isobmff import Span

if TYPE_CHECKING:
    from lazymedia.limits import Limits


@dataclass(frozen=True, slots=True)
class Metadata:
    """What may turn or name a picture: an EXIF block (a TIFF structure) and an XMP packet, each where there is one."""

    exif: bytes | None = None
    xmp: bytes | None = None


@dataclass(frozen=True, slots=True)
class Outline:
    """A header that could be read.

    Attributes:
        format: "JPEG", "PNG", "WEBP", "GIF", "AVIF", "HEIF", "BMP" or "TIFF".
        width: Pixels, as stored (before any turn).
        height: Pixels, as stored.
        mode: Pillow's name of the stored pixels' layout, where the header tells it.
    """

    format: str
    width: int
    height: int
    mode: str | None

    def metadata(self, data: bytes) -> Metadata:  # noqa: ARG002  # for the formats that have none
        """EXIF and XMP, wherever in the payload they lie."""
        return Metadata()


def refused(message: str) -> UnprocessableMediaError:
    """The error for a picture that is at fault itself."""
    return UnprocessableMediaError(message, modality="image")


def check_size(width: int, height: int, limits: Limits) -> None:
    """Refuse a picture, or the part of one, that is larger than an operator allows.

    Raises:
        UnprocessableMediaError: Over `Limits.max_image_side` or `Limits.max_image_pixels`. No cause.
    """
    if max(width, height) > limits.max_image_side:
        raise refused(f"{width} x {height}: a side of a picture may have {limits.max_image_side} pixels at most")
    if width * height > limits.max_image_pixels:
        raise refused(f"{width} x {height}: a picture may have {limits.max_image_pixels} pixels at most")


def check_count(count: int, what: str, limit: int) -> None:
    """Refuse a picture of too many parts.

    Raises:
        UnprocessableMediaError: ``count`` is above ``limit``. No cause.
    """
    if count > limit:
        raise refused(f"a picture may have {limit} {what} at most")


__all__ = ["Metadata", "Outline", "Span", "check_count", "check_size", "refused"]
