"""AVIFs by hand around a tile that Pillow has encoded: a grid of many, and boxes that many claims hang on.

ISO/IEC 23008-12 has the boxes.
"""

from __future__ import annotations

import io
import struct

from PIL import Image


def encoded(size: tuple[int, int], mode: str = "RGB") -> bytes:
    """A grey picture, as fast as it goes."""
    buffer = io.BytesIO()
    Image.new(mode, size, 0x80 if mode == "L" else (128,) * len(mode)).save(buffer, "AVIF", speed=10, quality=30)
    return buffer.getvalue()


def box(kind: bytes, *parts: bytes) -> bytes:
    """A box."""
    body = b"".join(parts)
    return struct.pack(">L", len(body) + 8) + kind + body


def full(kind: bytes, *parts: bytes, version: int = 0, flags: int = 0) -> bytes:
    """A box with a version and flags."""
    return box(kind, struct.pack(">L", version << 24 | flags), *parts)


def _content(data: bytes, kind: bytes) -> bytes:
    """What the first box of a type holds."""
    at = data.index(kind)
    return data[at + 4 : at - 4 + int.from_bytes(data[at - 4 : at])]


def grid(side: int, columns: int, rows: int) -> bytes:
    """A picture of ``columns`` x ``rows`` tiles of ``side`` x ``side`` pixels, each with bytes of its own."""
    tile = encoded((side, side))
    coded, settings = _content(tile, b"mdat"), box(b"av1C", _content(tile, b"av1C"))
    count = columns * rows
    whole = struct.pack(">BBBBHH", 0, 0, rows - 1, columns - 1, columns * side, rows * side)
    types = [full(b"infe", struct.pack(">HH", 1, 0), b"grid\0", version=2)]
    types += [full(b"infe", struct.pack(">HH", number, 0), b"av01\0", version=2) for number in range(2, count + 2)]
    properties = box(
        b"ipco",
        full(b"ispe", struct.pack(">LL", columns * side, rows * side)),
        full(b"ispe", struct.pack(">LL", side, side)),
        settings,
        full(b"pixi", b"\3\x08\x08\x08"),
    )
    owned = struct.pack(">LHBBB", count + 1, 1, 2, 1, 4)
    owned += b"".join(struct.pack(">HBBBB", number, 3, 2, 0x83, 4) for number in range(2, count + 2))
    tiles = struct.pack(f">HH{count}H", 1, count, *range(2, count + 2))

    def meta(start: int) -> bytes:
        places = struct.pack(">BBH", 0x44, 0, count + 1) + struct.pack(">HHHHLL", 1, 1, 0, 1, 0, len(whole))
        places += b"".join(
            struct.pack(">HHHHLL", number + 2, 0, 0, 1, start + number * len(coded), len(coded))
            for number in range(count)
        )
        return full(
            b"meta",
            full(b"hdlr", bytes(4), b"pict", bytes(13)),
            full(b"pitm", struct.pack(">H", 1)),
            full(b"iloc", places, version=1),
            full(b"iinf", struct.pack(">H", count + 1), *types),
            box(b"iprp", properties, full(b"ipma", owned)),
            full(b"iref", box(b"dimg", tiles)),
            box(b"idat", whole),
        )

    brand = box(b"ftyp", b"avif", bytes(4), b"avifmif1miaf")
    return brand + meta(len(brand) + len(meta(0)) + 8) + box(b"mdat", coded * count)


def property_claims(tables: int, claims: int) -> bytes:
    """A picture with many tables of properties, each of which claims more entries than it has bytes for."""
    picture = encoded((64, 64))
    at = picture.index(b"iprp")
    length = int.from_bytes(picture[at - 4 : at])
    # The owner of each is no item, and has no property; where they end, so does the payload.
    false = full(b"ipma", struct.pack(">LHB", claims, 0xFFFF, 0)) * tables
    properties = picture[at - 4 : at - 4 + length]
    iprp = box(b"iprp", properties[8:], false, box(b"free", bytes(3 * claims)))
    changed = picture[: at - 4] + iprp + picture[at - 4 + length :]
    meta = changed.index(b"meta")
    size = int.from_bytes(changed[meta - 4 : meta]) + len(iprp) - length
    return changed[: meta - 4] + struct.pack(">L", size) + changed[meta:]


__all__ = ["box", "encoded", "full", "grid", "property_claims"]
