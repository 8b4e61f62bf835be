"""AVIFs as other programs write them: animations without items, and grids whose tiles share their bytes."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
from PIL import Image

from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import DEFAULT_LIMITS, Limits
from lazymedia.media.image import ImageMediaIO, header, items, probe
from lazymedia.media.image.items import children
from tests.media import pictures
from tests.media.pictures import box

FRAMES = [pictures.photo(64, 48, seed=seed) for seed in range(3)]
ANIMATED = pictures.encode(FRAMES[0], "AVIF", save_all=True, append_images=FRAMES[1:])
SIDE = 64
TILE = pictures.encode(pictures.photo(SIDE, SIDE), "AVIF")


def by_pillow(data: bytes) -> Image.Image:
    with Image.open(io.BytesIO(data)) as opened:
        return opened.convert("RGB")


@pytest.mark.parametrize("missing", [(b"pitm",), (b"iloc",), (b"pitm", b"iloc")], ids=str)
def test_an_animation_does_not_need_items(missing: tuple[bytes, ...]) -> None:
    data = ANIMATED
    for kind in missing:
        assert data.count(kind) == 1
        data = data.replace(kind, b"free")
    assert probe(data) == probe(ANIMATED)
    assert np.array_equal(np.asarray(ImageMediaIO().load_bytes(data)), np.asarray(by_pillow(data)))


@pytest.mark.parametrize("missing", [b"pitm", b"iloc"])
def test_a_still_picture_does(missing: bytes) -> None:
    with pytest.raises(UnprocessableMediaError, match="header"):
        ImageMediaIO().load_bytes(TILE.replace(missing, b"free"))


def test_an_animation_without_items_is_limited_by_what_it_codes() -> None:
    data = ANIMATED.replace(b"pitm", b"free")
    with pytest.raises(UnprocessableMediaError, match="64 x 48"):
        ImageMediaIO(limits=Limits(max_image_pixels=64 * 48 - 1)).load_bytes_ref(data)


def grid_of(rows: int, columns: int) -> bytes:
    """A grid of tiles that are one stream."""
    top = children(TILE, (0, len(TILE)), DEFAULT_LIMITS)
    found = items.read(TILE, top[b"meta"], DEFAULT_LIMITS)
    ((start, stop),) = found.spans[found.primary]
    stream = TILE[start:stop]
    configuration = next(TILE[slice(*span)] for kind, span in found.properties[found.primary] if kind == b"av1C")
    size = (columns * SIDE, rows * SIDE)
    layout = bytes((0, 1, rows - 1, columns - 1)) + struct.pack(">LL", *size)
    tiles = range(2, rows * columns + 2)
    kinds = [(1, b"grid"), *((tile, b"av01") for tile in tiles)]
    entries = b"".join(box(b"infe", struct.pack(">LHH4sB", 2 << 24, item, 0, kind, 0)) for item, kind in kinds)
    known = [
        box(b"ispe", struct.pack(">LLL", 0, *size)),
        box(b"ispe", struct.pack(">LLL", 0, SIDE, SIDE)),
        box(b"av1C", configuration),
        box(b"pixi", b"\0\0\0\0\3\x08\x08\x08"),
    ]
    linked = struct.pack(">HBBB", 1, 2, 1, 4) + b"".join(struct.pack(">HBBBB", tile, 3, 2, 0x83, 4) for tile in tiles)
    dimg = box(b"dimg", struct.pack(">HH", 1, len(tiles)) + b"".join(struct.pack(">H", tile) for tile in tiles))

    def meta(base: int) -> bytes:
        places = struct.pack(">HHHLL", 1, 0, 1, base, len(layout))
        places += b"".join(struct.pack(">HHHLL", tile, 0, 1, base + len(layout), len(stream)) for tile in tiles)
        return box(
            b"meta",
            bytes(4)
            + box(b"hdlr", bytes(8) + b"pict" + bytes(13))
            + box(b"pitm", struct.pack(">LH", 0, 1))
            + box(b"iloc", struct.pack(">LBBH", 0, 0x44, 0, len(kinds)) + places)
            + box(b"iinf", struct.pack(">LH", 0, len(kinds)) + entries)
            + box(b"iref", bytes(4) + dimg)
            + box(b"iprp", box(b"ipco", b"".join(known)) + box(b"ipma", struct.pack(">LL", 0, len(kinds)) + linked)),
        )

    front = box(b"ftyp", b"avif\0\0\0\0avifmif1miaf")
    return front + meta(len(front) + len(meta(0)) + 8) + box(b"mdat", layout + stream)


@pytest.mark.parametrize(("rows", "columns"), [(1, 2), (2, 2), (3, 5), (16, 16)])
def test_tiles_may_share_their_bytes(rows: int, columns: int) -> None:
    data = grid_of(rows, columns)
    assert np.array_equal(np.asarray(ImageMediaIO().load_bytes(data)), np.asarray(by_pillow(data)))
    pixels = np.asarray(ImageMediaIO().load_bytes(data))
    inner = slice(4, SIDE - 4)  # colours are smoothed over the edges of tiles
    assert np.array_equal(pixels[-SIDE:, -SIDE:][inner, inner], np.asarray(by_pillow(TILE))[inner, inner])


def test_tiles_that_share_their_bytes_are_limited_by_the_pixels_of_all_of_them() -> None:
    data = grid_of(16, 16)
    limits = Limits(max_image_pixels=(16 * SIDE) ** 2 // 5)
    with pytest.raises(UnprocessableMediaError, match="pixels at most"):
        ImageMediaIO(limits=limits).load_bytes_ref(data)


def test_the_parts_of_a_small_picture_may_not_code_a_large_one() -> None:
    """Or two kilobytes that say 64 x 64 would cost what 9000 x 9000 does."""
    large = pictures.av1_of(9_000, 9_000)
    with pytest.raises(UnprocessableMediaError, match="parts"):
        ImageMediaIO().load_bytes_ref(pictures.avif_of([(0, len(large))], large, (64, 64)))
    assert ImageMediaIO().load_bytes_ref(pictures.avif_of([(0, len(large))], large, (9_000, 9_000))).probe()


@pytest.mark.parametrize(("mode", "stored"), [("RGB", "RGB"), ("RGBA", "RGBA"), ("L", "L")])
def test_the_mode_is_known_for_the_estimate(mode: str, stored: str) -> None:
    data = pictures.encode(pictures.photo(64, 48, mode), "AVIF")
    _, found = header.read_header(data, DEFAULT_LIMITS)
    assert found is not None
    assert found.codec_memory().mode == stored
    image = ImageMediaIO(None).load_bytes(data)
    assert isinstance(image, Image.Image)
    assert image.mode == stored
