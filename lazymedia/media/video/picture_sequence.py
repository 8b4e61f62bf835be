"""A video whose payload is of a format for pictures: an animated WebP, or a still WebP or AVIF as its only frame.

An animated AVIF is not one of these: FFmpeg reads it. Every frame of a WebP is laid over those before it. So all up to
the last wanted one are decoded, and the wanted ones alone converted.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from lazymedia.errors import UnprocessableMediaError
from lazymedia.media import formats
from lazymedia.media.cancellation import checkpoint
from lazymedia.media.image import ImageMediaIO, header, webp
from lazymedia.media.image.items import boxes
from lazymedia.media.video.errors import payload_errors, rejection
from lazymedia.media.video.metadata import VideoMetadata
from lazymedia.media.video.sampling import Clip
from lazymedia.media.video.webp_chunks import AnimationHeader, read_animation
from lazymedia.media.video.work import Work

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy import typing as npt

    from lazymedia.limits import Limits

    Choice = Callable[[Clip], list[int]]
    Pixels = npt.NDArray[np.uint8]

BACKEND: Final = "pillow"
"""What decodes all of these, whatever backend is asked for."""

_STILL: Final = Clip([0.0], 0.0, 0.0)


def is_pictures(data: bytes, limits: Limits) -> bool:
    """Whether a payload is one of these. An AVIF that holds a track is not: it is read as any MP4."""
    if formats.WEBP.matches(data):
        return True
    try:
        return formats.AVIF.matches(data) and all(kind != b"moov" for kind, _ in boxes(data, (0, len(data)), limits))
    except UnprocessableMediaError:  # too many boxes, which the container's reader reports
        return False


def check(data: bytes, limits: Limits, wanted: int | None) -> int | None:
    """Check the header against the limits; the bytes that at most ``wanted`` frames take, where it is known.

    Raises:
        UnprocessableMediaError: Too large a canvas or picture, too many chunks, or too long.
    """
    animation = _read_animation(data, limits)
    if animation is None:
        size = _still_size(data, limits)
        return None if size is None else size[0] * size[1] * 3
    return None if wanted is None else min(wanted, len(animation.durations)) * animation.width * animation.height * 3


def decode(data: bytes, choose: Choice, limits: Limits) -> tuple[Pixels, VideoMetadata]:
    """The frames that ``choose`` takes.

    A frame that cannot be decoded ends the video; those before it are returned.

    Raises:
        UnprocessableMediaError: No frame can be decoded, or over a limit.
        DecodeStopped: The request was cancelled; noticed between frames.
    """
    animation = _read_animation(data, limits)
    if animation is None:
        clip = _STILL
        frames, loaded = _decode_still(data, choose(clip), limits)
    else:
        clip = _clip(animation)
        frames, loaded = _decode_animation(data, animation, choose(clip), limits)
    return frames, _metadata(clip, loaded, (frames.shape[2], frames.shape[1]))


def probe(data: bytes, choose: Choice, limits: Limits) -> VideoMetadata | None:
    """The metadata that `decode` returns unless a frame is damaged, from headers alone. None where they cannot be read.

    Raises:
        UnprocessableMediaError: As `check`; no frame, or more frames are wanted than are allowed.
    """
    animation = _read_animation(data, limits)
    if animation is not None:
        clip = _clip(animation)
        indices = choose(clip)
        _check_work(data, animation, indices, limits)
        return _metadata(clip, indices, _oriented_size(animation, _orientation(data, limits)))
    size = _still_size(data, limits)
    return None if size is None else _metadata(_STILL, choose(_STILL), size)


def _metadata(clip: Clip, indices: list[int], size: tuple[int, int]) -> VideoMetadata:
    return VideoMetadata(
        total_num_frames=clip.total,
        fps=clip.fps,
        duration=clip.duration,
        frames_indices=indices,
        timestamps=[clip.times[index] for index in indices],
        width=size[0],
        height=size[1],
        video_backend=BACKEND,
        do_sample_frames=indices == list(range(clip.total)),
    )


def _read_animation(data: bytes, limits: Limits) -> AnimationHeader | None:
    animation = read_animation(data, limits) if formats.WEBP.matches(data) else None
    if animation is not None and sum(animation.durations) > limits.max_video_seconds * 1000:
        raise rejection(f"a video may last {limits.max_video_seconds:g} seconds at most")
    return animation


def _clip(animation: AnimationHeader) -> Clip:
    if not animation.durations:
        raise rejection("the video holds no frame that can be read")
    *starts, end = (time / 1000 for time in accumulate(animation.durations, initial=0))
    return Clip(starts, len(starts) / end, end)


def _decode_animation(
    data: bytes, animation: AnimationHeader, indices: list[int], limits: Limits
) -> tuple[Pixels, list[int]]:
    """The frames at ascending indices, of which some may repeat, and the indices of those that could be decoded."""
    import numpy as np

    _check_work(data, animation, indices, limits)
    _check_memory(len(indices), animation.width * animation.height, limits)
    orientation = _orientation(data, limits)
    width, height = _oriented_size(animation, orientation)
    with payload_errors("the video cannot be decoded"):
        decoder = webp.Animation(animation.intact(data), (animation.width, animation.height), orientation)
    frames = np.empty((len(indices), height, width, 3), np.uint8)
    reached = -1
    for position, index in enumerate(indices):
        if index == reached:
            frames[position] = frames[position - 1]
            continue
        try:
            for _ in range(reached, index):
                checkpoint()
                decoder.advance()
        except OSError as exc:
            if position == 0:
                raise rejection("no frame of the video can be decoded") from exc
            return frames[:position], indices[:position]
        decoder.write(frames[position])
        reached = index
    return frames, indices


def _check_work(data: bytes, animation: AnimationHeader, indices: list[int], limits: Limits) -> None:
    """Every frame up to the last wanted one is decoded, and for each the whole canvas is copied."""
    pixels = animation.width * animation.height
    work = Work("webp", pixels, wanted=len(set(indices)), payload_bytes=len(data), limits=limits)
    work.add(indices[-1] + 1)


def _orientation(data: bytes, limits: Limits) -> int:
    canvas = webp.read_header(data, limits)
    return 1 if canvas is None else canvas.find_orientation(data)


def _oriented_size(animation: AnimationHeader, orientation: int) -> tuple[int, int]:
    return (animation.height, animation.width) if orientation >= 5 else (animation.width, animation.height)


def _still_size(data: bytes, limits: Limits) -> tuple[int, int] | None:
    """Width and height of a still once its orientation is applied; None where its header cannot be read."""
    try:
        _, found = header.read_header(data, _as_picture(limits))
    except UnprocessableMediaError as exc:
        raise rejection(f"the only frame of the video: {exc}") from exc
    if found is None:
        return None
    return found.describe(data).upright_size


def _decode_still(data: bytes, indices: list[int], limits: Limits) -> tuple[Pixels, list[int]]:
    import numpy as np

    try:
        pixels = np.asarray(ImageMediaIO("RGB", output="array", limits=_as_picture(limits)).load_bytes(data))
    except UnprocessableMediaError as exc:
        raise rejection(f"the only frame of the video: {exc}") from exc
    _check_memory(len(indices), pixels.shape[0] * pixels.shape[1], limits)
    return np.stack([pixels] * len(indices)), indices


def _as_picture(limits: Limits) -> Limits:
    return replace(
        limits,
        image_formats=("WEBP", "AVIF"),
        max_image_pixels=min(limits.max_image_pixels, limits.max_video_frame_pixels),
    )


def _check_memory(count: int, pixels: int, limits: Limits) -> None:
    if count * pixels * 3 > limits.max_request_decoded_bytes:
        raise rejection(
            f"the frames of the video take {count * pixels * 3} bytes; {limits.max_request_decoded_bytes} are allowed"
        )


__all__ = ["BACKEND", "check", "decode", "is_pictures", "probe"]
