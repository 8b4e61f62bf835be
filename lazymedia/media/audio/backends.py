"""What decodes a clip: told by a setting and by the payload's own bytes, before any key is made.

Comes in: a setting, a payload of a known format. Goes out: a backend's name, or what opens a clip. Never here: a codec
library, but to learn whether it can be loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from lazymedia.media import system_ffmpeg
from lazymedia.media.audio.formats import Backend, Format

if TYPE_CHECKING:
    from lazymedia.limits import Limits
    from lazymedia.media.audio.source import Source

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
    """The backend for a payload: that of its format where none is named, or where torchcodec is and FFmpeg's choice of
    a demuxer would not be certain.

    Raises:
        ImportError: torchcodec would decode it and cannot be loaded. The operator's fault.
    """
    if backend is None or (backend == system_ffmpeg.NAME and not system_ffmpeg.is_certain(data, kind.demuxer)):
        return kind.backend
    if backend == system_ffmpeg.NAME:
        system_ffmpeg.load()
    return backend


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


__all__ = ["BACKENDS", "configured", "reader", "resolve"]
