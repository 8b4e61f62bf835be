"""What the decode of a video may cost, compared before it begins.

A decoder has to decode every frame from a key frame to the wanted one. Frames in which nothing moves take some tens of
bytes and cost as much as any other, so that the size of a payload bounds nothing. What is allowed depends on the frames
that are wanted and on the bytes that were sent; see the limits ``max_video_walk_*``.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from lazymedia.media.video.errors import rejection

if TYPE_CHECKING:
    from lazymedia.limits import Limits

_COSTS: Final = {"vp8": 1.5, "vp9": 1.5, "gif": 4.0, "webp": 8.0}
"""How many times as much as a pixel of H.264 one of another decoder costs: nanoseconds of frames that do not change,
4096 x 2176, one thread, measured with PyAV 18.1 and Pillow 13. H.264 takes 0.6 to 1.0, HEVC 0.8 to 1.1, AV1 0.6, MPEG-4
0.7, VP8 1.3, VP9 1.3 to 1.5, a GIF up to 3.7 and a WebP, whose canvas is copied for each frame, 2.1 to 7.9."""

_LEAST: Final = 1 << 15
"""Pixels that a frame counts at least: a packet costs some 20 microseconds however small its frame is."""


class Work:
    """The decoding that was planned so far, and what is allowed. Several threads may use it at once.

    Args:
        codec: FFmpeg's name of the decoder; "webp" for Pillow's.
        pixels: Width x height of a frame, by the header.
        wanted: Frames that are wanted, each counted once.
        payload_bytes: Bytes of the payload.
        limits: The limits ``max_video_walk_*`` apply.
    """

    def __init__(self, codec: str, pixels: int, *, wanted: int, payload_bytes: int, limits: Limits) -> None:
        self._cost = _COSTS.get(codec, 1.0)
        self._pixels = max(pixels, _LEAST)
        self._wanted = wanted
        self._payload_bytes = payload_bytes
        self._limits = limits
        self._frames = 0
        self._besides = 0.0
        self._lock = threading.Lock()

    def add(self, frames: int) -> None:
        """Count frames that are about to be decoded.

        Raises:
            UnprocessableMediaError: More frames, or more pixels, than are allowed.
        """
        with self._lock:
            self._frames += frames
            self._check()

    def add_slices(self, pictures: float) -> None:
        """Count what a packet decodes besides one picture, in pictures.

        Raises:
            UnprocessableMediaError: More pixels than are allowed.
        """
        if pictures > 0:
            with self._lock:
                self._besides += pictures
                self._check()

    def has_room(self, frames: int) -> bool:
        """Whether so many more frames are allowed."""
        with self._lock:
            frames += self._frames
            return frames <= self._limits.max_video_walk_frames and self._planned(frames) <= self._allowed

    def resize(self, pixels: int) -> None:
        """Frames turn out to have so many pixels. Those that were counted before are counted again where it is more.

        Raises:
            UnprocessableMediaError: More pixels than are allowed.
        """
        if pixels <= self._pixels:
            return
        with self._lock:
            self._pixels = max(self._pixels, pixels)
            self._check()

    @property
    def _allowed(self) -> int:
        limits = self._limits
        return (
            limits.max_video_walk_pixels
            + limits.max_video_walk_pixels_per_byte * self._payload_bytes
            + limits.max_video_walk_pixels_per_pixel * self._wanted * self._pixels
        )

    def _planned(self, frames: int) -> int:
        return round((frames + self._besides) * self._pixels * self._cost)

    def _check(self) -> None:
        if self._frames > self._limits.max_video_walk_frames:
            raise rejection(
                f"{self._frames} frames would have to be decoded for those that are wanted;"
                f" {self._limits.max_video_walk_frames} are allowed"
            )
        planned, allowed = self._planned(self._frames), self._allowed
        if planned > allowed:
            slices = f" and slices for {self._besides:.0f} more" if self._besides else ""
            raise rejection(
                f"{self._frames} frames{slices} would have to be decoded for the {self._wanted} that are wanted,"
                f" {planned // 1_000_000} megapixels; {allowed // 1_000_000} are allowed for a payload of this size"
            )


__all__ = ["Work"]
