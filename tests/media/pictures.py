"""Makes encoded pictures, whole and damaged."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy import typing as npt
from PIL import Image

Pixels = npt.NDArray[np.uint8]

HIDDEN = (200, 0, 0)
"""The colour under full transparency, which must never be seen."""

ALL_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "AVIF", "BMP", "TIFF")
LOSSLESS: dict[str, dict[str, Any]] = {"PNG": {}, "WEBP": {"lossless": True, "exact": True}, "BMP": {}, "TIFF": {}}


def encode(image: Image.Image | npt.NDArray[Any], kind: str, **save: Any) -> bytes:
    buffer = io.BytesIO()
    picture = image if isinstance(image, Image.Image) else Image.fromarray(image)
    picture.save(buffer, kind, **save)
    return buffer.getvalue()


def corners(width: int = 40, height: int = 24) -> Pixels:
    """A picture that is not square, with another colour in each quarter: no two orientations of it are equal."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[: height // 2, : width // 2] = 250, 10, 20
    pixels[: height // 2, width // 2 :] = 20, 240, 30
    pixels[height // 2 :, : width // 2] = 30, 20, 230
    pixels[height // 2 :, width // 2 :] = 240, 230, 40
    return pixels


def photo(width: int = 37, height: int = 29, mode: str = "RGB", seed: int = 0) -> Image.Image:
    """Smooth random colours, the same at every call."""
    coarse = np.random.default_rng(seed).integers(0, 256, (6, 8, 4), dtype=np.uint8)
    smooth = Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)
    return smooth if mode == "RGBA" else smooth.convert("RGB").convert(mode)


def two_columns(*, alpha: bool = True) -> Image.Image:
    """Left half transparent red, right half solid blue."""
    pixels = np.zeros((6, 8, 4), np.uint8)
    pixels[:, :4] = *HIDDEN, 0
    pixels[:, 4:] = 0, 0, 255, 255
    return Image.fromarray(pixels if alpha else pixels[..., :3].copy())


def palette_picture() -> Image.Image:
    image = Image.new("P", (8, 6), 0)
    image.putpalette([*HIDDEN, 0, 0, 255, 9, 9, 9])
    image.paste(1, (4, 0, 8, 6))
    return image


def greys(mode: str, left: int, right: int) -> Image.Image:
    image = Image.new(mode, (8, 6), left)
    image.paste(right, (4, 0, 8, 6))
    return image


def oriented(pixels: Pixels, orientation: int) -> Pixels:
    """Stored pixels with an orientation applied, by the definition of EXIF."""
    swapped = pixels.transpose(1, 0, 2)
    return {
        1: pixels,
        2: pixels[:, ::-1],
        3: pixels[::-1, ::-1],
        4: pixels[::-1],
        5: swapped,
        6: swapped[:, ::-1],
        7: swapped[::-1, ::-1],
        8: swapped[::-1],
    }[orientation]


# EXIF


def exif(*entries: tuple[int, int, int, bytes], order: str = "<") -> bytes:
    """An EXIF block of entries (tag, type, count, value), without the marker in front; long values lie behind."""
    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "L", 8)
    table, tail = b"", b""
    place = 8 + 2 + 12 * len(entries) + 4
    for tag, kind, count, value in entries:
        if len(value) > 4:
            field = struct.pack(order + "L", place + len(tail))
            tail += value
        else:
            field = value.ljust(4, b"\0")
        table += struct.pack(order + "HHL", tag, kind, count) + field
    return head + struct.pack(order + "H", len(entries)) + table + b"\0\0\0\0" + tail


def orientation_exif(orientation: int, order: str = "<") -> bytes:
    return exif((0x0112, 3, 1, struct.pack(order + "H", orientation)), order=order)


def id_exif(value: bytes, kind: int = 2) -> bytes:
    return exif((0x800D, kind, len(value), value))


def xmp(orientation: int) -> bytes:
    return (
        b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF><rdf:Description '
        b'tiff:Orientation="%d"/></rdf:RDF></x:xmpmeta>' % orientation
    )


# JPEG


def segment(marker: int, content: bytes) -> bytes:
    return bytes((0xFF, marker)) + struct.pack(">H", len(content) + 2) + content


def with_segments(jpeg: bytes, *segments: bytes) -> bytes:
    """Segments put right behind the start of a JPEG."""
    return jpeg[:2] + b"".join(segments) + jpeg[2:]


def with_scans(jpeg: bytes, count: int) -> bytes:
    """A JPEG whose last scan is there ``count`` times more."""
    last = jpeg.rindex(b"\xff\xda")
    return jpeg[:-2] + jpeg[last:-2] * count + jpeg[-2:]


def with_size(jpeg: bytes, width: int, height: int) -> bytes:
    """A JPEG that declares another size."""
    at = next(at for marker in (b"\xff\xc0", b"\xff\xc2") if (at := jpeg.find(marker)) >= 0)
    return jpeg[: at + 5] + struct.pack(">HH", height, width) + jpeg[at + 9 :]


SEQUENTIAL, PROGRESSIVE, ARITHMETIC, ARITHMETIC_PROGRESSIVE = 0xC1, 0xC2, 0xC9, 0xCA
DC = (0, 0, 0x01)
"""First and last coefficient of a scan, and its bits: all but the lowest bit of the mean."""
REFINED_DC = (0, 0, 0x10)
AC = (1, 63, 0x01)
REFINED_AC = (1, 63, 0x10)


def jpeg_of(
    size: tuple[int, int], frame: int, sampling: str, scans: Sequence[tuple[Sequence[int], tuple[int, int, int]]]
) -> bytes:
    """A JPEG of one colour, whose scans have hardly any data however large it is.

    Args:
        size: Width and height.
        frame: Marker of its frame header.
        sampling: For each component two digits, as "22 11 11" for 4:2:0.
        scans: Numbers of components, from 1 on, with first and last coefficient and bits.
    """
    factors = sampling.split()
    components = b"".join(bytes((number, int(factor, 16), 0)) for number, factor in enumerate(factors, 1))
    made = b"\xff\xd8" + segment(0xDB, b"\0" + b"\1" * 64)
    made += segment(frame, struct.pack(">BHHB", 8, *reversed(size), len(factors)) + components)
    if frame in {SEQUENTIAL, PROGRESSIVE}:  # codes of one bit: no difference, and 32,767 blocks without coefficients
        run = 0xE0 if frame == PROGRESSIVE else 0
        made += segment(0xC4, b"\0\1" + bytes(16)) + segment(0xC4, b"\x10\1" + bytes(15) + bytes((run,)))
    for numbers, (first, last, bits) in scans:
        selected = b"".join(bytes((number, 0)) for number in numbers)
        made += segment(0xDA, bytes((len(numbers),)) + selected + bytes((first, last, bits))) + b"\x12" * 2
    return made + b"\xff\xd9"


# PNG


def chunk(kind: bytes, content: bytes = b"") -> bytes:
    return struct.pack(">L", len(content)) + kind + content + struct.pack(">L", zlib.crc32(kind + content))


def chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Type and content of each chunk."""
    at = 8
    while at < len(png):
        length, kind = struct.unpack_from(">L4s", png, at)
        yield kind, png[at + 8 : at + 8 + length]
        at += 12 + length


def with_chunks(png: bytes, *added: bytes, before: bytes) -> bytes:
    """Chunks put in front of the first of a type."""
    at = png.index(before) - 4
    return png[:at] + b"".join(added) + png[at:]


def without_chunks(png: bytes, kind: bytes) -> bytes:
    return png[:8] + b"".join(chunk(*part) for part in chunks(png) if part[0] != kind)


def png_of(width: int, height: int, bits: int, colour: int, rows: bytes | None, *between: bytes) -> bytes:
    """A PNG from packed rows, each with its filter byte; without pixels where ``rows`` is None."""
    header = chunk(b"IHDR", struct.pack(">LLBBBBB", width, height, bits, colour, 0, 0, 0))
    pixels = b"" if rows is None else chunk(b"IDAT", zlib.compress(rows))
    return b"\x89PNG\r\n\x1a\n" + header + b"".join(between) + pixels + chunk(b"IEND")


def raw_profile(block: bytes) -> bytes:
    """EXIF the way ImageMagick writes it into a text chunk."""
    text = (b"Exif\0\0" + block).hex()
    lines = "\n".join(text[at : at + 72] for at in range(0, len(text), 72))
    return f"\nexif\n{len(block) + 6:8}\n{lines}\n".encode()


# BMP


def rle_bmp(width: int, height: int, runs: bytes) -> bytes:
    """A run-length coded BMP of 256 reds."""
    palette = b"".join(bytes((0, 0, red, 0)) for red in range(256))
    offset = 54 + len(palette)
    head = b"BM" + struct.pack("<LHHL", offset + len(runs), 0, 0, offset)
    return head + struct.pack("<LllHHLLllLL", 40, width, height, 1, 8, 1, len(runs), 0, 0, 256, 0) + palette + runs


# AVIF


def box(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">L4s", len(content) + 8, kind) + content


def av1_of(width: int, height: int) -> bytes:
    """An AV1 stream of a sequence header alone: a reduced one, for a still picture."""
    bits = f"000_1_1_01000_1111_1111_{width - 1:016b}_{height - 1:016b}".replace("_", "").ljust(56, "0")
    return b"\x12\0\x0a\x07" + int(bits, 2).to_bytes(7)


def avif_of(items: list[tuple[int, int]], streams: bytes, size: tuple[int, int] = (8, 8), *more: bytes) -> bytes:
    """An AVIF of AV1 items, each at an offset and of a length within ``streams``; the first is the picture."""
    numbers = range(1, len(items) + 1)
    entries = b"".join(box(b"infe", struct.pack(">LHH4sB", 2 << 24, number, 0, b"av01", 0)) for number in numbers)
    kinds = box(b"iinf", struct.pack(">LH", 0, len(items)) + entries)
    ispe = box(b"ispe", struct.pack(">LLL", 0, *size))
    linked = struct.pack(">LLHBB", 0, 1, 1, 1, 1)
    properties = box(b"iprp", box(b"ipco", ispe) + box(b"ipma", linked))
    front = box(b"ftyp", b"avif\0\0\0\0avifmif1")

    def meta(base: int) -> bytes:
        places = b"".join(
            struct.pack(">HHHLL", number, 0, 1, base + offset, length)
            for number, (offset, length) in zip(numbers, items, strict=True)
        )
        table = box(b"iloc", struct.pack(">LBBH", 0, 0x44, 0, len(items)) + places)
        return box(b"meta", bytes(4) + box(b"pitm", struct.pack(">LH", 0, 1)) + table + kinds + properties)

    base = len(front) + len(meta(0)) + sum(map(len, more)) + 8
    return front + meta(base) + b"".join(more) + box(b"mdat", streams)
