"""What `probe` reads without decoding, and that it is what the decode finds."""

from __future__ import annotations

import dataclasses
import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import Limits
from lazymedia.media.image import ImageHeader, ImageMediaIO, probe
from lazymedia.media.image.coded_size import av1_size
from tests.media import pictures

HEADERS: dict[str, tuple[bytes, tuple[str, str | None]]] = {
    # name: (payload, (format, mode))
    "JPEG": (pictures.encode(pictures.photo(), "JPEG"), ("JPEG", "RGB")),
    "grey JPEG": (pictures.encode(pictures.photo(mode="L"), "JPEG"), ("JPEG", "L")),
    "CMYK JPEG": (pictures.encode(pictures.photo(mode="CMYK"), "JPEG", progressive=True), ("JPEG", "CMYK")),
    "PNG": (pictures.encode(pictures.photo(mode="LA"), "PNG"), ("PNG", "LA")),
    "bilevel PNG": (pictures.encode(pictures.photo(mode="1"), "PNG"), ("PNG", "1")),
    "GIF": (pictures.encode(pictures.photo(mode="P"), "GIF"), ("GIF", "P")),
    "grey GIF": (pictures.encode(np.resize(np.arange(256, dtype=np.uint8), (29, 37)), "GIF"), ("GIF", "L")),
    "WebP": (pictures.encode(pictures.photo(), "WEBP"), ("WEBP", "RGB")),
    "WebP with alpha": (pictures.encode(pictures.photo(mode="RGBA"), "WEBP"), ("WEBP", "RGBA")),
    "lossless WebP": (pictures.encode(pictures.photo(), "WEBP", lossless=True), ("WEBP", "RGB")),
    "lossless WebP with alpha": (pictures.encode(pictures.photo(mode="RGBA"), "WEBP", lossless=True), ("WEBP", "RGBA")),
    "AVIF": (pictures.encode(pictures.photo(), "AVIF"), ("AVIF", None)),
    "animated AVIF": (
        pictures.encode(pictures.photo(), "AVIF", save_all=True, append_images=[pictures.photo(seed=1)]),
        ("AVIF", None),
    ),
    "BMP": (pictures.encode(pictures.photo(), "BMP"), ("BMP", "RGB")),
    "BMP of a palette": (pictures.encode(pictures.photo(mode="P"), "BMP"), ("BMP", "P")),
    "TIFF": (pictures.encode(pictures.photo(), "TIFF"), ("TIFF", "RGB")),
}


@pytest.mark.parametrize("kind", HEADERS)
def test_a_header_has_format_size_and_mode(kind: str) -> None:
    data, (name, mode) = HEADERS[kind]
    assert probe(data) == ImageHeader(name, 37, 29, mode, 1)
    with Image.open(io.BytesIO(data)) as opened:
        assert mode in {None, opened.mode}


def test_a_header_cannot_be_changed_and_reads_as_a_mapping() -> None:
    header = probe(HEADERS["PNG"][0])
    with pytest.raises(dataclasses.FrozenInstanceError):
        header.width = 1  # type: ignore[misc]  # that it cannot be is what is tested
    assert dataclasses.asdict(header) == {"format": "PNG", "width": 37, "height": 29, "mode": "LA", "orientation": 1}


@pytest.mark.parametrize("kind", HEADERS)
def test_a_reference_gives_the_header_and_decodes_nothing(kind: str) -> None:
    data, _ = HEADERS[kind]
    ref = ImageMediaIO(limits=Limits(image_formats=pictures.ALL_FORMATS)).load_bytes_ref(data)
    header = ref.probe()
    assert header == probe(data) == ref.fork().probe() == ref.outline()
    assert not ref.is_decoded
    image = ref.decode()
    assert isinstance(image, Image.Image)
    assert isinstance(header, ImageHeader)
    assert header.upright_size == image.size
    assert ref.probe() == header
    assert ref.map(lambda picture: picture).probe() is None
    ref.release()
    assert ref.probe() is None


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_reference_gives_the_size_before_and_after_rotation(orientation: int) -> None:
    exif = b"Exif\0\0" + pictures.orientation_exif(orientation)
    ref = ImageMediaIO().load_bytes_ref(pictures.encode(pictures.corners(), "JPEG", exif=exif))
    header = ref.probe()
    assert isinstance(header, ImageHeader)
    assert (header.width, header.height, header.orientation) == (40, 24, orientation)
    image = ref.decode()
    assert isinstance(image, Image.Image)
    assert header.upright_size == image.size


@pytest.mark.parametrize("data", [b"", b"not a picture", b"\xff\xd8\xff\xe0"], ids=repr)
def test_a_reference_without_a_header_gives_none(data: bytes) -> None:
    assert ImageMediaIO().load_bytes_ref(data).probe() is None


def test_a_decoder_that_makes_something_else_of_a_picture_has_no_header() -> None:
    class Cropping(ImageMediaIO):
        def load_bytes(self, data: bytes) -> Any:
            return np.asarray(super().load_bytes(data))[:2]

    assert Cropping().load_bytes_ref(HEADERS["PNG"][0]).probe() is None


def test_a_bomb_can_be_probed() -> None:
    assert probe(pictures.png_of(2**31 - 1, 1, 1, 0, b"\0")).width == 2**31 - 1


@pytest.mark.parametrize(
    "data", [b"", b"not a picture", b"\xff\xd8\xff\xe0", b"\x89PNG\r\n\x1a\n" + bytes(40)], ids=repr
)
def test_what_has_no_header_cannot_be_probed(data: bytes) -> None:
    with pytest.raises(UnprocessableMediaError):
        probe(data)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "AVIF", "BMP"])
def test_the_beginning_of_a_payload_is_enough(kind: str) -> None:
    """Of a PNG up to the first pixels; of an AVIF all, since its parts count by what they code."""
    data = pictures.encode(pictures.photo(300, 200), kind)
    header = probe(data if kind == "AVIF" else data[:1200])
    assert (header.width, header.height) == (300, 200)


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (37, 29), (255, 256), (257, 64), (1024, 1)])
@pytest.mark.parametrize(
    "settings", [{}, {"save_all": True}, {"quality": 100}, {"tile_rows": 1, "tile_cols": 1}], ids=str
)
def test_the_size_an_av1_stream_codes_is_found(size: tuple[int, int], settings: dict[str, Any]) -> None:
    if settings.get("save_all"):
        settings = {**settings, "append_images": [pictures.photo(*size, seed=1)]}
    data = pictures.encode(pictures.photo(*size), "AVIF", **settings)
    exact = Limits(max_image_pixels=size[0] * size[1], max_image_side=max(size))
    assert probe(data, exact).upright_size == size
    with pytest.raises(UnprocessableMediaError):
        probe(data, Limits(max_image_pixels=size[0] * size[1] - 1))
    assert np.asarray(ImageMediaIO(limits=exact).load_bytes(data)).shape == (size[1], size[0], 3)


def bit_string(*parts: tuple[int, int]) -> bytes:
    bits = "".join(f"{value:0{width}b}" for value, width in parts)
    return int(bits.ljust(-(-len(bits) // 8) * 8, "0"), 2).to_bytes(-(-len(bits) // 8))


def unit(payload: bytes) -> bytes:
    return bytes((0x0A, len(payload))) + payload


def test_an_av1_sequence_header_with_every_optional_part_is_read() -> None:
    """Put together bit by bit: timing, a decoder model, delays, two operating points with tiers, 16-bit sizes."""
    full = bit_string(
        (0, 3), (0, 1), (0, 1),  # profile, still picture, reduced header
        (1, 1), (1, 32), (30, 32), (1, 1), (0b00101, 5),  # timing; equal intervals; their number
        (1, 1), (9, 5), (1, 32), (4, 5), (4, 5),  # decoder model, delays of 10 bits
        (1, 1), (1, 5),  # display delay present, two operating points
        (0, 12), (8, 5), (1, 1), (1, 1), (5, 10), (6, 10), (0, 1), (1, 1), (3, 4),
        (0, 12), (4, 5), (0, 1), (0, 1),
        (15, 4), (15, 4), (12_345, 16), (54_321, 16),
    )  # fmt: skip
    reduced = bit_string((0, 3), (1, 1), (1, 1), (8, 5), (9, 4), (7, 4), (799, 10), (199, 8))
    delimiter = b"\x12\0"
    assert av1_size(delimiter + unit(full)) == (12_346, 54_322)
    assert av1_size(delimiter + unit(reduced)) == (800, 200)
    assert av1_size(unit(reduced) + unit(full)) == av1_size(unit(full) + unit(reduced)) == (12_346, 54_322)
    assert av1_size(b"\x08" + full) == (12_346, 54_322), "the last unit may leave out its size"
    assert av1_size(b"\x0e\0" + bytes((len(full),)) + full) == (12_346, 54_322), "a unit may belong to a layer"


@pytest.mark.parametrize(
    "stream",
    [
        b"",
        b"\x12\0",
        bytes((0x8A, 7)) + pictures.av1_of(8, 8)[4:],
        pictures.av1_of(8, 8) + b"\x12\0" * 5000,
        b"\x0a" + b"\xff" * 9,
    ],
    ids=["nothing", "no sequence header", "forbidden bit", "endless units", "endless size"],
)
def test_an_av1_stream_of_unknown_size_has_none(stream: bytes) -> None:
    assert av1_size(stream) is None


def test_an_animated_avif_without_a_primary_item_has_the_size_of_its_tracks() -> None:
    data, _ = HEADERS["animated AVIF"]
    tracks_only = data.replace(b"avif", b"free", 1).replace(b"mif1", b"free").replace(b"meta", b"free", 1)
    assert (probe(tracks_only).width, probe(tracks_only).height) == (37, 29)
    with pytest.raises(UnprocessableMediaError, match="37 x 29"):
        probe(tracks_only, Limits(max_image_pixels=1000))
    assert np.array_equal(
        np.asarray(ImageMediaIO().load_bytes(tracks_only)), np.asarray(ImageMediaIO().load_bytes(data))
    )
