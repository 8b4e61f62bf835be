"""Limits are checked by the header, and Pillow's switches have no influence."""

from __future__ import annotations

import struct
import tracemalloc
import warnings
import zlib
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageFile

from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import DEFAULT_LIMITS, Limits
from lazymedia.media.image import ImageHeader, ImageMediaIO, probe
from tests.media import pictures

EVERYTHING = Limits(image_formats=pictures.ALL_FORMATS)
DEFAULT = ImageMediaIO(limits=EVERYTHING)


def rejected(data: bytes, image_io: ImageMediaIO = DEFAULT) -> UnprocessableMediaError:
    """The error of making a reference, which takes little memory."""
    tracemalloc.start()
    try:
        with pytest.raises(UnprocessableMediaError) as caught:
            image_io.load_bytes_ref(data)
        assert tracemalloc.get_traced_memory()[1] < 5 << 20
    finally:
        tracemalloc.stop()
    assert caught.value.modality == "image"
    assert caught.value.__cause__ is None, "a limit has no cause, damage has one"
    with pytest.raises(UnprocessableMediaError):
        image_io.load_bytes(data)
    return caught.value


def bilevel_png(side: int) -> bytes:
    packer = zlib.compressobj(9)
    row = bytes(1 + side // 8)
    packed = b"".join(packer.compress(row) for _ in range(side)) + packer.flush()
    header = pictures.chunk(b"IHDR", struct.pack(">LLBBBBB", side, side, 1, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + pictures.chunk(b"IDAT", packed) + pictures.chunk(b"IEND")


def gif_of(width: int, height: int, frame: tuple[int, int, int, int]) -> bytes:
    return (
        b"GIF89a" + struct.pack("<HHBBB", width, height, 0, 0, 0) + b"," + struct.pack("<HHHHB", *frame, 0) + b"\2\0;"
    )


def webp_of(kind: bytes, body: bytes) -> bytes:
    return b"RIFF" + struct.pack("<L", len(body) + 12) + b"WEBP" + kind + struct.pack("<L", len(body)) + body


def bmp_of(width: int, height: int) -> bytes:
    return b"BM" + struct.pack("<LHHLLllHHLLllLL", 54, 0, 0, 54, 40, width, height, 1, 24, 0, 0, 0, 0, 0, 0)


def tiff_of(width: int, height: int) -> bytes:
    tags = {0x0100: width, 0x0101: height, 0x0111: 8}  # ImageWidth, ImageLength, StripOffsets
    return pictures.exif(*((tag, 4, 1, struct.pack("<L", value)) for tag, value in tags.items()))


JPEG = pictures.encode(pictures.corners(), "JPEG")
BOMBS: dict[str, bytes] = {
    "PNG, 30000 squared, one bit": bilevel_png(30_000),
    "PNG, 50000 squared, hardly pixels": pictures.png_of(50_000, 50_000, 8, 2, b"\0"),
    "PNG, 1 x 2^31-1": pictures.png_of(1, 2**31 - 1, 1, 0, b"\0\0"),
    "PNG, 2^32-1 x 1": pictures.png_of(2**32 - 1, 1, 8, 6, b"\0"),
    "JPEG, 65500 squared": pictures.with_size(JPEG, 65_500, 65_500),
    "progressive JPEG": pictures.with_size(
        pictures.encode(pictures.corners(), "JPEG", progressive=True), 20_000, 9_000
    ),
    "GIF screen": gif_of(60_000, 60_000, (0, 0, 1, 1)),
    "GIF frame beyond its screen": gif_of(1, 1, (65_535, 65_535, 65_535, 65_535)),
    "WebP, lossy": webp_of(b"VP8 ", b"\x10\0\0\x9d\x01\x2a" + struct.pack("<HH", 16_383, 16_383)),
    "WebP, lossless": webp_of(b"VP8L", b"\x2f" + struct.pack("<L", 16_383 | 16_383 << 14) + bytes(8)),
    "WebP, extended": webp_of(b"VP8X", bytes(4) + b"\xff\xff\xff" + b"\x10\0\0"),
    "BMP": bmp_of(40_000, 40_000),
    "BMP, rows from the top": bmp_of(40_000, -40_000),
    "BMP, most negative": bmp_of(10, -(2**31)),
    "TIFF": tiff_of(40_000, 40_000),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_rejected_by_its_header(bomb: str) -> None:
    rejected(BOMBS[bomb])


@pytest.mark.parametrize("kind", pictures.ALL_FORMATS)
def test_pixels_and_sides_are_limited_for_every_format(kind: str) -> None:
    data = pictures.encode(pictures.corners(40, 24), kind)
    fits = {"image_formats": pictures.ALL_FORMATS, "max_image_pixels": 960, "max_image_side": 40}
    ImageMediaIO(limits=Limits(**fits)).load_bytes_ref(data).decode()  # type: ignore[arg-type]  # a table of settings
    for tighter in ({"max_image_pixels": 959}, {"max_image_side": 39}):
        error = rejected(data, ImageMediaIO(limits=Limits(**{**fits, **tighter})))  # type: ignore[arg-type]  # as above
        assert "40 x 24" in str(error)
        assert str(next(iter(tighter.values()))) in str(error)


@pytest.mark.parametrize("pillows_limit", [1, 10**12, None])
@pytest.mark.parametrize("kind", pictures.ALL_FORMATS)
def test_pillows_own_limit_has_no_influence(
    kind: str, pillows_limit: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither as an error nor as a warning; warnings are errors in this run, and made so once more here."""
    data = pictures.encode(pictures.corners(), kind)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", pillows_limit)
    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        ref = DEFAULT.load_bytes_ref(data)
        image = ref.decode()
        assert isinstance(image, Image.Image)
        assert image.size == (40, 24)
        array = ImageMediaIO("RGBA", output="array", limits=EVERYTHING).load_bytes(data)
        assert np.array_equal(np.asarray(array)[..., :3], np.asarray(image))
        rejected(data, ImageMediaIO(limits=Limits(image_formats=pictures.ALL_FORMATS, max_image_pixels=900)))
    assert pillows_limit == Image.MAX_IMAGE_PIXELS


@pytest.mark.parametrize("pillows_limit", [1, 10**12, None])
def test_a_gif_frame_beyond_its_screen_does_not_ask_pillows_limit(
    pillows_limit: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = pictures.encode(pictures.photo(mode="P"), "GIF")
    small_screen = data[:6] + struct.pack("<HH", 5, 5) + data[10:]
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", pillows_limit)
    image = DEFAULT.load_bytes(small_screen)
    assert isinstance(image, Image.Image)
    assert image.size == (37, 29)


def test_a_picture_in_pillows_warning_zone_may_be_allowed() -> None:
    """13000 x 13000 pixels of one bit, which Pillow opens with a warning only."""
    data = bilevel_png(13_000)
    rejected(data)
    allowed = ImageMediaIO(None, limits=Limits(max_image_pixels=200_000_000)).load_bytes(data)
    assert isinstance(allowed, Image.Image)
    assert allowed.size == (13_000, 13_000)


def test_a_picture_that_is_already_open_is_limited_before_it_is_loaded() -> None:
    class Untouchable(Image.Image):
        size = property(lambda self: (20_000, 20_000))

        def load(self) -> Any:
            raise AssertionError("loaded")

    with pytest.raises(UnprocessableMediaError, match="20000 x 20000"):
        ImageMediaIO().convert(Untouchable())


# Scans


def photo_jpeg(**save: Any) -> bytes:
    return pictures.encode(pictures.photo(64, 48), "JPEG", **save)


def test_a_progressive_jpeg_with_two_hundred_added_scans_is_rejected_by_count() -> None:
    error = rejected(pictures.with_scans(photo_jpeg(progressive=True), 200))
    assert "64 scans" in str(error)


@pytest.mark.parametrize("added", [0, 50])
def test_scans_below_the_limit_are_decoded(added: int) -> None:
    data = pictures.with_scans(photo_jpeg(progressive=True), added)
    DEFAULT.load_bytes_ref(data)
    ImageMediaIO(limits=Limits(max_image_scans=10 + added)).load_bytes_ref(data)
    rejected(data, ImageMediaIO(limits=Limits(max_image_scans=9 + added)))


@pytest.mark.parametrize("place", ["before the frame", "between the scans"])
def test_what_looks_like_scans_inside_a_segment_is_none(place: str) -> None:
    """An embedded thumbnail, for example."""
    data = photo_jpeg(progressive=True)
    looks = pictures.segment(0xE5, b"\xff\xda\0\x08\1\1\0\0\x3f\0" * 500) + pictures.segment(0xFE, b"\xff\xda" * 500)
    at = 2 if place == "before the frame" else data.rindex(b"\xff\xda")
    padded = data[:at] + looks + data[at:]
    assert np.array_equal(np.asarray(DEFAULT.load_bytes_ref(padded).decode()), np.asarray(DEFAULT.load_bytes(data)))
    rejected(pictures.with_scans(padded, 200))


def test_real_scans_are_not_hidden_by_segments_or_fill_bytes_between_them() -> None:
    data = photo_jpeg(progressive=True)
    last = data.rindex(b"\xff\xda")
    scan = pictures.segment(0xFE, b"between") + b"\xff\xff\xff" + data[last + 1 : -2] + b"\xff\xd0"
    rejected(data[:-2] + scan * 100 + data[-2:])


def test_the_scans_of_a_sequential_picture_with_a_scan_for_each_component_are_counted_too() -> None:
    frame = pictures.segment(0xC0, b"\x08\0\x10\0\x10\3\1\x11\0\2\x11\0\3\x11\0")
    scan = pictures.segment(0xDA, b"\1\1\0\0\x3f\0") + b"\x12\x34"
    rejected(b"\xff\xd8" + frame + scan * 65 + b"\xff\xd9")


def test_a_sequential_picture_in_one_scan_can_have_no_second() -> None:
    """So it is not searched: whatever follows, libjpeg ends or rejects it after the first."""
    data = pictures.with_scans(photo_jpeg(), 2000)
    ref = DEFAULT.load_bytes_ref(data)
    with pytest.raises(UnprocessableMediaError):
        ref.decode()


def test_scans_hidden_from_the_count_by_a_million_segments_are_rejected_as_segments() -> None:
    data = photo_jpeg(progressive=True)
    at = data.rindex(b"\xff\xda")
    looks = pictures.segment(0xFE, b"\xff\xda" * 100)
    error = rejected(data[:at] + looks + pictures.segment(0xFE, b"") * 5000 + data[at:])
    assert "segments" in str(error)


# Chunks, segments and other parts


@pytest.mark.parametrize("kind", [b"tIME", b"IDAT", b"zzZz"])
@pytest.mark.parametrize("before", [b"IDAT", b"IEND"])
def test_a_png_of_a_hundred_thousand_empty_chunks_is_rejected_by_count(kind: bytes, before: bytes) -> None:
    png = pictures.encode(pictures.corners(), "PNG")
    error = rejected(pictures.with_chunks(png, pictures.chunk(kind) * 100_000, before=before))
    assert "4096 chunks" in str(error)


def test_pixel_chunks_that_carry_something_are_not_counted() -> None:
    """Libpng writes 8 KiB at a time, which a large photograph has thousands of."""
    noise = np.random.default_rng(0).integers(0, 256, (200, 300, 3), dtype=np.uint8)
    png = pictures.encode(noise, "PNG")
    pixels = b"".join(content for kind, content in pictures.chunks(png) if kind == b"IDAT")
    split = b"".join(pictures.chunk(b"IDAT", pixels[at : at + 1024]) for at in range(0, len(pixels), 1024))
    data = pictures.with_chunks(pictures.without_chunks(png, b"IDAT"), split, before=b"IEND")
    assert data.count(b"IDAT") > 100
    image_io = ImageMediaIO(limits=Limits(max_image_chunks=4))
    assert np.array_equal(np.asarray(image_io.load_bytes_ref(data).decode()), noise)


def test_a_jpeg_of_too_many_segments_is_rejected_by_count() -> None:
    filler = [pictures.segment(0xFE, b"")] * 5000
    assert "segments" in str(rejected(pictures.with_segments(JPEG, *filler)))
    assert "segments" in str(rejected(pictures.with_segments(JPEG, b"\xff\x00" * 5000)))


def test_a_gif_with_endless_extensions_before_its_first_frame_is_left_to_fail() -> None:
    gif = pictures.encode(pictures.photo(mode="P"), "GIF")
    at = 13 + 3 * 256
    assert gif[at : at + 1] in {b"!", b","}
    stuffed = gif[:at] + (b"!\xfe" + b"\1x" * 10 + b"\0") * 100_000 + gif[at:]
    with pytest.raises(UnprocessableMediaError, match="header"):
        DEFAULT.load_bytes_ref(stuffed).decode()
    few = gif[:at] + (b"!\xfe" + b"\1x" * 10 + b"\0") * 1000 + gif[at:]
    assert np.array_equal(np.asarray(DEFAULT.load_bytes(few)), np.asarray(DEFAULT.load_bytes(gif)))


def test_an_avif_that_declares_less_than_it_codes_is_rejected_by_what_it_codes() -> None:
    """Libavif would decode 200 x 150 pixels and scale them down to the 32 x 32 that are declared."""
    data = pictures.encode(pictures.photo(200, 150), "AVIF")
    declared = struct.pack(">LL", 200, 150)
    assert data.count(declared) == 1
    lying = data.replace(declared, struct.pack(">LL", 32, 32))
    strict = ImageMediaIO(limits=Limits(max_image_pixels=10_000))
    assert "200 x 150" in str(rejected(lying, strict))
    small = pictures.encode(pictures.photo(32, 32), "AVIF")
    strict.load_bytes_ref(small).decode()


def test_an_animated_avif_is_limited_by_what_it_codes_too() -> None:
    frames = [pictures.photo(200, 150, seed=seed) for seed in range(3)]
    data = pictures.encode(frames[0], "AVIF", save_all=True, append_images=frames[1:])
    lying = data.replace(struct.pack(">LL", 200, 150), struct.pack(">LL", 32, 32))
    lying = lying.replace(struct.pack(">LL", 200 << 16, 150 << 16), struct.pack(">LL", 32 << 16, 32 << 16))
    assert lying != data
    assert "200 x 150" in str(rejected(lying, ImageMediaIO(limits=Limits(max_image_pixels=10_000))))


ONE = pictures.av1_of(100, 100)


def test_a_hand_made_avif_of_one_part_has_a_header() -> None:
    data = pictures.avif_of([(0, len(ONE))], ONE, (90, 80))
    assert probe(data, Limits(max_image_pixels=10_000)) == ImageHeader("AVIF", 90, 80, None, 1)


@pytest.mark.parametrize(
    ("parts", "message"),
    [(5, "40000 pixels"), (600, "512 coded parts"), (5000, "4096 boxes")],
)
def test_the_parts_of_an_avif_are_limited_together(parts: int, message: str) -> None:
    """Each of them would be decoded on its own before they are put together."""
    items = [(at * len(ONE), len(ONE)) for at in range(parts)]
    data = pictures.avif_of(items, ONE * parts)
    assert message in str(rejected(data, ImageMediaIO(limits=Limits(max_image_pixels=10_000))))


def test_the_parts_of_an_avif_may_not_be_the_same_bytes_over_and_over() -> None:
    """Or a megabyte would be read five hundred times."""
    stream = ONE + bytes((0x2A, 0x80, 0x40)) + bytes(8192)
    items = [(0, len(stream))] * 500
    assert "share" in str(rejected(pictures.avif_of(items, stream)))
    twice = pictures.avif_of(items[:2], stream)
    assert probe(twice).format == "AVIF", "as the picture of an animation is its first sample"


@pytest.mark.parametrize("kind", [b"meta", b"moov"])
def test_an_avif_in_which_two_boxes_could_be_meant_has_no_header(kind: bytes) -> None:
    """The library might go by the other one."""
    data = pictures.avif_of([(0, len(ONE))], ONE, (8, 8), *[pictures.box(kind, b"")] * 2)
    with pytest.raises(UnprocessableMediaError, match="header"):
        probe(data)


def test_a_track_with_two_tables_of_places_has_no_header() -> None:
    frames = [pictures.photo(seed=seed) for seed in range(2)]
    data = pictures.encode(frames[0], "AVIF", save_all=True, append_images=frames[1:])
    assert probe(data).format == "AVIF"
    assert data.count(b"stco") == data.count(b"stts") == 1
    with pytest.raises(UnprocessableMediaError, match="header"):
        probe(data.replace(b"stts", b"co64"))


# Formats


UNSUPPORTED: dict[str, bytes] = {
    "nothing": b"",
    "one byte": b"\xff",
    "text": b"GIF is a picture format",
    "SVG": b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>',
    "HTML": b"<!DOCTYPE html>",
    "half a signature": b"\x89PNG\r\n\x1a",
    "JPEG 2000": b"\0\0\0\x0cjP  \r\n\x87\n" + bytes(50),
    "PSD": b"8BPS\0\1" + bytes(50),
    "EPS": b"%!PS-Adobe-3.0 EPSF-3.0",
    "ICO": b"\0\0\1\0\1\0" + bytes(50),
    "BM text": b"BMW is a maker of cars and not a picture",
    "TIFF, which is off": pictures.encode(pictures.corners(), "TIFF"),
    "a WAV": b"RIFF\x24\0\0\0WAVEfmt ",
}


@pytest.mark.parametrize("kind", UNSUPPORTED)
def test_an_unknown_format_is_rejected_at_decode_with_the_formats_that_are_supported(kind: str) -> None:
    ref = ImageMediaIO().load_bytes_ref(UNSUPPORTED[kind])
    with pytest.raises(UnprocessableMediaError, match="not a supported picture format") as caught:
        ref.decode()
    assert all(name in str(caught.value) for name in DEFAULT_LIMITS.image_formats)
    assert caught.value.__cause__ is not None
    assert caught.value.modality == "image"


@pytest.mark.parametrize("kind", pictures.ALL_FORMATS)
def test_only_allowed_formats_are_decoded(kind: str) -> None:
    data = pictures.encode(pictures.corners(), kind)
    ImageMediaIO(limits=Limits(image_formats=(kind,))).load_bytes(data)
    others = tuple(name for name in pictures.ALL_FORMATS if name != kind)
    with pytest.raises(UnprocessableMediaError, match="not a supported"):
        ImageMediaIO(limits=Limits(image_formats=others)).load_bytes_ref(data).decode()
    assert probe(data).format == kind


def test_a_polyglot_is_what_its_first_bytes_say() -> None:
    gif = pictures.encode(pictures.photo(mode="P"), "GIF")
    data = gif + pictures.encode(pictures.corners(), "PNG")
    with pytest.raises(UnprocessableMediaError):
        ImageMediaIO(limits=Limits(image_formats=("PNG",))).load_bytes(data)
    assert np.array_equal(np.asarray(ImageMediaIO().load_bytes(data)), np.asarray(ImageMediaIO().load_bytes(gif)))


def test_decoding_changes_none_of_pillows_switches() -> None:
    before = (Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES, list(warnings.filters))
    for kind in pictures.ALL_FORMATS:
        DEFAULT.load_bytes(pictures.encode(pictures.corners(), kind))
    assert before == (Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES, list(warnings.filters))
