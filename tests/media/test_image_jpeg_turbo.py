"""JPEGs that become arrays without Pillow: the same pixels, the same errors, and Pillow wherever that is in doubt."""

from __future__ import annotations

import dataclasses
import random
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import simplejpeg
from numpy import typing as npt
from PIL import Image, ImageFile

from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import DEFAULT_LIMITS
from lazymedia.media.cancellation import DecodeStopped, stopping_when
from lazymedia.media.image import ImageMediaIO, header, jpeg_turbo
from lazymedia.media.image.io import Target
from tests.media import pictures
from tests.media.stops import After

WHITE = (255, 255, 255)
SAVED: dict[str, dict[str, Any]] = {
    "4:4:4": {"subsampling": "4:4:4"},
    "4:2:2": {"subsampling": "4:2:2"},
    "4:2:0": {"subsampling": "4:2:0"},
    "progressive": {"progressive": True},
    "progressive 4:4:4": {"progressive": True, "subsampling": "4:4:4"},
    "restarts": {"restart_marker_blocks": 2},
    "progressive with restarts": {"progressive": True, "restart_marker_rows": 1},
    "stored as RGB": {"keep_rgb": True},
    "optimised": {"optimize": True, "quality": 100},
    "coarse": {"quality": 3},
}


def seeds(width: int = 37, height: int = 29) -> dict[str, bytes]:
    """Pictures that are to be decoded without Pillow."""
    photo = pictures.photo(width, height)
    made = {name: pictures.encode(photo, "JPEG", **save) for name, save in SAVED.items()}
    for subsampling in ("440", "411"):
        made[subsampling] = simplejpeg.encode_jpeg(np.array(photo), 85, "RGB", subsampling)
    made["grey"] = pictures.encode(photo.convert("L"), "JPEG")
    made["progressive grey"] = pictures.encode(photo.convert("L"), "JPEG", progressive=True)
    plain = made["4:2:0"]
    unmarked = plain.replace(b"JFIF\0", b"JFIX\0", 1)
    for transform in (0, 1):
        marker = pictures.segment(0xEE, b"Adobe\0\x64\0\0\0\0" + bytes((transform,)))
        made[f"Adobe's transform {transform}"] = pictures.with_segments(unmarked, marker)
        made[f"JFIF and Adobe's transform {transform}"] = pictures.with_segments(plain, marker)
    made["neither JFIF nor Adobe"] = unmarked
    made["extended sequential"] = plain.replace(b"\xff\xc0\0", b"\xff\xc1\0", 1)
    made["bytes behind it"] = plain + b"\xff\xd9\xff\xd8 anything"
    made["several pictures"] = pictures.encode(photo, "MPO", save_all=True, append_images=[pictures.photo(seed=1)])
    for orientation in range(2, 9):
        block = pictures.segment(0xE1, b"Exif\0\0" + pictures.orientation_exif(orientation))
        made[f"orientation {orientation}"] = pictures.with_segments(plain, block)
    return made


SEEDS = seeds()


@pytest.fixture
def tried_anew() -> Iterator[None]:
    jpeg_turbo.agrees_with_pillow.cache_clear()
    yield
    jpeg_turbo.agrees_with_pillow.cache_clear()


def fast(data: bytes, mode: str | None = "RGB") -> npt.NDArray[np.uint8] | None:
    """What comes without Pillow, None where it is not asked or has no certain answer."""
    _, found = header.read_header(data, DEFAULT_LIMITS)
    assert found is not None
    return jpeg_turbo.decode(data, found, Target(mode, WHITE, as_array=True))


def slow(data: bytes, mode: str | None = "RGB") -> npt.NDArray[np.uint8]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jpeg_turbo, "agrees_with_pillow", lambda: False)
        return np.asarray(ImageMediaIO(mode, output="array").load_bytes(data))


def test_the_libraries_here_agree(tried_anew: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever Pillow's switches say."""
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1)
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    assert jpeg_turbo.agrees_with_pillow()


@pytest.mark.parametrize("kind", SEEDS)
@pytest.mark.parametrize("mode", ["RGB", "RGBA", None])
def test_pixels_are_pillows(kind: str, mode: str | None) -> None:
    pixels = fast(SEEDS[kind], mode)
    assert pixels is not None
    expected = slow(SEEDS[kind], mode)
    assert pixels.dtype == np.uint8
    assert pixels.shape == expected.shape
    assert np.array_equal(pixels, expected)
    assert pixels.flags.c_contiguous
    assert not pixels.flags.writeable
    assert np.array_equal(np.asarray(ImageMediaIO(mode, output="array").load_bytes(SEEDS[kind])), expected)


@pytest.mark.parametrize("size", [(1, 1), (2, 1), (1, 2), (7, 5), (8, 8), (17, 33), (300, 270)])
def test_pixels_are_pillows_at_any_size(size: tuple[int, int]) -> None:
    for kind, data in seeds(*size).items():
        assert np.array_equal(np.asarray(fast(data)), slow(data)), kind


def test_grey_stays_one_channel_where_it_may() -> None:
    for mode in ("L", None):
        pixels = fast(SEEDS["grey"], mode)
        assert pixels is not None
        assert pixels.shape == (29, 37, 1)
        assert np.array_equal(pixels, slow(SEEDS["grey"], mode))


PHOTO = pictures.photo()


@pytest.mark.parametrize(
    ("data", "mode"),
    [
        (SEEDS["4:2:0"], "L"),
        (pictures.encode(PHOTO.convert("CMYK"), "JPEG"), "RGB"),
        (SEEDS["4:2:0"].replace(b"\xff\xc0\0", b"\xff\xc9\0", 1), "RGB"),
        (SEEDS["4:2:0"][:-2] + b"more than there should be\xff\xd9", "RGB"),
        (pictures.encode(PHOTO, "PNG"), "RGB"),
    ],
    ids=["grey out of colours", "four colours", "arithmetic coding", "a warning", "another format"],
)
def test_pillow_decodes_the_rest(data: bytes, mode: str) -> None:
    assert fast(data, mode) is None
    pixels = np.asarray(ImageMediaIO(mode, output="array").load_bytes(data))
    assert np.array_equal(pixels, slow(data, mode))


def test_an_image_is_pillows_own() -> None:
    _, found = header.read_header(SEEDS["4:2:0"], DEFAULT_LIMITS)
    assert found is not None
    assert jpeg_turbo.decode(SEEDS["4:2:0"], found, Target("RGB", WHITE, as_array=False)) is None
    assert isinstance(ImageMediaIO().load_bytes(SEEDS["4:2:0"]), Image.Image)


def mutants(count: int) -> Iterator[bytes]:
    """Cut off, added to, cut out of, flipped."""
    randomly = random.Random(11)
    whole = list(SEEDS.values())
    for _ in range(count):
        data = bytearray(randomly.choice(whole))
        at = randomly.randrange(2, len(data))
        match randomly.randrange(8):
            case 0:
                del data[at:]
            case 1:
                del data[at : at + randomly.randrange(1, 30)]
            case 2:
                data[at:at] = randomly.choice(
                    (b"\xff\xd0", b"\xff\xd9", b"\xff\xda", b"\xff", b"\0", b"\xff\xdd\0\4\0\5")
                )
            case _:
                for _ in range(randomly.choice((1, 1, 2, 3, 12))):
                    data[randomly.randrange(2, len(data))] = randomly.randrange(256)
        yield bytes(data)


def test_damage_ends_as_it_does_with_pillow() -> None:
    """Two thousand mutants: what Pillow rejects is rejected, what it accepts has its pixels."""
    seen = {"without Pillow": 0, "left to Pillow": 0, "rejected": 0}
    io = ImageMediaIO(output="array")
    for data in mutants(2000):
        try:
            expected = slow(data)
        except UnprocessableMediaError:
            with pytest.raises(UnprocessableMediaError):
                io.load_bytes(data)
            seen["rejected"] += 1
            continue
        assert np.array_equal(np.asarray(io.load_bytes(data)), expected)
        seen["left to Pillow" if fast(data) is None else "without Pillow"] += 1
    assert min(seen.values()) >= 200, seen


@pytest.mark.parametrize("change", [{"width": 36}, {"height": 28}, {"width": 38}, {"height": 30}])
def test_a_decoder_that_finds_another_size_has_no_room_for_it(change: dict[str, int]) -> None:
    _, found = header.read_header(SEEDS["4:2:0"], DEFAULT_LIMITS)
    assert found is not None
    lying = dataclasses.replace(found, **change)  # type: ignore[arg-type]  # two of its numbers
    assert jpeg_turbo.decode(SEEDS["4:2:0"], lying, Target("RGB", WHITE, as_array=True)) is None


def test_without_the_extra_pillow_decodes(tried_anew: None, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = fast(SEEDS["orientation 6"])
    monkeypatch.setitem(sys.modules, "simplejpeg", None)  # would be an ImportError
    jpeg_turbo.agrees_with_pillow.cache_clear()
    assert fast(SEEDS["orientation 6"]) is None
    assert np.array_equal(
        np.asarray(ImageMediaIO(output="array").load_bytes(SEEDS["orientation 6"])), np.asarray(expected)
    )


def test_a_library_with_other_pixels_is_not_used(tried_anew: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one built over another libjpeg would have."""
    expected = slow(SEEDS["4:2:0"])
    monkeypatch.setattr(simplejpeg, "decode_jpeg", partial(simplejpeg.decode_jpeg, fastupsample=True))
    assert not jpeg_turbo.agrees_with_pillow()
    assert np.array_equal(np.asarray(ImageMediaIO(output="array").load_bytes(SEEDS["4:2:0"])), expected)


@pytest.mark.parametrize("kind", ["orientation 6", "4:2:0"])
def test_a_cancelled_decode_stops_behind_the_codec(kind: str) -> None:
    with stopping_when(After(1)), pytest.raises(DecodeStopped):
        ImageMediaIO(output="array").load_bytes(SEEDS[kind])
