"""Bit depths, colour spaces and arrays: the same rules for payloads and for pictures already open."""

from __future__ import annotations

import io
import pickle
import struct
import sys
from typing import Any

import numpy as np
import pytest
from numpy import typing as npt
from PIL import Image, ImageCms, ImageOps

from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import Limits
from lazymedia.media.image import ImageMediaIO
from tests.media import pictures

EVERYTHING = Limits(image_formats=pictures.ALL_FORMATS)
GREEN = (10, 200, 30)


def load(data: bytes, mode: str | None = "RGB", background: tuple[int, int, int] = (255, 255, 255)) -> npt.NDArray[Any]:
    image_io = ImageMediaIO(mode, rgba_background_color=background, output="array", limits=EVERYTHING)
    return np.asarray(image_io.load_bytes(data))


def convert(image: Image.Image, mode: str | None = "RGB", **settings: Any) -> npt.NDArray[Any]:
    return np.asarray(ImageMediaIO(mode, output="array", limits=EVERYTHING, **settings).convert(image))


# Bit depths


def sixteen_bits() -> npt.NDArray[np.uint16]:
    return np.arange(65536, dtype=np.uint16).reshape(256, 256)


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA", None])
def test_sixteen_bits_of_grey_lose_their_lower_half_and_are_never_clipped(mode: str | None) -> None:
    pixels = load(pictures.encode(sixteen_bits(), "PNG"), mode)
    expected = (sixteen_bits() >> 8).astype(np.uint8)
    assert np.array_equal(pixels[..., 0], expected)
    assert pixels.shape[2] == {"RGB": 3, "L": 1, "RGBA": 4, None: 1}[mode]


@pytest.mark.parametrize("dtype", ["<u2", ">u2"])
def test_sixteen_bits_of_either_byte_order_are_read_alike(dtype: str) -> None:
    values = sixteen_bits()
    size = (256, 256)
    raw = "I;16B" if dtype == ">u2" else "I;16"
    image = Image.frombytes(raw, size, values.astype(dtype).tobytes())
    assert np.array_equal(convert(image, "L")[..., 0], values >> 8)
    assert np.array_equal(load(pictures.encode(image, "TIFF"), "L")[..., 0], values >> 8)


def test_the_other_sixteen_bit_modes_are_read_alike() -> None:
    values = sixteen_bits()
    little = Image.frombytes("I;16L", (256, 256), values.astype("<u2").tobytes())
    assert np.array_equal(convert(little, "L")[..., 0], values >> 8)


RAMP = np.arange(256, dtype=np.int32).reshape(16, 16)
EIGHT_BITS: dict[str, Image.Image] = {
    "I, from an array": Image.fromarray(RAMP),
    "I, from L": Image.fromarray(RAMP.astype(np.uint8)).convert("I"),
    "I;16": Image.fromarray(RAMP.astype(np.uint16)),
    "I;16B": Image.fromarray(RAMP.astype(">u2")),
    "I;16, from L": Image.fromarray(RAMP.astype(np.uint8)).convert("I;16"),
}


@pytest.mark.parametrize("target", ["RGB", "L", "RGBA", None])
@pytest.mark.parametrize("kind", EIGHT_BITS)
def test_wide_greys_that_need_eight_bits_are_what_pillow_makes_of_them_and_not_black(
    kind: str, target: str | None
) -> None:
    image = EIGHT_BITS[kind]
    expected = np.asarray(image.convert(target or "L")).reshape(16, 16, -1)
    assert np.array_equal(expected[..., 0], RAMP)
    ways = [convert(image, target), load(pictures.encode(image, "TIFF"), target)]
    if image.mode == "I;16":
        ways.append(load(pictures.encode(image, "PNG"), target))
    for pixels in ways:
        assert np.array_equal(pixels, expected)
    as_image = ImageMediaIO(target).convert(image)
    assert isinstance(as_image, Image.Image)
    assert target is None or np.array_equal(np.asarray(as_image).reshape(expected.shape), expected)


@pytest.mark.parametrize(
    "image",
    [
        Image.new("F", (3, 2), 0.5),
        Image.new("F", (3, 2), 200.0),
        Image.new("I", (3, 2), 256),
        Image.new("I", (3, 2), 65536),
        Image.new("I", (3, 2), -1),
        Image.fromarray(np.array([[7, 8], [9, 300]], np.int32)),
    ],
    ids=["0 to 1", "0 to 255", "more than 8 bits", "more than 16 bits", "negative", "one pixel of four"],
)
def test_numbers_without_a_known_range_are_rejected(image: Image.Image) -> None:
    with pytest.raises(UnprocessableMediaError, match="8 bits") as caught:
        convert(image)
    assert caught.value.modality == "image"
    with pytest.raises(UnprocessableMediaError, match="8 bits"):
        load(pictures.encode(image, "TIFF"))


@pytest.mark.parametrize("bits", [1, 2, 4, 8, 16])
def test_greys_of_every_depth_run_from_black_to_white(bits: int) -> None:
    levels = min(1 << bits, 256)
    values = np.arange(levels) * ((1 << bits) - 1) // (levels - 1)
    packed = int("".join(f"{value:0{bits}b}" for value in values).ljust(-(-levels * bits // 8) * 8, "0"), 2)
    row = b"\0" + packed.to_bytes(-(-levels * bits // 8))
    pixels = load(pictures.png_of(levels, 1, bits, 0, row))
    assert np.array_equal(pixels[0, :, 0], np.arange(levels) * 255 // (levels - 1))


# Colour spaces


def test_cmyk_is_neither_inverted_nor_green() -> None:
    data = pictures.encode(Image.new("CMYK", (16, 16), (0, 255, 255, 0)), "JPEG", quality=95)
    assert b"Adobe" in data
    pixels = load(data).astype(int)
    assert np.abs(pixels - (255, 0, 0)).max() < 6


def test_adobes_marker_distinguishes_ycck_from_cmyk() -> None:
    """The same file with the transform flag set: the first three components are then luma and chroma."""
    data = pictures.encode(Image.new("CMYK", (16, 16), (0, 0, 0, 0)), "JPEG", quality=95)
    flag = data.index(b"Adobe") + 11
    ycck = data[:flag] + b"\2" + data[flag + 1 :]
    with Image.open(io.BytesIO(ycck)) as opened:
        expected = np.asarray(opened.convert("RGB"))
    assert np.array_equal(load(ycck), expected)
    assert not np.array_equal(load(ycck), load(data)) or data[flag] == 2


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "HSV", "LAB", "RGBX"])
@pytest.mark.parametrize("target", ["RGB", "L", "RGBA"])
def test_every_mode_without_transparency_becomes_what_pillow_makes_of_it(mode: str, target: str) -> None:
    source = pictures.photo(20, 14)
    image = source.convert("RGBA").convert(mode) if mode == "LAB" else source.convert(mode)
    through = image.convert("RGB") if mode in {"CMYK", "YCbCr", "HSV", "LAB"} else image
    assert np.array_equal(convert(image, target).squeeze(), np.asarray(through.convert(target)))


def test_a_colour_profile_is_ignored_on_every_way_in() -> None:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    plain = pictures.photo()
    for kind, save in pictures.LOSSLESS.items():
        if kind == "BMP":
            continue
        data = pictures.encode(plain, kind, icc_profile=profile, **save)
        with Image.open(io.BytesIO(data)) as opened:
            assert np.array_equal(load(data), np.asarray(plain))
            assert np.array_equal(convert(opened), np.asarray(plain))


# Shapes, arrays, modes that are kept


@pytest.mark.parametrize(("width", "height"), [(1, 1), (313, 1), (1, 313), (3, 1), (2, 3), (8192, 2), (2, 8192)])
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "AVIF", "BMP"])
def test_pictures_one_pixel_thin_keep_three_axes(kind: str, width: int, height: int) -> None:
    data = pictures.encode(Image.new("RGB", (width, height), (9, 8, 7)), kind)
    assert load(data).shape == (height, width, 3)
    assert load(data, "L").shape == (height, width, 1)
    image = ImageMediaIO().load_bytes(data)
    assert isinstance(image, Image.Image)
    assert (image.mode, image.size) == ("RGB", (width, height))


def test_an_array_is_the_images_bytes_in_one_piece_and_read_only() -> None:
    """A picture of many strips, whose last one is shorter."""
    source = pictures.photo(1031, 1021)
    data = pictures.encode(source, "PNG")
    for mode in ("RGB", "RGBA", "L"):
        array = load(data, mode)
        expected = np.asarray(source.convert(mode)).reshape(array.shape)
        assert np.array_equal(array, expected)
        assert array.dtype == np.uint8
        assert array.flags.c_contiguous
        assert not array.flags.writeable


KEPT: dict[str, tuple[bytes, str, int]] = {
    # name: (payload, mode as an image, channels as an array)
    "PNG 1": (pictures.encode(pictures.photo(mode="1"), "PNG"), "1", 1),
    "PNG L": (pictures.encode(pictures.photo(mode="L"), "PNG"), "L", 1),
    "PNG LA": (pictures.encode(pictures.photo(mode="LA"), "PNG"), "LA", 2),
    "PNG P": (pictures.encode(pictures.photo(mode="P"), "PNG"), "P", 3),
    "PNG P transparent": (pictures.encode(pictures.palette_picture(), "PNG", transparency=0), "P", 4),
    "PNG L transparent": (pictures.encode(pictures.greys("L", 70, 90), "PNG", transparency=70), "L", 2),
    "PNG RGB": (pictures.encode(pictures.photo(), "PNG"), "RGB", 3),
    "PNG RGB transparent": (
        pictures.encode(pictures.two_columns(alpha=False), "PNG", transparency=pictures.HIDDEN),
        "RGB",
        4,
    ),
    "PNG RGBA": (pictures.encode(pictures.photo(mode="RGBA"), "PNG"), "RGBA", 4),
    "PNG I;16": (pictures.encode(sixteen_bits(), "PNG"), "I;16", 1),
    "JPEG L": (pictures.encode(pictures.photo(mode="L"), "JPEG"), "L", 1),
    "JPEG CMYK": (pictures.encode(pictures.photo(mode="CMYK"), "JPEG"), "CMYK", 3),
    "GIF": (pictures.encode(pictures.photo(mode="P"), "GIF"), "P", 3),
    "WebP": (pictures.encode(pictures.photo(), "WEBP"), "RGB", 3),
    "WebP RGBA": (pictures.encode(pictures.photo(mode="RGBA"), "WEBP"), "RGBA", 4),
    "AVIF": (pictures.encode(pictures.photo(), "AVIF"), "RGB", 3),
    "BMP 1": (pictures.encode(pictures.photo(mode="1"), "BMP"), "1", 1),
    "BMP P": (pictures.encode(pictures.photo(mode="P"), "BMP"), "P", 3),
}


@pytest.mark.parametrize("kind", KEPT)
def test_without_a_mode_the_stored_one_is_kept(kind: str) -> None:
    data, mode, channels = KEPT[kind]
    image = ImageMediaIO(None).load_bytes(data)
    assert isinstance(image, Image.Image)
    with Image.open(io.BytesIO(data)) as opened:
        assert (image.mode, image.size) == (mode, opened.size)
        assert np.array_equal(np.asarray(image), np.asarray(opened))
        assert np.array_equal(np.asarray(image.convert("RGBA")), np.asarray(opened.convert("RGBA")))
    assert load(data, None).shape == (*reversed(image.size), channels)


@pytest.mark.parametrize("mode", [None, "RGB"])
@pytest.mark.parametrize("kind", KEPT)
def test_a_picture_pickles_and_holds_neither_payload_nor_metadata(kind: str, mode: str | None) -> None:
    data = bytes(bytearray(KEPT[kind][0]))
    before = sys.getrefcount(data)
    image = ImageMediaIO(mode).load_bytes(data)
    assert sys.getrefcount(data) == before
    assert isinstance(image, Image.Image)
    assert type(image) is Image.Image
    assert set(image.info) <= {"transparency"}
    assert mode is None or not image.info
    again = pickle.loads(pickle.dumps(image))
    assert (again.mode, again.size, again.info) == (image.mode, image.size, image.info)
    assert np.array_equal(np.asarray(again.convert("RGBA")), np.asarray(image.convert("RGBA")))


def test_of_an_animation_the_first_frame_is_taken_and_the_others_are_never_looked_at() -> None:
    frames = [Image.new("RGB", (16, 12), colour) for colour in ((255, 0, 0), (0, 255, 0), (0, 0, 255))]
    for kind in ("GIF", "PNG", "WEBP", "AVIF"):
        save = {"lossless": True} if kind == "WEBP" else {}
        data = pictures.encode(frames[0], kind, save_all=True, append_images=frames[1:], duration=50, **save)
        with Image.open(io.BytesIO(data)) as opened:
            assert getattr(opened, "n_frames", 1) == 3
        assert np.abs(load(data).astype(int) - (255, 0, 0)).max() < 5, kind


def test_of_an_animation_of_two_billion_frames_one_is_decoded() -> None:
    png = pictures.encode(pictures.corners(), "PNG")
    claims = pictures.chunk(b"acTL", struct.pack(">LL", 2**31 - 1, 0))
    assert np.array_equal(load(pictures.with_chunks(png, claims, before=b"IDAT")), pictures.corners())
    twice = pictures.with_chunks(png, claims, claims, before=b"IDAT")
    assert np.array_equal(load(twice), pictures.corners()), "Pillow would warn about the second"


def test_the_first_picture_of_an_mpo_is_a_jpeg() -> None:
    first, second = pictures.photo(), pictures.photo(seed=1)
    data = pictures.encode(first, "MPO", save_all=True, append_images=[second])
    with Image.open(io.BytesIO(data)) as opened:
        assert opened.format == "MPO"
        assert np.array_equal(load(data), np.asarray(opened))
    assert np.array_equal(load(data[:-100]), load(data)), "damage behind the first picture does not matter"


def test_converting_an_opened_picture_applies_its_orientation_and_does_not_change_it() -> None:
    data = pictures.encode(pictures.corners(), "JPEG", exif=b"Exif\0\0" + pictures.orientation_exif(6), quality=95)
    with Image.open(io.BytesIO(data)) as opened:
        info = dict(opened.info)
        assert np.array_equal(convert(opened), np.asarray(ImageOps.exif_transpose(opened)))
        assert (opened.size, opened.info) == ((40, 24), info)
        image = ImageMediaIO().convert(opened)
    assert isinstance(image, Image.Image)
    assert not image.info
    oriented = ImageOps.exif_transpose(opened)
    assert np.array_equal(convert(oriented), np.asarray(oriented)), "an orientation is not applied twice"


def test_orientations_that_pillow_would_not_apply_are_not_applied_to_opened_pictures_either() -> None:
    """XMP has no effect on an AVIF; of a TIFF, Pillow has applied the orientation."""
    avif = pictures.encode(pictures.corners(), "AVIF", xmp=pictures.xmp(6))
    tiff = pictures.encode(pictures.corners(), "TIFF", tiffinfo={0x0112: 1, 700: pictures.xmp(6)})
    for data in (avif, tiff):
        with Image.open(io.BytesIO(data)) as opened:
            assert np.array_equal(convert(opened), load(data))
        assert load(data).shape == (24, 40, 3)


def test_an_orientation_in_a_profile_or_in_xmp_is_applied_to_an_opened_picture_too() -> None:
    png = pictures.encode(pictures.corners(), "PNG")
    profile = b"Raw profile type exif\0" + pictures.raw_profile(pictures.orientation_exif(6))
    packet = b"XML:com.adobe.xmp\0\0\0\0\0" + pictures.xmp(6)
    for kind, content in ((b"tEXt", profile), (b"iTXt", packet)):
        data = pictures.with_chunks(png, pictures.chunk(kind, content), before=b"IDAT")
        with Image.open(io.BytesIO(data)) as opened:
            assert np.array_equal(convert(opened), load(data))
        assert load(data).shape == (40, 24, 3)


def test_a_bmp_may_have_its_rows_from_the_top() -> None:
    data = bytearray(pictures.encode(pictures.corners(), "BMP"))
    data[22:26] = struct.pack("<l", -24)
    assert np.array_equal(load(bytes(data)), pictures.corners()[::-1])


def test_a_converted_picture_shares_no_memory_with_the_callers() -> None:
    image = pictures.photo()
    result = ImageMediaIO().convert(image)
    assert isinstance(result, Image.Image)
    before = result.getpixel((3, 3))
    image.paste((0, 0, 0), (0, 0, 37, 29))
    assert result.getpixel((3, 3)) == before


def test_an_opened_picture_that_cannot_be_loaded_is_rejected_with_the_reason() -> None:
    with Image.open(io.BytesIO(pictures.encode(pictures.photo(), "PNG")[:-200])) as opened:
        with pytest.raises(UnprocessableMediaError) as caught:
            convert(opened)
    assert isinstance(caught.value.__cause__, OSError)


def bmp_of_four_bytes(pixels: bytes, width: int, height: int) -> bytes:
    """A BMP of blue, green, red and alpha, with a mask for each."""
    head = struct.pack("<LllHHLLllLL", 108, width, height, 1, 32, 3, 0, 0, 0, 0, 0)
    masks = struct.pack("<LLLL", 0xFF0000, 0xFF00, 0xFF, 0xFF000000)
    return b"BM" + struct.pack("<LHHL", 0, 0, 0, 122) + head + masks + bytes(52) + pixels


@pytest.mark.parametrize("target", ["RGB", "RGBA", "L", None])
def test_a_bmp_whose_alpha_is_zero_throughout_is_opaque(target: str | None) -> None:
    """As in browsers: programs leave the fourth byte empty."""
    red = Image.new("RGB", (4, 3), (200, 10, 20))
    empty = bmp_of_four_bytes(bytes((20, 10, 200, 0)) * 12, 4, 3)
    expected = np.asarray(red.convert(target or "RGB")).reshape(3, 4, -1)
    assert np.array_equal(load(empty, target, GREEN), expected)
    with Image.open(io.BytesIO(empty)) as opened:
        assert opened.mode == "RGBA"
        assert np.array_equal(convert(opened, target, rgba_background_color=GREEN), expected)


def test_a_bmp_with_one_opaque_pixel_is_see_through_elsewhere() -> None:
    data = bmp_of_four_bytes(bytes((20, 10, 200, 0)) * 11 + bytes((20, 10, 200, 255)), 4, 3)
    pixels = load(data, background=GREEN)
    assert np.array_equal(pixels[0, 3], (200, 10, 20)), "rows are stored from the bottom"
    assert np.array_equal(pixels.reshape(12, 3)[[*range(3), *range(4, 12)]], [GREEN] * 11)


@pytest.mark.parametrize("target", ["RGB", "RGBA", "L", None])
@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_a_png_of_palette_colours_without_a_palette_is_what_pillow_makes_of_it(bits: int, target: str | None) -> None:
    data = pictures.png_of(16 * 8 // bits, 1, bits, 3, b"\0" + bytes(range(0, 256, 17)))
    with Image.open(io.BytesIO(data)) as opened:
        expected = np.asarray(opened.convert(target or "RGB")).reshape(1, 16 * 8 // bits, -1)
        assert np.array_equal(load(data, target), expected)
        assert np.array_equal(convert(opened, target), expected)


def test_run_length_coded_bmps_are_decoded_up_to_a_size() -> None:
    """Their decoder is written in Python; a large one would hold the interpreter for seconds."""
    small = pictures.rle_bmp(64, 3, (bytes((64, 200)) + b"\0\0") * 3 + b"\0\1")
    assert np.array_equal(load(small), np.broadcast_to(np.array((200, 0, 0)), (3, 64, 3)))
    with pytest.raises(UnprocessableMediaError, match="run-length"):
        load(pictures.rle_bmp(4000, 4000, b"\0\1"))
    with pytest.raises(UnprocessableMediaError, match="runs"):
        load(pictures.rle_bmp(64, 3, b"\0\0" * 100_000))
