"""Decodes of many frames at a time beside decodes frame by frame."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import Limits
from lazymedia.media.audio import AudioMediaIO, ffmpeg_graph
from lazymedia.media.cancellation import stopping_when

T = TypeVar("T")


def load(clip: bytes, **limits: Any) -> Any:
    """Mono samples."""
    return AudioMediaIO(limits=Limits(**limits)).load_bytes(clip)[0]


def outcome(clip: bytes) -> Any:
    """What a decode comes to, to be compared."""
    try:
        samples, rate = AudioMediaIO().load_bytes(clip)
    except UnprocessableMediaError as exc:
        return str(exc), type(exc.__cause__)
    return rate, samples.tobytes()


def frame_by_frame(function: Callable[..., T], *args: Any) -> T:
    """Call a function with decodes that go frame by frame, as where there are no memory files."""
    with patch.object(ffmpeg_graph, "is_possible", lambda: False):
        return function(*args)


def load_and_count(clip: bytes) -> tuple[Any, int]:
    """Mono samples, and how often the decode could have been stopped: once for each call of FFmpeg's filter, or for
    each packet.
    """
    calls = 0

    def check() -> None:
        nonlocal calls
        calls += 1

    with stopping_when(check):
        samples = load(clip)
    return samples, calls


def open_files() -> list[Path]:
    """Descriptors of this process."""
    return sorted(Path("/proc/self/fd").iterdir())
