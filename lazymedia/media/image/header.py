"""From the first bytes of a payload to what its header says.

Comes in: any payload. Goes out: the name of its format, its outline, or a public `ImageHeader`. Never here: Pillow.
Nothing is decompressed except a text chunk that may hold an orientation, so a header costs microseconds at any size
of picture.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from lazymedia.limits import DEFAULT_LIMITS, Limits
from lazymedia.media.image import avif, exif, heif, jpeg, plain, png
from lazymedia.media.image.outline import check_size, refused

if TYPE_CHECKING:
    from collections.abc import Callable

AnyOutline: TypeAlias = (
    jpeg.JpegOutline
    | png.PngOutline
    | plain.GifOutline
    | plain.WebpOutline
    | plain.BmpOutline
    | plain.TiffOutline
    | avif.AvifOutline
    | heif.HeifOutline
)

FORMATS: Final[dict[str, Callable[[bytes, Limits], AnyOutline | None]]] = {
    "JPEG": jpeg.outline,
    "PNG": png.outline,
    "WEBP": plain.webp,
    "GIF": plain.gif,
    "AVIF": avif.outline,
    "HEIF": heif.outline,
    "BMP": plain.bmp,
    "TIFF": plain.tiff,
}
"""Every format that can be read, by Pillow's names, with its header's reader."""

_SIGNATURES: Final = {
    b"\xff\xd8\xff": "JPEG",
    png.SIGNATURE: "PNG",
    b"GIF87a": "GIF",
    b"GIF89a": "GIF",
    b"II*\0": "TIFF",
    b"MM\0*": "TIFF",
}


@dataclass(frozen=True)
class ImageHeader:
    """What the header of a picture says; nothing is decoded for it.

    Attributes:
        format: "JPEG", "PNG", "WEBP", "GIF", "AVIF", "HEIF", "BMP" or "TIFF".
        width: Pixels, as stored.
        height: Pixels, as stored.
        mode: Pillow's name of the stored layout ("RGB", "L", "P", ...); None where the header does not tell it.
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


def sniff(data: bytes) -> str | None:
    """The format that a payload's first bytes belong to; None for one that is not among `FORMATS`."""
    for signature, kind in _SIGNATURES.items():
        if data.startswith(signature):
            return kind
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "WEBP"
    if data.startswith(b"BM") and data[15:18] == b"\0\0\0":  # two letters are few; a header's size follows
        return "BMP"
    if avif.is_avif(data):
        return "AVIF"
    return "HEIF" if heif.is_heif(data) else None


def readable(limits: Limits) -> tuple[str, ...]:
    """The formats that an operator allows and this installation can read."""
    return tuple(kind for kind in limits.image_formats if kind != "HEIF" or heif.is_available())


def read_outline(data: bytes, limits: Limits) -> tuple[str | None, AnyOutline | None]:
    """A payload's format, where it is an allowed one, and its header, where that can be read and is within limits.

    Raises:
        UnprocessableMediaError: Over a limit on size, scans, chunks or parts. No cause.
    """
    kind = sniff(data)
    if kind is None or kind not in limits.image_formats or (kind == "HEIF" and not heif.is_available()):
        return None, None
    outline = FORMATS[kind](data, limits)
    if outline is not None:
        check_size(outline.width, outline.height, limits)
    return kind, outline


def check_cost(outline: AnyOutline, size: int, limits: Limits) -> None:
    """Reject a whole payload of ``size`` bytes that would take long to decode. See `jpeg.check_cost`."""
    if isinstance(outline, jpeg.JpegOutline):
        jpeg.check_cost(outline, size, limits)


def orientation(data: bytes, outline: AnyOutline) -> int:
    """How the stored pixels must be turned, 1 to 8."""
    if isinstance(outline, avif.AvifOutline | heif.HeifOutline):
        return outline.orientation
    return exif.orientation(outline.metadata(data))


def early_exif(data: bytes, outline: AnyOutline) -> bytes | None:
    """EXIF that may identify a picture: in a PNG only what comes before the pixels."""
    if isinstance(outline, png.PngOutline):
        return None if outline.exif is None else data[slice(*outline.exif)]
    return outline.metadata(data).exif


def probe(data: bytes, limits: Limits | None = None) -> ImageHeader:
    """Read a picture's header, of any format that can be read and at any size.

    Args:
        data: The payload, or as much of its beginning as holds the header. An orientation that lies behind the pixels
            is found only when it is there.
        limits: Counts of chunks and scans are taken from here.

    Raises:
        UnprocessableMediaError: Not a picture, a header that cannot be read, or one of too many parts.
    """
    kind = sniff(data)
    outline = None if kind is None else FORMATS[kind](data, DEFAULT_LIMITS if limits is None else limits)
    if outline is None:
        raise refused(f"the {kind} header cannot be read" if kind else "not a supported picture format")
    return describe(data, outline)


def describe(data: bytes, outline: AnyOutline) -> ImageHeader:
    """The public form of a header."""
    return ImageHeader(outline.format, outline.width, outline.height, outline.mode, orientation(data, outline))


__all__ = [
    "FORMATS",
    "AnyOutline",
    "ImageHeader",
    "check_cost",
    "describe",
    "early_exif",
    "orientation",
    "probe",
    "read_outline",
    "readable",
    "sniff",
]
