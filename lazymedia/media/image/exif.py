"""Orientation and ImageID of a picture, read from EXIF and XMP.

EXIF is a TIFF structure: byte order, 42, and the offset of a directory of 12-byte entries (tag, type, count, value or
the value's offset). Only the first directory is read. A block that cannot be read has no values; Pillow's reader warns
about damage, and raises for some of it.
"""

from __future__ import annotations

import re
import struct
import uuid
from typing import Final, NamedTuple

_ORIENTATION: Final = 0x0112
_IMAGE_ID: Final = 0x800D
_MAX_ID: Final = 64
"""Characters of an ImageID at most; a UUID in its longest spelling, ``urn:uuid:{...}``, has 47."""
_SIZES: Final = {3: 2, 4: 4, 8: 2, 9: 4}
_NUMBERS: Final = {3: "H", 4: "L", 8: "h", 9: "l"}
"""Bytes, and codes of `struct`, of the integers among EXIF's types."""
_ASCII: Final = 2
_BYTES: Final = frozenset({1, _ASCII, 7})
_XMP_ORIENTATION: Final = re.compile(rb'tiff:Orientation(?:="|>)([0-9])')
_UUID: Final = re.compile(
    rb"(?:urn:uuid:)?\{?([0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12})\}?", re.IGNORECASE
)


class Metadata(NamedTuple):
    """An EXIF block (a TIFF structure) and an XMP packet, each where there is one."""

    exif: bytes | None = None
    xmp: bytes | None = None


class _Entry(NamedTuple):
    order: str
    kind: int
    number: int
    field: bytes


def find_orientation(metadata: Metadata) -> int:
    """How stored pixels must be turned, 1 (not at all) to 8, by the EXIF standard.

    Without the EXIF tag, XMP's ``tiff:Orientation`` counts, as in Pillow. Whatever is malformed or out of range is 1.
    """
    value = None if metadata.exif is None else _number(metadata.exif, _ORIENTATION)
    if value is None and metadata.xmp is not None:
        found = _XMP_ORIENTATION.search(metadata.xmp)
        value = None if found is None else int(found[1])
    return value if value is not None and 1 <= value <= 8 else 1


def find_image_id(block: bytes) -> bytes | None:
    """The UUID that the EXIF tag ImageID (0x800D) holds, as 16 bytes; None unless it holds exactly one.

    Text may be written in any of the usual ways. Sixteen plain bytes count when they carry a UUID's version and
    variant; otherwise any checksum would pass. The nil UUID identifies nothing.
    """
    block = _without_marker(block)
    entries = _entries(block, _IMAGE_ID)
    if len(entries) != 1:
        return None
    raw = _bytes(block, entries[0])
    if raw is None:
        return None
    if len(raw) == 16 and entries[0].kind != _ASCII:
        binary = uuid.UUID(bytes=raw)
        return raw if binary.variant == uuid.RFC_4122 and binary.version in range(1, 9) else None
    text = _UUID.fullmatch(raw.strip(b"\x00 "))
    if text is None:
        return None
    value = bytes.fromhex(text[1].replace(b"-", b"").decode())
    return value if any(value) else None


def raw_profile(text: bytes) -> bytes | None:
    """The bytes of ImageMagick's raw profile: a line break, a name, a length, then hexadecimal lines."""
    try:
        return bytes.fromhex(b"".join(text.split(b"\n")[3:]).decode("ascii"))
    except ValueError:
        return None


def _number(block: bytes, tag: int) -> int | None:
    """The first integer under ``tag``; None where there is none."""
    entries = _entries(_without_marker(block), tag)
    if not entries:
        return None
    order, kind, count, field = entries[0]
    if kind not in _NUMBERS or not 1 <= count <= 4 // _SIZES[kind]:
        return None
    value: int = struct.unpack_from(order + _NUMBERS[kind], field)[0]
    return value


def _without_marker(block: bytes) -> bytes:
    """Some writers put ``Exif`` and two zeros in front, some do it twice."""
    return block.removeprefix(b"Exif\0\0").removeprefix(b"Exif\0\0")


def _entries(block: bytes, tag: int) -> list[_Entry]:
    """The entries of ``tag`` in the first directory."""
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
    if entry.kind not in _BYTES or not 0 < entry.number <= _MAX_ID:
        return None
    if entry.number <= 4:
        return entry.field[: entry.number]
    (offset,) = struct.unpack(entry.order + "L", entry.field)
    value = block[offset : offset + entry.number]
    return value if len(value) == entry.number else None


__all__ = ["Metadata", "find_image_id", "find_orientation", "raw_profile"]
