"""The estimate of a decode's memory, compared with what a process takes and with what requests may have."""

from __future__ import annotations

import struct
from itertools import product
from pathlib import Path
from typing import Literal

import pytest

from benchmarks.memory_of_pictures import CASES, measured
from lazymedia.limits import Limits
from lazymedia.media.image import ImageMediaIO
from tests.media import pictures

SHORT = [
    "JPEG",
    "JPEG, progressive 4:4:4",
    "PNG, RGBA",
    "PNG, 16 bits, tRNS",
    "WebP, lossless alpha",
    "GIF, a frame of one pixel",
    "AVIF",
    "BMP",
    "TIFF, deflated",
    "HEIF",
]


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the peak of a process cannot be reset here")
@pytest.mark.parametrize("kind", [kind for kind in SHORT if kind in CASES])
def test_an_estimate_is_at_least_the_peak_and_at_most_1_6_times_as_much(kind: str) -> None:
    for output, mode, peak, estimate in measured(kind, 1800):
        assert 1.0 <= estimate / peak <= 1.6, (output, mode, peak, estimate)


@pytest.mark.parametrize("kind", CASES)
def test_every_picture_has_an_estimate_that_grows_with_its_pixels(kind: str) -> None:
    outputs: tuple[Literal["pil", "array"], ...] = ("pil", "array")
    payloads = [CASES[kind](side) for side in (64, 256)]
    for output, mode in product(outputs, ("RGB", "RGBA", "L", None)):
        image_io = ImageMediaIO(mode, output=output, limits=Limits(image_formats=(*pictures.ALL_FORMATS, "HEIF")))
        small, large = (image_io.load_bytes_ref(payload).decoded_bytes for payload in payloads)
        assert small is not None, (output, mode)
        assert large is not None, (output, mode)
        assert 256**2 - 64**2 <= large - small <= 20 * 256**2, (output, mode)


def test_a_gif_of_55_bytes_counts_what_its_screen_takes() -> None:
    gif = CASES["GIF, a frame of one pixel"](9_000)
    assert len(gif) < 60
    estimate = ImageMediaIO().load_bytes_ref(gif).decoded_bytes
    assert estimate is not None
    assert estimate >= 5 * 9_000**2


def test_a_rotation_is_counted() -> None:
    upright, rotated = (
        ImageMediaIO().load_bytes_ref(
            pictures.encode(pictures.photo(600, 400), "JPEG", exif=b"Exif\0\0" + pictures.orientation_exif(orientation))
        )
        for orientation in (1, 6)
    )
    assert upright.decoded_bytes is not None
    assert rotated.decoded_bytes is not None
    assert rotated.decoded_bytes - upright.decoded_bytes >= 4 * 600 * 400


def test_a_tiff_in_one_strip_counts_the_strip() -> None:
    """Which libtiff decodes whole."""
    photo = pictures.photo(600, 400)
    strip = {"compression": "tiff_deflate", "tiffinfo": {0x0116: 400}}
    one, many = (pictures.encode(photo, "TIFF", **save) for save in (strip, {"compression": "tiff_deflate"}))
    image_io = ImageMediaIO(limits=Limits(image_formats=("TIFF",)))
    estimates = [image_io.load_bytes_ref(data).decoded_bytes or 0 for data in (one, many)]
    assert struct.pack("<HHLL", 0x0116, 4, 1, 400) in one or struct.pack("<HHLL", 0x0116, 3, 1, 400) in one
    assert estimates[0] > estimates[1]
