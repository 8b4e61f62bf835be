"""The boxes of an AVIF: declared size, turns, the sizes really coded, and where EXIF lies.

A still picture is the primary item of the ``meta`` box (ISO/IEC 23008-12); an animation is a track of the ``moov``
box, and may do without items. Only ``irot`` and ``imir`` turn it: the format's rules make EXIF's orientation
a mere note.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from lazymedia.media.image import items
from lazymedia.media.image.coded_size import av1_size
from lazymedia.media.image.items import boxes, children
from lazymedia.media.image.outline import Metadata, Outline, Span, check_count, check_size, refused
from lazymedia.media.isobmff import unsigned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lazymedia.limits import Limits

_DAV1D: Final = 0.5
_CODEC: Final = 6 + _DAV1D
"""Bytes a pixel: three planes of 8 bits, what Pillow copies out of them as RGB, and what dav1d adds."""
_BRANDS: Final = frozenset({b"avif", b"avis"})
_SUM: Final = 4
"""How many times a picture's pixels all coded parts may have: the picture, its alpha, a thumbnail, a gain map."""
_SMALL: Final = 1 << 20
"""Pixels: a smaller picture counts as large as this. Tiles at its edges may stick out."""
_MAX_PARTS: Final = 512
"""Coded parts: the tiles of a picture and of its alpha. A phone's picture has 48 tiles."""


Part: TypeAlias = "tuple[list[Span], Callable[[bytes | memoryview], tuple[int, int] | None]]"
"""Where the pieces of a coded part lie, and what tells width and height of its content; None for unknown."""


@dataclass(frozen=True, slots=True)
class AvifOutline(Outline):
    """Attributes beyond `Outline`'s.

    orientation: What irot and imir say, as an EXIF orientation.
    exif: The EXIF item's content.
    exif_names: Offsets of the four letters that make items EXIF items.
    stored: The mode in which Pillow makes it: "L", "RGB" or "RGBA".
    codec: Bytes a pixel that the codec holds beside the pixels.
    """

    orientation: int
    exif: Span | None
    exif_names: tuple[int, ...]
    stored: str = "RGB"
    codec: float = _CODEC

    def metadata(self, data: bytes) -> Metadata:
        if self.exif is None:
            return Metadata()
        start, stop = self.exif
        return Metadata(exif=data[start + 4 + int.from_bytes(data[start : start + 4]) : stop])


def is_avif(data: bytes) -> bool:
    """Whether a payload names AVIF among the brands of its first box. HEIC shares the box, and some of the brands."""
    if data[4:8] != b"ftyp":
        return False
    size = min(int.from_bytes(data[:4]), 256)
    brands = {data[start : start + 4] for start in (8, *range(16, size, 4))}
    return not _BRANDS.isdisjoint(brands)


def outline(data: bytes, limits: Limits) -> AvifOutline | None:
    """The header of an AVIF. None where no part with a known size could be found.

    Raises:
        UnprocessableMediaError: More parts than `Limits.max_image_chunks`, or a coded part that is over a limit.
    """
    try:
        return _outline(data, limits)
    except (IndexError, struct.error, KeyError):
        return None


def _outline(data: bytes, limits: Limits) -> AvifOutline | None:
    top = children(data, (0, len(data)), limits)
    tracks = list(_tracks(data, top[b"moov"], limits)) if b"moov" in top else []
    moving = bool(tracks) and data[8:12] != b"avif"  # what libavif goes by as well
    found = None
    try:
        found = items.read(data, top[b"meta"], limits) if b"meta" in top else None
    except (IndexError, struct.error, KeyError):
        if not moving:  # an animation's items are its cover at most, and not decoded
            raise
    coded = [] if found is None else [item for item, (kind, _) in found.kinds.items() if kind == b"av01"]
    parts: list[Part] = (
        [] if found is None else [(found.places[item], av1_size) for item in coded if found.places.get(item)]
    )
    parts += [([track.sample], av1_size) for track in tracks]
    mine = [] if found is None else found.properties.get(found.primary, [])
    size = (tracks[0].width, tracks[0].height) if moving else items.size(data, mine)
    if not parts or size is None or not check_coded(data, parts, size, limits):
        return None
    if moving or found is None:
        return AvifOutline("AVIF", *size, None, 1, None, ())
    exif, exif_names = found.exif()
    stored, codec = _layout(data, found)
    return AvifOutline("AVIF", *size, None, items.orientation(data, mine), exif, exif_names, stored, codec)


def check_coded(
    data: bytes,
    parts: list[Part],
    size: tuple[int, int],
    limits: Limits,
) -> bool:
    """Hold what is really coded against the limits; False where the size of a part cannot be told.

    Args:
        data: The payload.
        parts: Each coded part, as often as it is decoded.
        size: Width and height of the picture.
        limits: Those on pictures apply to each part. The sums are limited because each part is decoded on its own.

    Raises:
        UnprocessableMediaError: A part that is over a limit, too many parts, or parts that are too much together.
    """
    check_count(len(parts), "coded parts", _MAX_PARTS)
    pixels = size[0] * size[1]
    # Equal tiles, or layers of one picture, may share their bytes, which are then read once for each.
    if sum(stop - start for pieces, _ in parts for start, stop in pieces) > 2 * len(data) + pixels // 2:
        raise refused("the parts of a picture share more bytes than its size explains")
    view = memoryview(data)
    allowed = _SUM * min(max(pixels, _SMALL), limits.max_image_pixels)
    total = 0
    for pieces, sizes in parts:
        first, *others = (view[slice(*span)] for span in pieces)
        coded = sizes(b"".join([first, *others]) if others else first)
        if coded is None:
            return False
        check_size(*coded, limits)
        if coded[0] * coded[1] > max(pixels * 11 // 10, _SMALL):  # codecs round sides up
            raise refused("one of the parts of a picture codes more pixels than the picture has")
        total += coded[0] * coded[1]
    if total > allowed:
        raise refused(f"the parts of a picture of this size may have {allowed} pixels at most")
    return True


def _layout(data: bytes, found: items.Items) -> tuple[str, float]:
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
    return mode, (1.0 + chroma + alpha) * depth + len(mode) + _DAV1D


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
        chunks = table[b"co64" if wide else b"stco"][0]
        begin, _ = unsigned(data, chunks + 8, 8 if wide else 4)
        sizes = table[b"stsz"][0]
        same, _ = unsigned(data, sizes + 4, 4)
        length = same or unsigned(data, sizes + 12, 4)[0]
        width, height = struct.unpack_from(">LL", data, parts[b"tkhd"][1] - 8)
        yield _Track(width >> 16, height >> 16, (min(begin, len(data)), min(begin + length, len(data))))


__all__ = ["AvifOutline", "Part", "check_coded", "is_avif", "outline"]
