"""Opens a payload with a demuxer of FFmpeg's so that its bytes can reach nothing but themselves.

FFmpeg chooses a demuxer by content and by name, and some demuxers (concat, HLS, DASH, SDP and their like) open whatever
files and addresses the content names. Here the demuxer is chosen from the first bytes, out of a closed list, and
forced; no other may run inside it, and no protocol is allowed.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, Final

from lazymedia.errors import UnprocessableMediaError

DEMUXERS: Final = frozenset(
    {"aac", "aiff", "amr", "avi", "flac", "flv", "gif", "matroska", "mov", "mp3", "mpeg", "mpegts", "ogg", "wav"}
)
"""Demuxers that may run, by FFmpeg's names. None of them opens anything but its own payload."""

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


def open_container(
    data: bytes,
    demuxer: str,
    modality: str,
    *,
    container_options: Mapping[str, str],
    options: Mapping[str, str] | None = None,
) -> Any:
    """PyAV's container for a payload.

    Args:
        data: The payload.
        demuxer: One of `DEMUXERS`.
        modality: For the error.
        container_options: Of the demuxer, and of what it does to learn the parameters of streams.
        options: Of the decoders that run for that.

    Raises:
        UnprocessableMediaError: A header that asks for more memory than there is, or for more streams than allowed.
        av.FFmpegError: A damaged header.
        ValueError: A demuxer that is not allowed. A mistake of this library.
    """
    if demuxer not in DEMUXERS:
        raise ValueError(f"the demuxer {demuxer!r} is not allowed")
    import av

    try:
        return av.open(
            payload_file(data, demuxer),
            "r",
            format=demuxer,
            options=dict(options or {}),
            container_options={**container_options, "format_whitelist": demuxer, "protocol_whitelist": "none"},
            metadata_errors="replace",
        )
    except av.MemoryError as exc:
        # FFmpeg allocates tables of the size that a header has; a payload of some megabytes needs none of that size.
        raise UnprocessableMediaError(
            f"the {modality}'s container claims more than is allowed", modality=modality
        ) from exc


__all__ = ["DEMUXERS", "can_seek", "open_container", "payload_file"]
