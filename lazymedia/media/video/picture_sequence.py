"""A video whose payload is of a format for pictures: an animated WebP, or a still WebP or AVIF as its only frame.

Comes in: such a payload, and a choice among its frames once their times are known. Goes out: the chosen frames and
metadata. Never here: a container that FFmpeg reads, the animated AVIF among them.

Every frame of a WebP is laid over those before it. So all up to the last wanted one are decoded, and the wanted ones
alone converted.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from lazymedia.errors import UnprocessableMediaError
from lazymedia.media import formats
from lazymedia.media.image import ImageMediaIO, header, webp
from lazymedia.media.image.items import boxes
from lazymedia.media.stopping import checkpoint
from lazymedia.media.video.faults import blamed_on_payload, refused
from lazymedia.media.video.metadata import VideoMetadata
from lazymedia.media.video.sampling import Clip
from lazymedia.media.video.webp_chunks import Film, film
from lazymedia.media.video.work import Work

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy import typing as npt

    from lazymedia.limits import Limits

    Choice = Callable[[Clip], list[int]]
    Pixels = npt.NDArray[np.uint8]

BACKEND: Final = "pillow"
"""What decodes all of these, whatever is asked for: nothing else can."""

_STILL: Final = Clip([0.0], 0.0, 0.0)


def is_pictures(data: bytes, limits: Limits) -> bool:
    """Whether a payload is one of these. An AVIF that holds a track is not: it is read as any MP4."""
    if formats.WEBP.matches(data):
        return True
    try:
        return formats.AVIF.matches(data) and all(kind != b"moov" for kind, _ in boxes(data, (0, len(data)), limits))
    except UnprocessableMediaError:  # too many boxes, which is for the container's reader to say
        return False


def check(data: bytes, limits: Limits, wanted: int | None) -> int | None:
    """Hold what the header tells against the limits; the bytes that at most ``wanted`` frames take, where it is known.

    Raises:
        UnprocessableMediaError: Too large a canvas or picture, too many chunks, or too long.
    """
    moving = _film(data, limits)
    if moving is None:
        size = _still_size(data, limits)
        return None if size is None else size[0] * size[1] * 3
    return None if wanted is None else min(wanted, len(moving.durations)) * moving.width * moving.height * 3


def decode(data: bytes, choose: Choice, limits: Limits) -> tuple[Pixels, VideoMetadata]:
    """The frames that ``choose`` takes.

    A frame that cannot be decoded ends the video: those before it stand.

    Raises:
        UnprocessableMediaError: No frame can be decoded, or over a limit.
        DecodeStopped: The request was cancelled; noticed between frames.
    """
    moving = _film(data, limits)
    if moving is None:
        clip = _STILL
        frames, loaded = _still(data, choose(clip), limits)
    else:
        clip = _clip(moving)
        frames, loaded = _moving(data, moving, choose(clip), limits)
    return frames, _metadata(clip, loaded, (frames.shape[2], frames.shape[1]))


def outline(data: bytes, choose: Choice, limits: Limits) -> VideoMetadata | None:
    """What `decode` will tell unless a frame cannot be decoded, read from headers alone. None where they are no good.

    Raises:
        UnprocessableMediaError: As `check`; no frame, or more frames are wanted than are allowed.
    """
    moving = _film(data, limits)
    if moving is not None:
        clip = _clip(moving)
        ranks = choose(clip)
        _check_work(data, moving, ranks, limits)
        return _metadata(clip, ranks, _upright(moving, _turn(data, limits)))
    size = _still_size(data, limits)
    return None if size is None else _metadata(_STILL, choose(_STILL), size)


def _metadata(clip: Clip, ranks: list[int], size: tuple[int, int]) -> VideoMetadata:
    return VideoMetadata(
        total_num_frames=clip.total,
        fps=clip.fps,
        duration=clip.duration,
        frames_indices=ranks,
        timestamps=[clip.times[rank] for rank in ranks],
        width=size[0],
        height=size[1],
        video_backend=BACKEND,
        do_sample_frames=ranks == list(range(clip.total)),
    )


def _film(data: bytes, limits: Limits) -> Film | None:
    moving = film(data, limits) if formats.WEBP.matches(data) else None
    if moving is not None and sum(moving.durations) > limits.max_video_seconds * 1000:
        raise refused(f"a video may last {limits.max_video_seconds:g} seconds at most")
    return moving


def _clip(moving: Film) -> Clip:
    if not moving.durations:
        raise refused("the video holds no frame that can be read")
    *starts, end = (time / 1000 for time in accumulate(moving.durations, initial=0))
    return Clip(starts, len(starts) / end, end)


def _moving(data: bytes, moving: Film, ranks: list[int], limits: Limits) -> tuple[Pixels, list[int]]:
    """The frames of ascending ranks, of which some may repeat, and the ranks of those that could be decoded."""
    import numpy as np

    _check_work(data, moving, ranks, limits)
    _check_memory(len(ranks), moving.width * moving.height, limits)
    turn = _turn(data, limits)
    across, down = _upright(moving, turn)
    with blamed_on_payload("the video cannot be decoded"):
        animation = webp.Animation(moving.whole(data), (moving.width, moving.height), turn)
    frames = np.empty((len(ranks), down, across, 3), np.uint8)
    reached = -1
    for place, rank in enumerate(ranks):
        if rank == reached:
            frames[place] = frames[place - 1]
            continue
        try:
            for _ in range(reached, rank):
                checkpoint()
                animation.advance()
        except OSError as exc:
            if place == 0:
                raise refused("no frame of the video can be decoded") from exc
            return frames[:place], ranks[:place]
        animation.write(frames[place])
        reached = rank
    return frames, ranks


def _check_work(data: bytes, moving: Film, ranks: list[int], limits: Limits) -> None:
    """Every frame up to the last wanted one is decoded, and for each the whole canvas is copied."""
    pixels = moving.width * moving.height
    work = Work("webp", pixels, wanted=len(set(ranks)), payload_bytes=len(data), limits=limits)
    work.add(ranks[-1] + 1)


def _turn(data: bytes, limits: Limits) -> int:
    canvas = webp.read_header(data, limits)
    return 1 if canvas is None else canvas.find_orientation(data)


def _upright(moving: Film, turn: int) -> tuple[int, int]:
    return (moving.height, moving.width) if turn >= 5 else (moving.width, moving.height)


def _still_size(data: bytes, limits: Limits) -> tuple[int, int] | None:
    """Width and height of a still once it is upright; None where its header cannot be read."""
    try:
        _, found = header.read_header(data, _as_picture(limits))
    except UnprocessableMediaError as exc:
        raise refused(f"the only frame of the video: {exc}") from exc
    if found is None:
        return None
    return found.describe(data).upright_size


def _still(data: bytes, ranks: list[int], limits: Limits) -> tuple[Pixels, list[int]]:
    import numpy as np

    try:
        pixels = np.asarray(ImageMediaIO("RGB", output="array", limits=_as_picture(limits)).load_bytes(data))
    except UnprocessableMediaError as exc:
        raise refused(f"the only frame of the video: {exc}") from exc
    _check_memory(len(ranks), pixels.shape[0] * pixels.shape[1], limits)
    return np.stack([pixels] * len(ranks)), ranks


def _as_picture(limits: Limits) -> Limits:
    return replace(
        limits,
        image_formats=("WEBP", "AVIF"),
        max_image_pixels=min(limits.max_image_pixels, limits.max_video_frame_pixels),
    )


def _check_memory(count: int, pixels: int, limits: Limits) -> None:
    if count * pixels * 3 > limits.max_request_decoded_bytes:
        raise refused(
            f"the frames of the video take {count * pixels * 3} bytes; {limits.max_request_decoded_bytes} are allowed"
        )


__all__ = ["BACKEND", "check", "decode", "is_pictures", "outline"]
