"""The array that a decode fills, frame by frame, in whatever order frames come."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lazymedia.media.video.errors import rejection
from lazymedia.media.video.frames import Converter, Pixels, Rotation, rotation_of

if TYPE_CHECKING:
    from av.video.frame import VideoFrame

    from lazymedia.limits import Limits
    from lazymedia.media.video.index import PacketIndex
    from lazymedia.media.video.work import Work


class FrameSink:
    """The frames taken so far, each at every place where its frame index is wanted. Only wanted frames are converted.

    Several threads may offer frames at once, each those of its own decoder.

    Attributes:
        fault: The last exception of a decoder, for the case that nothing can be taken.
        work: What may still be decoded for these frames.
    """

    def __init__(self, index: PacketIndex, frame_indices: Sequence[int], limits: Limits, work: Work) -> None:
        self.work = work
        self._index = index
        self._limits = limits
        self._places: dict[int, list[int]] = {}
        self._frame_indices = frame_indices
        self._present = [False] * len(frame_indices)
        self._pixels: Pixels | None = None
        self._stored: tuple[int, int] = (0, 0)
        self._lock = threading.Lock()
        self._counted = 0
        self.fault: Exception | None = None
        self.give_back(frame_indices)

    @property
    def missing(self) -> list[int]:
        """Frame indices that are wanted and not taken."""
        with self._lock:
            return sorted(self._places)

    def lacks(self, frame_indices: Collection[int]) -> bool:
        """Whether any of these is not taken yet; of none, any at all. What other threads take does not count."""
        with self._lock:
            return (
                any(frame_index in self._places for frame_index in frame_indices)
                if frame_indices
                else bool(self._places)
            )

    def give_back(self, frame_indices: Iterable[int]) -> None:
        """Want these again, as if none had been taken."""
        wanted = set(frame_indices)
        with self._lock:
            self._places |= {frame_index: [] for frame_index in wanted}
            for place, frame_index in enumerate(self._frame_indices):
                if frame_index in wanted:
                    self._places[frame_index].append(place)
                    self._present[place] = False

    def offer(self, frame: VideoFrame, converter: Converter) -> None:
        """Take a frame if it is wanted."""
        if self._index.timed:
            frame_index = self._index.frame_at(frame.pts)
        else:
            frame_index, self._counted = self._counted, self._counted + 1
        if frame_index is None or frame_index not in self._places or frame.is_corrupt:
            return
        rotation = rotation_of(frame)  # of each its own: whose comes first is not certain where threads decode
        with self._lock:
            if self._pixels is None:
                self._pixels = self._room_for(frame, rotation)
            first, *others = self._places.pop(frame_index)
        stored, upright = (frame.width, frame.height), rotation.size(frame.width, frame.height)
        if stored != self._stored or upright != self._pixels.shape[2:0:-1]:
            raise rejection("the size of the video's frames changes in its middle")
        converter.write_rgb(frame, rotation, self._pixels[first])
        self._present[first] = True
        for place in others:
            self._pixels[place] = self._pixels[first]
            self._present[place] = True

    def finish(self) -> tuple[Pixels, list[int]]:
        """The pixels that are there, and the frame index of each.

        Raises:
            UnprocessableMediaError: None are.
        """
        if self._pixels is None:
            raise rejection("no frame of the video can be decoded") from self.fault
        frame_indices = [frame_index for frame_index, present in zip(self._frame_indices, self._present) if present]
        return (self._pixels[self._present] if self._places else self._pixels), frame_indices

    def _room_for(self, frame: VideoFrame, rotation: Rotation) -> Pixels:
        self._stored = (frame.width, frame.height)
        width, height = rotation.size(frame.width, frame.height)
        size = len(self._frame_indices) * height * width * 3
        if size > self._limits.max_request_decoded_bytes:
            raise rejection(
                f"the frames of the video take {size} bytes; {self._limits.max_request_decoded_bytes} are allowed"
            )
        return np.empty((len(self._frame_indices), height, width, 3), dtype=np.uint8)


__all__ = ["FrameSink"]
