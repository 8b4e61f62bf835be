"""What decodes a video: by a setting and the payload's own bytes, before any key is made."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

from lazymedia.media import system_ffmpeg
from lazymedia.media.video.container import identify

if TYPE_CHECKING:
    from lazymedia.limits import Limits
    from lazymedia.media.video.reader import Reader

BACKENDS: Final = ("auto", "pyav", "torchcodec")
"""Names that ``video_backend`` takes. "auto" is "pyav": it decodes less, and anything that it opens is shut off."""

_BY_TORCHCODEC: Final = frozenset({"mov", "matroska"})


def configured(name: str | None) -> str:
    """The backend that a setting asks for.

    Raises:
        ValueError: Another name.
        ImportError: torchcodec, which is not installed.
    """
    if name is not None and name not in BACKENDS:
        raise ValueError(f"video_backend must be one of {', '.join(BACKENDS)}")
    if name == system_ffmpeg.NAME:
        system_ffmpeg.require_installed()
        return name
    return "pyav"


def resolve(backend: str, data: bytes) -> str:
    """The backend for a payload: "pyav" where torchcodec was asked for and FFmpeg's choice of a demuxer would not be
    certain, which is everything but MP4, MOV, Matroska and WebM.

    Raises:
        ImportError: torchcodec would decode it and cannot be loaded. The operator's fault.
    """
    if backend != system_ffmpeg.NAME:
        return backend
    kind = identify(data)
    if kind not in _BY_TORCHCODEC or not system_ffmpeg.is_certain(data, kind):
        return "pyav"
    system_ffmpeg.load()
    return backend


def reading(backend: str, data: bytes, limits: Limits, *, threads: int | None) -> AbstractContextManager[Reader]:
    """A reader for a payload, by a backend that `resolve` named.

    Raises:
        UnprocessableMediaError: As `lazymedia.media.video.container.open_video`.
    """
    if backend == system_ffmpeg.NAME:
        from lazymedia.media.video import torchcodec_reader

        return torchcodec_reader.reading(data, limits, threads=threads)
    from lazymedia.media.video import reader

    return reader.reading(data, limits, threads=threads)


__all__ = ["BACKENDS", "configured", "reading", "resolve"]
