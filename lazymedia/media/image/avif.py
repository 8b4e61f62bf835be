"""The boxes of an AVIF: declared size, turns, the sizes really coded, and where EXIF lies.

Comes in: a payload that begins as an AVIF. Goes out: an `AvifOutline`, None for a file without a picture that could be
judged, or the refusal of one whose parts are over a limit. Never here: Pillow, or a compressed pixel.

A still picture is the primary item of the ``meta`` box (ISO/IEC 23008-12); an animation is a track of the ``moov``
box. Turns are told by ``irot`` and ``imir`` alone: the format's rules make EXIF's orientation a mere note.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from lazymedia.media.image.av1 import coded_size
from lazymedia.media.image.boxes import boxes, inside, unsigned
from lazymedia.media.image.outline import Metadata, Outline, Span, check_count, check_size, refused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lazymedia.limits import Limits

_CODEC: Final = 7.5
"""Bytes a pixel: three planes of 8 bits, what Pillow copies out of them as RGB, and what dav1d adds."""
_BRANDS: Final = frozenset({b"avif", b"avis"})
_SUM: Final = 4
"""How many times a picture's pixels all coded parts may have: the picture, its alpha, a thumbnail, a gain map."""
_MAX_PARTS: Final = 512
"""Coded parts: the tiles of a picture and of its alpha. A phone's picture has 48 tiles."""
_TURNS: Final = {
    # (quarter turns anticlockwise, mirrored along: None, 0 top to bottom, 1 left to right): EXIF orientation
    (0, None): 1,
    (0, 0): 4,
    (0, 1): 2,
    (1, None): 8,
    (1, 0): 5,
    (1, 1): 7,
    (2, None): 3,
    (2, 0): 2,
    (2, 1): 4,
    (3, None): 6,
    (3, 0): 7,
    (3, 1): 5,
}


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
    top = inside(data, (0, len(data)), limits)
    items = _items(data, top[b"meta"], limits) if b"meta" in top else None
    tracks = list(_tracks(data, top[b"moov"], limits)) if b"moov" in top else []
    parts = [items.places[item] for item in items.coded] if items is not None else []
    parts += [[track.sample] for track in tracks]
    if not parts or not _check_coded(data, parts, limits):
        return None
    moving = bool(tracks) and data[8:12] != b"avif"  # what libavif goes by as well
    if moving or items is None:
        return AvifOutline("AVIF", tracks[0].width, tracks[0].height, None, 1, None, ())
    width, height = items.size
    return AvifOutline("AVIF", width, height, None, items.orientation, items.exif, items.exif_names)


def _check_coded(data: bytes, parts: list[list[Span]], limits: Limits) -> bool:
    """Hold what is really coded against the limits; False where the size of a part cannot be told.

    Raises:
        UnprocessableMediaError: A part that is over a limit, too many parts, or parts that share their bytes.
    """
    check_count(len(parts), "coded parts", _MAX_PARTS)
    if sum(stop - start for part in parts for start, stop in part) > 2 * len(data):
        raise refused("the parts of a picture may not share their bytes")
    view = memoryview(data)
    total = 0
    for part in parts:
        first, *others = (view[slice(*span)] for span in part)
        size = coded_size(b"".join([first, *others]) if others else first)
        if size is None:
            return False
        check_size(*size, limits)
        total += size[0] * size[1]
    if total > _SUM * limits.max_image_pixels:
        raise refused(f"the parts of a picture may have {_SUM * limits.max_image_pixels} pixels at most")
    return True


class _Items(NamedTuple):
    size: tuple[int, int]
    orientation: int
    coded: tuple[int, ...]
    places: dict[int, list[Span]]
    exif: Span | None
    exif_names: tuple[int, ...]


def _items(data: bytes, meta: Span, limits: Limits) -> _Items | None:
    parts = inside(data, (meta[0] + 4, meta[1]), limits)
    kinds = _kinds(data, parts[b"iinf"], limits)
    places = _places(data, parts[b"iloc"], parts.get(b"idat"), limits)
    primary, _ = unsigned(data, parts[b"pitm"][0] + 4, 2 if data[parts[b"pitm"][0]] == 0 else 4)
    properties = list(boxes(data, parts[b"iprp"], limits))
    known = list(boxes(data, dict(properties)[b"ipco"], limits))
    tables = [span for kind, span in properties if kind == b"ipma"]
    mine = [known[index - 1] for table in tables for index in _associated(data, table, primary, limits) if index]
    size = turn = mirror = None
    for kind, (start, _) in mine:
        if kind == b"ispe":
            size = struct.unpack_from(">LL", data, start + 4)
        elif kind == b"irot":
            turn = data[start] & 3
        elif kind == b"imir":
            mirror = data[start] & 1
    if size is None or 0 in size:
        return None
    coded = tuple(item for item, (kind, _) in kinds.items() if kind == b"av01" and places.get(item))
    noted = [(item, at) for item, (kind, at) in kinds.items() if kind == b"Exif"]
    exif = next((places[item][0] for item, _ in noted if len(places.get(item, ())) == 1), None)
    return _Items(size, _TURNS[turn or 0, mirror], coded, places, exif, tuple(at for _, at in noted))


def _kinds(data: bytes, iinf: Span, limits: Limits) -> dict[int, tuple[bytes, int]]:
    """Each item's type, and where that is written."""
    start, end = iinf
    first = start + (6 if data[start] == 0 else 8)
    kinds = {}
    for kind, (body, _) in boxes(data, (first, end), limits):
        if kind == b"infe" and data[body] >= 2:
            item, position = unsigned(data, body + 4, 2 if data[body] == 2 else 4)
            kinds[item] = data[position + 2 : position + 6], position + 2
    return kinds


def _places(data: bytes, iloc: Span, idat: Span | None, limits: Limits) -> dict[int, list[Span]]:
    """Where each item's content lies, piece by piece."""
    position = iloc[0]
    version, sizes = data[position], data[position + 4 : position + 6]
    offset_size, length_size, base_size = sizes[0] >> 4, sizes[0] & 15, sizes[1] >> 4
    index_size = sizes[1] & 15 if version else 0
    wide = 2 if version < 2 else 4
    count, position = unsigned(data, position + 6, wide)
    check_count(count, "items", limits.max_image_chunks)
    places: dict[int, list[Span]] = {}
    pieces = 0
    for _ in range(count):
        item, position = unsigned(data, position, wide)
        method, position = unsigned(data, position, 2 if version else 0)
        base, position = unsigned(data, position + 2, base_size)
        extents, position = unsigned(data, position, 2)
        pieces += extents
        check_count(pieces, "pieces", limits.max_image_chunks)
        origin, end = (0, len(data)) if method & 15 == 0 or idat is None else idat
        places[item] = []
        for _ in range(extents):
            offset, position = unsigned(data, position + index_size, offset_size)
            length, position = unsigned(data, position, length_size)
            begin = min(origin + base + offset, end)
            places[item].append((begin, min(begin + length, end) if length else end))
    return places


def _associated(data: bytes, ipma: Span, item: int, limits: Limits) -> list[int]:
    """The properties of one item, as positions counted from 1."""
    start, _ = ipma
    long_index = data[start + 3] & 1
    count, position = unsigned(data, start + 4, 4)
    check_count(count, "items", limits.max_image_chunks)
    for _ in range(count):
        owner, position = unsigned(data, position, 2 if data[start] < 1 else 4)
        many = data[position]
        width = 2 if long_index else 1
        if owner == item:
            entries = range(position + 1, position + 1 + many * width, width)
            return [unsigned(data, at, width)[0] & (0x7FFF if long_index else 0x7F) for at in entries]
        position += 1 + many * width
    return []


class _Track(NamedTuple):
    width: int
    height: int
    sample: Span


def _tracks(data: bytes, moov: Span, limits: Limits) -> Iterator[_Track]:
    """The AV1 tracks, each with its first sample, which is the only one that is ever decoded."""
    for kind, trak in boxes(data, moov, limits):
        if kind != b"trak":
            continue
        parts = inside(data, trak, limits)
        media = inside(data, parts[b"mdia"], limits)
        table = inside(data, inside(data, media[b"minf"], limits)[b"stbl"], limits)
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


__all__ = ["AvifOutline", "is_avif", "outline"]
