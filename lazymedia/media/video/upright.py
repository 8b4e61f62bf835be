"""How large the frames of a video will be once they are upright, by its container."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lazymedia.media.mp4_tables import display_matrix
from lazymedia.media.video.frames import rotation_by

if TYPE_CHECKING:
    from lazymedia.media.video.container import Opened

_CLUSTER: Final = b"\x1f\x43\xb6\x75"
"""Where the headers of a Matroska file end and its packets begin (RFC 9559, 5.1.3)."""

_TRACKS: Final = b"\x16\x54\xae\x6b"
"""Where the tracks are described; what looks like a cluster before them is padding (RFC 9559, 5.1.4)."""

_PROJECTION, _ROLL = b"\x76\x70", b"\x76\x75"
"""Projection, and the ProjectionPoseRoll within one, by which Matroska turns a video (RFC 9559, 5.1.4.1.28.41 and 46).
"""

_EXIF: Final = b"Exif\0\0"
"""How EXIF begins within a JPEG."""


def shown_size(data: bytes, opened: Opened) -> tuple[int, int] | None:
    """Width and height in pixels of the frames that a decode will give; None where the container does not say.

    A turn that the stream alone knows of (a supplemental message of H.264 or HEVC) is not seen, and a container that
    lies about the size of a stream whose packets have another (VP8) is believed.
    """
    codec = opened.stream.codec_context
    if not codec.width or not codec.height:
        return None
    if opened.codec == "mjpeg" and _EXIF in data:
        return None  # FFmpeg turns each picture by its own EXIF
    if opened.kind == "matroska" and _may_roll(data):
        return None
    if opened.kind != "mov":
        return codec.width, codec.height
    matrix = display_matrix(data, opened.stream.id)
    return None if matrix is None else rotation_by(matrix).size(codec.width, codec.height)


def _may_roll(data: bytes) -> bool:
    """Whether a Matroska turns its video; or holds, one behind the other, bytes that look alike."""
    head = data[: data.find(_CLUSTER, data.find(_TRACKS))]
    projection = head.find(_PROJECTION)
    return projection >= 0 and _ROLL in head[projection:]


__all__ = ["shown_size"]
