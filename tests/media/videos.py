"""Clips for the tests of videos, and a decode that takes no short cut."""

from __future__ import annotations

import io
from fractions import Fraction
from functools import cache
from typing import Any

import av
import numpy as np
from numpy import typing as npt

from lazymedia.testing.video import make_video

Frame = npt.NDArray[np.uint8]

X265 = "log-level=none:pools=1:frame-threads=1"

KINDS: dict[str, dict[str, Any]] = {
    "H.264, B-pyramid": {"b_frames": 3, "options": {"b-pyramid": "normal", "bf": "3", "b_strategy": "0"}},
    "H.264, open GOP": {"b_frames": 3, "options": {"x264-params": "open-gop=1:b-pyramid=normal", "b_strategy": "0"}},
    "H.264, several references": {"gop": 30, "options": {"refs": "6", "preset": "medium"}},
    "H.264, no B-frames": {"b_frames": 0},
    "H.264, periodic refresh": {"b_frames": 0, "gop": 20, "options": {"intra-refresh": "1"}, "container": "mkv"},
    "H.264, interlaced": {"options": {"flags": "+ilme+ildct"}},
    "H.264, Matroska": {"b_frames": 3, "container": "mkv"},
    "H.264, MPEG-TS": {"b_frames": 3, "container": "ts", "audio": True},
    "H.264, MPEG-TS, open GOP": {"b_frames": 3, "container": "ts", "options": {"x264-params": "open-gop=1"}},
    "H.264, AVI": {"b_frames": 3, "container": "avi"},
    "H.264, FLV": {"container": "flv"},
    "H.264, fragmented": {"container_options": {"movflags": "frag_keyframe+empty_moov"}},
    "H.264, 10 bits": {"pixel_format": "yuv420p10le", "options": {"profile": "high10"}},
    "HEVC, closed GOP": {
        "codec": "libx265",
        "b_frames": 4,
        "options": {"preset": "fast", "x265-params": f"{X265}:open-gop=0:b-pyramid=1:keyint=12:min-keyint=12"},
    },
    "HEVC, open GOP": {
        "codec": "libx265",
        "b_frames": 4,
        "options": {"preset": "fast", "x265-params": f"{X265}:open-gop=1:b-pyramid=1:keyint=12:min-keyint=12"},
    },
    "HEVC, temporal layers": {
        "codec": "libx265",
        "b_frames": 4,
        "options": {"preset": "fast", "x265-params": f"{X265}:temporal-layers=3:b-pyramid=1:keyint=12"},
    },
    "HEVC, MPEG-TS": {"codec": "libx265", "b_frames": 3, "container": "ts"},
    "VP9": {"codec": "libvpx-vp9", "container": "webm"},
    "VP9, alternate references": {
        "codec": "libvpx-vp9",
        "container": "webm",
        "gop": 30,
        "options": {"auto-alt-ref": "1", "lag-in-frames": "16", "deadline": "good"},
    },
    "VP8, alternate references": {
        "codec": "libvpx",
        "container": "webm",
        "gop": 30,
        "options": {"auto-alt-ref": "1", "lag-in-frames": "10", "deadline": "good"},
    },
    "AV1": {"codec": "libsvtav1", "b_frames": 0},
    "MPEG-4": {"codec": "mpeg4"},
    "MPEG-4, AVI": {"codec": "mpeg4", "container": "avi"},
    "MPEG-2, MPEG-TS": {"codec": "mpeg2video", "container": "ts"},
    "ProRes": {"codec": "prores_ks", "container": "mov", "pixel_format": "yuv422p10le"},
    "GIF": {"codec": "gif", "container": "gif", "pixel_format": "rgb8", "b_frames": 0},
}
"""Every way of storing frames that the reader must get right, as arguments of `make_video`."""


@cache
def clip(kind: str, frames: int = 60) -> bytes:
    """A clip of some seconds, made once."""
    return make_video(frames, **KINDS[kind])


def linear(data: bytes) -> list[Frame]:
    """All frames by PyAV, from the first packet to the last, as they are stored (not turned)."""
    with av.open(io.BytesIO(data), "r") as container:
        stream = container.streams.video[0]
        stream.thread_count = 1
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(stream)]  # type: ignore[misc]  # rgb24 is uint8


def joined(*clips: bytes, container: str = "mpegts") -> bytes:
    """The packets of several clips of one codec, one after the other, as if the encoder had changed its mind."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=container) as output:
        target = None
        offset = Fraction(0)
        for data in clips:
            with av.open(io.BytesIO(data), "r") as source:
                stream = source.streams.video[0]
                target = target or output.add_stream_from_template(stream)
                end = offset
                for packet in source.demux(stream):
                    if packet.dts is None or packet.pts is None:
                        continue
                    tick = packet.time_base
                    end = max(end, offset + (packet.pts + (packet.duration or 0)) * tick)
                    packet.pts += round(offset / tick)
                    packet.dts += round(offset / tick)
                    packet.stream = target
                    output.mux(packet)
                offset = end
    return buffer.getvalue()


def broken_packet(data: bytes, frame_index: int) -> bytes:
    """The same video, the packet of one frame overwritten."""
    with av.open(io.BytesIO(data), "r") as source:
        packets = sorted((packet.pts, bytes(packet)) for packet in source.demux(video=0) if packet.pts is not None)
    packet = packets[frame_index][1]
    assert data.count(packet) == 1
    return data.replace(packet, b"\xff" * len(packet))
