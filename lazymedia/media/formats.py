"""The formats that are read, and the bytes that a payload of each begins with.

A payload's own bytes determine its format. File names and declared media types are not used: both come with the
payload, and a decoder that is chosen by them would read what it was not meant for. Formats without a signature at the
beginning (MP3, AAC, MPEG-TS) are identified in `media.audio` and `media.video`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

Signature: TypeAlias = tuple[tuple[int, bytes], ...]
"""Offsets, and the bytes that stand there. All of them must match."""


@dataclass(frozen=True, slots=True)
class Format:
    """A format, with what identifies it.

    Attributes:
        name: "JPEG", "MP4", ...; of pictures, as in `Limits.image_formats`.
        content_types: Media types that name it, the registered one first.
        signatures: A payload is of this format if one of them matches.
        brands: Or if its first box is an ``ftyp`` that lists one of these, as its major brand or as a compatible one.
    """

    name: str
    content_types: tuple[str, ...]
    signatures: tuple[Signature, ...] = ()
    brands: frozenset[bytes] = frozenset()

    def matches(self, data: bytes) -> bool:
        """Whether a payload begins as this format does."""
        if any(all(data.startswith(part, at) for at, part in signature) for signature in self.signatures):
            return True
        return bool(self.brands) and not self.brands.isdisjoint(_brands(data))


def identify(data: bytes, formats: Iterable[Format]) -> Format | None:
    """The first of some formats that a payload's first bytes match; None where none does."""
    return next((known for known in formats if known.matches(data)), None)


def _brands(data: bytes) -> set[bytes]:
    """The brands of an ``ftyp`` box, of its first 256 bytes at most. ISO/IEC 14496-12, 4.3."""
    if not data.startswith(b"ftyp", 4):
        return set()
    size = min(int.from_bytes(data[:4]), 256)
    return {data[start : start + 4] for start in (8, *range(16, size, 4))}


JPEG: Final = Format("JPEG", ("image/jpeg",), (((0, b"\xff\xd8\xff"),),))
PNG: Final = Format("PNG", ("image/png", "image/apng"), (((0, b"\x89PNG\r\n\x1a\n"),),))
WEBP: Final = Format("WEBP", ("image/webp",), (((0, b"RIFF"), (8, b"WEBP")),))
GIF: Final = Format("GIF", ("image/gif",), (((0, b"GIF87a"),), ((0, b"GIF89a"),)))
AVIF: Final = Format("AVIF", ("image/avif",), brands=frozenset({b"avif", b"avis"}))
HEIF: Final = Format(
    "HEIF",
    ("image/heic", "image/heif", "image/heic-sequence", "image/heif-sequence"),
    tuple(
        ((4, b"ftyp"), (8, brand)) for brand in (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
    ),
)
BMP: Final = Format(
    "BMP",
    ("image/bmp", "image/x-ms-bmp"),
    (((0, b"BM"), (15, b"\0\0\0")),),  # two letters are few; the upper bytes of a header's size follow
)
TIFF: Final = Format("TIFF", ("image/tiff",), (((0, b"II*\0"),), ((0, b"MM\0*"),)))

MP4: Final = Format(
    "MP4",
    ("video/mp4", "audio/mp4", "video/quicktime", "audio/x-m4a", "video/3gpp", "audio/3gpp"),
    tuple(((4, box),) for box in (b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot", b"styp")),
)
"""By the boxes with which a file of the ISO base media file format or a QuickTime movie may begin."""
MATROSKA: Final = Format(
    "Matroska",
    ("video/matroska", "audio/matroska", "video/webm", "audio/webm", "video/x-matroska", "audio/x-matroska"),
    (((0, b"\x1a\x45\xdf\xa3"),),),
)
AVI: Final = Format("AVI", ("video/x-msvideo", "video/avi"), (((0, b"RIFF"), (8, b"AVI ")),))
FLV: Final = Format("FLV", ("video/x-flv",), (((0, b"FLV\x01"),),))
MPEG_PS: Final = Format("MPEG program stream", ("video/mpeg", "video/mp2p"), (((0, b"\x00\x00\x01\xba"),),))
OGG: Final = Format("OGG", ("audio/ogg", "video/ogg", "application/ogg"), (((0, b"OggS"),),))
WAV: Final = Format(
    "WAV",
    ("audio/vnd.wave", "audio/wav", "audio/x-wav"),
    (((0, b"RIFF"), (8, b"WAVE")), ((0, b"RIFX"), (8, b"WAVE")), ((0, b"RF64"),)),
)
AIFF: Final = Format(
    "AIFF", ("audio/aiff", "audio/x-aiff"), (((0, b"FORM"), (8, b"AIFF")), ((0, b"FORM"), (8, b"AIFC")))
)
FLAC: Final = Format("FLAC", ("audio/flac", "audio/x-flac"), (((0, b"fLaC"),),))
AMR: Final = Format("AMR", ("audio/amr", "audio/amr-wb"), (((0, b"#!AMR"),),))

IMAGES: Final = (JPEG, PNG, WEBP, GIF, AVIF, HEIF, BMP, TIFF)
"""Formats of pictures. AVIF comes before HEIF, with which it may share its major brand."""


__all__ = [
    "AIFF",
    "AMR",
    "AVI",
    "AVIF",
    "BMP",
    "FLAC",
    "FLV",
    "GIF",
    "HEIF",
    "IMAGES",
    "JPEG",
    "MATROSKA",
    "MP4",
    "MPEG_PS",
    "OGG",
    "PNG",
    "TIFF",
    "WAV",
    "WEBP",
    "Format",
    "Signature",
    "identify",
]
