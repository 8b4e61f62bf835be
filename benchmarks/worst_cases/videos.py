"""The worst videos."""

from __future__ import annotations

import functools
import io
import struct
import zlib
from dataclasses import replace
from typing import Any, Final

import av
from PIL import Image

from benchmarks.worst_cases import avifs, jpegs, matroskas, mp4s, oggs, pngs, streams
from benchmarks.worst_cases.case import Case, Maker, Scale
from benchmarks.worst_cases.pictures import gif, webp_animation

_FEW: Final = ("2 frames",)
_SMALL: Final = (64, 64)
_MPEG_2: Final = 4_080
"""Pixels that an encoder of MPEG-2 takes in a row."""


def _small_jpeg() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", _SMALL, (90, 90, 90)).save(buffer, "JPEG", quality=10)
    return buffer.getvalue()


def _animations() -> list[Case]:
    return [
        _case("webp-animation", lambda s: webp_animation(s.frame, s.frames), short=True),
        _case("gif-animation", lambda s: gif(s.frame, s.frames), short=True),
        _case("gif-animation-whole-frames", lambda s: gif(s.frame, s.frames // 4, s.frame), _FEW),
        _case("avif-animation", _avif_animation, _FEW),
        _case("apng-animation", _apng),
        _case("webp-36000-chunks", lambda _: webp_animation(_SMALL, 35_990), _FEW, short=True),
        _case("gif-a-million-frames", lambda s: gif(_SMALL, s.entries), _FEW),
    ]


def _avif_animation(scale: Scale) -> bytes:
    buffer = io.BytesIO()
    frames = [Image.new("RGB", scale.frame, (90, 90, 90))] * 16
    frames[0].save(buffer, "AVIF", save_all=True, append_images=frames[1:], speed=10)
    return buffer.getvalue()


def _apng(scale: Scale) -> bytes:
    return pngs.solid(scale.frame, 8, 6, extra=pngs.chunk(b"acTL", struct.pack(">LL", 1_000, 0)))


def _coded() -> list[Case]:
    cases = [
        _case(f"static-{name}", functools.partial(_static, name=name), _FEW, short=name in {"h264", "vp8", "vp9"})
        for name in streams.CODECS
    ]
    return [
        *cases,
        _case("mjpeg-scans", lambda s: _mjpeg(_many_scans(s)), _FEW, short=True),
        _case("mjpeg-restarts", lambda s: _mjpeg(jpegs.restarts(s.frame)), _FEW),
        _case("h264-many-frames-in-a-packet", _h264_of_frames, _FEW),
        _case("h264-slices-overlap", lambda s: _slices(s, "h264"), _FEW, short=True),
        _case("h264-later-slices-overlap", lambda s: _slices(s, "h264", later=True), _FEW, short=True),
        _case("hevc-slices-overlap", lambda s: _slices(s, "hevc"), _FEW, short=True),
        _case("mpeg2-slices-repeat", _mpeg2_slices, _FEW),
        _case("vp9-superframes", _superframes, _FEW, short=True),
        _case("h264-samples-share-bytes", _h264_shared, _FEW, short=True),
        _case("vp8-sizes-alternate", _sizes, _FEW),
        _case("h264-many-units", _h264_of_units, _FEW, short=True),
        _case("h264-many-times", lambda _: _times(1 << 40), _FEW),
        _case("h264-long-gap", lambda _: _times(1 << 14), _FEW),
    ]


def _static(scale: Scale, *, name: str) -> bytes:
    width, height = scale.frame
    return streams.static(name, (min(width, _MPEG_2) if name == "mpeg2" else width, height), scale.frames)


def _mjpeg(picture: bytes, frames: int = 3) -> bytes:
    return streams.muxed(streams.encoded(streams.CODECS["mjpeg"], _SMALL, 1), "avi", [picture] * frames)


def _many_scans(scale: Scale) -> bytes:
    """Scans of some bytes: FFmpeg's decoder passes over all blocks for each."""
    return jpegs.ac_refined(scale.frame, 1, 4_000)


def _h264_of_frames(scale: Scale) -> bytes:
    """Packets of sixteen frames each."""
    source = streams.encoded(streams.CODECS["h264"], scale.frame, 17)
    first, *others = _packets(source)
    return streams.muxed(source, "mp4", [first, *[b"".join(others)] * (scale.frames // 16)])


def _slices(scale: Scale, name: str, *, later: bool = False) -> bytes:
    """Two packets, of which one holds the same slice many times. Each covers the whole picture in some tens of bytes.

    Args:
        scale: How many.
        name: The codec.
        later: All but the first begin at the second block, so that a decoder takes them for one picture's.
    """
    codec = streams.CODECS[name]
    if name == "hevc":  # whose decoder leaves out a second slice that begins the picture: take one that does not
        codec = replace(codec, options={**codec.options, "x265-params": codec.options["x265-params"] + ":slices=2"})
    source = streams.encoded(codec, scale.frame, 3)
    first, second, *_ = _packets(source)
    unit = second[-_last_unit(second) :]
    again = _at_second_block(unit) if later else unit
    return streams.muxed(source, "mp4", [first, second + again * (scale.entries // 20)])


def _last_unit(packet: bytes) -> int:
    """Bytes of the last unit of a packet, its length included."""
    start = 0
    while True:
        size = 4 + int.from_bytes(packet[start : start + 4])
        start += size
        if start >= len(packet):
            return size


def _at_second_block(unit: bytes) -> bytes:
    """A slice of H.264 that begins at the first block, begun at the second: 010 for 1, by which all else moves by two
    bits. ITU-T H.264, 7.3.3, 7.4.1.1 and 9.1.
    """
    body = unit[5:].replace(b"\0\0\3", b"\0\0")
    bits = "010" + format(int.from_bytes(body), f"0{8 * len(body)}b")[1:]
    bits = bits.rstrip("0")
    bits += "0" * (-len(bits) % 8)
    moved = int(bits, 2).to_bytes(len(bits) // 8)
    for low in range(4):
        moved = moved.replace(b"\0\0" + bytes([low]), b"\0\0\3" + bytes([low]))
    return struct.pack(">L", 1 + len(moved)) + unit[4:5] + moved


def _mpeg2_slices(scale: Scale) -> bytes:
    """A packet that holds the rows of a picture many times."""
    width, height = scale.frame
    source = streams.encoded(streams.CODECS["mpeg2"], (min(width, _MPEG_2), height), 3)
    first, second, *_ = _packets(source)
    at = second.index(b"\0\0\1\1")
    return streams.muxed(source, "mpegts", [first, second[:at] + second[at:] * (scale.entries // 100)])


def _superframes(scale: Scale) -> bytes:
    """Packets of eight frames each, of which seven are not shown. VP9 bitstream specification, annex B."""
    source = streams.encoded(streams.CODECS["vp9"], scale.frame, 17)
    first, *others = _packets(source)
    packet = b"".join(others[:8])
    marker = bytes([0xC0 | 3 << 3 | 7])
    packet += marker + struct.pack("<8L", *map(len, others[:8])) + marker
    return streams.muxed(source, "webm", [first, *[packet] * (scale.frames // 8)])


def _h264_shared(scale: Scale) -> bytes:
    """Samples that are all the same key frame, which is large: noise."""
    codec = streams.CODECS["h264"]
    source = streams.encoded(codec, scale.frame, 1, noise=True)
    start = source.index(b"stsd") - 4
    entry = source[start + 16 : start + int.from_bytes(source[start : start + 4])]
    packet = _packet(source)
    count = scale.entries // 20
    return mp4s.Track(entry, packet, count, size=len(packet), chunks=count, shown=scale.frame).movie()


def _sizes(scale: Scale) -> bytes:
    large = streams.encoded(streams.CODECS["vp8"], scale.frame, 1)
    small = streams.encoded(streams.CODECS["vp8"], _SMALL, 1)
    return streams.muxed(large, "webm", [_packet(large), _packet(small)] * 50)


def _packet(data: bytes) -> bytes:
    return _packets(data)[0]


def _packets(data: bytes) -> list[bytes]:
    with av.open(io.BytesIO(data), "r") as container:
        return [bytes(packet) for packet in container.demux() if packet.size]


def _h264_of_units(scale: Scale) -> bytes:
    """Units of one byte, which a decoder takes apart one by one."""
    source = streams.encoded(streams.CODECS["h264"], _SMALL, 1)
    fillers = struct.pack(">LB", 1, 12) * (scale.megabytes << 17)
    return streams.muxed(source, "mp4", [fillers + _packet(source)] * 2)


def _times(step: int) -> bytes:
    source = streams.encoded(streams.CODECS["h264"], _SMALL, 17)
    packets = _packets(source)
    return streams.muxed(source, "matroska", packets, [number * step for number in range(len(packets))])


def _mp4s() -> list[Case]:
    return [
        _case("mp4-samples-share-bytes", _mp4_shared, _FEW, short=True),
        _case("mp4-samples-of-a-byte", lambda s: _mp4(s.entries * 5, bytes(s.entries * 5)), _FEW),
        _case("mp4-large-samples-share-bytes", _mp4_large, _FEW, short=True),
        _case("mp4-claims-samples", lambda _: _mp4(2_000_000, _small_jpeg()), _FEW, short=True),
        _case("mp4-edits", _mp4_edits, _FEW, short=True),
        _case("mp4-offsets", lambda s: _mp4_with(s, b"ctts", "Ll", [(1, 5), (1, -5)]), _FEW),
        _case("mp4-key-frames", lambda s: _mp4_with(s, b"stss", "L", [(1,)]), _FEW),
        _case("mp4-boxes", lambda _: _mp4_whole(head=avifs.box(b"free") * 90_000), _FEW, short=True),
        _case("mp4-runs", _mp4_runs, _FEW),
        _case("mp4-metadata", lambda s: _mp4_whole(head=mp4s.metadata(s.entries)), _FEW, short=True),
        _case("mp4-short-ticks", lambda _: _mp4_whole(scale=0x7FFFFFFF), _FEW),
    ]


def _mp4(samples: int, data: bytes, **settings: Any) -> bytes:
    return mp4s.Track(mp4s.jpeg_entry(_SMALL), data, samples, shown=_SMALL, **settings).movie()


def _mp4_whole(**settings: Any) -> bytes:
    """Four pictures, and nothing wrong with them."""
    picture = _small_jpeg()
    return _mp4(4, picture * 4, size=len(picture), **settings)


def _mp4_shared(scale: Scale) -> bytes:
    """Samples of a byte each, and chunks that are all the same."""
    return _mp4(scale.entries * 5, bytes(scale.entries // 10), chunks=50)


def _mp4_large(scale: Scale) -> bytes:
    """Samples of a megabyte that are all the same one."""
    picture = _small_jpeg().ljust(1 << 20, b"\0")
    return _mp4(scale.entries // 20, picture, size=len(picture), chunks=scale.entries // 20)


def _mp4_edits(scale: Scale) -> bytes:
    """Edits, each of which shows all samples once more."""
    samples = scale.entries // 50
    rows = [(samples, 0, 1 << 16)] * (samples // 2)
    return _mp4(samples, bytes(samples), edits=rows)


def _mp4_with(scale: Scale, kind: bytes, row: str, rows: list[tuple[int, ...]]) -> bytes:
    """A table with a row for each sample."""
    table = mp4s.table(kind, row, rows * (scale.entries // len(rows)))
    return _mp4(scale.entries, bytes(scale.entries), extra=table)


def _mp4_runs(scale: Scale) -> bytes:
    """A fragment whose run claims a sample of a byte for each byte there is."""
    defaults = avifs.full(b"trex", struct.pack(">LLLLL", 1, 1, 1, 1, 0))
    start = _mp4(0, b"", head=avifs.box(b"mvex", defaults))
    run = avifs.full(b"trun", struct.pack(">L", scale.entries * 5))
    header = avifs.full(b"tfhd", struct.pack(">L", 1), flags=0x020000)
    fragment = avifs.box(b"moof", avifs.full(b"mfhd", struct.pack(">L", 1)), avifs.box(b"traf", header, run))
    return start + fragment + avifs.box(b"mdat", bytes(scale.entries * 5))


def _matroskas() -> list[Case]:
    return [
        _case("mkv-tiny-blocks", _mkv_blocks, _FEW, short=True),
        _case("mkv-laced", lambda s: _mkv_laced(s, 1), _FEW, short=True),
        _case("mkv-laced-empty", lambda s: _mkv_laced(s, 0), _FEW, short=True),
        _case("mkv-shared-beginning", _mkv_shared, _FEW, short=True),
        _case("mkv-zlib", _mkv_zlib, _FEW, short=True),
        _case("mkv-times-descend", _mkv_descending, _FEW),
        _case("mkv-cues-descend", _mkv_cues, _FEW, short=True),
        _case("mkv-tags", _mkv_tags, _FEW, short=True),
        _case("mkv-chapters", lambda s: _mkv(_picture(), head=matroskas.chapters(s.entries)), _FEW, short=True),
    ]


def _mkv(*parts: bytes, extra: bytes = b"", head: bytes = b"") -> bytes:
    return matroskas.movie(matroskas.video_track(b"V_MJPEG", _SMALL, extra), *parts, head=head)


def _picture(time: int = 0) -> bytes:
    return matroskas.cluster(time, [matroskas.block(_small_jpeg())])


def _mkv_blocks(scale: Scale) -> bytes:
    blocks = (matroskas.block(b"\0", number % 30_000, 0) for number in range(scale.entries))
    return _mkv(_picture(), matroskas.cluster(1, blocks))


def _mkv_laced(scale: Scale, size: int) -> bytes:
    """Blocks of 256 frames of one size, which stands nowhere."""
    laced = b"\xff" + bytes(size * 256)
    blocks = (matroskas.block(laced, number, 0x04) for number in range(scale.entries // 64))
    return _mkv(_picture(), matroskas.cluster(1, blocks))


def _mkv_shared(scale: Scale) -> bytes:
    """Blocks that all begin with the same megabyte, which stands in the header only."""
    picture = _small_jpeg().ljust(1 << 20, b"\0")
    blocks = (matroskas.block(b"", number % 30_000) for number in range(scale.entries // 20))
    return _mkv(matroskas.cluster(0, blocks), extra=matroskas.compression(3, picture))


def _mkv_zlib(scale: Scale) -> bytes:
    """Blocks of a kilobyte that inflate to a thousand times as much."""
    packed = zlib.compress(_small_jpeg().ljust(4 << 20, b"\0"), 9)
    blocks = (matroskas.block(packed, number) for number in range(scale.megabytes * 32))
    return _mkv(matroskas.cluster(0, blocks), extra=matroskas.compression(0))


def _mkv_descending(scale: Scale) -> bytes:
    """Key frames each of which comes before the last one."""
    clusters = (
        matroskas.cluster(scale.entries - number, [matroskas.block(b"\0")]) for number in range(scale.entries // 4)
    )
    return _mkv(_picture(scale.entries + 1), *clusters)


def _mkv_cues(scale: Scale) -> bytes:
    points = (
        matroskas.element(
            "BB",
            matroskas.number("B3", scale.entries - number),
            matroskas.element("B7", matroskas.number("F7", 1), matroskas.number("F1", number)),
        )
        for number in range(scale.entries)
    )
    return _mkv(matroskas.element("1C53BB6B", *points), _picture(), _picture(1_000))


def _mkv_tags(scale: Scale) -> bytes:
    return _mkv(_picture(), _picture(1_000), head=matroskas.tags(scale.entries))


def _others() -> list[Case]:
    return [
        _case("ts-programs", _ts_programs, _FEW, short=True),
        _case("ts-empty-packets", lambda s: (b"\x47\x1f\xff\x10" + bytes(184)) * (s.megabytes * 5_000), _FEW),
        _case("flv-tags", lambda s: _flv(s.megabytes << 16), _FEW, short=True),
        _case("flv-times-descend", lambda s: _flv_descending(s.entries, b"\x09", b"\x12\0"), _FEW, short=True),
        _case("flv-metadata", lambda s: _flv_metadata(s.entries), _FEW, short=True),
        _case("avi-index", _avi_index, _FEW),
        _case("avi-info", _avi_info, _FEW),
    ]


def _ts_programs(scale: Scale) -> bytes:
    """Tables of programs, none of which is there. ISO/IEC 13818-1, 2.4.4.3."""
    packets = []
    for section in range(256):
        rows = b"".join(struct.pack(">HH", 1 + section * 40 + row, 0xE000 | 32 + row) for row in range(40))
        table = struct.pack(">BHHBBB", 0, 0xB000 | len(rows) + 9, 1, 0xC1, section, 255) + rows
        body = b"\0" + table + struct.pack(">L", oggs.checksum(table, 0xFFFFFFFF))
        packets.append(b"\x47\x40\0" + bytes([0x10 | section & 15]) + body.ljust(184, b"\xff"))
    return b"".join(packets) * (scale.entries // 10_000)


def _flv(tags: int) -> bytes:
    """Tags of pictures of Sorenson's H.263 that hold nothing."""
    tag = b"\x09\0\0\x02" + bytes(7) + b"\x22\0" + struct.pack(">L", 13)
    return b"FLV\x01\x01\0\0\0\x09" + bytes(4) + tag * tags


def _flv_descending(tags: int, kind: bytes, body: bytes) -> bytes:
    """Key frames each of which comes before the last one."""
    size, end = len(body).to_bytes(3), struct.pack(">L", 11 + len(body))
    times = (((tags - number) & 0xFFFFFF).to_bytes(3) for number in range(tags))
    return _flv(0) + b"".join(kind + size + time + bytes(4) + body + end for time in times)


def _flv_metadata(count: int) -> bytes:
    """A script tag with many names."""
    rows = b"".join(struct.pack(">H", len(name)) + name + b"\x02\0\x01v" for name in (b"K%d" % n for n in range(count)))
    body = b"\x02\0\x0aonMetaData\x08" + struct.pack(">L", count) + rows + b"\0\0\x09"
    tag = b"\x12" + len(body).to_bytes(3) + bytes(7) + body + struct.pack(">L", len(body) + 11)
    return _flv(0) + tag + _flv(8)[13:]


def _avi_index(scale: Scale) -> bytes:
    """An index of many entries that all name one chunk."""
    whole = _mjpeg(_small_jpeg().ljust(1 << 20, b"\0"), 2)
    at = whole.index(b"idx1")
    entry = whole[at + 8 : at + 24]
    return whole[:at] + b"idx1" + struct.pack("<L", 16 * scale.entries) + entry * scale.entries


def _avi_info(scale: Scale) -> bytes:
    """A list of many notes."""
    whole = _mjpeg(_small_jpeg(), 2)
    notes = b"".join(
        struct.pack(">L", 0x41414141 + number) + struct.pack("<L", 2) + b"v\0" for number in range(scale.entries)
    )
    listed = b"LIST" + struct.pack("<L", 4 + len(notes)) + b"INFO" + notes
    return whole[:12] + listed + whole[12:]


def _case(name: str, make: Maker, asks: tuple[str, ...] = (), *, short: bool = False) -> Case:
    return Case(name, "video", make, asks, short=short)


CASES: Final = (*_animations(), *_coded(), *_mp4s(), *_matroskas(), *_others())

__all__ = ["CASES"]
