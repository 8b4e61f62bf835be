"""Videos and audio: the wanted frames of a long video, and long clips brought to 16 kHz, against the libraries by hand.

The video is made: H.264 1080p, 30 frames a second, a key frame every 250, B-frames; 20 s are encoded once and their
packets repeated. By hand means what people write with PyAV: a seek for each frame, or every frame decoded. By hand
the audio is soundfile's blocks or PyAV's frames, the mean of the channels, and a soxr stream.
"""

from __future__ import annotations

import io
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from statistics import median
from typing import Any

import av
import numpy as np
import soundfile
import soxr

from lazymedia.cli.show import table
from lazymedia.media.audio import AudioMediaIO, resample
from lazymedia.media.video import PacketIndexCache, VideoMediaIO
from lazymedia.testing.audio import make_audio
from lazymedia.testing.video import make_video

FRAMES = 32
FORMATS = ("WAV", "FLAC", "MP3", "M4A", "OPUS")


def long_video(minutes: int, width: int, height: int) -> bytes:
    """Twenty seconds, encoded once and repeated with shifted times."""
    once = make_video(600, width, height, fps=30, gop=250, b_frames=3, options={"crf": "28"})
    with av.open(io.BytesIO(once), "r") as source:
        packets = [packet for packet in source.demux(video=0) if packet.size]
        stored = [(packet.pts or 0, packet.dts or 0, packet.duration or 0) for packet in packets]
        span = sum(duration for _, _, duration in stored)
        buffer = io.BytesIO()
        with av.open(buffer, "w", format="mp4") as output:
            stream = output.add_stream_from_template(source.streams.video[0])
            for part in range(minutes * 3):
                for packet, (pts, dts, _) in zip(packets, stored):
                    packet.stream = stream
                    packet.pts, packet.dts = pts + part * span, dts + part * span
                    packet.time_base = source.streams.video[0].time_base or Fraction(1, 30)
                    output.mux(packet)
    return buffer.getvalue()


def by_seeks(data: bytes, times: list[float]) -> int:
    """A seek for each frame, then decoding up to it."""
    found = 0
    with av.open(io.BytesIO(data), "r") as container:
        stream = container.streams.video[0]
        stream.codec_context.thread_count = 1
        tick = stream.time_base or Fraction(1)
        for seconds in times:
            wanted = round(seconds / tick) + (stream.start_time or 0)
            container.seek(wanted, stream=stream)
            for frame in container.decode(stream):
                if frame.pts is not None and frame.pts >= wanted:
                    frame.to_ndarray(format="rgb24")
                    found += 1
                    break
    return found


def every_frame(data: bytes, times: list[float]) -> int:
    """Every frame decoded, the wanted ones converted."""
    found, wanted = 0, list(times)
    with av.open(io.BytesIO(data), "r") as container:
        stream = container.streams.video[0]
        stream.codec_context.thread_count = 1
        for frame in container.decode(stream):
            if wanted and (frame.time or 0.0) >= wanted[0] - 1e-6:
                wanted.pop(0)
                frame.to_ndarray(format="rgb24")
                found += 1
    return found


def videos(arguments: Namespace) -> list[tuple[object, ...]]:
    """The first table."""
    data = long_video(1, 640, 360) if arguments.quick else long_video(10, 1920, 1080)
    cache = PacketIndexCache()
    kept = VideoMediaIO(num_frames=FRAMES, index_cache=cache)
    times = list(kept.load_bytes(data)[1].timestamps)
    rows: dict[str, Callable[[], object]] = {
        "lazymedia, one thread": lambda: VideoMediaIO(num_frames=FRAMES).load_bytes(data),
        "lazymedia, index kept": lambda: kept.load_bytes(data),
        "lazymedia, two threads": lambda: VideoMediaIO(num_frames=FRAMES, decoder_threads=2).load_bytes(data),
        "PyAV, a seek for each frame": lambda: by_seeks(data, times),
        "PyAV, every frame": lambda: every_frame(data, times),
    }
    return [
        (f"{FRAMES} frames of {len(data) / (1 << 20):.0f} MiB", "wall", "CPU", "of PyAV's seeks, wall", "CPU"),
        *timed(rows, "PyAV, a seek for each frame", 1 if arguments.quick else 3),
        (f"scans of the packets with the index kept: {cache.scans}", "", "", "", ""),
    ]


def by_hand(data: bytes, name: str) -> int:
    """One clip to 16 kHz mono."""
    stream: Any = None
    total = 0
    for block, rate in soundfile_blocks(data) if name in {"WAV", "FLAC", "MP3"} else pyav_blocks(data):
        stream = stream or soxr.ResampleStream(rate, 16_000, 1, dtype="float32", quality="HQ")
        total += len(stream.resample_chunk(np.ascontiguousarray(block)))
    return total + len(stream.resample_chunk(np.empty(0, np.float32), last=True))


def soundfile_blocks(data: bytes) -> Iterator[tuple[Any, int]]:
    """A second at a time, the channels' mean."""
    with soundfile.SoundFile(io.BytesIO(data)) as file:
        for block in file.blocks(file.samplerate, dtype="float32", always_2d=True):
            yield block.mean(axis=1), file.samplerate


def pyav_blocks(data: bytes) -> Iterator[tuple[Any, int]]:
    """A frame at a time, the channels' mean."""
    with av.open(io.BytesIO(data), "r") as container:
        for frame in container.decode(audio=0):
            yield frame.to_ndarray().mean(axis=0), frame.sample_rate


def clips(arguments: Namespace) -> list[tuple[object, ...]]:
    """The second table."""
    found: list[tuple[object, ...]] = [("stereo to 16 kHz mono", "wall", "CPU", "of by hand, wall", "CPU")]
    minutes = 0.5 if arguments.quick else 9  # ten are the limit, and an MP3 pads
    to_16k = resample(16_000)
    for name in FORMATS:
        rate = 48_000 if name == "OPUS" else 44_100
        data = make_audio(minutes * 60, rate, 2, format=name)
        rows: dict[str, Callable[[], object]] = {
            f"{name}, {minutes:g} min, lazymedia": partial(AudioMediaIO().load_bytes_resampled, data, to_16k),
            f"{name}, {minutes:g} min, by hand": partial(by_hand, data, name),
        }
        found += timed(rows, f"{name}, {minutes:g} min, by hand", 1 if arguments.quick else 5)
    return found


def timed(rows: dict[str, Callable[[], object]], against: str, rounds: int) -> list[tuple[object, ...]]:
    """Medians of interleaved rounds, and ratios taken round by round."""
    measured: dict[str, list[tuple[float, float]]] = {name: [] for name in rows}
    for _ in range(rounds):
        for name, row in rows.items():
            wall, cpu = time.perf_counter(), time.process_time()
            row()
            measured[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    return [
        (
            name,
            *(f"{median(pair[kind] for pair in pairs):.2f} s" for kind in (0, 1)),
            *(
                f"{median(own[kind] / other[kind] for own, other in zip(pairs, measured[against])):.2f}"
                for kind in (0, 1)
            ),
        )
        for name, pairs in measured.items()
    ]


def run(arguments: Namespace) -> None:
    """Print both."""
    print(table(videos(arguments)), end="\n\n")
    print(table(clips(arguments)), end="\n\n")
