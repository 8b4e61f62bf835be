"""The items of a ``meta`` box: pictures, tiles and EXIF of an AVIF or HEIF, where they lie, and what describes them.

Boxes: ISO/IEC 14496-12, 8.11 (items); ISO/IEC 23008-12, 6.5 and 9.3 (properties). A missing or malformed box is a
KeyError, an IndexError or a struct.error.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from lazymedia.media import isobmff
from lazymedia.media.image.exif import Metadata
from lazymedia.media.image.header import check_count, check_size, rejected
from lazymedia.media.isobmff import Span, unsigned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lazymedia.limits import Limits

Property = tuple[bytes, Span]
"""Type and content of the box."""

_SINGLE: Final = frozenset(
    {b"meta", b"moov", b"pitm", b"iinf", b"iloc", b"iprp", b"idat"}
    | {b"mdia", b"minf", b"stbl", b"stsd", b"stco", b"co64", b"stsz", b"tkhd"}
)
"""Boxes that may occur once: libavif might read the other one."""
_ORIENTATIONS: Final = {
    # (quarter turns anticlockwise, then mirrored along: None, 0 top to bottom, 1 left to right): EXIF orientation
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


_MAX_PARTS: Final = 512
"""Coded parts: the tiles of a picture and of its alpha. A phone's picture has 48 tiles."""
_SUM: Final = 4
"""How many times a picture's pixels all coded parts may have: the picture, its alpha, a thumbnail, a gain map."""
_SMALL: Final = 1 << 20
"""Pixels: a smaller picture counts as large as this. Tiles at its edges may stick out."""


class CodedPart(NamedTuple):
    """A picture, tile or alpha that is decoded on its own.

    Attributes:
        spans: Where its content lies, piece by piece.
        coded_size: Reads width and height from its content; None for unknown.
    """

    spans: list[Span]
    coded_size: Callable[[bytes | memoryview], tuple[int, int] | None]


class Items(NamedTuple):
    """Attributes.

    primary: The item that is the picture.
    kinds: Each item's type, and where in the payload its four letters are.
    places: Where each item's content lies, piece by piece.
    properties: Of each item, in order.
    references: Type, the item that refers, and those that it refers to.
    """

    primary: int
    kinds: dict[int, tuple[bytes, int]]
    places: dict[int, list[Span]]
    properties: dict[int, list[Property]]
    references: list[tuple[bytes, int, list[int]]]

    def exif(self) -> Span | None:
        """Content of the first EXIF item that is in one piece."""
        noted = [item for item, (kind, _) in self.kinds.items() if kind == b"Exif"]
        return next((self.places[item][0] for item in noted if len(self.places.get(item, ())) == 1), None)

    def exif_types(self) -> tuple[int, ...]:
        """Where the four letters are that make items EXIF items."""
        return tuple(at for kind, at in self.kinds.values() if kind == b"Exif")


def boxes(data: bytes, span: Span, limits: Limits) -> Iterator[tuple[bytes, Span]]:
    """Type and content of each box in a part of a picture's payload.

    Raises:
        UnprocessableMediaError: More than `Limits.max_image_chunks`.
    """
    for count, box in enumerate(isobmff.boxes(data, span)):
        yield box
        check_count(count, "boxes", limits.max_image_chunks)


def children(data: bytes, span: Span, limits: Limits) -> dict[bytes, Span]:
    """The boxes inside one, by type. KeyError for two of a type that may occur once."""
    return isobmff.by_type(boxes(data, span, limits), _SINGLE)


def metadata(data: bytes, exif: Span | None) -> Metadata:
    """The EXIF block of an EXIF item, which begins behind an offset. ISO/IEC 23008-12, A.2.1."""
    if exif is None:
        return Metadata()
    start, stop = exif
    return Metadata(exif=data[start + 4 + int.from_bytes(data[start : start + 4]) : stop])


def read(data: bytes, meta: Span, limits: Limits) -> Items:
    """The items of a ``meta`` box.

    Raises:
        UnprocessableMediaError: More of something than `Limits.max_image_chunks`.
        KeyError, IndexError, struct.error: Malformed, or there is no primary item.
    """
    parts = children(data, (meta[0] + 4, meta[1]), limits)
    kinds = _kinds(data, parts[b"iinf"], limits)
    places = _places(data, parts[b"iloc"], parts.get(b"idat"), limits)
    primary, _ = unsigned(data, parts[b"pitm"][0] + 4, 2 if data[parts[b"pitm"][0]] == 0 else 4)
    inner = list(boxes(data, parts[b"iprp"], limits))
    known = list(boxes(data, dict(inner)[b"ipco"], limits))
    properties: dict[int, list[Property]] = {}
    for kind, span in inner:
        if kind == b"ipma":
            _associate(data, span, known, properties, limits)
    references = _references(data, parts[b"iref"], limits) if b"iref" in parts else []
    return Items(primary, kinds, places, properties, references)


def check_coded(data: bytes, parts: list[CodedPart], size: tuple[int, int], limits: Limits) -> bool:
    """Check the sizes that are coded, whatever the file declares; False where the size of a part is unknown.

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
    if sum(stop - start for part in parts for start, stop in part.spans) > 2 * len(data) + pixels // 2:
        raise rejected("the parts of a picture share more bytes than its size explains")
    view = memoryview(data)
    allowed = _SUM * min(max(pixels, _SMALL), limits.max_image_pixels)
    total = 0
    for part in parts:
        first, *others = (view[slice(*span)] for span in part.spans)
        coded = part.coded_size(b"".join([first, *others]) if others else first)
        if coded is None:
            return False
        check_size(*coded, limits)
        if coded[0] * coded[1] > max(pixels * 11 // 10, _SMALL):  # codecs round sides up
            raise rejected("one of the parts of a picture codes more pixels than the picture has")
        total += coded[0] * coded[1]
    if total > allowed:
        raise rejected(f"the parts of a picture of this size may have {allowed} pixels at most")
    return True


def size(data: bytes, properties: list[Property]) -> tuple[int, int] | None:
    """Width and height by ``ispe``; None where they are missing or zero."""
    found: tuple[int, int] | None = None
    for kind, (start, _) in properties:
        if kind == b"ispe":
            found = struct.unpack_from(">LL", data, start + 4)
    return None if found is None or 0 in found else found


def orientation(data: bytes, properties: list[Property]) -> int:
    """``irot`` and ``imir``, in the order in which they stand, as an EXIF orientation."""
    turns, mirror = 0, None
    for kind, (start, _) in properties:
        if kind == b"irot":  # behind a mirror, a turn goes the other way round
            turns = data[start] & 3 if mirror is None else -data[start] & 3
        elif kind == b"imir":
            mirror = data[start] & 1
    return _ORIENTATIONS[turns, mirror]


def _kinds(data: bytes, iinf: Span, limits: Limits) -> dict[int, tuple[bytes, int]]:
    start, end = iinf
    first = start + (6 if data[start] == 0 else 8)
    kinds = {}
    for kind, (body, _) in boxes(data, (first, end), limits):
        if kind == b"infe" and data[body] >= 2:
            item, position = unsigned(data, body + 4, 2 if data[body] == 2 else 4)
            kinds[item] = data[position + 2 : position + 6], position + 2
    return kinds


def _places(data: bytes, iloc: Span, idat: Span | None, limits: Limits) -> dict[int, list[Span]]:
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


def _associate(
    data: bytes, ipma: Span, known: list[Property], properties: dict[int, list[Property]], limits: Limits
) -> None:
    """Add the properties that an ``ipma`` box assigns to items. Of one item in several entries, all count."""
    start, _ = ipma
    width, mask = (2, 0x7FFF) if data[start + 3] & 1 else (1, 0x7F)
    count, position = unsigned(data, start + 4, 4)
    check_count(count, "items", limits.max_image_chunks)
    for _ in range(count):
        owner, position = unsigned(data, position, 2 if data[start] < 1 else 4)
        many = data[position]
        position += 1
        own = properties.setdefault(owner, [])
        for at in range(position, position + many * width, width):
            index = unsigned(data, at, width)[0] & mask
            if index:
                own.append(known[index - 1])
        position += many * width


def _references(data: bytes, iref: Span, limits: Limits) -> list[tuple[bytes, int, list[int]]]:
    start, end = iref
    wide = 2 if data[start] == 0 else 4
    found = []
    for kind, (body, _) in boxes(data, (start + 4, end), limits):
        source, position = unsigned(data, body, wide)
        count, position = unsigned(data, position, 2)
        check_count(count, "items", limits.max_image_chunks)
        targets = [unsigned(data, position + wide * index, wide)[0] for index in range(count)]
        found.append((kind, source, targets))
    return found


__all__ = [
    "CodedPart",
    "Items",
    "Property",
    "boxes",
    "check_coded",
    "children",
    "metadata",
    "orientation",
    "read",
    "size",
]
