"""Streams by FFmpeg's encoders, whose packets are then repeated: as long as one likes from a second of encoding."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

import av
import numpy as np

_RATE: Final = 25


@dataclass(frozen=True, slots=True)
class Codec:
    """An encoder of pictures that never change.

    Attributes:
        name: FFmpeg's.
        muxer: FFmpeg's name of a container for it.
        options: For the encoder, so that frames refer to the one before only.
        first: Packets before those that are repeated.
        period: Packets that are repeated, after which numbers in them begin anew.
        pixels: FFmpeg's name of the layout.
    """

    name: str
    muxer: str
    options: Mapping[str, str] = field(default_factory=dict)
    first: int = 8
    period: int = 1
    pixels: str = "yuv420p"


_QUICK: Final = {"deadline": "realtime", "cpu-used": "8", "lag-in-frames": "0"}
_X264: Final = "bframes=0:keyint=infinite:scenecut=0:ref=1"
_X265: Final = "log-level=none:log2-max-poc-lsb=4:bframes=0:keyint=-1:ref=1:scenecut=0:pools=1:frame-threads=1"

CODECS: Final = {
    "h264": Codec("libx264", "mp4", {"preset": "ultrafast", "x264-params": _X264}, 17, 16),
    "hevc": Codec("libx265", "mp4", {"preset": "ultrafast", "x265-params": _X265}, 17, 16),
    "vp8": Codec("libvpx", "webm", {**_QUICK, "auto-alt-ref": "0"}),
    "vp9": Codec("libvpx-vp9", "webm", _QUICK),
    "av1": Codec("libsvtav1", "webm", {"preset": "12", "svtav1-params": "pred-struct=1:lp=1"}, 17),
    "mpeg4": Codec("mpeg4", "mp4"),
    "flv": Codec("flv", "flv"),
    "msmpeg4": Codec("msmpeg4", "avi"),
    "mpeg2": Codec("mpeg2video", "mpegts", {"g": "600"}),
    "mjpeg": Codec("mjpeg", "matroska", {}, 1, 1, "yuvj420p"),
}


def encoded(codec: Codec, size: tuple[int, int], frames: int, *, noise: bool = False) -> bytes:
    """That many grey frames, or frames of the same noise."""
    pixels = np.full((size[1], size[0], 3), 90, np.uint8)
    if noise:
        pixels = np.random.default_rng(0).integers(0, 256, pixels.shape, np.uint8)
    frame = av.VideoFrame.from_ndarray(pixels, format="rgb24").reformat(format=codec.pixels)
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=codec.muxer) as output:
        stream: Any = output.add_stream(codec.name, rate=_RATE, options=dict(codec.options))
        stream.width, stream.height = size
        stream.pix_fmt = codec.pixels
        context = stream.codec_context
        context.gop_size, context.max_b_frames, context.thread_count = 1_000, 0, 1
        for number in range(frames):
            frame.pts, frame.time_base = number, Fraction(1, _RATE)
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return buffer.getvalue()


def static(name: str, size: tuple[int, int], frames: int) -> bytes:
    """A video of one group of frames, that many, of which none differs from the one before."""
    codec = CODECS[name]
    source = encoded(codec, size, codec.first + codec.period)
    with av.open(io.BytesIO(source), "r") as container:
        stream = container.streams.video[0]
        packets = [bytes(packet) for packet in container.demux(stream) if packet.size]
    repeated = [packets[codec.first :][number % codec.period] for number in range(frames - codec.first)]
    return muxed(source, codec.muxer, [*packets[: codec.first], *repeated])


def muxed(template: bytes, muxer: str, packets: Sequence[bytes], times: Sequence[int] | None = None) -> bytes:
    """Packets in a container of their own, under the first stream of another.

    Args:
        template: The other payload.
        muxer: FFmpeg's name of the container.
        packets: What each holds. Only the first is said to be a key frame, except of sound and of JPEGs.
        times: Of each, in 1/25 s; none for one after the other.
    """
    buffer = io.BytesIO()
    with av.open(io.BytesIO(template), "r") as source, av.open(buffer, "w", format=muxer) as output:
        first: Any = source.streams[0]
        stream = output.add_stream_from_template(first, opaque=True)
        keys = first.type == "audio" or first.codec_context.name == "mjpeg"
        for number, content in enumerate(packets):
            packet: Any = av.Packet(content)
            packet.stream, packet.time_base, packet.duration = stream, Fraction(1, _RATE), 1
            packet.pts = packet.dts = number if times is None else times[number]
            packet.is_keyframe = keys or not number
            output.mux(packet)
    return buffer.getvalue()


__all__ = ["CODECS", "Codec", "encoded", "muxed", "static"]
