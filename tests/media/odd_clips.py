"""Clips as they come from cameras, phones, stations and old encoders, built by hand where no encoder writes them."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import av
import numpy as np
from numpy import typing as npt

from lazymedia.testing import make_image
from lazymedia.testing.audio import sound
from lazymedia.testing.video import CONTAINERS, draw_frame, make_video
from tests.media.bits import Bits, unit

Plane = npt.NDArray[np.uint8]

WIDTH, HEIGHT, FPS = 128, 64, 25


def box(kind: bytes, *content: bytes) -> bytes:
    body = b"".join(content)
    return struct.pack(">I4s", len(body) + 8, kind) + body


def header_without_tracks() -> bytes:
    """An MP4 whose header names no track at all."""
    matrix = struct.pack(">9I", 0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000)
    numbers = struct.pack(">5I", 0, 0, 0, 1000, 0) + b"\0\1\0\0\1\0" + b"\0" * 10
    return box(b"ftyp", b"isom\0\0\2\0isom") + box(b"moov", box(b"mvhd", numbers + matrix + b"\0" * 24 + b"\0\0\0\1"))


def behind_cover(clip: bytes, picture: bytes | None = None) -> bytes:
    """An MP3 behind an ID3 tag that holds cover art."""
    art = b"\0image/jpeg\0\3\0" + (make_image(format="JPEG") if picture is None else picture)
    frame = b"APIC" + struct.pack(">I", len(art)) + b"\0\0" + art
    size = len(frame)
    return b"ID3\3\0\0" + bytes(size >> shift & 127 for shift in (21, 14, 7, 0)) + frame + clip


def muxed(
    *tracks: tuple[str, npt.NDArray[np.float32], int],
    container: str = "matroska",
    rate: int = 48_000,
    start: int = 0,
    cover: bytes | None = None,
    bit_rate: int | None = None,
    options: Mapping[str, str] | None = None,
) -> bytes:
    """Sound by PyAV: a codec, samples (N, 1) and a disposition for each track, all beginning ``start`` samples late.

    And a JPEG as an attached picture, if there is one; and options for the container.
    """
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=container, options=dict(options or {})) as output:
        streams: list[Any] = [output.add_stream(codec, rate=rate, layout="mono") for codec, _, _ in tracks]
        for stream, (_, _, disposition) in zip(streams, tracks):
            stream.disposition = av.stream.Disposition(disposition)
            if bit_rate is not None:
                stream.bit_rate = bit_rate
        packets = [
            packet for stream, track in zip(streams, tracks) for packet in _encoded(stream, track[1], rate, start)
        ]
        if cover is not None:
            picture: Any = output.add_stream("mjpeg", rate=1)
            picture.width, picture.height, picture.pix_fmt = 64, 48, "yuvj420p"
            picture.disposition = av.stream.Disposition.attached_pic
            output.start_encoding()
            packet = av.Packet(cover)
            packet.stream, packet.pts, packet.dts = picture, 0, 0
            output.mux(packet)
        for packet in packets:
            output.mux(packet)
    return buffer.getvalue()


def _encoded(stream: Any, samples: npt.NDArray[np.float32], rate: int, start: int) -> Iterator[Any]:
    for position in range(0, len(samples), 1024):
        block = np.ascontiguousarray(samples[position : position + 1024].T)
        frame = av.AudioFrame.from_ndarray(block, format="fltp", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = rate, start + position, Fraction(1, rate)
        yield from stream.encode(frame)
    yield from stream.encode(None)


def amr(seconds: float = 1.0, container: str = "amr") -> bytes:
    """AMR as telephones record it: 8 kHz, mono."""
    return muxed(("libopencore_amrnb", sound(seconds, 8_000), 0), container=container, rate=8_000)


# Transport streams of several programs


def programs(*clips: bytes) -> bytes:
    """One transport stream of several, each with identifiers of its own; see `program`. The first is named first."""
    tables = b"".join(struct.pack(">HH", number, 0xE000 | _table(number)) for number in range(1, len(clips) + 1))
    section = bytes([0, 0xB0, 9 + len(tables), 0, 1, 0xC1, 0, 0]) + tables
    section += struct.pack(">I", _crc(section))
    parts = [[packet for packet in _packets(clip) if packet[1] & 31 or packet[2]] for clip in clips]
    merged = [packet for packets in zip(*parts) for packet in packets]
    merged += [packet for part in parts for packet in part[len(merged) // len(parts) :]]
    return (b"\x47\x40\0\x10\0" + section).ljust(188, b"\xff") + b"".join(merged)


def program(number: int, **options: Any) -> bytes:
    """A transport stream that `programs` can put beside others, of a video."""
    return make_video(container="ts", container_options=_program_options(number), **options)


def radio_program(number: int, samples: npt.NDArray[np.float32], bit_rate: int) -> bytes:
    """Likewise, of sound alone."""
    track = ("mp2", samples, 0)
    return muxed(track, container="mpegts", bit_rate=bit_rate, options=_program_options(number))


def _program_options(number: int) -> dict[str, str]:
    names = {
        "mpegts_service_id": number,
        "mpegts_pmt_start_pid": _table(number),
        "mpegts_start_pid": 0x100 + 0x10 * number,
    }
    return {name: str(value) for name, value in names.items()}


def _table(number: int) -> int:
    return 0x1000 + 0x10 * number


def _packets(clip: bytes) -> list[bytes]:
    return [clip[start : start + 188] for start in range(0, len(clip), 188)]


def _crc(data: bytes) -> int:
    """CRC-32 of MPEG: most significant bit first, not inverted."""
    crc = 0xFFFFFFFF
    for byte in data:
        for bit in range(7, -1, -1):
            crc = (crc << 1) ^ (0x04C11DB7 if crc >> 31 ^ byte >> bit & 1 else 0)
            crc &= 0xFFFFFFFF
    return crc


# MPEG-4 with packed B-frames


def packed(frames: int = 20) -> bytes:
    """MPEG-4 in AVI as DivX packed it, one chunk for each frame shown: a B-frame shares its chunk with the frame it
    refers to, and an empty picture fills the next chunk.
    """
    vop = b"\0\0\1\xb6"
    chunks: list[bytes] = []
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="avi") as output:
        stream: Any = output.add_stream("mpeg4", rate=FPS)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        context = stream.codec_context
        context.options = {"b_strategy": "0"}
        context.gop_size, context.max_b_frames, context.thread_count = 12, 1, 1
        context.qmin, context.qmax = 2, 4
        pictures = [bytes(packet) for frame in [*_frames(frames), None] for packet in stream.encode(frame)]
        for picture in pictures:
            kind = picture[picture.index(vop) + 4] >> 6  # 0: I, 1: P, 2: B
            if kind == 2:
                chunks[-1] += picture
                # A P picture that says it is not coded: marker, five bits of time, marker, 0; stuffing.
                chunks.append(vop + Bits().put(1, 2).put(0, 1).put(1, 1).put(0, 5).put(1, 1).put(0, 2).stuffed(1))
            else:
                chunks.append(picture)
        place = chunks[0].index(vop)
        chunks[0] = chunks[0][:place] + b"\0\0\1\xb2DivX503b1393p" + chunks[0][place:]  # the p says "packed"
        for number, chunk in enumerate(chunks):
            output.mux(_packet(chunk, stream, number, Fraction(1, FPS), key=not chunk.startswith(vop)))
    return buffer.getvalue()


def _frames(count: int) -> Iterator[Any]:
    for number in range(count):
        frame = av.VideoFrame.from_ndarray(draw_frame(number, WIDTH, HEIGHT), format="rgb24")
        frame.pts, frame.time_base = number, Fraction(1, FPS)
        yield frame


def _packet(data: bytes, stream: Any, pts: int, tick: Fraction, *, key: bool, duration: int = 1) -> Any:
    packet = av.Packet(data)
    packet.stream, packet.time_base = stream, tick
    packet.pts = packet.dts = pts
    packet.duration, packet.is_keyframe = duration, key
    return packet


# H.264 in fields


def in_fields(
    frames: int = 12, *, gop: int = 4, container: str = "ts", apart: bool = True, high: bool = False
) -> bytes:
    """H.264 of which every picture is one field, each in a packet of its own or both of a frame in one. Its
    macroblocks are sent as they are or repeated, so that no encoder is needed.

    Args:
        frames: How many.
        gop: Frames from one key frame to the next.
        container: One of `CONTAINERS`.
        apart: Whether each field is a packet.
        high: Whether the parameters are those of the High profile, scaling lists among them.
    """
    pairs = [_pair(frame, number % gop, high=high) for number, frame in enumerate(_frames(frames))]
    buffer = io.BytesIO()
    tick = Fraction(1, 90_000)
    with (
        av.open(io.BytesIO(b"".join(first + second for first, second in pairs)), "r", format="h264") as source,
        av.open(buffer, "w", format=CONTAINERS[container]) as output,
    ):
        stream = output.add_stream_from_template(source.streams.video[0])
        field = 90_000 // (2 * FPS)
        for number, (first, second) in enumerate(pairs):
            key, time = number % gop == 0, 2 * number * field
            if apart:
                output.mux(_packet(first, stream, time, tick, key=key, duration=field))
                output.mux(_packet(second, stream, time + field, tick, key=False, duration=field))
            else:
                output.mux(_packet(first + second, stream, time, tick, key=key, duration=2 * field))
    return buffer.getvalue()


def _pair(frame: Any, number: int, *, high: bool) -> tuple[bytes, bytes]:
    """Top and bottom field; parameters before them where the frame is a key frame."""
    flat = frame.reformat(format="yuv420p").to_ndarray()
    quarter = HEIGHT // 4
    planes = (
        flat[:HEIGHT],
        flat[HEIGHT : HEIGHT + quarter].reshape(HEIGHT // 2, WIDTH // 2),
        flat[HEIGHT + quarter :].reshape(HEIGHT // 2, WIDTH // 2),
    )
    top, bottom = (_field([plane[parity::2] for plane in planes], number, parity) for parity in (0, 1))
    return (_parameters(high=high) if number == 0 else b"") + top, bottom


def _parameters(*, high: bool) -> bytes:
    """ITU-T H.264, 7.3.2.1.1 and 7.3.2.2: fields allowed, display in the order of decoding."""
    sequence = Bits().put(100 if high else 77, 8).put(0, 8).put(30, 8).code(0)
    if high:
        sequence.code(1).code(0).code(0).put(0, 1).put(1, 1)  # 4:2:0, 8 bits; scaling lists follow
        sequence.put(1, 1).code(0)
        for _ in range(15):
            sequence.code(0)
        sequence.put(0, 7)
    sequence.code(0).code(2).code(2).put(0, 1).code(WIDTH // 16 - 1).code(HEIGHT // 32 - 1)
    sequence.put(0, 1).put(0, 1).put(1, 1).put(0, 1).put(0, 1)
    picture = Bits().code(0).code(0).put(0, 2).code(0).code(0).code(0).put(0, 3).code(0).code(0).code(0).put(4, 3)
    return unit(0x67, sequence.closed()) + unit(0x68, picture.closed())


def _field(planes: Sequence[Plane], number: int, parity: int) -> bytes:
    """One slice; 7.3.3 to 7.3.5. Its macroblocks are of type I_PCM; behind the first row of a field that does not begin
    a group they are skipped, which repeats the field before it of the same parity.
    """
    is_key, repeats = number == 0 and parity == 0, number > 0
    bits = Bits().code(0).code(5 if repeats else 7).code(0).put(number, 4).put(1, 1).put(parity, 1)
    if is_key:
        bits.code(0).put(0, 2)
    else:
        bits.put(0, 3 if repeats else 1)
    bits.code(0).code(1)
    slice_ = bytearray()
    for row in range(1 if repeats else HEIGHT // 32):
        for column in range(WIDTH // 16):
            if repeats:
                bits.code(0)
            slice_ += bits.code(30 if repeats else 25).stuffed(0)
            bits = Bits()
            for plane, size in zip(planes, (16, 8, 8)):
                slice_ += plane[row * size : (row + 1) * size, column * size : (column + 1) * size].tobytes()
    if repeats:
        bits.code(WIDTH // 16 * (HEIGHT // 32 - 1))
    return unit(0x65 if is_key else 0x61, bytes(slice_) + bits.closed())
