"""Which library decodes a clip, by a setting and by the payload's own bytes, before any key is made."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from lazymedia.media import system_ffmpeg
from lazymedia.media.audio.formats import Backend, Format
from lazymedia.media.audio.header import read_header
from lazymedia.media.containers import ogg

if TYPE_CHECKING:
    from lazymedia.limits import Limits
    from lazymedia.media.audio.samples import Source

    Reader: TypeAlias = "Callable[[bytes, Format, Limits], AbstractContextManager[Source]]"

BACKENDS: Final = ("auto", "soundfile", "pyav", "torchcodec")
"""Names that ``audio_backend`` takes. "auto" never means torchcodec, which is slower than the others in every format
and is not on every machine that shares a cache.
"""


def configured(name: str | None) -> Backend | None:
    """The backend that a setting asks for; None where the bytes decide.

    Raises:
        ValueError: Another name.
        ImportError: torchcodec, which is not installed.
    """
    if name is None or name == "auto":
        return None
    if name not in BACKENDS:
        raise ValueError(f"audio_backend must be one of {', '.join(map(repr, BACKENDS))}")
    if name == system_ffmpeg.NAME:
        system_ffmpeg.require_installed()
    return cast("Backend", name)


def resolve(backend: Backend | None, data: bytes, kind: Format) -> Backend:
    """The backend for a payload: by its container and codec where none is named, or where torchcodec is and FFmpeg's
    choice of a demuxer would not be certain.

    Raises:
        ImportError: torchcodec would decode it and cannot be loaded. The operator's fault.
    """
    if backend is None or (backend == system_ffmpeg.NAME and not _is_for_torchcodec(data, kind)):
        return "soundfile" if is_by_libsndfile(data, kind) else "pyav"
    if backend == system_ffmpeg.NAME:
        system_ffmpeg.load()
    return backend


def _is_for_torchcodec(data: bytes, kind: Format) -> bool:
    """Whether it is certain what torchcodec makes of a payload. Of recordings that follow each other in one OGG it
    decodes the later ones by the tables of the first, and it ends those in one page too late.
    """
    if kind.demuxer == "ogg" and (len(ogg.links_of(data, "audio")) > 1 or ogg.has_one_page_of_sound(data)):
        return False
    return system_ffmpeg.is_certain(data, kind.demuxer)


def is_by_libsndfile(data: bytes, kind: Format) -> bool:
    """Whether libsndfile may be given a payload: WAV, AIFF or FLAC in a codec that it reads."""
    known = read_header(data, kind) if kind.sndfile else None
    return known is not None and known.by_libsndfile


def reader(backend: Backend) -> Reader:
    """What opens a clip by a backend that `resolve` named."""
    if backend == "soundfile":
        from lazymedia.media.audio import soundfile_reader

        return soundfile_reader.open_source
    if backend == system_ffmpeg.NAME:
        from lazymedia.media.audio import torchcodec_reader

        return torchcodec_reader.open_source
    from lazymedia.media.audio import pyav_reader

    return pyav_reader.open_source


__all__ = ["BACKENDS", "configured", "is_by_libsndfile", "reader", "resolve"]
