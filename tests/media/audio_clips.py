"""Clips that no encoder writes: headers made byte by byte, so that they can lie."""

from __future__ import annotations

import io
import struct

import av

from lazymedia.testing.audio import make_audio


def wav(
    samples: bytes = b"\0\0" * 800,
    *,
    rate: int = 16_000,
    channels: int = 1,
    bits: int = 16,
    tag: int = 1,
    riff_size: int | None = None,
    data_size: int | None = None,
    block_align: int | None = None,
) -> bytes:
    """A WAV of one `fmt ` and one `data` chunk; every number as it is given, right or wrong."""
    align = channels * bits // 8 if block_align is None else block_align
    fmt = struct.pack("<HHIIHH", tag, channels, rate, rate * align & 0xFFFFFFFF, align, bits)
    size = len(samples) if data_size is None else data_size
    body = b"WAVEfmt " + struct.pack("<I", len(fmt)) + fmt + b"data" + struct.pack("<I", size) + samples
    return b"RIFF" + struct.pack("<I", len(body) if riff_size is None else riff_size) + body


def flac(
    *, rate: int | None = None, channels: int | None = None, total: int | None = None, data: bytes | None = None
) -> bytes:
    """A good FLAC whose STREAMINFO lies: 20 bits of rate, 3 of channels - 1, 5 of depth, 36 of length."""
    data = make_audio(1, format="FLAC") if data is None else data
    bits = int.from_bytes(data[18:26], "big")
    if rate is not None:
        bits = bits & ~(0xFFFFF << 44) | rate << 44
    if channels is not None:
        bits = bits & ~(7 << 41) | channels - 1 << 41
    if total is not None:
        bits = bits & ~(2**36 - 1) | total
    return data[:18] + bits.to_bytes(8, "big") + data[26:]


def with_packet(clip: bytes, number: int, first: bytes) -> bytes:
    """A packet of a clip made to begin with other bytes, and to hold nothing else."""
    with av.open(io.BytesIO(clip), "r") as container:
        packet = list(container.demux(audio=0))[number]
    assert packet.pos is not None
    return clip[: packet.pos] + first.ljust(packet.size, b"\0") + clip[packet.pos + packet.size :]
