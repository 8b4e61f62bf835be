"""The items of a ``meta`` box: pictures, tiles and EXIF of an AVIF or HEIF, where they are, and what describes them.

Boxes: ISO/IEC 14496-12, 8.11 (items); ISO/IEC 23008-12, 6.5 and 9.3 (properties). A missing or malformed box is a
KeyError, an IndexError or a struct.error.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from lazymedia.media import isobmff
from lazymedia.media.image.exif import Metadata
from lazymedia.media.image.header import check_count
from lazymedia.media.isobmff import Fields, Span

if TYPE_CHECKING:
    from collections.abc import Iterator

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


class Items(NamedTuple):
    """Attributes.

    primary: The item that is the picture.
    kinds: Each item's type, and where in the payload its four letters are.
    spans: Where each item's content lies, piece by piece.
    properties: Of each item, in order.
    references: Type, the item that refers, and those that it refers to.
    """

    primary: int
    kinds: dict[int, tuple[bytes, int]]
    spans: dict[int, list[Span]]
    properties: dict[int, list[Property]]
    references: list[tuple[bytes, int, list[int]]]

    def exif(self) -> Span | None:
        """Content of the first EXIF item that is in one piece."""
        noted = [item for item, (kind, _) in self.kinds.items() if kind == b"Exif"]
        return next((self.spans[item][0] for item in noted if len(self.spans.get(item, ())) == 1), None)

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
    spans = _spans(data, parts[b"iloc"], parts.get(b"idat"), limits)
    fields = Fields(data, parts[b"pitm"][0])
    primary = fields.number(2 if fields.version() == 0 else 4)
    inner = list(boxes(data, parts[b"iprp"], limits))
    known = list(boxes(data, dict(inner)[b"ipco"], limits))
    properties: dict[int, list[Property]] = {}
    for kind, span in inner:
        if kind == b"ipma":
            _associate(data, span, known, properties, limits)
    references = _references(data, parts[b"iref"], limits) if b"iref" in parts else []
    return Items(primary, kinds, spans, properties, references)


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
    fields = Fields(data, iinf[0])
    fields.number(2 if fields.version() == 0 else 4)  # entry_count
    kinds = {}
    for kind, (body, _) in boxes(data, (fields.position, iinf[1]), limits):
        if kind != b"infe":
            continue
        entry = Fields(data, body)
        version = entry.version()
        if version >= 2:
            item = entry.number(2 if version == 2 else 4)
            entry.number(2)  # item_protection_index
            kinds[item] = data[entry.position : entry.position + 4], entry.position
    return kinds


def _spans(data: bytes, iloc: Span, idat: Span | None, limits: Limits) -> dict[int, list[Span]]:
    fields = Fields(data, iloc[0])
    version, sizes = fields.version(), fields.number(2)
    offset_size, length_size, base_size = sizes >> 12, sizes >> 8 & 15, sizes >> 4 & 15
    index_size = sizes & 15 if version else 0
    item_size = 2 if version < 2 else 4
    count = fields.number(item_size)
    check_count(count, "items", limits.max_image_chunks)
    spans: dict[int, list[Span]] = {}
    pieces = 0
    for _ in range(count):
        item = fields.number(item_size)
        in_idat = version > 0 and fields.number(2) & 15 != 0  # construction_method
        fields.number(2)  # data_reference_index
        base, extents = fields.number(base_size), fields.number(2)
        pieces += extents
        check_count(pieces, "pieces", limits.max_image_chunks)
        origin, end = idat if in_idat and idat is not None else (0, len(data))
        spans[item] = []
        for _ in range(extents):
            fields.number(index_size)
            begin = min(origin + base + fields.number(offset_size), end)
            length = fields.number(length_size)
            spans[item].append((begin, min(begin + length, end) if length else end))
    return spans


def _associate(
    data: bytes, ipma: Span, known: list[Property], properties: dict[int, list[Property]], limits: Limits
) -> None:
    """Add the properties that an ``ipma`` box assigns to items. Of one item in several entries, all count."""
    fields = Fields(data, ipma[0])
    version, flags = divmod(fields.number(4), 1 << 24)
    index_size, mask = (2, 0x7FFF) if flags & 1 else (1, 0x7F)
    count = fields.number(4)
    check_count(count, "items", limits.max_image_chunks)
    for _ in range(count):
        own = properties.setdefault(fields.number(2 if version < 1 else 4), [])
        for _ in range(fields.number(1)):
            index = fields.number(index_size) & mask
            if index:
                own.append(known[index - 1])


def _references(data: bytes, iref: Span, limits: Limits) -> list[tuple[bytes, int, list[int]]]:
    fields = Fields(data, iref[0])
    item_size = 2 if fields.version() == 0 else 4
    found = []
    for kind, (body, _) in boxes(data, (fields.position, iref[1]), limits):
        entry = Fields(data, body)
        source, count = entry.number(item_size), entry.number(2)
        check_count(count, "items", limits.max_image_chunks)
        found.append((kind, source, [entry.number(item_size) for _ in range(count)]))
    return found


__all__ = [
    "Items",
    "Property",
    "boxes",
    "children",
    "metadata",
    "orientation",
    "read",
    "size",
]
