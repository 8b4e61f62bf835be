"""Chosen frames of videos against torchcodec, OpenCV and PyAV's seeks by hand; eight such requests at once.

torchcodec is exact, seeks the very frames that lazymedia took, and stands at the best of its thread settings. OpenCV
grabs every frame up to the last wanted one, as servers do. PyAV by hand is a seek for each frame.
"""

from __future__ import annotations

import io
from argparse import Namespace
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, Final

import av
import numpy as np

from benchmarks.at_once import at_once
from benchmarks.measure import Rounds, best, cost_rows, heading, in_rounds, optional, ratio
from benchmarks.peak import Growth, grows
from lazymedia.cli.show import table
from lazymedia.media.ref import MediaRef
from lazymedia.media.video import PacketIndexCache, VideoMediaIO
from lazymedia.media.video.io import Video

FRAMES: Final = 32
REQUESTS: Final = 8
OPENCV: Final = "OpenCV, every frame"
_TORCHCODEC: Final = {"torchcodec, 1 thread": 1, "torchcodec, 2 threads": 2, "torchcodec, its own choice": 0}


def torchcodec_frames(data: bytes, wanted: Sequence[int], threads: int) -> Any:
    """Frames (N, H, W, 3), exact."""
    from torchcodec.decoders import VideoDecoder

    decoder = VideoDecoder(data, seek_mode="exact", num_ffmpeg_threads=threads, dimension_order="NHWC")
    return decoder.get_frames_at(list(wanted)).data.numpy()


def opencv_frames(path: Path, wanted: Sequence[int]) -> Any:
    """Frames (N, H, W, 3): everything grabbed, the wanted ones converted."""
    import cv2

    found, want = [], set(wanted)
    video = cv2.VideoCapture(str(path), cv2.CAP_FFMPEG)
    for number in range(max(want) + 1):
        if not video.grab():
            break
        if number in want:
            _, frame = video.retrieve()
            found.append(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB))
    video.release()
    return np.stack(found)


def seek_frames(data: bytes, times: Sequence[float]) -> Any:
    """Frames (N, H, W, 3): a seek for each, then decoding up to it."""
    found = []
    with av.open(io.BytesIO(data), "r") as container:
        stream = container.streams.video[0]
        stream.codec_context.thread_count = 1
        tick = stream.time_base or Fraction(1)
        for seconds in times:
            wanted = round(seconds / tick) + (stream.start_time or 0)
            container.seek(wanted, stream=stream)
            for frame in container.decode(stream):
                if frame.pts is not None and frame.pts >= wanted:
                    found.append(frame.to_ndarray(format="rgb24"))
                    break
    return np.stack(found)


def wanted_frames(data: bytes) -> list[int]:
    """The numbers of the frames that lazymedia takes."""
    return VideoMediaIO(num_frames=FRAMES).load_bytes(data)[1].frames_indices


def one(arguments: Namespace, title: str, path: Path, *, aims: bool = False) -> None:
    """The table of one video; with ``aims``, what it says of the targets."""
    data = path.read_bytes()
    cache = PacketIndexCache()
    kept = VideoMediaIO(num_frames=FRAMES, index_cache=cache)
    frames, known = kept.load_bytes(data)
    rows: dict[str, Callable[[], object]] = {
        "lazymedia": partial(VideoMediaIO(num_frames=FRAMES).load_bytes, data),
        "lazymedia, index kept": partial(kept.load_bytes, data),
        "lazymedia, 1 thread": partial(VideoMediaIO(num_frames=FRAMES, decoder_threads=1).load_bytes, data),
        "lazymedia, 2 threads": partial(VideoMediaIO(num_frames=FRAMES, decoder_threads=2).load_bytes, data),
        "PyAV, a seek for each": partial(seek_frames, data, known.timestamps),
    }
    missing: list[str] = []
    same: bool | None = None
    if optional("torchcodec.decoders") is None:
        missing += list(_TORCHCODEC)
    else:
        same = bool(np.array_equal(frames, torchcodec_frames(data, known.frames_indices, 1)))
        for name, threads in _TORCHCODEC.items():
            rows[name] = partial(torchcodec_frames, data, known.frames_indices, threads)
    if optional("cv2") is None:
        missing.append(OPENCV)
    else:
        rows[OPENCV] = partial(opencv_frames, path, known.frames_indices)
    del frames
    rounds = in_rounds(rows, arguments.long_rounds, touched=arguments.touched)
    rival = best(rounds, _TORCHCODEC) or "PyAV, a seek for each"
    print(
        table(
            [
                heading(f"{FRAMES} frames of {title}, {len(data) / (1 << 20):.1f} MiB", rival),
                *cost_rows(rounds, rival, missing),
            ]
        )
    )
    print(f"frames equal to torchcodec's, bit for bit: {'not compared' if same is None else 'yes' if same else 'NO'}")
    print(f"scans of the packets in {arguments.long_rounds + 1} decodes with the index kept: {cache.scans}\n")
    if aims:
        _aim(arguments, rounds, rival if rival in _TORCHCODEC else None, cache.scans)


def _aim(arguments: Namespace, rounds: Rounds, rival: str | None, scans: int) -> None:
    targets = arguments.targets
    against = None if rival is None else ratio(rounds, "lazymedia", rival, "wall")
    targets.at_most(f"{FRAMES} frames of the long video, by torchcodec's best, wall", against, 0.55)
    grabbed = ratio(rounds, "lazymedia", OPENCV, "wall") if OPENCV in rounds[0] else None
    targets.at_most("... by OpenCV's, wall", grabbed, 0.1)
    targets.at_most("... scans of the packets in all decodes of a payload", scans, 1)


def eight_refs(data: bytes) -> list[MediaRef[Video]]:
    """References of as many requests, each with a decode of its own."""
    decoder = VideoMediaIO(num_frames=FRAMES)
    return [decoder.load_bytes_ref(data) for _ in range(REQUESTS)]


def _held(growth: Growth | None) -> float | None:
    return None if growth is None else growth.grown / (growth.result + growth.payload)


def run_eight(arguments: Namespace) -> None:
    """The table of eight requests at once."""
    path = arguments.media.film()
    data = path.read_bytes()
    wanted = wanted_frames(data)
    rival = f"torchcodec, {REQUESTS} x 1 thread"
    rows: dict[str, Callable[[], object]] = {
        # Built anew for each round: a reference decodes once.
        f"lazymedia, {REQUESTS} references": lambda: at_once([ref.decode for ref in eight_refs(data)]),
    }
    works = {f"lazymedia, {REQUESTS} references": "eight videos"}
    there = optional("torchcodec.decoders") is not None
    if there:
        rows[rival] = lambda: at_once([partial(torchcodec_frames, data, wanted, 1)] * REQUESTS)
        works[rival] = "eight videos, torchcodec"
    rounds = in_rounds(rows, arguments.long_rounds, touched=arguments.touched)
    growths = {name: grows(work, path) for name, work in works.items()}
    shown = [
        (*row, "" if held is None else f"{held:.2f}")
        for row in cost_rows(rounds, rival if there else None)
        for held in [_held(growths[str(row[0])])]
    ]
    shown += [] if there else [(rival, "not installed", "", "", "", "")]
    top = heading(f"{REQUESTS} requests at once for {FRAMES} frames each of the long video", rival if there else None)
    print(table([(*top, "peak growth by what is held"), *shown]), end="\n\n")
    ours = next(iter(rows))
    arguments.targets.at_most(
        "eight requests at once, by torchcodec's, CPU", ratio(rounds, ours, rival, "cpu") if there else None, 0.7
    )
    arguments.targets.at_most("... growth of memory by frames and payload held", _held(growths[ours]), 1.2)


def run(arguments: Namespace) -> None:
    """A table for each video."""
    media = arguments.media
    one(
        arguments,
        "sixteen seconds of 90p H.264" if media.quick else "ten minutes of 1080p H.264",
        media.film(),
        aims=True,
    )
    one(arguments, "90p HEVC" if media.quick else "720p HEVC", media.hevc())
    one(arguments, f"a short {90 if media.quick else 360}p H.264 clip", media.clip())
