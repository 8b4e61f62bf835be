"""A payload as the file that PyAV reads."""

from __future__ import annotations

import io
from typing import Any, Final

_NO_SEEKING: Final = frozenset({"flv"})
"""Demuxers that add every key frame and every packet of sound to an index without a limit if the file can be sought in
(flvdec.c in FFmpeg 8.1). The index is sorted, so that tags whose times descend take a time that grows with the square
of their number."""


class _Forward:
    """Bytes that can be read once, from the first to the last."""

    def __init__(self, data: bytes) -> None:
        self.read = io.BytesIO(data).read


def can_seek(demuxer: str) -> bool:
    """Whether FFmpeg may seek in a payload."""
    return demuxer not in _NO_SEEKING


def payload_file(data: bytes, demuxer: str) -> Any:
    """A file for `av.open`."""
    return io.BytesIO(data) if can_seek(demuxer) else _Forward(data)


__all__ = ["can_seek", "payload_file"]
