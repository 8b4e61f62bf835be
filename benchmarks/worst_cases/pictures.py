"""The worst pictures."""

from __future__ import annotations

import functools
import io
import struct
import zlib
from typing import Any, Final

from PIL import Image

from benchmarks.worst_cases import avifs, jpegs, pngs
from benchmarks.worst_cases.case import WITH_TIFF, Case, Maker, Scale

_SCANS: Final = 64
_WEBP_SIDE: Final = 16_383
_CLEAR: Final = 256
"""The code of a GIF of 256 colours that begins the table anew; the next one ends the picture."""


def _by_pillow(kind: str, mode: str = "RGB", colour: Any = 0x5A, **save: Any) -> Maker:
    """One colour, by Pillow's encoder."""

    def make(scale: Scale) -> bytes:
        width, height = scale.picture
        buffer = io.BytesIO()
        side = min(width, _WEBP_SIDE)
        Image.new(mode, (side, height), colour if mode in "1L" else (colour,) * len(mode)).save(buffer, kind, **save)
        return buffer.getvalue()

    return make


def _jpegs() -> list[Case]:
    rgb = 3
    return [
        _case("jpeg-arithmetic-64-scans", lambda s: jpegs.arithmetic(s.picture, _SCANS), short=True),
        _case("jpeg-dc-refined-64-scans", lambda s: jpegs.dc_refined(s.picture, rgb, _SCANS), short=True),
        _case("jpeg-dc-refined-64-scans-cmyk", lambda s: jpegs.dc_refined(s.picture, 4, _SCANS)),
        _case("jpeg-ac-refined-64-scans", lambda s: jpegs.ac_refined(s.picture, rgb, _SCANS), short=True),
        _case("jpeg-ac-refined-64-scans-grey", lambda s: jpegs.ac_refined(s.picture, 1, _SCANS)),
        _case("jpeg-restart-missing", lambda s: jpegs.restarts(s.picture), short=True),
        _case("jpeg-restart-wrong", lambda s: jpegs.restarts(s.picture, b"\xff\xd3")),
        _case("jpeg-solid", _by_pillow("JPEG", subsampling=0)),
        _case("jpeg-solid-cmyk", _by_pillow("JPEG", "CMYK")),
        _case("jpeg-solid-progressive", _by_pillow("JPEG", progressive=True)),
        _case("jpeg-stuffed-zeros", _stuffed_jpeg),
        _case("jpeg-tables-between-scans", _jpeg_with_tables, short=True),
        _case("jpeg-long-exif", _jpeg_with_exif),
        _case("mpo", _mpo),
    ]


def _stuffed_jpeg(scale: Scale) -> bytes:
    """A long scan without a marker, which has to be searched for one."""
    return jpegs.dc_refined((64, 64), 3, 2)[:-2] + b"\xff\0" * (scale.megabytes << 19) + jpegs.EOI


def _jpeg_with_tables(scale: Scale) -> bytes:
    """As many Huffman tables as fit into the segments that are allowed."""
    tables = jpegs.huffman(0, 0) + jpegs.huffman(1, jpegs.END_OF_BLOCKS)
    one = jpegs.scan(range(1), 0, 0, 0)
    head = jpegs.SOI + jpegs.frame(jpegs.PROGRESSIVE, scale.picture, 1)
    return head + (tables * 28 + one) * _SCANS + jpegs.EOI


def _jpeg_with_exif(scale: Scale) -> bytes:
    entries = 5_400
    block = b"Exif\0\0II*\0\x08\0\0\0" + struct.pack("<H", entries) + struct.pack("<HHLL", 0x111, 3, 1, 1) * entries
    parts = jpegs.segment(0xE1, block) * (scale.megabytes << 4)
    return jpegs.SOI + parts + jpegs.dc_refined((64, 64), 3, 2)[2:]


def _mpo(scale: Scale) -> bytes:
    buffer = io.BytesIO()
    picture = Image.new("RGB", (scale.picture[0] // 2, scale.picture[1] // 2))
    picture.save(buffer, "MPO", save_all=True, append_images=[picture] * 3)
    return buffer.getvalue()


def _pngs() -> list[Case]:
    cases = []
    in_short = {(1, 0, False), (8, 2, False), (16, 2, False), (8, 3, False), (16, 4, True), (16, 6, True)}
    for colour, depths in pngs.DEPTHS.items():
        for bits in depths:
            for interlaced in (False, True):
                name = f"png-{bits}-bit-colour-{colour}{'-interlaced' if interlaced else ''}"
                make = functools.partial(_png, bits=bits, colour=colour, interlaced=interlaced)
                cases.append(_case(name, make, short=(bits, colour, interlaced) in in_short))
    for bits, colour in ((1, 0), (8, 0), (16, 0), (8, 2), (16, 2), (8, 3)):
        make = functools.partial(_png, bits=bits, colour=colour, see_through=True)
        cases.append(_case(f"png-{bits}-bit-colour-{colour}-trns", make, short=(bits, colour) in {(16, 2), (8, 3)}))
    return [
        *cases,
        _case("png-no-end-of-pixels", _png_cut),
        _case("png-4000-empty-idat", lambda _: _png_with(pngs.chunk(b"IDAT", b"") * 4_000)),
        _case("png-idat-of-1024", lambda s: pngs.solid(s.picture, 16, 6, split=1_024), short=True),
        _case("png-texts", lambda _: _png_with(pngs.chunk(b"zTXt", _profile(1 << 20)) * 4_000), short=True),
        _case("png-profiles", lambda s: _png_with(_colour_profile(s.megabytes << 20) * 100)),
        _case("png-long-xmp", lambda s: _png_with(_long_xmp(s.megabytes << 20))),
        _case("png-long-exif", lambda _: _png_with(pngs.chunk(b"eXIf", _long_exif()))),
        _case("apng-4000-frames", _apng),
    ]


def _png(scale: Scale, **settings: Any) -> bytes:
    return pngs.solid(scale.picture, **settings)


def _png_with(extra: bytes) -> bytes:
    return pngs.solid((64, 64), 8, 2, extra=extra)


def _png_cut(scale: Scale) -> bytes:
    """A row less than the header says: whether any is missing is found out at the end."""
    width, height = scale.picture
    whole = pngs.solid((width, height - 1), 16, 2)
    return pngs.SIGNATURE + pngs.header(scale.picture, 16, 2) + whole[33:]


def _profile(size: int) -> bytes:
    text = b"\nexif\n%8d\n" % (size // 2 - 64) + b"00" * (size // 2 - 64)
    return b"Raw profile type exif\0\0" + zlib.compress(text, 9)


def _colour_profile(size: int) -> bytes:
    return pngs.chunk(b"iCCP", b"name\0\0" + zlib.compress(bytes(size), 9))


def _long_xmp(size: int) -> bytes:
    start = b"tiff:Orientation="
    return pngs.chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + start * (size // len(start)))


def _long_exif() -> bytes:
    entries = 65_535
    return b"II*\0\x08\0\0\0" + struct.pack("<H", entries) + struct.pack("<HHLL", 0x112, 4, 9, 1) * entries


def _apng(scale: Scale) -> bytes:
    control = pngs.chunk(b"acTL", struct.pack(">LL", 2_000, 0))
    frames = b"".join(
        pngs.chunk(b"fcTL", struct.pack(">LLLLLHHBB", number, 1, 1, 0, 0, 1, 100, 0, 0)) + pngs.chunk(b"fdAT", bytes(4))
        for number in range(2_000)
    )
    whole = pngs.solid(scale.picture, 8, 6, extra=control)
    return whole[:-12] + frames + whole[-12:]


def _webps() -> list[Case]:
    return [
        _case("webp-solid-lossy", _by_pillow("WEBP", method=0, quality=10), short=True),
        _case("webp-solid-lossless", _by_pillow("WEBP", lossless=True, method=0, quality=0), short=True),
        _case("webp-solid-alpha", _by_pillow("WEBP", "RGBA", method=0, quality=10), short=True),
        _case("webp-animated-first-frame", lambda s: webp_animation(s.picture, 2), short=True),
        _case("webp-a-million-frames", lambda s: webp_animation((64, 64), s.entries)),
        _case("webp-long-xmp", _webp_with_xmp),
    ]


def webp_animation(canvas: tuple[int, int], frames: int) -> bytes:
    """An animation whose frames are of one pixel each, 46 bytes long, on a large canvas."""
    buffer = io.BytesIO()
    Image.new("RGBA", (1, 1), (1, 2, 3, 128)).save(buffer, "WEBP", lossless=True)
    pixels = buffer.getvalue()[12:]

    def number(value: int) -> bytes:
        return value.to_bytes(3, "little")

    frame = number(0) * 2 + number(0) * 2 + number(40) + b"\0" + pixels
    width, height = min(canvas[0], 1 << 14), canvas[1]
    screen = _riff(b"VP8X", b"\x12\0\0\0" + number(width - 1) + number(height - 1)) + _riff(b"ANIM", bytes(6))
    body = b"WEBP" + screen + _riff(b"ANMF", frame) * frames
    return _riff(b"RIFF", body)


def _riff(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("<L", len(body)) + body + b"\0" * (len(body) & 1)


def _webp_with_xmp(scale: Scale) -> bytes:
    buffer = io.BytesIO()
    text = b"tiff:Orientation=" * (scale.megabytes << 16)
    Image.new("RGB", (64, 64)).save(buffer, "WEBP", xmp=text)
    return buffer.getvalue()


def gif(canvas: tuple[int, int], frames: int, frame: tuple[int, int] = (1, 1), *, interlaced: bool = False) -> bytes:
    """Frames of one colour on a canvas, each shown for 0.04 s."""
    control = b"!\xf9\x04\x04\x04\0\0\0"
    image = b"," + struct.pack("<HHHHB", 0, 0, *frame, 0x40 if interlaced else 0) + b"\x08" + _solid_lzw(*frame) + b"\0"
    head = b"GIF89a" + struct.pack("<HHBBB", *canvas, 0xF7, 0, 0) + bytes(range(256)) * 3
    return head + (control + image) * frames + b";"


def _solid_lzw(width: int, height: int) -> bytes:
    """One colour in sub-blocks: runs that grow by a pixel with each code, begun again when the table is full."""
    left, size = width * height, 9
    codes: list[tuple[int, int]] = []
    while left:
        codes += [(_CLEAR, size), (0, 9)]
        left -= 1
        for code in range(_CLEAR + 2, 4_095):
            size = max(9, code.bit_length())
            run = min(code - _CLEAR, left)
            if not run:
                break
            codes.append((_CLEAR + run if run > 1 else 0, size))
            left -= run
    bits = "".join(format(code, f"0{size}b")[::-1] for code, size in [*codes, (_CLEAR + 1, size)])
    coded = int(bits[::-1], 2).to_bytes(-(-len(bits) // 8), "little")
    return b"".join(bytes([len(part)]) + part for part in (coded[at : at + 255] for at in range(0, len(coded), 255)))


def _gifs() -> list[Case]:
    return [
        _case("gif-solid", lambda s: gif(s.picture, 1, s.picture), short=True),
        _case("gif-solid-interlaced", lambda s: gif(s.picture, 1, s.picture, interlaced=True)),
        _case("gif-without-pixels", lambda s: gif(s.picture, 1, s.picture)[:820], short=True),
        _case("gif-small-frame", lambda s: gif(s.picture, 1), short=True),
        _case("gif-many-frames", lambda s: gif(s.picture, s.entries)),
        _case("gif-clear-codes", _gif_of_clear_codes, short=True),
        _case("gif-extensions", lambda _: _gif_with(b"!\xfe\x01x\0" * 20_000), short=True),
    ]


def _gif_with(extra: bytes) -> bytes:
    whole = gif((64, 64), 1)
    return whole[:781] + extra + whole[781:]


def _gif_of_clear_codes(scale: Scale) -> bytes:
    """Codes that begin the table anew and give no pixel."""
    eight_codes = sum(256 << 9 * number for number in range(8)).to_bytes(9, "little")
    block = b"\xfc" + eight_codes * 28
    head = b"GIF89a" + struct.pack("<HHBBB", *scale.picture, 0, 0, 0)
    return head + b"," + struct.pack("<HHHHB", 0, 0, *scale.picture, 0) + b"\x08" + block * (scale.megabytes << 12)


def _others() -> list[Case]:
    return [
        _case("avif-solid", lambda s: avifs.encoded(s.picture), short=True),
        _case("avif-solid-alpha", lambda s: avifs.encoded((s.picture[0] // 2, s.picture[1]), "RGBA")),
        _case("avif-grid", lambda s: avifs.grid(512, s.picture[0] // 512, s.picture[1] // 512), short=True),
        _case("avif-property-claims", lambda _: avifs.property_claims(1_000, 4_000), short=True),
        _case("avif-sequence", _avif_sequence),
        _case("bmp-1-bit", _by_pillow("BMP", "1", 1), short=True),
        _case("bmp-24-bits", lambda s: _halved(s, "BMP", "RGB")),
        _case("bmp-32-bits", lambda s: _halved(s, "BMP", "RGBA")),
        _case("bmp-runs-of-8-bits", lambda s: _bmp_runs(s, 8), short=True),
        _case("bmp-runs-of-4-bits", lambda s: _bmp_runs(s, 4)),
        _case("bmp-runs-of-no-pixels", lambda s: _bmp_runs(s, 8, b"\0\2\0\0")),
        _case("ico", _ico),
        _case("ppm", _by_pillow("PPM", "1", 1)),
        _case("jpeg-2000", lambda s: _halved(s, "JPEG2000", "RGB")),
    ]


def _halved(scale: Scale, kind: str, mode: str) -> bytes:
    buffer = io.BytesIO()
    Image.new(mode, (scale.picture[0] // 4, scale.picture[1] // 2)).save(buffer, kind)
    return buffer.getvalue()


def _avif_sequence(scale: Scale) -> bytes:
    buffer = io.BytesIO()
    frames = [Image.new("RGB", scale.frame, (shade,) * 3) for shade in range(8)]
    frames[0].save(buffer, "AVIF", save_all=True, append_images=frames[1:], speed=10)
    return buffer.getvalue()


def _bmp_runs(scale: Scale, bits: int, run: bytes = b"") -> bytes:
    """As many pixels as are read with run-length coding, a code for every one or two of them."""
    side = 1_448 if scale.picture[0] > 8_192 else 724
    row = (run or b"\x01\x07") * side + b"\0\0"
    coded = row * side + b"\0\1"
    colours = bytes(4 << bits)
    kind = 1 if bits == 8 else 2
    start = 54 + len(colours)
    info = struct.pack("<LllHHLLllLL", 40, side, side, 1, bits, kind, len(coded), 0, 0, 1 << bits, 0)
    return b"BM" + struct.pack("<LLL", start + len(coded), 0, start) + info + colours + coded


def _ico(scale: Scale) -> bytes:
    whole = pngs.solid(scale.picture, 8, 6)
    return struct.pack("<HHHBBBBHHLL", 0, 1, 1, 0, 0, 0, 0, 1, 32, len(whole), 22) + whole


def _tiffs() -> list[Case]:
    kinds = (
        ("raw", "1", 1, None),
        ("deflate", "RGB", 0x5A, "tiff_adobe_deflate"),
        ("lzw", "RGB", 0x5A, "tiff_lzw"),
        ("packbits", "1", 1, "packbits"),
        ("jpeg", "RGB", 0x5A, "jpeg"),
        ("group-4", "1", 1, "group4"),
        ("group-3", "1", 1, "group3"),
        ("lzma", "RGB", 0x5A, "lzma"),
        ("zstd", "RGB", 0x5A, "zstd"),
    )
    cases = [
        _tiff(f"tiff-{name}", _by_pillow("TIFF", mode, colour, compression=compression), short=name == "group-4")
        for name, mode, colour, compression in kinds
    ]
    return [
        *cases,
        _tiff("tiff-16-bits-deflate", _tiff_of_16_bits),
        _tiff("tiff-strips", _tiff_strips, short=True),
        _tiff("tiff-shared-values", lambda _: _tiff_shared(2_000, 1 << 20), short=True),
        _tiff("tiff-fractions", lambda s: _tiff_fractions(s.entries)),
    ]


def _tiff_of_16_bits(scale: Scale) -> bytes:
    buffer = io.BytesIO()
    Image.new("I;16", scale.picture).save(buffer, "TIFF", compression="tiff_adobe_deflate")
    return buffer.getvalue()


def _tiff_strips(scale: Scale) -> bytes:
    """A strip for every row, of one pixel: a table is all there is."""
    return _tiff_made([(0x100, 4, 1, 1), (0x101, 4, 1, scale.picture[0])], rows=1, strips=scale.picture[0])


def _tiff_shared(tags: int, size: int) -> bytes:
    """Many tags whose values are the same bytes."""
    values = [(0x9000 + number, 7, size, 0) for number in range(tags)]
    return _tiff_made([(0x100, 4, 1, 8), (0x101, 4, 1, 8), *values], rows=8, strips=1, tail=size)


def _tiff_fractions(count: int) -> bytes:
    """A tag of many fractions, each of which Pillow makes an object of."""
    return _tiff_made([(0x100, 4, 1, 8), (0x101, 4, 1, 8), (0x9000, 5, count, 0)], rows=8, strips=1, tail=8 * count)


def _tiff_made(tags: list[tuple[int, int, int, int]], rows: int, strips: int, tail: int = 0) -> bytes:
    """A grey TIFF of bytes, whose tags without a value of their own find it behind the directory."""
    plain = [(0x102, 3, 1, 8), (0x103, 3, 1, 1), (0x106, 3, 1, 1), (0x115, 3, 1, 1), (0x116, 4, 1, rows)]
    number = len(tags) + len(plain) + 2
    start = 8 + 2 + 12 * number + 4
    table = struct.pack("<L", start + 8 * strips) * strips + struct.pack("<L", 64) * strips
    offsets = (0x111, 4, strips, start if strips > 1 else start + 8)
    counts = (0x117, 4, strips, start + 4 * strips if strips > 1 else 64)
    end = start + len(table)
    entries = sorted([*((t, k, c, v or end) for t, k, c, v in tags), *plain, offsets, counts])
    directory = struct.pack("<H", number) + b"".join(struct.pack("<HHLL", *entry) for entry in entries) + bytes(4)
    return b"II*\0\x08\0\0\0" + directory + table + bytes(max(tail, 64))


def _case(name: str, make: Maker, *, short: bool = False) -> Case:
    return Case(name, "image", make, short=short)


def _tiff(name: str, make: Maker, *, short: bool = False) -> Case:
    return Case(name, "image", make, ("pil",), WITH_TIFF, short)


CASES: Final = (*_jpegs(), *_pngs(), *_webps(), *_gifs(), *_others(), *_tiffs())

__all__ = ["CASES", "gif", "webp_animation"]
