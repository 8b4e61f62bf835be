"""What is counted in a container before FFmpeg opens it: tags, chapters, cues, programs, boxes, code books.

One file for each container. They look at the bytes alone and follow FFmpeg's demuxers where those differ from the
formats' documents. FFmpeg finds its way back into a damaged file at any byte, so that a scanner must not pass over what
stands behind a false match.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from lazymedia.limits import Limits
from lazymedia.media.containers import flv, id3, matroska, mp4, mpegts, ogg, riff

_CHECKS: Final[Mapping[str, Callable[[bytes, Limits, str], None]]] = MappingProxyType(
    {
        "mp3": id3.check_mp3,
        "aac": id3.check_adts,
        "flac": id3.check_flac,
        "wav": riff.check,
        "avi": riff.check,
        "aiff": riff.check,
        "ogg": ogg.check,
        "mov": mp4.check,
        "matroska": matroska.check,
        "flv": flv.check,
        "mpegts": mpegts.check,
    }
)


def check(data: bytes, demuxer: str, limits: Limits, modality: str) -> None:
    """Reject a payload whose header would take far longer to read than its bytes warrant.

    Args:
        data: The payload.
        demuxer: FFmpeg's name of its container. One that has no check is accepted.
        limits: `Limits.max_metadata_entries` is taken from here.
        modality: For the error.

    Raises:
        UnprocessableMediaError: More entries, cues, programs, samples or boxes than are allowed. The payload's fault.
    """
    if demuxer in _CHECKS:
        _CHECKS[demuxer](data, limits, modality)


__all__ = ["check"]
