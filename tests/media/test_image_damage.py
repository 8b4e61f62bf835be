"""Damaged payloads give an error or a whole picture: never a part of one, never another exception, never a warning."""

from __future__ import annotations

import contextlib
import dataclasses
import random
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy import typing as npt
from PIL import Image, ImageFile, features

from lazymedia.errors import ReleasedError, UnprocessableMediaError
from lazymedia.limits import DEFAULT_LIMITS, Limits
from lazymedia.media.cancellation import DecodeStopped, stopping_when
from lazymedia.media.image import ImageMediaIO, header, pixels, probe
from tests.media import pictures
from tests.media.stops import After

LIMITS = Limits(image_formats=pictures.ALL_FORMATS, max_image_pixels=1_000_000)
ARRAY = ImageMediaIO("RGBA", output="array", image_id="trust", limits=LIMITS)

ORIENTED: dict[str, Any] = {"exif": b"Exif\0\0" + pictures.orientation_exif(6)}
SEEDS: dict[str, bytes] = {
    "JPEG": pictures.encode(pictures.photo(), "JPEG", quality=80, **ORIENTED),
    "progressive JPEG": pictures.encode(pictures.photo(), "JPEG", progressive=True, **ORIENTED),
    "CMYK JPEG": pictures.encode(pictures.photo(mode="CMYK"), "JPEG", restart_marker_rows=1),
    "PNG": pictures.encode(pictures.photo(), "PNG", **ORIENTED),
    "animated PNG of a palette": pictures.encode(
        pictures.photo(mode="P"),
        "PNG",
        transparency=b"\0\x40\xff",
        save_all=True,
        append_images=[pictures.photo(mode="P", seed=1)],
    ),
    "PNG of 16 bits": pictures.encode(np.arange(900, dtype=np.uint16).reshape(30, 30) * 70, "PNG"),
    "interlaced PNG": b"",
    "WebP": pictures.encode(pictures.photo(), "WEBP", **ORIENTED),
    "lossless WebP": pictures.encode(pictures.photo(mode="RGBA"), "WEBP", lossless=True),
    "animated WebP": pictures.encode(pictures.photo(), "WEBP", save_all=True, append_images=[pictures.photo(seed=1)]),
    "GIF": pictures.encode(pictures.photo(mode="P"), "GIF", transparency=3, comment=b"a comment"),
    "interlaced GIF": pictures.encode(pictures.photo(mode="L"), "GIF", interlace=1),
    "AVIF": pictures.encode(pictures.photo(mode="RGBA"), "AVIF", **ORIENTED),
    "animated AVIF": pictures.encode(pictures.photo(), "AVIF", save_all=True, append_images=[pictures.photo(seed=1)]),
    "BMP": pictures.encode(pictures.photo(), "BMP"),
    "BMP of a palette": pictures.encode(pictures.photo(mode="P"), "BMP"),
    "run-length BMP": pictures.rle_bmp(37, 29, (bytes((20, 7, 17, 9)) + b"\0\0") * 29 + b"\0\1"),
    "TIFF": pictures.encode(pictures.photo(), "TIFF"),
    "packed TIFF": pictures.encode(pictures.photo(), "TIFF", compression="tiff_lzw"),
}


def interlaced(width: int = 37, height: int = 29, missing: int = 0) -> bytes:
    """Adam7 by hand, without its last rows: the writer here has none."""
    pixels = np.asarray(pictures.photo(width, height))
    rows = []
    for top, left, down, across in (
        (0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1),
    ):  # fmt: skip
        rows += [b"\0" + row.tobytes() for row in pixels[top::down, left::across] if row.size]
    png = pictures.png_of(width, height, 8, 2, b"".join(rows[: len(rows) - missing]))
    header = bytearray(next(content for kind, content in pictures.chunks(png) if kind == b"IHDR"))
    header[12] = 1
    return png[:8] + pictures.chunk(b"IHDR", bytes(header)) + png[33:]


SEEDS["interlaced PNG"] = interlaced()


def outcome(data: bytes) -> npt.NDArray[Any] | None:
    """The picture, or None for the one error that damage may lead to."""
    try:
        return np.asarray(ARRAY.load_bytes_ref(data).decode())
    except UnprocessableMediaError as error:
        assert error.modality == "image"
        assert len(str(error)) <= 300
        assert "0x" not in str(error)
        return None


@pytest.mark.parametrize("kind", SEEDS)
def test_the_seeds_are_whole(kind: str) -> None:
    assert outcome(SEEDS[kind]) is not None


def test_an_interlaced_png_is_decoded() -> None:
    assert np.array_equal(np.asarray(ImageMediaIO().load_bytes(SEEDS["interlaced PNG"])), np.asarray(pictures.photo()))


@pytest.mark.parametrize("size", [(1, 1), (2, 1), (1, 2), (5, 1), (1, 5), (8, 8), (9, 7), (16, 3)])
def test_a_png_that_ends_between_two_rows_is_an_error(size: tuple[int, int]) -> None:
    """Its stream is complete and its checksums are right; Pillow would leave the missing rows black."""
    whole = interlaced(*size)
    assert np.array_equal(np.asarray(ImageMediaIO().load_bytes(whole)), np.asarray(pictures.photo(*size)))
    assert outcome(interlaced(*size, missing=1)) is None
    for mode, colour, depth in (("L", 0, 1), ("RGB", 2, 3), ("LA", 4, 2), ("RGBA", 6, 4)):
        pixels = pictures.photo(*size, mode=mode).tobytes()
        row = size[0] * depth
        rows = [b"\0" + pixels[at : at + row] for at in range(0, len(pixels), row)]
        assert outcome(pictures.png_of(*size, 8, colour, b"".join(rows))) is not None
        assert outcome(pictures.png_of(*size, 8, colour, b"".join(rows[:-1]))) is None


@pytest.mark.parametrize("bits", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("value", [0x5A, 0xA5, 0, 0xFF])
def test_a_png_that_looks_as_if_it_ended_early_does_not(value: int, bits: int) -> None:
    """Whatever its last row is, it is a row."""
    row = b"\0" + bytes((value,)) * bits
    assert outcome(pictures.png_of(8, 3, bits, 0, row * 3)) is not None
    assert outcome(pictures.png_of(8, 3, bits, 0, row * 2)) is None


def lengths(size: int) -> Iterator[int]:
    yield from range(0, size, max(1, size // 90))
    yield from range(max(0, size - 24), size)


@pytest.mark.parametrize("lenient", [False, True], ids=["strict Pillow", "lenient Pillow"])
@pytest.mark.parametrize("kind", SEEDS)
def test_a_truncated_picture_is_an_error_or_whole(kind: str, lenient: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where Pillow is set to accept truncated files."""
    data = SEEDS[kind]
    whole = outcome(data)
    assert whole is not None
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", lenient)
    damaged = 0
    for length in lengths(len(data)):
        picture = outcome(data[:length])
        assert picture is None or np.array_equal(picture, whole) or without_orientation(picture, whole), length
        damaged += picture is None
    assert damaged >= 40


def without_orientation(picture: npt.NDArray[Any], whole: npt.NDArray[Any]) -> bool:
    """All pixels, but EXIF that lay behind them has been cut off, and the orientation with it."""
    return np.array_equal(picture, np.rot90(whole))


@pytest.mark.parametrize("kind", [kind for kind in SEEDS if "TIFF" not in kind])
def test_corrupt_pixels_are_an_error_or_whole_even_for_a_lenient_pillow(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Pillow makes of a payload never depends on its switch."""
    randomly = random.Random(3)
    for _ in range(60):
        data = bytearray(SEEDS[kind])
        data[randomly.randrange(len(data) // 2, len(data))] ^= 1 << randomly.randrange(8)
        monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", False)
        strict = outcome(bytes(data))
        monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
        lenient = outcome(bytes(data))
        assert (strict is None) == (lenient is None)
        assert strict is None or lenient is None or np.array_equal(strict, lenient)


@pytest.mark.parametrize("kind", SEEDS)
def test_random_flips_give_a_picture_or_the_one_error(kind: str) -> None:
    """Three hundred mutants of each, half of the flips among the first 200 bytes; warnings are errors."""
    randomly = random.Random(kind)
    pictures_seen = errors_seen = 0
    for _ in range(300):
        data = bytearray(SEEDS[kind])
        for _ in range(randomly.choice((1, 1, 2, 3, 12))):
            at = randomly.randrange(len(data) if randomly.random() < 0.5 else min(len(data), 200))
            data[at] = randomly.randrange(256) if randomly.random() < 0.5 else data[at] ^ 1 << randomly.randrange(8)
        if outcome(bytes(data)) is None:
            errors_seen += 1
        else:
            pictures_seen += 1
        with contextlib.suppress(UnprocessableMediaError):
            probe(bytes(data))
    assert pictures_seen
    assert errors_seen


def test_a_header_that_cannot_be_read_is_left_for_the_decode() -> None:
    for kind, data in SEEDS.items():
        ref = ImageMediaIO(limits=LIMITS).load_bytes_ref(data[:18])
        with pytest.raises(UnprocessableMediaError) as caught:
            ref.decode()
        assert caught.value.__cause__ is not None, kind


@pytest.mark.parametrize("kind", SEEDS)
def test_damage_is_reported_with_the_librarys_exception_as_its_cause(kind: str) -> None:
    data = SEEDS[kind]
    cut = data[: len(data) // 4] if "AVIF" not in kind else data[:-20]
    with pytest.raises(UnprocessableMediaError) as caught:
        ImageMediaIO(limits=LIMITS).load_bytes(cut)
    assert isinstance(caught.value.__cause__, Exception)
    assert not isinstance(caught.value.__cause__, UnprocessableMediaError)


FLAT = b"".join(content for kind, content in pictures.chunks(SEEDS["PNG"]) if kind == b"IDAT")
DAMAGED_PNG: dict[str, bytes] = {
    "IHDR checksum": SEEDS["PNG"][:29] + b"\0\0\0\0" + SEEDS["PNG"][33:],
    "PLTE checksum": SEEDS["animated PNG of a palette"].replace(b"PLTE\0", b"PLTE\7", 1),
    "half a transparent colour": pictures.png_of(4, 4, 8, 2, b"\0" * 52, pictures.chunk(b"tRNS", b"\0\1\0")),
    "more palette than there can be": pictures.png_of(4, 4, 8, 3, b"\0" * 20, pictures.chunk(b"PLTE", bytes(3 * 257))),
    "no pixels": pictures.png_of(4, 4, 8, 2, None),
    "no width": pictures.png_of(0, 4, 8, 2, b"\0" * 4),
    "bits that no colour type has": pictures.png_of(4, 4, 3, 2, b"\0" * 52),
    "too few rows": pictures.png_of(4, 4, 8, 0, b"\0" * 15),
    "unknown row filter": pictures.png_of(4, 4, 8, 0, b"\x09\0\0\0\0" * 4),
    "pixels in two runs": pictures.without_chunks(SEEDS["PNG"], b"IDAT")[:-12]
    + pictures.chunk(b"IDAT", FLAT[: len(FLAT) // 2])
    + pictures.chunk(b"tIME", bytes(7))
    + pictures.chunk(b"IDAT", FLAT[len(FLAT) // 2 :])
    + pictures.chunk(b"IEND"),
}


@pytest.mark.parametrize("damage", DAMAGED_PNG)
def test_a_png_that_breaks_its_own_rules_is_an_error(damage: str) -> None:
    assert outcome(DAMAGED_PNG[damage]) is None


def test_damage_in_what_no_pixel_depends_on_does_not_matter() -> None:
    """Text, profiles and times are never read, so neither their checksums nor their content can fail a picture."""
    png = pictures.encode(pictures.corners(), "PNG")
    broken = (
        b"\0\0\0\4tIME" + b"\xff" * 4 + b"\0\0\0\0",
        pictures.chunk(b"iCCP", b"name\0\7not compressed"),
        pictures.chunk(b"zTXt", b"key\0\0not compressed"),
        pictures.chunk(b"gAMA", b""),
        pictures.chunk(b"pHYs", b"\0"),
        pictures.chunk(b"fcTL", b"\xff" * 26),
        pictures.chunk(b"acTL", b""),
    )
    data = pictures.with_chunks(png, *broken, before=b"IDAT")
    assert np.array_equal(np.asarray(ImageMediaIO().load_bytes(data)), pictures.corners())
    jpeg = pictures.encode(pictures.photo(), "JPEG")
    noisy = pictures.with_segments(
        jpeg, pictures.segment(0xE0, b"JFIF"), pictures.segment(0xED, b"Photoshop 3.0\08BIM\4"), b"\xff\xe1\0\0",
        pictures.segment(0xE2, b"ICC_PROFILE\0"), pictures.segment(0xE2, b"MPF\0II*\0"), b"junk",
    )  # fmt: skip
    assert np.array_equal(np.asarray(ImageMediaIO().load_bytes(noisy)), np.asarray(ImageMediaIO().load_bytes(jpeg)))


DAMAGED_JPEG: dict[str, bytes] = {
    "two frames": pictures.with_segments(
        SEEDS["JPEG"], pictures.segment(0xC0, b"\x08\0\1\0\1\3\1\x22\0\2\x11\1\3\x11\1")
    ),
    "no frame": SEEDS["JPEG"].replace(b"\xff\xc0\0\x11", b"\xff\xe7\0\x11", 1),
    "an unknown marker": pictures.with_segments(SEEDS["JPEG"], b"\xff\xf7\0\2"),
    "a second start": pictures.with_segments(SEEDS["JPEG"], b"\xff\xd8"),
    "an early end": pictures.with_segments(SEEDS["JPEG"], b"\xff\xd9"),
    "twelve bits": SEEDS["JPEG"].replace(b"\xff\xc0\0\x11\x08", b"\xff\xc0\0\x11\x0c", 1),
    "two components": SEEDS["JPEG"].replace(b"\0\x1d\0\x25\3", b"\0\x1d\0\x25\2", 1),
    "no height": pictures.with_size(SEEDS["JPEG"], 37, 0),
    "more rows than pixels": pictures.with_size(SEEDS["progressive JPEG"][:-2], 37, 900),
}


@pytest.mark.parametrize("damage", DAMAGED_JPEG)
def test_a_jpeg_that_libjpeg_would_read_otherwise_is_an_error(damage: str) -> None:
    assert outcome(DAMAGED_JPEG[damage]) is None
    if damage not in {"twelve bits", "more rows than pixels"}:
        with pytest.raises(UnprocessableMediaError):
            probe(DAMAGED_JPEG[damage])


def test_fill_bytes_and_garbage_between_segments_are_skipped() -> None:
    data = SEEDS["JPEG"]
    for frame in (b"\xff\xff\xff", b"\0\1garbage\xff\0\xff"):
        filled = data.replace(b"\xff\xc0", frame + b"\xc0", 1)
        assert np.array_equal(np.asarray(outcome(filled)), np.asarray(outcome(data)))


def test_the_size_that_the_library_finds_is_checked_too() -> None:
    """A header that says less than the library finds is not trusted: the library's size is checked before a pixel."""
    limits = Limits(image_formats=pictures.ALL_FORMATS, max_image_pixels=1000)
    for kind in ("WEBP", "AVIF", "GIF", "BMP", "TIFF"):
        data = pictures.encode(pictures.photo(), kind)
        found = header.reader(kind)(data, DEFAULT_LIMITS)
        assert found is not None
        lying = dataclasses.replace(found, width=1, height=1)
        with pytest.raises(UnprocessableMediaError, match="37 x 29"):
            lying.decode(data, limits)


def test_an_avif_with_damage_in_its_boxes_is_an_error_or_whole() -> None:
    """Every byte of the boxes in front of the pixels, set to three values."""
    data = SEEDS["AVIF"]
    for at in range(data.index(b"mdat")):
        for value in (0, 0xFF, data[at] ^ 1):
            outcome(data[:at] + bytes((value,)) + data[at + 1 :])


def test_an_avif_whose_parts_share_their_bytes_is_rejected() -> None:
    """A thousand items over one megabyte would be read a thousand times."""
    data = SEEDS["AVIF"]
    at = data.index(b"iloc")
    (count,) = struct.unpack_from(">H", data, at + 10)
    assert count >= 2
    grown = bytearray(data)
    grown[at + 10 : at + 12] = struct.pack(">H", 5000)
    assert outcome(bytes(grown)) is None


@pytest.mark.parametrize("failure", [MemoryError, ImportError], ids=lambda failure: failure.__name__)
def test_what_is_the_servers_fault_passes_as_it_is(failure: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise failure("the machine's, not the picture's")

    monkeypatch.setattr(pixels, "decode_with", fail)
    with pytest.raises(failure):
        ImageMediaIO().load_bytes(SEEDS["PNG"])


def test_a_pillow_without_the_codec_is_the_servers_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    pixels.require_codec.cache_clear()
    monkeypatch.setattr(features, "check", lambda feature: feature != "webp")
    try:
        with pytest.raises(ImportError, match="webp"):
            ImageMediaIO().load_bytes(SEEDS["WebP"])
        ImageMediaIO().load_bytes(SEEDS["PNG"])
    finally:
        pixels.require_codec.cache_clear()


def test_a_cancelled_decode_stops_before_the_codec_runs() -> None:
    def stop() -> None:
        raise DecodeStopped

    ref = ImageMediaIO().load_bytes_ref(SEEDS["PNG"])
    for decode in (ref.decode, lambda: ImageMediaIO().load_bytes(b"not looked at")):
        with stopping_when(stop), pytest.raises(DecodeStopped):
            decode()
    assert isinstance(ref.decode(), Image.Image), "a stop is not remembered"


def test_a_cancelled_decode_stops_between_codec_and_conversion() -> None:
    with stopping_when(After(1)), pytest.raises(DecodeStopped):
        ImageMediaIO().load_bytes(SEEDS["PNG"])


def test_a_failure_is_not_remembered_and_a_released_reference_says_so() -> None:
    ref = ImageMediaIO().load_bytes_ref(SEEDS["PNG"][:-100])
    for _ in range(2):
        with pytest.raises(UnprocessableMediaError):
            ref.decode()
    ref.release()
    with pytest.raises(ReleasedError):
        ref.decode()
