"""Transparency of every kind, for payloads and for pictures already open by the same rules."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy import typing as npt
from PIL import Image

from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import Limits
from lazymedia.media.image import ImageMediaIO
from lazymedia.media.video import VideoMediaIO
from tests.media import pictures

EVERYTHING = Limits(image_formats=pictures.ALL_FORMATS)
GREEN = (10, 200, 30)


def load(data: bytes, mode: str | None = "RGB", background: tuple[int, int, int] = (255, 255, 255)) -> npt.NDArray[Any]:
    image_io = ImageMediaIO(mode, rgba_background_color=background, output="array", limits=EVERYTHING)
    return np.asarray(image_io.load_bytes(data))


def convert(image: Image.Image, mode: str | None = "RGB", **settings: Any) -> npt.NDArray[Any]:
    return np.asarray(ImageMediaIO(mode, output="array", limits=EVERYTHING, **settings).convert(image))


def raw_png(bits: int, colour: int, key: tuple[int, ...], left: bytes, right: bytes) -> bytes:
    """Six rows of packed samples, and a transparent colour in the file's own units."""
    rows = (b"\0" + left + right) * 6
    return pictures.png_of(8, 6, bits, colour, rows, pictures.chunk(b"tRNS", struct.pack(f">{len(key)}H", *key)))


def grey_palette_picture() -> Image.Image:
    """Whose palette Pillow leaves away: it opens the file as "L"."""
    image = Image.frombytes("P", (8, 6), pictures.greys("L", 70, 90).tobytes())
    image.putpalette([grey for grey in range(256) for _ in range(3)])
    return image


BLUE, WHITE, BLACK = (0, 0, 255), (255, 255, 255), (0, 0, 0)

SEE_THROUGH: dict[str, tuple[bytes, tuple[int, int, int]]] = {
    # name: (payload, colour of the solid right half)
    "PNG RGBA": (pictures.encode(pictures.two_columns(), "PNG"), BLUE),
    "PNG LA": (
        pictures.encode(Image.merge("LA", (pictures.greys("L", 70, 90), pictures.greys("L", 0, 255))), "PNG"),
        (90, 90, 90),
    ),
    "PNG P, one index": (pictures.encode(pictures.palette_picture(), "PNG", transparency=0), BLUE),
    "PNG P, bytes": (pictures.encode(pictures.palette_picture(), "PNG", transparency=b"\x00\xff\x80"), BLUE),
    "PNG RGB, colour key": (
        pictures.encode(pictures.two_columns(alpha=False), "PNG", transparency=pictures.HIDDEN),
        BLUE,
    ),
    "PNG L, colour key": (pictures.encode(pictures.greys("L", 70, 90), "PNG", transparency=70), (90, 90, 90)),
    "PNG 1, colour key": (pictures.encode(pictures.greys("1", 0, 1), "PNG", transparency=0), WHITE),
    "PNG 1 white, colour key": (raw_png(1, 0, (1,), b"\xf0", b""), BLACK),
    "PNG 2 bits, colour key": (raw_png(2, 0, (2,), b"\xaa", b"\x55"), (85, 85, 85)),
    "PNG 4 bits, colour key": (raw_png(4, 0, (7,), b"\x77\x77", b"\x88\x88"), (136, 136, 136)),
    "PNG I;16, colour key": (raw_png(16, 0, (0x4645,), b"\x46\x45" * 4, b"\x46\x44" * 4), (0x46, 0x46, 0x46)),
    "PNG 16 bits a channel, colour key": (
        raw_png(16, 2, (0x1234, 0, 0xFF), b"\x12\x34\0\0\0\xff" * 4, b"\x12\x35\0\0\0\xff" * 4),
        (0x12, 0, 0),
    ),
    "PNG 16 bits a channel, alpha": (
        pictures.png_of(8, 6, 16, 6, (b"\0" + b"\xc8\0\0\0\0\0\0\0" * 4 + b"\0\0\0\0\xff\xff\xff\xff" * 4) * 6),
        BLUE,
    ),
    "GIF": (pictures.encode(pictures.palette_picture(), "GIF", transparency=0), BLUE),
    "GIF of greys": (pictures.encode(pictures.greys("L", 70, 90), "GIF", transparency=70), (90, 90, 90)),
    "GIF of all greys in order": (
        pictures.encode(grey_palette_picture(), "GIF", transparency=70, optimize=False),
        (90, 90, 90),
    ),
    "WebP": (pictures.encode(pictures.two_columns(), "WEBP", lossless=True, exact=True), BLUE),
    "AVIF": (pictures.encode(pictures.two_columns(), "AVIF", quality=100, subsampling="4:4:4"), BLUE),
    "TIFF": (pictures.encode(pictures.two_columns(), "TIFF"), BLUE),
    "BMP with alpha": (
        b"BM"
        + struct.pack("<LHHL", 0, 0, 0, 122)
        + struct.pack("<LllHHLLllLL", 108, 8, 6, 1, 32, 3, 0, 0, 0, 0, 0)
        + struct.pack("<LLLL", 0xFF0000, 0xFF00, 0xFF, 0xFF000000)
        + bytes(52)
        + (bytes((0, 0, 200, 0)) * 4 + bytes((255, 0, 0, 255)) * 4) * 6,
        BLUE,
    ),
}


FORGOTTEN = {"PNG 2 bits, colour key", "PNG 4 bits, colour key", "PNG 16 bits a channel, colour key"}
"""Whose colour key, once Pillow has opened them, no longer counts in the units of the pixels."""


@pytest.mark.parametrize("background", [WHITE, GREEN], ids=["white", "green"])
@pytest.mark.parametrize("kind", SEE_THROUGH)
def test_the_background_and_never_the_hidden_colour_is_seen(kind: str, background: tuple[int, int, int]) -> None:
    data, solid = SEE_THROUGH[kind]
    slack = 3 if kind == "AVIF" else 0
    pixels = load(data, background=background).astype(int)
    assert pixels.shape == (6, 8, 3)
    assert np.abs(pixels[:, :4] - background).max() <= slack
    assert np.abs(pixels[:, 4:] - solid).max() <= slack


@pytest.mark.parametrize("kind", SEE_THROUGH)
def test_asked_for_alpha_nothing_is_laid_on_anything(kind: str) -> None:
    data, solid = SEE_THROUGH[kind]
    slack = 3 if kind == "AVIF" else 0
    pixels = load(data, "RGBA", GREEN).astype(int)
    assert pixels.shape == (6, 8, 4)
    assert np.array_equal(pixels[..., 3], [[0] * 4 + [255] * 4] * 6)
    assert np.abs(pixels[:, 4:, :3] - solid).max() <= slack


@pytest.mark.parametrize("kind", SEE_THROUGH)
def test_grey_is_the_grey_of_the_flattened_picture(kind: str) -> None:
    data, _ = SEE_THROUGH[kind]
    expected = np.asarray(Image.fromarray(load(data, background=GREEN)).convert("L"))
    assert np.array_equal(load(data, "L", GREEN), expected[..., None])


@pytest.mark.parametrize("kind", [kind for kind in SEE_THROUGH if kind not in FORGOTTEN])
@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", None])
def test_a_picture_opened_elsewhere_gives_what_its_payload_gives(kind: str, mode: str | None) -> None:
    data, _ = SEE_THROUGH[kind]
    with Image.open(io.BytesIO(data)) as opened:
        assert np.array_equal(convert(opened, mode, rgba_background_color=GREEN), load(data, mode, GREEN))


def palette_picture_with_alpha() -> Image.Image:
    image = pictures.palette_picture().convert("PA")
    image.putalpha(pictures.greys("L", 0, 255))
    return image


def rgba_palette() -> Image.Image:
    image = pictures.palette_picture()
    image.putpalette([*pictures.HIDDEN, 0, 0, 0, 255, 255], "RGBA")
    return image


def with_info(image: Image.Image, transparency: Any) -> Image.Image:
    image.info["transparency"] = transparency
    return image


OPENED: dict[str, Callable[[], Image.Image]] = {
    "PA": palette_picture_with_alpha,
    "La": lambda: Image.merge("LA", (pictures.greys("L", 70, 90), pictures.greys("L", 0, 255))).convert("La"),
    "RGBa": lambda: pictures.two_columns().convert("RGBa"),
    "P with an RGBA palette": rgba_palette,
    "P with a key": lambda: with_info(pictures.palette_picture(), 0),
    "P with alphas": lambda: with_info(pictures.palette_picture(), b"\x00\xff"),
    "L with a key": lambda: with_info(pictures.greys("L", 70, 90), 70),
    "1 with a key": lambda: with_info(pictures.greys("1", 0, 1), 0),
    "I;16 with a key": lambda: with_info(pictures.greys("I;16", 70, 23131), 70),
    "RGB with a key": lambda: with_info(pictures.two_columns(alpha=False), pictures.HIDDEN),
    "RGB with a number, which is red's": lambda: with_info(pictures.two_columns(alpha=False), pictures.HIDDEN[0]),
    "RGB with a list": lambda: with_info(pictures.two_columns(alpha=False), list(pictures.HIDDEN)),
    "L with a tuple": lambda: with_info(pictures.greys("L", 70, 90), (70,)),
    "L with three numbers": lambda: with_info(pictures.greys("L", 70, 90), (70, 70, 70)),
    "L with alphas": lambda: with_info(pictures.greys("L", 1, 90), b"\xff\x00"),
    "1 with alphas": lambda: with_info(pictures.greys("1", 0, 1), b"\x00"),
    "1 with a key of white": lambda: with_info(pictures.greys("1", 1, 0), 255),
    "I with a key": lambda: with_info(pictures.greys("I", 70, 90), 70),
    "I;16B with a key": lambda: with_info(pictures.greys("I;16B", 70, 23131), 70),
}


@pytest.mark.parametrize("kind", OPENED)
def test_transparency_that_only_opened_pictures_have_is_laid_on_the_background_too(kind: str) -> None:
    image = OPENED[kind]()
    before = (image.mode, image.size, dict(image.info), image.tobytes(), image.getpalette("RGBA") if "P" in kind else 0)
    flat = convert(image, rgba_background_color=GREEN)
    assert np.array_equal(flat[:, :4], np.broadcast_to(np.array(GREEN), (6, 4, 3)))
    assert not np.array_equal(flat[0, 4], GREEN)
    with_alpha = convert(image, "RGBA")
    assert np.array_equal(with_alpha[..., 3], [[0] * 4 + [255] * 4] * 6)
    assert before == (
        image.mode,
        image.size,
        dict(image.info),
        image.tobytes(),
        image.getpalette("RGBA") if "P" in kind else 0,
    ), "the caller's picture"


@pytest.mark.parametrize(
    ("mode", "transparency"),
    [("RGB", b"\0\1"), ("RGB", (1, 2)), ("RGB", "red"), ("L", (1, 2)), ("P", (1, 2, 3))],
)
def test_a_note_of_transparency_that_means_nothing_is_rejected_as_by_pillow(mode: str, transparency: Any) -> None:
    image = with_info(Image.new(mode, (4, 3)), transparency)
    with pytest.raises((TypeError, ValueError)):
        image.convert("RGBA")
    with pytest.raises(UnprocessableMediaError):
        convert(image)


def test_a_gif_that_pillow_saved_from_all_greys_shows_the_background_for_one_of_them() -> None:
    ramp = Image.frombytes("L", (16, 16), bytes(range(256)))
    data = pictures.encode(ramp, "GIF", transparency=3)
    expected = np.repeat(np.arange(256).reshape(16, 16, 1), 3, axis=2)
    expected[0, 3] = GREEN
    assert np.array_equal(load(data, background=GREEN), expected)
    with Image.open(io.BytesIO(data)) as opened:
        assert opened.mode == "L"
        assert np.array_equal(convert(opened, rgba_background_color=GREEN), expected)


def animated_webp(canvas: tuple[int, int], *, alpha: bool = False) -> bytes:
    """One frame of 8 x 6 red pixels at the corner of a larger canvas."""
    frame = pictures.encode(Image.new("RGB", (8, 6), (255, 0, 0)), "WEBP", lossless=True)[12:]

    def chunk(kind: bytes, content: bytes) -> bytes:
        return kind + struct.pack("<L", len(content)) + content + b"\0" * (len(content) & 1)

    def three(number: int) -> bytes:
        return number.to_bytes(3, "little")

    extended = chunk(b"VP8X", bytes((0x02 | 0x10 * alpha, 0, 0, 0)) + three(canvas[0] - 1) + three(canvas[1] - 1))
    place = bytes(6) + three(7) + three(5) + three(100) + b"\0"
    body = b"WEBP" + extended + chunk(b"ANIM", bytes(6)) + chunk(b"ANMF", place + frame)
    return b"RIFF" + struct.pack("<L", len(body)) + body


@pytest.mark.parametrize("alpha", [False, True])
def test_what_no_frame_of_a_webp_covers_is_see_through(alpha: bool) -> None:
    data = animated_webp((12, 9), alpha=alpha)
    flat = load(data, background=GREEN)
    assert np.array_equal(flat[:6, :8], np.broadcast_to(np.array((255, 0, 0)), (6, 8, 3)))
    assert np.array_equal(flat[6:], np.broadcast_to(np.array(GREEN), (3, 12, 3)))
    assert np.array_equal(flat[:6, 8:], np.broadcast_to(np.array(GREEN), (6, 4, 3)))
    assert load(data, "RGBA")[8, 11, 3] == 0
    video, _ = VideoMediaIO(num_frames=1).load_bytes(data)
    assert np.array_equal(video[0], load(data)), "as a video too"


def test_a_webp_whose_frame_covers_its_canvas_is_opaque() -> None:
    data = animated_webp((8, 6))
    image = ImageMediaIO(None).load_bytes(data)
    assert isinstance(image, Image.Image)
    assert image.mode == "RGB"
    assert np.array_equal(load(data, background=GREEN), np.broadcast_to(np.array((255, 0, 0)), (6, 8, 3)))


def test_half_transparency_is_rounded_as_pillow_pastes() -> None:
    image = pictures.photo(64, 64, "RGBA")
    ground = Image.new("RGB", image.size, GREEN)
    ground.paste(image, mask=image.getchannel("A"))
    assert np.array_equal(load(pictures.encode(image, "PNG"), background=GREEN), np.asarray(ground))


def test_a_stale_note_of_transparency_does_not_outlive_the_conversion() -> None:
    image = with_info(pictures.two_columns(), 7)
    result = ImageMediaIO("RGBA").convert(image)
    assert isinstance(result, Image.Image)
    assert not result.info
    assert image.info == {"transparency": 7}


def test_what_a_gif_leaves_uncovered_is_see_through_where_it_has_such_a_colour() -> None:
    """A screen of 12 x 9 with a frame of 8 x 6; without a transparent colour it is the first one, as in Pillow."""
    for transparency, expected in ((2, GREEN), (None, pictures.HIDDEN)):
        save = {} if transparency is None else {"transparency": transparency}
        frame = pictures.encode(pictures.palette_picture(), "GIF", optimize=False, **save)
        data = frame[:6] + struct.pack("<HH", 12, 9) + frame[10:]
        pixels = load(data, background=GREEN)
        assert pixels.shape == (9, 12, 3)
        assert np.array_equal(pixels[:6, :4], np.broadcast_to(np.array(pictures.HIDDEN), (6, 4, 3)))
        assert np.array_equal(pixels[8], np.broadcast_to(np.array(expected), (12, 3)))
