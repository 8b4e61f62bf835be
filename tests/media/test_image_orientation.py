"""The orientation is applied, wherever it is stored, and damage there is no damage to the picture."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image

from lazymedia.limits import Limits
from lazymedia.media.image import ImageMediaIO, probe
from tests.media import pictures

EVERYTHING = Limits(image_formats=pictures.ALL_FORMATS)
ARRAY = ImageMediaIO(output="array", limits=EVERYTHING)


def png_chunk(kind: bytes, before: bytes, order: str = "<") -> Callable[[Any, int], bytes]:
    def carry(pixels: Any, orientation: int) -> bytes:
        block = pictures.orientation_exif(orientation, order)
        profile = pictures.raw_profile(block)
        content = {
            b"eXIf": block,
            b"tEXt": b"Raw profile type exif\0" + profile,
            b"zTXt": b"Raw profile type exif\0\0" + zlib.compress(profile),
            b"iTXt": b"Raw profile type exif\0\1\0\0\0" + zlib.compress(profile),
        }[kind]
        return pictures.with_chunks(pictures.encode(pixels, "PNG"), pictures.chunk(kind, content), before=before)

    return carry


def png_xmp(before: bytes, *, packed: bool) -> Callable[[Any, int], bytes]:
    def carry(pixels: Any, orientation: int) -> bytes:
        text = pictures.xmp(orientation)
        content = b"\1\0\0\0" + zlib.compress(text) if packed else b"\0\0\0\0" + text
        added = pictures.chunk(b"iTXt", b"XML:com.adobe.xmp\0" + content)
        return pictures.with_chunks(pictures.encode(pixels, "PNG"), added, before=before)

    return carry


def jpeg_xmp(pixels: Any, orientation: int) -> bytes:
    packet = b"http://ns.adobe.com/xap/1.0/\0" + pictures.xmp(orientation)
    return pictures.with_segments(pictures.encode(pixels, "JPEG", quality=95), pictures.segment(0xE1, packet))


def jpeg_exif(order: str, marker: bytes = b"Exif\0\0") -> Callable[[Any, int], bytes]:
    def carry(pixels: Any, orientation: int) -> bytes:
        app1 = pictures.segment(0xE1, marker + pictures.orientation_exif(orientation, order))
        return pictures.with_segments(pictures.encode(pixels, "JPEG", quality=95), app1)

    return carry


def written(kind: str, **save: Any) -> Callable[[Any, int], bytes]:
    def carry(pixels: Any, orientation: int) -> bytes:
        return pictures.encode(pixels, kind, exif=b"Exif\0\0" + pictures.orientation_exif(orientation), **save)

    return carry


def avif(pixels: Any, orientation: int) -> bytes:
    tags = Image.Exif()
    tags[0x0112] = orientation
    return pictures.encode(pixels, "AVIF", exif=tags, quality=95)


def tiff(pixels: Any, orientation: int) -> bytes:
    return pictures.encode(pixels, "TIFF", tiffinfo={0x0112: orientation})


CARRIERS: dict[str, Callable[[Any, int], bytes]] = {
    "JPEG EXIF, little-endian": jpeg_exif("<"),
    "JPEG EXIF, big-endian": jpeg_exif(">"),
    "JPEG EXIF, marked twice": jpeg_exif("<", b"Exif\0\0Exif\0\0"),
    "JPEG XMP": jpeg_xmp,
    "progressive JPEG": written("JPEG", progressive=True, quality=95),
    "PNG eXIf before the pixels": png_chunk(b"eXIf", b"IDAT"),
    "PNG eXIf behind the pixels": png_chunk(b"eXIf", b"IEND", ">"),
    "PNG tEXt profile before": png_chunk(b"tEXt", b"IDAT"),
    "PNG tEXt profile behind": png_chunk(b"tEXt", b"IEND"),
    "PNG zTXt profile": png_chunk(b"zTXt", b"IEND"),
    "PNG iTXt profile": png_chunk(b"iTXt", b"IDAT"),
    "PNG XMP": png_xmp(b"IDAT", packed=False),
    "PNG XMP, packed, behind": png_xmp(b"IEND", packed=True),
    "WebP EXIF": written("WEBP"),
    "lossless WebP EXIF": written("WEBP", lossless=True),
    "AVIF": avif,
    "TIFF": tiff,
}


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("carrier", CARRIERS)
def test_each_orientation_of_each_carrier_is_applied(carrier: str, orientation: int) -> None:
    """By the pixels of the same file with orientation 1, turned by definition."""
    carry = CARRIERS[carrier]
    pixels = pictures.corners()
    stored = np.asarray(ARRAY.load_bytes(carry(pixels, 1)))
    data = carry(pixels, orientation)
    oriented = np.asarray(ARRAY.load_bytes(data))
    assert np.array_equal(oriented, pictures.oriented(stored, orientation))
    for corner in ((1, 1), (1, -2), (-2, 1), (-2, -2)):
        assert np.abs(oriented[corner].astype(int) - pictures.oriented(pixels, orientation)[corner]).max() < 20
    header = probe(data)
    assert (header.orientation, header.width, header.height) == (orientation, 40, 24)
    assert header.upright_size == (oriented.shape[1], oriented.shape[0])


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "AVIF"])
def test_every_mode_is_rotated_alike(kind: str) -> None:
    tags = Image.Exif()
    tags[0x0112] = 6
    data = pictures.encode(pictures.corners(), kind, exif=tags)
    for mode in ("RGB", "RGBA", "L", None):
        image = ImageMediaIO(mode).load_bytes(data)
        array = ImageMediaIO(mode, output="array").load_bytes(data)
        assert isinstance(image, Image.Image)
        assert isinstance(array, np.ndarray)
        assert image.size == (24, 40)
        assert np.array_equal(np.asarray(image).reshape(array.shape), array)


def test_exif_counts_before_xmp_and_xmp_where_exif_is_silent() -> None:
    packet = pictures.segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + pictures.xmp(6))
    plain = pictures.encode(pictures.corners(), "JPEG")
    silent = pictures.segment(0xE1, b"Exif\0\0" + pictures.exif((0x010F, 2, 5, b"abcd\0")))
    upside_down = pictures.segment(0xE1, b"Exif\0\0" + pictures.orientation_exif(3))
    assert probe(pictures.with_segments(plain, packet, upside_down)).orientation == 3
    assert probe(pictures.with_segments(plain, silent, packet)).orientation == 6


def test_chunks_of_an_odd_length_in_a_webp_are_padded() -> None:
    data = written("WEBP", icc_profile=b"odd")(pictures.corners(), 6)
    assert data.index(b"ICCP") < data.index(b"EXIF")
    assert probe(data).orientation == 6


def test_only_the_first_exif_segment_of_a_jpeg_counts() -> None:
    """As in Pillow, which takes a second one for the rest of the first."""
    blocks = [pictures.segment(0xE1, b"Exif\0\0" + pictures.orientation_exif(orientation)) for orientation in (6, 3)]
    assert probe(pictures.with_segments(pictures.encode(pictures.corners(), "JPEG"), *blocks)).orientation == 6


def test_irot_and_imir_of_an_avif_count_and_not_its_exif() -> None:
    """The writer puts orientation 6 into irot and no orientation into EXIF; another tag there is made to say 3."""
    tags = Image.Exif()
    tags[0x0112] = 6
    tags[0x0113] = 3
    data = pictures.encode(pictures.corners(), "AVIF", exif=tags)
    assert data.count(struct.pack(">HHLH", 0x0113, 3, 1, 3)) == 1
    lying = data.replace(struct.pack(">HHLH", 0x0113, 3, 1, 3), struct.pack(">HHLH", 0x0112, 3, 1, 3))
    assert np.array_equal(np.asarray(ARRAY.load_bytes(lying)), np.asarray(ARRAY.load_bytes(data)))
    assert probe(lying).orientation == 6


ZERO = struct.pack("<LL", 72, 0)
MALFORMED: dict[str, bytes] = {
    "empty": b"",
    "no structure": b"XX*\0\0\0\0\x08",
    "marker only": b"Exif\0\0",
    "byte order only": b"II*\0",
    "directory beyond the end": b"II*\0\xff\xff\xff\x7f\0\0",
    "entries cut": pictures.orientation_exif(6)[:14],
    "65535 entries": b"II*\0\x08\0\0\0\xff\xff" + b"\0" * 30,
    "directory that points at itself": b"II*\0\x08\0\0\0\0\0\x08\0\0\0",
    "rational over zero": pictures.exif((0x011A, 5, 1, ZERO), (0x0128, 3, 1, b"\2\0")),
    "orientation 0": pictures.orientation_exif(0),
    "orientation 9": pictures.orientation_exif(9),
    "orientation as text": pictures.exif((0x0112, 2, 2, b"6\0")),
    "orientation as bytes": pictures.exif((0x0112, 1, 1, b"\6")),
    "orientation as a rational": pictures.exif((0x0112, 5, 1, struct.pack("<LL", 6, 1))),
    "orientation without a value": pictures.exif((0x0112, 3, 0, b"\6\0")),
    "a billion orientations": pictures.exif((0x0112, 3, 10**9, b"\6\0")),
    "unknown type": pictures.exif((0x0112, 99, 1, b"\6\0")),
    "value beyond the end": pictures.exif((0x010F, 2, 1 << 30, b"\xff\xff\xff\x0f")),
}


@pytest.mark.parametrize("carrier", ["JPEG", "PNG", "late PNG", "raw profile", "WEBP", "AVIF"])
@pytest.mark.parametrize("damage", MALFORMED)
def test_malformed_exif_means_no_rotation_no_error_and_no_warning(damage: str, carrier: str) -> None:
    """Warnings are errors in this run."""
    block = MALFORMED[damage]
    pixels = pictures.corners()
    png = pictures.encode(pixels, "PNG")
    if carrier == "JPEG":
        plain = pictures.encode(pixels, "JPEG")
        data = pictures.with_segments(plain, pictures.segment(0xE1, b"Exif\0\0" + block))
    elif carrier in {"PNG", "late PNG"}:
        plain = png
        before = b"IDAT" if carrier == "PNG" else b"IEND"
        data = pictures.with_chunks(png, pictures.chunk(b"eXIf", block), before=before)
    elif carrier == "raw profile":
        plain = png
        text = b"Raw profile type exif\0" + pictures.raw_profile(block) + b"not hexadecimal"
        data = pictures.with_chunks(png, pictures.chunk(b"tEXt", text), before=b"IDAT")
    elif carrier == "WEBP":
        plain = pictures.encode(pixels, "WEBP")
        data = pictures.encode(pixels, "WEBP", exif=block)
    else:
        plain = pictures.encode(pixels, "AVIF")
        filler = pictures.exif((0x010F, 2, 200, b"m" * 200))
        data = pictures.encode(pixels, "AVIF", exif=b"Exif\0\0" + filler)
        assert data.count(filler) == 1
        data = data.replace(filler, block.ljust(len(filler), b"\0")[: len(filler)])
    ref = ImageMediaIO(output="array", image_id="trust").load_bytes_ref(data)
    assert np.array_equal(np.asarray(ref.decode()), np.asarray(ARRAY.load_bytes(plain)))
    assert probe(data).orientation == 1


def test_a_text_chunk_that_inflates_without_end_is_not_read_to_its_end() -> None:
    endless = pictures.raw_profile(pictures.orientation_exif(6)) + (b"00" * 36 + b"\n") * 500_000
    packed = zlib.compress(endless, 9)
    bomb = pictures.chunk(b"zTXt", b"Raw profile type exif\0\0" + packed)
    data = pictures.with_chunks(pictures.encode(pictures.corners(), "PNG"), bomb, before=b"IDAT")
    assert probe(data).orientation == 1
    assert np.array_equal(np.asarray(ARRAY.load_bytes(data)), pictures.corners())
