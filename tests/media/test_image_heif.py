"""HEIC and HEIF, as telephones write them, by pillow-heif: checked by the header before libheif sees a pixel."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy import typing as npt
from PIL import Image, UnidentifiedImageError

from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import Limits
from lazymedia.media.image import ImageHeader, ImageMediaIO, coded_size, header, probe
from tests.media import pictures

pillow_heif = pytest.importorskip("pillow_heif")

GREEN = (10, 200, 30)


def encode(image: Image.Image, **save: Any) -> bytes:
    buffer = io.BytesIO()
    pillow_heif.from_pillow(image).save(buffer, **{"quality": 90, "enc_params": {"preset": "ultrafast"}} | save)
    return buffer.getvalue()


def by_pillow_heif(data: bytes) -> Image.Image:
    image = pillow_heif.open_heif(data).to_pillow()
    assert isinstance(image, Image.Image)
    return image


def load(data: bytes, mode: str | None = "RGB", **settings: Any) -> npt.NDArray[Any]:
    return np.asarray(ImageMediaIO(mode, output="array", **settings).load_bytes(data))


PHOTO = pictures.photo(300, 200)
MADE: dict[str, tuple[bytes, str]] = {
    # name: (payload, mode by the header)
    "colours": (encode(PHOTO), "RGB"),
    "4:4:4": (encode(PHOTO, chroma="444"), "RGB"),
    "tiles": (encode(PHOTO, tile_size=128), "RGB"),
    "grey": (encode(PHOTO.convert("L")), "L"),
    "alpha": (encode(pictures.photo(300, 200, "RGBA")), "RGBA"),
    "small": (encode(pictures.photo(65, 67)), "RGB"),
}


@pytest.mark.parametrize("output", ["pil", "array"])
@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L"])
@pytest.mark.parametrize("kind", MADE)
def test_pixels_are_those_of_pillow_heif(kind: str, mode: str, output: Any) -> None:
    data, _ = MADE[kind]
    expected = ImageMediaIO(mode, output=output, rgba_background_color=GREEN).convert(by_pillow_heif(data))
    ref = ImageMediaIO(mode, output=output, rgba_background_color=GREEN).load_bytes_ref(data)
    assert np.array_equal(np.asarray(ref.decode()), np.asarray(expected))


@pytest.mark.parametrize("kind", MADE)
def test_a_header_has_size_and_mode(kind: str) -> None:
    data, mode = MADE[kind]
    width, height = by_pillow_heif(data).size
    assert probe(data) == ImageHeader("HEIF", width, height, mode, 1)
    assert ImageMediaIO().load_bytes_ref(data).probe() == probe(data)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("order", ["<", ">"])
def test_an_orientation_is_applied_once_though_exif_repeats_it(orientation: int, order: str) -> None:
    """With irot and imir in the file, and EXIF beside them, as telephones write both."""
    corners = Image.fromarray(pictures.corners(160, 96))
    data = encode(corners, exif=b"Exif\0\0" + pictures.orientation_exif(orientation, order))
    assert (b"irot" in data or b"imir" in data) == (orientation != 1)
    expected = pictures.oriented(pictures.corners(160, 96), orientation)
    pixels = load(data).astype(int)
    assert pixels.shape == expected.shape
    assert np.abs(pixels - expected).mean() < 2
    header = probe(data)
    assert (header.width, header.height, header.orientation) == (160, 96, orientation)
    assert header.upright_size == (pixels.shape[1], pixels.shape[0])


def test_exif_alone_does_not_rotate_a_heif() -> None:
    rotated = encode(PHOTO, exif=b"Exif\0\0" + pictures.orientation_exif(3))
    at = rotated.index(b"irot") + 4
    not_rotated = rotated[:at] + b"\0" + rotated[at + 1 :]
    assert np.array_equal(load(not_rotated), load(rotated)[::-1, ::-1])
    assert probe(not_rotated).orientation == 1


def test_pillows_formats_stay_as_they_are() -> None:
    load(MADE["colours"][0])
    assert "HEIF" not in Image.OPEN
    with pytest.raises(UnidentifiedImageError):
        Image.open(io.BytesIO(MADE["colours"][0]))


@pytest.fixture
def not_installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(header, "find_spec", lambda name: None)
    header.has_heif.cache_clear()
    yield
    header.has_heif.cache_clear()


@pytest.mark.parametrize("kind", ["colours", "tiles"])
def test_without_the_extra_it_is_an_unsupported_format(kind: str, not_installed: None) -> None:
    ref = ImageMediaIO().load_bytes_ref(MADE[kind][0])
    with pytest.raises(UnprocessableMediaError, match="not supported here") as caught:
        ref.decode()
    assert isinstance(caught.value.__cause__, ImportError), "which extra is missing is for the operator"
    with pytest.raises(UnprocessableMediaError, match="supported: JPEG") as other:
        ImageMediaIO().load_bytes(b"what is this")
    assert "HEIF" not in str(other.value)


# Limits


def rejected(data: bytes, limits: Limits) -> UnprocessableMediaError:
    image_io = ImageMediaIO(limits=limits)
    with pytest.raises(UnprocessableMediaError) as caught:
        image_io.load_bytes_ref(data)
    assert caught.value.__cause__ is None
    return caught.value


@pytest.mark.parametrize("kind", ["colours", "tiles", "alpha"])
def test_pixels_and_sides_are_limited(kind: str) -> None:
    data = MADE[kind][0]
    ImageMediaIO(limits=Limits(max_image_pixels=130_000, max_image_side=400)).load_bytes(data)
    assert "300 x 200" in str(rejected(data, Limits(max_image_pixels=59_999)))
    assert "300 x 200" in str(rejected(data, Limits(max_image_side=299)))


def test_what_is_coded_counts_and_not_what_is_declared() -> None:
    data = MADE["colours"][0]
    declared = struct.pack(">LL", 300, 200)
    lying = data.replace(declared, struct.pack(">LL", 64, 64))
    assert lying != data
    assert "304 x 208" in str(rejected(lying, Limits(max_image_pixels=50_000)))


def configuration(data: bytes) -> bytes:
    at = data.index(b"hvcC")
    return data[at + 4 : at - 4 + struct.unpack_from(">L", data, at - 4)[0]]


def test_parameters_inside_the_stream_count_too() -> None:
    """The decoder reads sets there as well as in the configuration."""
    small = configuration(MADE["small"][0])
    (larger,) = coded_size._configured_sets(configuration(MADE["colours"][0]))
    slices = struct.pack(">L", 4) + b"\x26\1\0\0"
    assert coded_size.hevc_size(small, slices) == (80, 80)
    assert coded_size.hevc_size(small, slices + struct.pack(">L", len(larger)) + larger) == (304, 208)
    for broken in (struct.pack(">L", 3) + b"\x42\1\0", slices[:-1], slices + b"\0", b""):
        assert coded_size.hevc_size(small, broken) is None


def test_tiles_are_limited_and_must_be_as_many_as_the_grid_says() -> None:
    data = MADE["tiles"][0]
    assert "boxes" in str(rejected(data, Limits(max_image_chunks=4)))
    at = data.index(b"dimg") + 6
    fewer = data[:at] + struct.pack(">H", 2) + data[at + 2 :]
    assert ImageMediaIO().load_bytes_ref(fewer).probe() is None
    with pytest.raises(UnprocessableMediaError, match="header of the HEIF"):
        ImageMediaIO().load_bytes(fewer)


def test_a_grid_that_is_larger_than_it_declares_is_rejected() -> None:
    data = MADE["tiles"][0]
    lying = data.replace(struct.pack(">LL", 300, 200), struct.pack(">LL", 20, 20))
    assert lying != data
    assert "300 x 200" in str(rejected(lying, Limits(max_image_pixels=20_000)))


@pytest.mark.parametrize("kind", MADE)
def test_a_truncated_file_is_an_error(kind: str) -> None:
    data, _ = MADE[kind]
    for length in range(0, len(data) - 64, max(1, len(data) // 60)):
        with pytest.raises(UnprocessableMediaError):
            ImageMediaIO().load_bytes(data[:length])


def test_damage_is_an_error_or_a_picture_of_the_declared_size() -> None:
    data = bytearray(MADE["tiles"][0])
    random = np.random.default_rng(5)
    for _ in range(150):
        mutant = bytearray(data)
        for at in random.integers(0, len(data), 3):
            mutant[at] = random.integers(0, 256)
        try:
            ref = ImageMediaIO().load_bytes_ref(bytes(mutant))
            image = ref.decode()
        except UnprocessableMediaError:
            continue
        assert isinstance(image, Image.Image)
        header = ref.probe()
        assert isinstance(header, ImageHeader)
        assert image.size == header.upright_size


@pytest.mark.parametrize("brand", [b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"])
def test_a_sequence_or_another_brand_is_read_for_its_primary_picture(brand: bytes) -> None:
    data = MADE["colours"][0]
    branded = data[:8] + brand + data[12:]
    assert probe(branded).format == "HEIF"
    assert np.array_equal(load(branded), load(data))


def test_a_sequence_without_a_picture_is_rejected() -> None:
    data = pictures.box(b"ftyp", b"msf1\0\0\0\0msf1hevc") + pictures.box(b"moov", bytes(100))
    with pytest.raises(UnprocessableMediaError, match="header of the HEIF"):
        ImageMediaIO().load_bytes(data)
