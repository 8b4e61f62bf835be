"""GIF, BMP and TIFF, whose headers Pillow reads: what it does beside that has no influence."""

from __future__ import annotations

import struct
import warnings
from typing import Any

import numpy as np
import pytest
from PIL import GifImagePlugin, Image

from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import Limits
from lazymedia.media.image import ImageMediaIO, header, probe
from tests.media import pictures

EVERYTHING = Limits(image_formats=pictures.ALL_FORMATS)
GIF = pictures.encode(pictures.photo(mode="P"), "GIF")
FIRST_BLOCK = 13 + 3 * 256
CONTROL = b"!\xf9\4\1\0\0\3\0"
"""Colour 3 is transparent."""


def pixels(data: bytes, mode: str = "RGBA") -> Any:
    return np.asarray(ImageMediaIO(mode, output="array", limits=EVERYTHING).load_bytes_ref(data).decode())


def with_blocks(*blocks: bytes) -> bytes:
    return GIF[:FIRST_BLOCK] + b"".join(blocks) + GIF[FIRST_BLOCK:]


@pytest.mark.parametrize(
    "blocks",
    [
        (b"!\xfe\0",),
        (b"!\xfe\0\0",),
        (b"!\xfe\2hi\0",),
        (b"!\xfe\0", b"!\xfe\2hi\0"),
        (b"!\xff\x0bNETSCAPE2.0\3\1\0\0\0",),
        (b"!\xff\x0bXMP DataXMP\4<x/>\0",),
        (b"\0\0",),
    ],
    ids=["empty comment", "and a zero", "comment", "two comments", "loop", "XMP", "zeros"],
)
def test_blocks_before_the_first_frame_do_not_matter(blocks: tuple[bytes, ...]) -> None:
    assert GIF[FIRST_BLOCK : FIRST_BLOCK + 1] == b","
    assert np.array_equal(pixels(with_blocks(*blocks)), pixels(GIF))
    for order in ((*blocks, CONTROL), (CONTROL, *blocks)):
        assert np.array_equal(pixels(with_blocks(*order)), pixels(with_blocks(CONTROL)))
    assert not np.array_equal(pixels(with_blocks(CONTROL)), pixels(GIF))


@pytest.mark.parametrize("block", [b"!\xff\0", b"!\x01\0", b"!\xf9\0", b"!\xf9\1\1\0"], ids=repr)
def test_an_extension_that_is_empty_where_it_must_not_be_is_an_error(block: bytes) -> None:
    """Pillow skips one block too many behind the first three, and finds no transparency in the last."""
    with pytest.raises(UnprocessableMediaError, match="header"):
        pixels(with_blocks(block))


@pytest.mark.parametrize("disposal", range(4))
@pytest.mark.parametrize("pillows_limit", [1, None])
@pytest.mark.parametrize("screen", [(37, 29), (5, 5), (60, 20)], ids=str)
def test_neither_screen_nor_disposal_makes_pillows_limit_matter(
    screen: tuple[int, int], pillows_limit: int | None, disposal: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = b"!\xf9\4" + bytes((disposal << 2, 0, 0, 0, 0))
    data = GIF[:6] + struct.pack("<HH", *screen) + with_blocks(control)[10:]
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", pillows_limit)
    shape = max(29, screen[1]), max(37, screen[0])
    assert probe(data).upright_size == shape[::-1]
    assert pixels(data).shape == (*shape, 4)
    assert np.array_equal(pixels(data)[:29, :37], pixels(GIF))


@pytest.mark.parametrize("strategy", GifImagePlugin.LoadingStrategy)
def test_pillows_loading_strategy_does_not_matter(
    strategy: GifImagePlugin.LoadingStrategy, monkeypatch: pytest.MonkeyPatch
) -> None:
    ramp = np.resize(np.arange(256, dtype=np.uint8), (29, 37))
    made = [GIF, with_blocks(CONTROL), pictures.encode(ramp, "GIF"), pictures.encode(ramp, "GIF", transparency=3)]
    expected = [(probe(data), pixels(data).tobytes()) for data in made]
    monkeypatch.setattr(GifImagePlugin, "LOADING_STRATEGY", strategy)
    assert [(probe(data), pixels(data).tobytes()) for data in made] == expected


@pytest.mark.parametrize("colours", [0, 255, 256, 257, 65_536])
def test_a_bmp_may_have_256_colours(colours: int) -> None:
    """Pillow compares as many colours as the header says, also where they are missing."""
    data = bytearray(pictures.encode(pictures.photo(mode="P"), "BMP"))
    data[46:50] = struct.pack("<L", colours)
    if colours <= 256:
        assert probe(bytes(data)).mode == "P"
    else:
        with pytest.raises(UnprocessableMediaError, match="header"):
            pixels(bytes(data))


def test_colours_that_a_bmp_does_not_use_are_not_counted() -> None:
    data = bytearray(pictures.encode(pictures.photo(), "BMP"))
    data[46:50] = struct.pack("<L", 65_536)
    assert np.array_equal(pixels(bytes(data), "RGB"), np.asarray(pictures.photo()))


@pytest.mark.parametrize("compression", [None, "tiff_lzw"])
def test_the_beginning_of_a_tiff_gives_no_warning(compression: str | None) -> None:
    """While it downloads, its directory is not there yet."""
    data = pictures.encode(pictures.photo(), "TIFF", compression=compression)
    directory = struct.unpack_from("<L", data, 4)[0]
    moved = data[:4] + struct.pack("<L", len(data)) + data[8:] + data[directory : directory + 2 + 12 * 20]
    assert probe(moved).upright_size == (37, 29)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for size in range(0, len(data), 7):
            assert header.read_header(moved[:size], EVERYTHING)[1] is None
    assert not caught


@pytest.mark.parametrize("orientation", [0, 1, 6, 8, 9])
def test_the_header_of_a_tiff_has_the_orientation_that_pillow_applies(orientation: int) -> None:
    data = pictures.encode(pictures.corners(), "TIFF", tiffinfo={0x0112: orientation})
    known = orientation if 1 <= orientation <= 8 else 1
    assert (probe(data).width, probe(data).height, probe(data).orientation) == (40, 24, known)
    assert np.array_equal(pixels(data, "RGB"), pictures.oriented(pictures.corners(), known))


def tiled_tiff(side: int) -> bytes:
    """A square of tiles of one pixel, which all are one."""
    values = {0x0100: side, 0x0101: side, 0x0102: 8, 0x0106: 1, 0x0142: 1, 0x0143: 1}
    entries = [(tag, 4, 1, struct.pack("<L", value)) for tag, value in values.items()]
    return pictures.exif(*entries, (0x0144, 4, side**2, struct.pack("<L", 8) * side**2))


def test_the_tiles_of_a_tiff_are_limited() -> None:
    """Pillow would make some objects of each, on opening."""
    assert pixels(tiled_tiff(16), "L").shape == (16, 16, 1)
    assert probe(tiled_tiff(256)).upright_size == (256, 256)
    with pytest.raises(UnprocessableMediaError, match="header"):
        probe(tiled_tiff(257))
