"""A video that comes as pictures: ``data:video/jpeg;base64,`` and JPEGs, separated by commas. The sender has chosen the
frames.
"""

from __future__ import annotations

import binascii
import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pybase64

from lazymedia.errors import UnprocessableMediaError
from lazymedia.media.cancellation import checkpoint
from lazymedia.media.image import ImageMediaIO
from lazymedia.media.spec import DecodeSpec
from lazymedia.media.video.errors import rejection
from lazymedia.media.video.metadata import VideoMetadata

if TYPE_CHECKING:
    import numpy as np
    from numpy import typing as npt

    from lazymedia.limits import Limits

MEDIA_TYPE: Final = "video/jpeg"
SPEC: Final = DecodeSpec({"video_backend": "jpeg_sequence"})
"""Of every such video: it has no options."""

FPS: Final = 1.0
"""Frames per second, as in vLLM."""

_LENGTH: Final = struct.Struct("<Q")


def pack(text: str, limits: Limits) -> bytes:
    """One payload out of pictures in base64: each picture's bytes behind their number.

    Raises:
        UnprocessableMediaError: More pictures than `Limits.max_video_frames`, an empty one, or no base64.
    """
    count = text.count(",") + 1
    if count > limits.max_video_frames:
        raise rejection(f"{count} frames of a video are sent; {limits.max_video_frames} are allowed")
    parts: list[bytes] = []
    for number, part in enumerate(text.split(",")):
        try:
            # A data URL's padding may be missing, and here each part has one of its own.
            picture = pybase64.b64decode(part if "=" in part else part + "=" * (-len(part) % 4), validate=True)
        except (binascii.Error, ValueError) as exc:
            raise rejection(f"frame {number} of the video is not valid base64") from exc
        if not picture:
            raise rejection(f"frame {number} of the video is empty")
        parts += (_LENGTH.pack(len(picture)), picture)
    return b"".join(parts)


def decode(data: bytes, limits: Limits) -> tuple[npt.NDArray[np.uint8], VideoMetadata]:
    """All frames of what `pack` packed.

    Raises:
        UnprocessableMediaError: A picture that is no JPEG, does not decode, is too large, or has another size than the
            first; more memory in all than is allowed.
        DecodeStopped: The request was cancelled.
    """
    import numpy as np

    pictures = list(_unpack(data))
    io = ImageMediaIO(
        "RGB",
        output="array",
        limits=replace(
            limits,
            image_formats=("JPEG",),
            max_image_pixels=min(limits.max_image_pixels, limits.max_video_frame_pixels),
        ),
    )
    frames: npt.NDArray[np.uint8] | None = None
    for number, picture in enumerate(pictures):
        checkpoint()
        try:
            pixels = np.asarray(io.load_bytes(picture))
        except UnprocessableMediaError as exc:
            raise rejection(f"frame {number} of the video: {exc}") from exc
        if frames is None:
            if len(pictures) * pixels.nbytes > limits.max_request_decoded_bytes:
                raise rejection("the frames of the video take more memory than is allowed")
            frames = np.empty((len(pictures), *pixels.shape), dtype=np.uint8)
        if pixels.shape != frames.shape[1:]:
            raise rejection("the frames of the video differ in size")
        frames[number] = pixels
    assert frames is not None  # pack made one part at least
    count, height, width, _ = frames.shape
    return frames, VideoMetadata(
        total_num_frames=count,
        fps=FPS,
        duration=count / FPS,
        frames_indices=list(range(count)),
        timestamps=[number / FPS for number in range(count)],
        width=width,
        height=height,
        video_backend="jpeg_sequence",
        do_sample_frames=False,
    )


def _unpack(data: bytes) -> Iterator[bytes]:
    position = 0
    while position < len(data):
        (length,) = _LENGTH.unpack_from(data, position)
        position += _LENGTH.size
        yield data[position : position + length]
        position += length


__all__ = ["FPS", "MEDIA_TYPE", "SPEC", "decode", "pack"]
