"""AVIF: declared and coded size, orientation and EXIF by its boxes, and the pixels by Pillow.

A still picture is the primary item of the ``meta`` box (ISO/IEC 23008-12); an animation is a track of the ``moov``
box, and may do without items. Only ``irot`` and ``imir`` turn it: the format's rules make EXIF's orientation
a mere note.
"""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from lazymedia.media.image import items
from lazymedia.media.image.coded_size import CodedPart, av1_size, check_coded
from lazymedia.media.image.exif import Metadata, find_orientation
from lazymedia.media.image.header import FormatHeader, check_size
from lazymedia.media.image.items import boxes, children
from lazymedia.media.image.memory import CodecMemory
from lazymedia.media.isobmff import Fields, Span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lazymedia.limits import Limits
    from lazymedia.media.image.pixels import StoredPixels

_DAV1D: Final = 0.5
"""Bytes a pixel that dav1d takes beside its planes."""
_UNKNOWN: Final = CodecMemory("RGB", extra=6 + _DAV1D, copies_payload=True)
"""Three planes of 8 bits, and what Pillow copies out of them as RGB."""


@dataclass(frozen=True, slots=True)
class AvifHeader(FormatHeader):
    """Attributes beyond `FormatHeader`'s.

    orientation: irot and imir, as an EXIF orientation.
    exif: The EXIF item's content.
    exif_types: Offsets of the four letters that make items EXIF items.
    memory: What `decode` allocates.
    """

    orientation: int = 1
    exif: Span | None = None
    exif_types: tuple[int, ...] = ()
    memory: CodecMemory = _UNKNOWN

    def metadata(self, data: bytes) -> Metadata:
        return items.metadata(data, self.exif)

    def find_orientation(self, data: bytes) -> int:  # noqa: ARG002  # it was read with the header
        return self.orientation

    def codec_memory(self) -> CodecMemory:
        return self.memory

    def decode(self, data: bytes, limits: Limits) -> StoredPixels:
        """EXIF items are renamed first: Pillow would parse them, and reject the picture for damage there."""
        from PIL.AvifImagePlugin import AvifImageFile

        from lazymedia.media.image.pixels import StoredPixels, pixels_of, require_codec

        require_codec("avif")
        if self.exif_types:
            renamed = bytearray(data)
            for at in self.exif_types:
                renamed[at : at + 4] = b"free"
            data = bytes(renamed)
        opened = AvifImageFile(io.BytesIO(data))
        check_size(*opened.size, limits)
        orientation = find_orientation(Metadata(opened.info.get("exif")))
        opened.load()
        return StoredPixels(pixels_of(opened), orientation)


def read_header(data: bytes, limits: Limits) -> AvifHeader | None:
    """The header of an AVIF. None where no part with a known size could be found.

    Raises:
        UnprocessableMediaError: More parts than `Limits.max_image_chunks`, or a coded part that is over a limit.
    """
    try:
        return _read_header(data, limits)
    except (IndexError, struct.error, KeyError):
        return None


def _read_header(data: bytes, limits: Limits) -> AvifHeader | None:
    top = children(data, (0, len(data)), limits)
    tracks = list(_tracks(data, top[b"moov"], limits)) if b"moov" in top else []
    animated = bool(tracks) and data[8:12] != b"avif"  # as in libavif
    found = None
    try:
        found = items.read(data, top[b"meta"], limits) if b"meta" in top else None
    except (IndexError, struct.error, KeyError):
        if not animated:  # an animation's items are its cover at most, and not decoded
            raise
    properties = [] if found is None else found.properties.get(found.primary, [])
    size = (tracks[0].width, tracks[0].height) if animated else items.size(data, properties)
    parts = [] if found is None else _coded_items(found)
    parts += [CodedPart([track.sample], av1_size) for track in tracks]
    if not parts or size is None or not check_coded(data, parts, size, limits):
        return None
    if animated or found is None:
        return AvifHeader("AVIF", *size, None)
    orientation = items.orientation(data, properties)
    return AvifHeader("AVIF", *size, None, orientation, found.exif(), found.exif_types(), _memory(data, found))


def _coded_items(found: items.Items) -> list[CodedPart]:
    coded = [found.spans.get(item) for item, (kind, _) in found.kinds.items() if kind == b"av01"]
    return [CodedPart(spans, av1_size) for spans in coded if spans]


def _memory(data: bytes, found: items.Items) -> CodecMemory:
    """The mode in which Pillow makes it, and bytes a pixel that the codec holds beside it.

    The third byte of ``av1C`` has flags for more than 8 bits (40), one component (10), and chroma at half the width (8)
    and height (4). Alpha is an item of one component. AV1 in ISO base media files, 2.3.3.
    """
    spans = [(kind, span) for properties in found.properties.values() for kind, span in properties]
    configured = [data[start + 2] for kind, (start, stop) in spans if kind == b"av1C" and stop - start > 2]
    flags = next((byte for byte in configured if not byte & 0x10), 0x10 if configured else 0)
    alpha = any(kind == b"auxC" and b"alpha" in data[slice(*span)] for kind, span in spans)
    chroma = 0.0 if flags & 0x10 else 2.0 / (1 + (flags >> 3 & 1)) / (1 + (flags >> 2 & 1))
    depth = 2 if any(byte & 0x40 for byte in configured) else 1
    mode = ("L" if flags & 0x10 else "RGB") + "A" * alpha
    planes = (1.0 + chroma + alpha) * depth
    return CodecMemory(mode, alpha, extra=planes + len(mode) + _DAV1D, copies_payload=True)


class _Track(NamedTuple):
    width: int
    height: int
    sample: Span


def _tracks(data: bytes, moov: Span, limits: Limits) -> Iterator[_Track]:
    """The AV1 tracks, each with its first sample, which is the only one that is ever decoded."""
    for kind, trak in boxes(data, moov, limits):
        if kind != b"trak":
            continue
        parts = children(data, trak, limits)
        media = children(data, parts[b"mdia"], limits)
        table = children(data, children(data, media[b"minf"], limits)[b"stbl"], limits)
        if b"av01" not in data[slice(*table[b"stsd"])]:
            continue
        wide = b"co64" in table
        if wide and b"stco" in table:
            raise KeyError(b"stco")
        begin = Fields(data, table[b"co64" if wide else b"stco"][0] + 8).number(8 if wide else 4)
        sizes = Fields(data, table[b"stsz"][0] + 4)
        common_size, _ = sizes.number(4), sizes.number(4)
        length = common_size or sizes.number(4)
        width, height = struct.unpack_from(">LL", data, parts[b"tkhd"][1] - 8)
        yield _Track(width >> 16, height >> 16, (min(begin, len(data)), min(begin + length, len(data))))


__all__ = ["AvifHeader", "read_header"]
