"""The worst audio."""

from __future__ import annotations

import functools
import io
import struct
from typing import Any, Final

import numpy as np

from benchmarks.worst_cases import avifs, jpegs, matroskas, mp4s, oggs
from benchmarks.worst_cases.case import Case, Maker, Scale
from lazymedia.testing.audio import encode

_NATIVE: Final = ("native",)
_AAC: Final = bytes.fromhex("1408")
"""AudioSpecificConfig: AAC-LC, 16 kHz, mono. ISO/IEC 14496-3, 1.6.2.1."""


def _vorbis() -> list[Case]:
    return [
        _case("vorbis-book-of-2^22", lambda _: oggs.vorbis(22, 1), short=True),
        _case("vorbis-128-books-of-2^18", lambda _: oggs.vorbis(18, 128), short=True),
        _case("vorbis-128-books-of-2^14", lambda _: oggs.vorbis(14, 128)),
        _case("vorbis-book-in-matroska", lambda _: _vorbis_in_matroska(22, 1), _NATIVE, short=True),
        _case("vorbis-books-in-matroska", lambda _: _vorbis_in_matroska(18, 128), _NATIVE, short=True),
        _case("vorbis-silence", lambda s: oggs.vorbis(4, 1, packets=s.seconds * 125)),
        _case("vorbis-comments", lambda s: oggs.vorbis(4, 1, comments=oggs.comments(s.entries)), _NATIVE, short=True),
        _case("vorbis-256-links", lambda _: _links(256, 4, 1), _NATIVE, short=True),
        _case("vorbis-256-links-of-books", lambda _: _links(256, 14, 16), _NATIVE, short=True),
        _case("vorbis-thousands-of-links", lambda s: _links(s.entries // 20, 4, 1), _NATIVE),
        _case("ogg-empty-packets", _ogg_empty_packets, _NATIVE, short=True),
        _case("ogg-streams-together", _ogg_streams, _NATIVE),
    ]


def _vorbis_in_matroska(bits: int, books: int) -> bytes:
    identity, comment, setup = oggs.vorbis_headers(bits, books)
    lengths = b"".join(b"\xff" * (len(part) // 255) + bytes([len(part) % 255]) for part in (identity, comment))
    private = matroskas.element("63A2", b"\2", lengths, identity, comment, setup)
    blocks = [matroskas.block(b"\0", number * 8) for number in range(8)]
    return matroskas.movie(matroskas.audio_track(b"A_VORBIS", 16_000, 1, private), matroskas.cluster(0, blocks))


def _links(count: int, bits: int, books: int) -> bytes:
    return b"".join(oggs.vorbis(bits, books, serial=number + 1) for number in range(count))


def _ogg_empty_packets(scale: Scale) -> bytes:
    """Pages of packets without a byte."""
    start = oggs.vorbis(4, 1)
    empty = oggs.page([b""] * 255, 1, 5, 512)
    return start + empty * (scale.megabytes * 3_000)


def _ogg_streams(_: Scale) -> bytes:
    """Many streams that begin together."""
    identity, comment, setup = oggs.vorbis_headers(10, 1)
    first = b"".join(oggs.page([identity], number, 0, 0, oggs.FIRST) for number in range(1, 2_000))
    second = b"".join(oggs.page([comment, setup], number, 1, 0) for number in range(1, 2_000))
    return first + second + b"".join(oggs.page([b"\0"] * 4, number, 2, 512, oggs.LAST) for number in range(1, 2_000))


def _silence() -> list[Case]:
    kinds: tuple[tuple[str, str, int, int, str | None], ...] = (
        ("mp3", "MP3", 44_100, 2, None),
        ("mp3-8-khz", "MP3", 8_000, 1, None),
        ("opus", "OPUS", 48_000, 2, None),
        ("m4a", "M4A", 44_100, 2, None),
        ("adts", "AAC", 48_000, 6, None),
        ("flac", "FLAC", 44_100, 2, None),
        ("flac-in-ogg", "OGA", 44_100, 2, None),
        ("flac-in-matroska", "MKV", 44_100, 2, None),
        ("alac", "M4A", 44_100, 2, "alac"),
        ("mp2", "MPEG", 48_000, 2, None),
        ("aac-in-ts", "TS", 48_000, 2, None),
        ("webm", "WEBM", 48_000, 2, None),
        ("ogg-vorbis", "OGG", 44_100, 2, None),
        ("wav-8-bits-4-khz", "WAV", 4_000, 1, "PCM_U8"),
        ("wav-adpcm", "WAV", 8_000, 1, "IMA_ADPCM"),
        ("ac3", "MKV", 48_000, 6, "ac3"),
    )
    in_short = {"mp3", "opus", "m4a", "flac"}
    cases = [
        _case(f"silence-{kind[0]}", functools.partial(_silent, kind=kind), short=kind[0] in in_short) for kind in kinds
    ]
    return [
        *cases,
        _case("flac-8-channels-384-khz", lambda s: _many_samples(s, "FLAC", 8), short=True),
        _case("flac-mono-384-khz", lambda s: _many_samples(s, "FLAC", 1), short=True),
        _case("wav-8-channels-384-khz", lambda s: _wav(s, 8, 384_000, 8)),
        _case("wav-mono-8-bits-384-khz", lambda s: _wav(s, 1, 384_000, 8)),
        _case("opus-8-channels", lambda s: _opus(s, 8), short=True),
        _case("opus-packets-of-a-byte", lambda s: _opus(s, 1)),
        _case("opus-48-frames-a-packet", lambda s: oggs.opus(s.seconds * 8, b"\xe3\x30" + bytes(48), 5_760)),
    ]


def _silent(scale: Scale, *, kind: tuple[str, str, int, int, str | None]) -> bytes:
    _, name, rate, channels, subtype = kind
    # A little less than is allowed, because encoders pad the end; where silence takes many bytes or samples, a part.
    seconds = (scale.seconds - 1) // (4 if channels > 2 or subtype == "alac" or name == "MPEG" else 1)
    return encode(np.zeros((seconds * rate, channels), np.float32), rate, format=name, subtype=subtype)


def _many_samples(scale: Scale, name: str, channels: int) -> bytes:
    """As many samples as may be decoded, at the highest rate."""
    import soundfile

    whole = (64 << 20) // (1 if scale.seconds == 600 else 10)
    buffer = io.BytesIO()
    with soundfile.SoundFile(buffer, "w", 384_000, channels, format=name, subtype="PCM_16") as file:
        block = np.zeros((1 << 16, channels), np.int16)
        for _ in range(whole // channels // len(block) - 1):
            file.write(block)
    return buffer.getvalue()


def _wav(scale: Scale, channels: int, rate: int, bits: int) -> bytes:
    size = min(24 << 20, scale.megabytes << 20)
    layout = struct.pack("<HHLLHH", 1, channels, rate, rate * channels * bits // 8, channels * bits // 8, bits)
    body = b"WAVEfmt " + struct.pack("<L", 16) + layout + b"data" + struct.pack("<L", size) + b"\x80" * size
    return b"RIFF" + struct.pack("<L", len(body)) + body


def _opus(scale: Scale, channels: int) -> bytes:
    """Packets of 20 ms without sound, a byte for each stream. RFC 6716, section 3.1; RFC 7845, section 5.1.1."""
    packet = b"\xf8\0" * (channels - 1) + b"\xf8"
    return oggs.opus(min(scale.seconds - 1, 1_360 // channels) * 50, packet, 960, channels=channels)


def _tables() -> list[Case]:
    return [
        _case("m4a-samples-share-bytes", _m4a_shared, short=True),
        _case("m4a-empty-samples", lambda s: _m4a(s.entries * 5, size=0), _NATIVE),
        _case("m4a-claims-samples", lambda _: _m4a(2_000_000), _NATIVE, short=True),
        _case("m4a-edits", _m4a_edits, _NATIVE, short=True),
        _case("m4a-metadata", lambda s: _m4a(4, head=mp4s.metadata(s.entries)), _NATIVE, short=True),
        _case("m4a-cover", _m4a_cover, _NATIVE),
        _case("mov-chunks-of-a-sample", _mov_chunks, _NATIVE, short=True),
        _case("matroska-laced", _matroska_laced, _NATIVE, short=True),
        _case("matroska-shared-beginning", _matroska_shared, _NATIVE),
        _case("matroska-tags", _matroska_tags, _NATIVE, short=True),
        _case("opus-tags", _tagged_opus, _NATIVE, short=True),
        _case("flac-comments", _flac_comments, _NATIVE, short=True),
        _case("flac-in-ogg-comments", _flac_in_ogg_comments, _NATIVE),
        _case("mp3-tag", _mp3_tag, _NATIVE, short=True),
        _case("mp3-chapter", _mp3_chapter, _NATIVE, short=True),
        _case("mp3-tags-between-frames", _mp3_tags, _NATIVE),
        _case("mp3-no-frame-follows", _mp3_false, _NATIVE, short=True),
        _case("adts-tag", _adts_tag, _NATIVE, short=True),
        _case("adts-ape-tag", _ape_tag, _NATIVE, short=True),
        _case("adts-tags-between-frames", _adts_tags, _NATIVE),
        _case("adts-short-frames", _adts_short, _NATIVE),
        _case("wav-chunks", lambda s: _chunks(s, b"RIFF", b"WAVE"), _NATIVE, short=True),
        _case("aiff-chunks", lambda s: _chunks(s, b"FORM", b"AIFF"), _NATIVE, short=True),
        _case("aiff-marks", _aiff_marks, _NATIVE),
        _case("wav-tag", _wav_tag, _NATIVE, short=True),
        _case("wav-info", _wav_info, _NATIVE),
        _case("amr-zeros", lambda s: b"#!AMR\n" + (b"\x04" + bytes(12)) * ((s.seconds - 1) * 50)),
        _case("ts-empty-packets-audio", lambda s: (b"\x47\x1f\xff\x10" + bytes(184)) * (s.megabytes * 5_000), _NATIVE),
        _case("flv-script-audio", _flv, _NATIVE),
        _case("flv-times-descend-audio", _flv_descending, _NATIVE, short=True),
    ]


def _aac_frame() -> bytes:
    data = encode(np.zeros((16_000, 1), np.float32), 16_000, format="AAC")
    second = (data[3] & 3) << 11 | data[4] << 3 | data[5] >> 5
    return data[second + 7 : second + ((data[second + 3] & 3) << 11 | data[second + 4] << 3 | data[second + 5] >> 5)]


def _m4a(samples: int, **settings: Any) -> bytes:
    frame = _aac_frame()
    given = {"size": len(frame), **settings}
    data = given.pop("data", frame * min(samples, 64))
    return mp4s.Track(mp4s.aac_entry(_AAC, 16_000, 1), data, samples, ticks=1_024, scale=16_000, **given).movie()


def _m4a_shared(scale: Scale) -> bytes:
    """All the time that is allowed out of one frame."""
    samples = (scale.seconds - 1) * 16_000 // 1_024
    return _m4a(samples, data=_aac_frame(), chunks=samples)


def _mov_chunks(scale: Scale) -> bytes:
    """Chunks of one sample, which takes a byte, and all of which are the same one."""
    count = scale.entries * 2
    entry = avifs.box(b"raw ", bytes(6), struct.pack(">HHHLHHHHL", 1, 0, 0, 0, 1, 8, 0, 0, 16_000 << 16))
    return mp4s.Track(entry, b"\x80", count, chunks=count, scale=16_000).movie()


def _m4a_edits(scale: Scale) -> bytes:
    """Edits, each of which plays all samples once more."""
    samples = scale.entries // 50
    return _m4a(samples, edits=[(samples * 1_024, 0, 1 << 16)] * (samples // 2), data=bytes(samples), size=1)


def _m4a_cover(scale: Scale) -> bytes:
    """A picture that says to be large: opening may decode it."""
    picture = jpegs.dc_refined(scale.picture, 1, 2_000)
    cover = avifs.box(b"covr", avifs.full(b"data", bytes(4), picture, flags=13))
    handler = avifs.full(b"hdlr", bytes(4), b"mdirappl", bytes(9))
    return _m4a(4, head=avifs.box(b"udta", avifs.full(b"meta", handler, avifs.box(b"ilst", cover))))


def _matroska(*parts: bytes, extra: bytes = b"", head: bytes = b"") -> bytes:
    config = matroskas.element("63A2", _AAC)
    return matroskas.movie(matroskas.audio_track(b"A_AAC", 16_000, 1, config, extra), *parts, head=head)


def _matroska_laced(scale: Scale) -> bytes:
    """Blocks of 256 frames of a sample each, which takes a byte."""
    laced = b"\xff" + b"\x80" * 256
    blocks = (matroskas.block(laced, number * 16 % 30_000, 0x84) for number in range(scale.entries // 64))
    track = matroskas.audio_track(b"A_PCM/INT/LIT", 16_000, 1, depth=8)
    return matroskas.movie(track, matroskas.cluster(0, blocks))


def _matroska_shared(scale: Scale) -> bytes:
    """Blocks that all begin with the same megabyte, which stands in the header only."""
    frame = _aac_frame().ljust(1 << 20, b"\0")
    blocks = (matroskas.block(b"", number * 64 % 30_000) for number in range(scale.entries // 20))
    return _matroska(matroskas.cluster(0, blocks), extra=matroskas.compression(3, frame))


def _matroska_tags(scale: Scale) -> bytes:
    blocks = [matroskas.block(_aac_frame(), number * 64) for number in range(8)]
    return _matroska(matroskas.cluster(0, blocks), head=matroskas.tags(scale.entries))


def _tagged_opus(scale: Scale) -> bytes:
    return oggs.opus(50, b"\xf8", 960, tags=oggs.comments(scale.entries))


def _short_flac() -> bytes:
    return encode(np.zeros((8_000, 1), np.float32), 16_000, format="FLAC")


def _flac_comments(scale: Scale) -> bytes:
    whole = _short_flac()
    block = oggs.comments(scale.entries)
    return whole[:42].replace(b"fLaC\x80", b"fLaC\0") + b"\x04" + len(block).to_bytes(3) + block + whole[42:]


def _flac_in_ogg_comments(scale: Scale) -> bytes:
    """The packets of FLAC in OGG, of which the second is comments. RFC 9639, section 10.1."""
    whole = _short_flac()
    block = oggs.comments(scale.entries)
    head = b"\x7fFLAC\x01\0" + struct.pack(">H", 1) + whole[:42].replace(b"fLaC\x80", b"fLaC\0")
    pages = [oggs.page([head], 1, 0, 0, oggs.FIRST)]
    pages += oggs.long_packet(b"\x84" + len(block).to_bytes(3) + block, 1, 1)
    return b"".join(pages) + oggs.page([bytes(8)], 1, len(pages), 4_096, oggs.LAST)


def _mp3(seconds: int) -> bytes:
    return encode(np.zeros((seconds * 16_000, 1), np.float32), 16_000, format="MP3")


def _id3(count: int) -> bytes:
    """A tag of texts, each of another name. ID3v2.4, sections 3.1 and 4.2.6."""

    def synchsafe(value: int) -> bytes:
        return bytes(value >> shift & 0x7F for shift in (21, 14, 7, 0))

    texts = [b"\0K%d\0v" % number for number in range(count)]
    frames = b"".join(b"TXXX" + synchsafe(len(text)) + b"\0\0" + text for text in texts)
    return b"ID3\x04\0\0" + synchsafe(len(frames)) + frames


def _mp3_chapter(scale: Scale) -> bytes:
    """A chapter of texts. ID3v2 Chapter Frame Addendum, section 3.1; sizes as those of version 2.3."""
    texts = [b"\0K%d\0v" % number for number in range(scale.entries)]
    frames = b"".join(b"TXXX" + struct.pack(">LH", len(text), 0) + text for text in texts)
    body = b"c\0" + bytes(16) + frames
    chapter = b"CHAP" + struct.pack(">LH", len(body), 0) + body
    size = bytes(len(chapter) >> shift & 0x7F for shift in (21, 14, 7, 0))
    return b"ID3\x03\0\0" + size + chapter + _mp3(1)


def _mp3_tag(scale: Scale) -> bytes:
    return _id3(scale.entries) + _mp3(1)


def _mp3_tags(scale: Scale) -> bytes:
    """A tag before every frame."""
    frame = _mp3(1)[-144:]
    start = frame.find(b"\xff")
    return (_id3(1) + frame[start:]) * (scale.megabytes << 12)


def _mp3_false(scale: Scale) -> bytes:
    """Headers of frames behind which no other stands, and then sound."""
    return _mp3(1) + b"\xff\xfb\x90\x64" * (scale.megabytes << 18) + _mp3(1)


def _adts_tag(scale: Scale) -> bytes:
    return _id3(scale.entries) + encode(np.zeros((16_000, 1), np.float32), 16_000, format="AAC")


def _ape_tag(scale: Scale) -> bytes:
    """Fields of a tag at the end, as many as FFmpeg reads at most."""
    count = min(scale.entries, 65_536)
    fields = b"".join(struct.pack("<LL", 1, 0) + b"K%d\0v" % number for number in range(count))
    footer = b"APETAGEX" + struct.pack("<LLLL", 2_000, len(fields) + 32, count, 0) + bytes(8)
    return encode(np.zeros((16_000, 1), np.float32), 16_000, format="AAC") + fields + footer


def _adts_tags(scale: Scale) -> bytes:
    """Tags between frames, which all have other names."""
    frame = encode(np.zeros((16_000, 1), np.float32), 16_000, format="AAC")
    size = (frame[3] & 3) << 11 | frame[4] << 3 | frame[5] >> 5
    texts = (b"TXXX\0\0\0\x12\0\0\0K%014d\0v" % number for number in range(scale.entries))
    return frame + b"".join(b"ID3\x04\0\0\0\0\0\x1c" + text + frame[:size] for text in texts)


def _adts_short(scale: Scale) -> bytes:
    """Frames of a header and one byte."""
    header = encode(np.zeros((16_000, 1), np.float32), 16_000, format="AAC")
    short = bytearray(header[:7])
    short[3], short[4], short[5] = short[3] & 0xFC, 1, short[5] & 0x1F
    return header + (bytes(short) + b"\0") * (scale.megabytes << 14)


def _chunks(scale: Scale, form: bytes, kind: bytes) -> bytes:
    """Chunks without content before those that count."""
    whole = encode(np.zeros((1_600, 1), np.float32), 16_000, format=kind.decode().replace("WAVE", "WAV"))
    body = whole[8:12] + b"junk\0\0\0\0" * (scale.megabytes << 17) + whole[12:]
    return form + struct.pack("<L" if form == b"RIFF" else ">L", len(body)) + body


def _wav_tag(scale: Scale) -> bytes:
    """A tag of ID3 in a chunk, before MPEG audio: libsndfile does not read that."""
    tag = _id3(scale.entries)
    tag += bytes(len(tag) & 1)
    whole = _mp3(1)
    layout = b"fmt " + struct.pack("<LHHLLHH", 16, 0x55, 1, 16_000, 4_000, 1, 0)
    body = (
        b"WAVE" + layout + b"id3 " + struct.pack("<L", len(tag)) + tag + b"data" + struct.pack("<L", len(whole)) + whole
    )
    return b"RIFF" + struct.pack("<L", len(body)) + body


def _aiff_marks(scale: Scale) -> bytes:
    whole = encode(np.zeros((1_600, 1), np.float32), 16_000, format="AIFF")
    marks = struct.pack(">H", 0xFFFF) + struct.pack(">HLBB", 1, 0, 1, 65) * 65_535
    body = whole[8:12] + (b"MARK" + struct.pack(">L", len(marks)) + marks) * scale.megabytes + whole[12:]
    return b"FORM" + struct.pack(">L", len(body)) + body


def _wav_info(scale: Scale) -> bytes:
    whole = encode(np.zeros((1_600, 1), np.float32), 16_000, format="WAV")
    notes = (b"ICMT" + struct.pack("<L", 2) + b"v\0") * scale.entries
    body = whole[8:12] + b"LIST" + struct.pack("<L", 4 + len(notes)) + b"INFO" + notes + whole[12:]
    return b"RIFF" + struct.pack("<L", len(body)) + body


def _flv(scale: Scale) -> bytes:
    """A script tag with many names before sound."""
    rows = b"".join(
        struct.pack(">H", len(name)) + name + b"\x02\0\x01v" for name in (b"K%d" % n for n in range(scale.entries))
    )
    body = b"\x02\0\x0aonMetaData\x08" + struct.pack(">L", scale.entries) + rows + b"\0\0\x09"
    script = b"\x12" + len(body).to_bytes(3) + bytes(7) + body + struct.pack(">L", len(body) + 11)
    frame = b"\x2e" + _mp3(1)[-144:]
    sound = b"\x08" + len(frame).to_bytes(3) + bytes(7) + frame + struct.pack(">L", len(frame) + 11)
    return b"FLV\x01\x04\0\0\0\x09" + bytes(4) + script + sound * 20


def _flv_descending(scale: Scale) -> bytes:
    """Tags that hold a byte of MPEG audio, each before the last one."""
    tags = (
        b"\x08\0\0\x02" + (scale.entries - number).to_bytes(3) + bytes(4) + b"\x2e\0" + struct.pack(">L", 13)
        for number in range(scale.entries)
    )
    return b"FLV\x01\x04\0\0\0\x09" + bytes(4) + b"".join(tags)


def _case(name: str, make: Maker, asks: tuple[str, ...] = (), *, short: bool = False) -> Case:
    return Case(name, "audio", make, asks, short=short)


CASES: Final = (*_vorbis(), *_silence(), *_tables())

__all__ = ["CASES"]
