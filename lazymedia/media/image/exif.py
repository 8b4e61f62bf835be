"""Which way up a picture is, and what it is called, read from EXIF and XMP.

Comes in: an EXIF block or an XMP packet, often malformed. Goes out: an orientation from 1 to 8, or a UUID. Never
here: an exception or a warning for what the block says; a block that cannot be read says nothing.

EXIF is a TIFF structure: byte order, 42, and the offset of a directory of 12-byte entries (tag, type, count, value or
the value's offset). Only the first directory matters here. Reading it by hand costs a microsecond; Pillow's reader
warns about damage, and raises for some of it.
"""

from __future__ import annotations

import re
import struct
import uuid
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from lazymedia.media.image.outline import Metadata

ORIENTATION: Final = 0x0112
IMAGE_ID: Final = 0x800D
IMAGE_WIDTH: Final = 0x0100
IMAGE_LENGTH: Final = 0x0101
BITS: Final = 0x0102
COMPRESSION: Final = 0x0103
PHOTOMETRIC: Final = 0x0106
SAMPLES: Final = 0x0115
ROWS_PER_STRIP: Final = 0x0116

_MAX_ID: Final = 64
"""Characters of an ImageID at most; a UUID in its longest spelling, ``urn:uuid:{...}``, has 47."""
_SIZES: Final = {3: 2, 4: 4, 8: 2, 9: 4}
_NUMBERS: Final = {3: "H", 4: "L", 8: "h", 9: "l"}
_BYTES: Final = frozenset({1, 2, 7})
_XMP_ORIENTATION: Final = re.compile(rb'tiff:Orientation(?:="|>)([0-9])')
_UUID: Final = re.compile(
    rb"(?:urn:uuid:)?\{?([0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12})\}?", re.IGNORECASE
)


class _Entry(NamedTuple):
    order: str
    kind: int
    units: int
    field: bytes


def orientation(metadata: Metadata) -> int:
    """How stored pixels must be turned, 1 (not at all) to 8, by the EXIF standard.

    Without the EXIF tag, XMP's ``tiff:Orientation`` counts, as in Pillow. Whatever is malformed or out of range is 1.
    """
    value = None if metadata.exif is None else number(metadata.exif, ORIENTATION)
    if value is None and metadata.xmp is not None:
        found = _XMP_ORIENTATION.search(metadata.xmp)
        value = None if found is None else int(found[1])
    return value if value is not None and 1 <= value <= 8 else 1


def image_id(block: bytes) -> bytes | None:
    """The UUID that the EXIF tag ImageID (0x800D) holds, as 16 bytes; None unless it holds exactly one.

    Text may be written in any of the usual ways. Sixteen plain bytes count when they carry a UUID's version and
    variant; otherwise any checksum would pass. The nil UUID names nothing.
    """
    block = _without_marker(block)
    entries = _find(block, IMAGE_ID)
    if len(entries) != 1:
        return None
    raw = _bytes(block, entries[0])
    if raw is None:
        return None
    if len(raw) == 16 and entries[0].kind != 2:
        named = uuid.UUID(bytes=raw)
        return raw if named.variant == uuid.RFC_4122 and named.version in range(1, 9) else None
    found = _UUID.fullmatch(raw.strip(b"\x00 "))
    if found is None:
        return None
    value = bytes.fromhex(found[1].replace(b"-", b"").decode())
    return value if any(value) else None


def number(block: bytes, tag: int) -> int | None:
    """The first integer under ``tag`` in the first directory of a TIFF structure; None where there is none."""
    entries = _find(_without_marker(block), tag)
    if not entries:
        return None
    order, kind, units, field = entries[0]
    if kind not in _NUMBERS or not 1 <= units <= 4 // _SIZES[kind]:
        return None
    value: int = struct.unpack_from(order + _NUMBERS[kind], field)[0]
    return value


def _without_marker(block: bytes) -> bytes:
    """Some writers put ``Exif`` and two zeros in front, some do it twice."""
    return block.removeprefix(b"Exif\0\0").removeprefix(b"Exif\0\0")


def _find(block: bytes, tag: int) -> list[_Entry]:
    order = {b"II*\0": "<", b"II\0*": "<", b"MM\0*": ">", b"MM*\0": ">"}.get(block[:4])
    if order is None or len(block) < 10:
        return []
    (offset,) = struct.unpack_from(order + "L", block, 4)
    if offset + 2 > len(block):
        return []
    (count,) = struct.unpack_from(order + "H", block, offset)
    whole = min(count, (len(block) - offset - 2) // 12)
    entries = struct.iter_unpack(order + "HHL4s", block[offset + 2 : offset + 2 + 12 * whole])
    return [_Entry(order, kind, count, field) for found, kind, count, field in entries if found == tag]


def _bytes(block: bytes, entry: _Entry) -> bytes | None:
    if entry.kind not in _BYTES or not 0 < entry.units <= _MAX_ID:
        return None
    if entry.units <= 4:
        return entry.field[: entry.units]
    (offset,) = struct.unpack(entry.order + "L", entry.field)
    value = block[offset : offset + entry.units]
    return value if len(value) == entry.units else None


__all__ = [
    "BITS",
    "COMPRESSION",
    "IMAGE_ID",
    "IMAGE_LENGTH",
    "IMAGE_WIDTH",
    "ORIENTATION",
    "PHOTOMETRIC",
    "ROWS_PER_STRIP",
    "SAMPLES",
    "image_id",
    "number",
    "orientation",
]
