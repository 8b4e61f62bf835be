"""MP3s as they are found: without the frame that tells their length, behind each other, between tags, cut."""

from __future__ import annotations

import io
import struct
from fractions import Fraction
from functools import cache
from typing import Any

import av
import numpy as np

from lazymedia.media.audio.formats import behind_id3, frame_size
from lazymedia.testing.audio import make_audio, sound


@cache
def song(frequency: float = 440, seconds: float = 2, *, rate: int = 48_000, channels: int = 1) -> bytes:
    """A tone at a variable bit rate: loud from the first frame on, so that the bit rate of that says nothing of the
    rest. A frame before them tells how many there are.
    """
    return make_audio(seconds, rate, channels, format="MP3", frequency=frequency)


@cache
def constant(seconds: float = 2, rate: int = 48_000, channels: int = 1, kbits: int | None = None) -> bytes:
    """At a constant bit rate, by another encoder."""
    return _by_ffmpeg("libmp3lame", seconds, rate, channels, kbits)


@cache
def layer_two(rate: int = 48_000) -> bytes:
    """Layer II, which has no frame that tells of others."""
    return _by_ffmpeg("mp2", 2, rate, 2, None)


def _by_ffmpeg(codec: str, seconds: float, rate: int, channels: int, kbits: int | None) -> bytes:
    samples = (sound(seconds, rate, channels) * 32_768).astype(np.int16)
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mp3" if codec == "libmp3lame" else codec) as container:
        stream: Any = container.add_stream(codec, rate=rate, layout="mono" if channels == 1 else "stereo")
        if kbits is not None:
            stream.bit_rate = kbits * 1000
        for start in range(0, len(samples) // 1152 * 1152, 1152):
            block = samples[start : start + 1152]
            if codec == "libmp3lame":
                frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(block.T), format="s16p", layout=stream.layout)
            else:
                frame = av.AudioFrame.from_ndarray(block.reshape(1, -1), format="s16", layout=stream.layout)
            frame.sample_rate, frame.pts, frame.time_base = rate, start, Fraction(1, rate)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    clip = buffer.getvalue()
    return clip[behind_id3(clip) :]


def frames(clip: bytes) -> list[bytes]:
    """What an MP3 without tags consists of."""
    found, start = [], 0
    while size := frame_size(clip[start : start + 4]):
        found.append(clip[start : start + size])
        start += size
    assert start == len(clip)
    return found


def untold(clip: bytes) -> bytes:
    """Without the first frame, which tells the number of the others."""
    assert clip[21:25] in {b"Xing", b"Info"} or clip[36:40] in {b"Xing", b"Info"} or clip[13:17] in {b"Xing", b"Info"}
    return clip[len(frames(clip)[0]) :]


def telling(clip: bytes, count: int) -> bytes:
    """With another number of frames in the first of them."""
    at = clip.index(b"Xing" if b"Xing" in clip[:60] else b"Info") + 8
    return clip[:at] + struct.pack(">I", count) + clip[at + 4 :]


def dropping(clip: bytes, delay: int, padding: int) -> bytes:
    """With other numbers of samples in LAME's tag, to be dropped at the ends."""
    at = clip.index(b"Xing" if b"Xing" in clip[:60] else b"Info") + 141
    return clip[:at] + (delay << 12 | padding).to_bytes(3, "big") + clip[at + 3 :]


def flipped(frame: bytes, bit: int) -> bytes:
    """With one bit of its header turned."""
    return (int.from_bytes(frame[:4], "big") ^ 1 << bit).to_bytes(4, "big") + frame[4:]


def id3v2(size: int, flags: int = 0) -> bytes:
    """A tag of so many bytes, its ten first ones not among them."""
    seven = bytes(size >> shift & 127 for shift in (21, 14, 7, 0))
    return b"ID3\4\0" + bytes([flags]) + seven + bytes(size) + (b"3DI\4\0" + bytes([flags]) + seven) * (flags >> 4 & 1)


def id3v1() -> bytes:
    """The tag at the end."""
    return b"TAG".ljust(128, b"\0")


def ape(size: int) -> bytes:
    """A tag of APE's, its first 32 bytes not among those."""
    return (
        b"APETAGEX" + struct.pack("<IIII8x", 2000, size, 0, 1 << 31) + bytes(size - 32) + b"APETAGEX".ljust(32, b"\0")
    )


def in_wav(
    clip: bytes,
    *,
    rate: int = 48_000,
    channels: int = 1,
    tag: int = 0x55,
    told: int | None = None,
    size: int | None = None,
    chunks: int = 0,
) -> bytes:
    """As the samples of a WAV, whose ``fact`` chunk may tell how many there are; so many bytes, as it says, behind
    other chunks.
    """
    other = b"LIST" + struct.pack("<I", 4) + b"INFO"
    fmt = struct.pack("<HHIIHHHHIHHH", tag, channels, rate, 16_000, 1, 0, 12, 1, 2, 417, 1, 1393)
    fact = b"" if told is None else b"fact" + struct.pack("<II", 4, told)
    padded = clip + bytes(len(clip) & 1)
    sized = struct.pack("<I", len(clip) if size is None else size)
    body = b"WAVEfmt " + struct.pack("<I", len(fmt)) + fmt + fact + other * chunks + b"data" + sized + padded
    return b"RIFF" + struct.pack("<I", len(body)) + body
