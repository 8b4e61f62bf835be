"""What the scans of a JPEG may cost: bounded by its header, however they are coded, and stopped between two of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pytest
from PIL import Image

from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import DEFAULT_LIMITS, Limits
from lazymedia.media.cancellation import DecodeStopped, stopping_when
from lazymedia.media.image import ImageMediaIO, header, jpeg
from tests.media import pictures
from tests.media.pictures import AC, ARITHMETIC, ARITHMETIC_PROGRESSIVE, DC, PROGRESSIVE, REFINED_AC, SEQUENTIAL
from tests.media.stops import After

Scans = Sequence[tuple[Sequence[int], tuple[int, int, int]]]

GREY, COLOURS, HALVED, FOUR = "11", "11 11 11", "22 11 11", "11 11 11 11"
LARGE = (16_384, 5_461)
ALL = (0, 63, 0)


def progressive(count: int, components: int = 1, then: tuple[int, int, int] = REFINED_AC) -> Scans:
    each = range(1, components + 1)
    return [(each, DC), *(((number,), then) for _ in range(count) for number in each)]


COSTLY: dict[str, tuple[int, str, Scans]] = {
    "Huffman, grey, 63 refinements": (PROGRESSIVE, GREY, progressive(63)),
    "Huffman, grey, 63 first passes": (PROGRESSIVE, GREY, progressive(63, then=AC)),
    "Huffman, 21 refinements of three components": (PROGRESSIVE, COLOURS, progressive(21, 3)),
    "Huffman, 15 refinements of four components": (PROGRESSIVE, FOUR, progressive(15, 4)),
    "Huffman, sequential, 60 scans": (SEQUENTIAL, COLOURS, [((number,), ALL) for number in (1, 2, 3)] * 20),
    "arithmetic, grey, 63 refinements": (ARITHMETIC_PROGRESSIVE, GREY, progressive(63)),
    "arithmetic, grey, 10 refinements": (ARITHMETIC_PROGRESSIVE, GREY, progressive(10)),
    "arithmetic, grey, one first pass": (ARITHMETIC_PROGRESSIVE, GREY, progressive(1, then=AC)),
    "arithmetic, sequential, 20 scans": (ARITHMETIC, COLOURS, [((number,), ALL) for number in (1, 2, 3)] * 7),
    "arithmetic, sequential, one scan": (ARITHMETIC, COLOURS, [((1, 2, 3), ALL)]),
}


@pytest.mark.parametrize("output", ["pil", "array"])
@pytest.mark.parametrize("size", [LARGE, (2_000, 1_000)], ids=["89 megapixels", "2 megapixels"])
@pytest.mark.parametrize("kind", COSTLY)
def test_scans_without_data_are_rejected_by_the_header(
    kind: str, size: tuple[int, int], output: Literal["pil", "array"]
) -> None:
    frame, sampling, scans = COSTLY[kind]
    data = pictures.jpeg_of(size, frame, sampling, scans)
    assert len(data) < 3_000
    image_io = ImageMediaIO(output=output)
    for load in (image_io.load_bytes_ref, image_io.load_bytes):
        with pytest.raises(UnprocessableMediaError, match="scans") as caught:
            load(data)
        assert caught.value.__cause__ is None


@pytest.mark.parametrize("kind", COSTLY)
def test_the_same_scans_of_a_small_picture_are_decoded_as_by_pillow(kind: str) -> None:
    frame, sampling, scans = COSTLY[kind]
    data = pictures.jpeg_of((100, 60), frame, sampling, scans)
    mode = {1: "L", 3: "RGB", 4: "CMYK"}[len(sampling.split())]
    plain = Image.new(mode, (100, 60))
    plain.frombytes(data, "jpeg", ("CMYK;I" if mode == "CMYK" else mode, ""))
    image = ImageMediaIO(None).load_bytes(data)
    assert isinstance(image, Image.Image)
    assert np.array_equal(np.asarray(image), np.asarray(plain))


@pytest.mark.parametrize("quality", [20, 95])
@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:0"])
@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
def test_what_encoders_write_costs_less_than_half_of_what_is_allowed(mode: str, subsampling: str, quality: int) -> None:
    """By the estimate, and by pixels alone: the picture has one colour, and so the fewest bytes."""
    plain = Image.new(mode, (1024, 768), 77)
    data = pictures.encode(plain, "JPEG", progressive=True, quality=quality, subsampling=subsampling)
    _, found = header.read_header(data, DEFAULT_LIMITS)
    assert isinstance(found, jpeg.JpegHeader)
    assert 2 <= len(found.scans) <= 20
    assert found.cost < DEFAULT_LIMITS.max_image_ns_per_pixel * 1024 * 768 / 2 * (1.5 if mode == "CMYK" else 1)
    ImageMediaIO().load_bytes_ref(data)


def test_twenty_scans_over_a_large_picture_are_allowed() -> None:
    """As many as the programs that look for the smallest file write."""
    data = pictures.jpeg_of(LARGE, PROGRESSIVE, HALVED, progressive(6, 3))
    assert data.count(b"\xff\xda") == 19
    ImageMediaIO().load_bytes_ref(data)


def test_scans_that_bring_bytes_are_allowed_for_them() -> None:
    frame, sampling, scans = COSTLY["Huffman, grey, 63 refinements"]
    data = pictures.jpeg_of((2_000, 1_000), frame, sampling, scans)
    with pytest.raises(UnprocessableMediaError, match="scans"):
        ImageMediaIO().load_bytes_ref(data)
    ImageMediaIO().load_bytes_ref(data[:-2] + bytes(100_000) + data[-2:])


def test_the_limits_decide() -> None:
    frame, sampling, scans = COSTLY["Huffman, grey, 63 refinements"]
    data = pictures.jpeg_of((2_000, 1_000), frame, sampling, scans)
    ImageMediaIO(limits=Limits(max_image_ns_per_pixel=100)).load_bytes_ref(data)
    ImageMediaIO(limits=Limits(max_image_ns_per_byte=100_000)).load_bytes_ref(data)


@pytest.mark.parametrize("noise", [b"\xff\x02", b"\xff\xbf" * 9, b"\xff\xd7", b"\xff\xff\xff"], ids=bytes.hex)
def test_scans_behind_a_marker_that_libjpeg_steps_over_are_counted(noise: bytes) -> None:
    """It looks for the next restart, and steps over markers that mean nothing."""
    frame, sampling, scans = COSTLY["Huffman, grey, 63 refinements"]
    data = pictures.jpeg_of((2_000, 1_000), frame, sampling, scans)
    first = data.index(b"\xff\xda")
    restarts = pictures.segment(0xDD, b"\0\1")
    second = data.index(b"\xff\xda", first + 2)
    hidden = data[:first] + restarts + data[first:second] + noise + data[second:]
    with pytest.raises(UnprocessableMediaError, match="scans"):
        ImageMediaIO().load_bytes_ref(hidden)


def test_the_beginning_of_a_picture_is_not_rejected_for_bytes_that_have_not_come_yet() -> None:
    data = pictures.jpeg_of((2_000, 1_000), ARITHMETIC, COLOURS, [((1, 2, 3), ALL)])
    whole = data[:-2] + bytes(480_000) + data[-2:]
    image_io = ImageMediaIO()
    image_io.load_bytes_ref(whole)
    for length in range(0, len(data) + 100, 7):
        image_io.check_header(whole[:length], len(whole))


@pytest.mark.parametrize("output", ["pil", "array"])
def test_a_cancelled_decode_stops_between_two_scans(output: Literal["pil", "array"]) -> None:
    frame, sampling, scans = COSTLY["Huffman, 21 refinements of three components"]
    data = pictures.jpeg_of((400, 300), frame, sampling, scans)
    with stopping_when(stop := After(40)), pytest.raises(DecodeStopped):
        ImageMediaIO(output=output).load_bytes(data)
    assert stop.calls == 41


def test_a_cancelled_decode_of_one_scan_stops_at_the_next_megabyte() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (1500, 1500, 3), dtype=np.uint8)
    data = pictures.encode(noise, "JPEG", quality=98)
    assert len(data) > 3 << 20
    with stopping_when(stop := After(4)), pytest.raises(DecodeStopped):
        ImageMediaIO().load_bytes(data)
    assert stop.calls == 5
    image = ImageMediaIO().load_bytes(data)
    assert isinstance(image, Image.Image)
    plain = Image.new("RGB", image.size)
    plain.frombytes(data, "jpeg", ("RGB", ""))
    assert image.tobytes() == plain.tobytes()


@pytest.mark.parametrize("output", ["pil", "array"])
def test_a_cancelled_decode_of_a_png_stops_at_the_next_megabyte_or_strip(output: Literal["pil", "array"]) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (1200, 1000, 3), dtype=np.uint8)
    data = pictures.encode(noise, "PNG", compress_level=0)
    image_io = ImageMediaIO("RGBA", output=output)
    with stopping_when(whole := After(10**9)):
        pixels = image_io.load_bytes(data)
    assert np.array_equal(np.asarray(pixels)[..., :3], noise)
    assert whole.calls > 20, "some for the file, and one for each strip of the conversion"
    for allowed in (2, whole.calls - 2):
        with stopping_when(stop := After(allowed)), pytest.raises(DecodeStopped):
            image_io.load_bytes(data)
        assert stop.calls == allowed + 1
