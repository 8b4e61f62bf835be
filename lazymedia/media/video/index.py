"""Where the frames of a video lie: which packet each is, and from which one on it can be decoded."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, eq=False)
class PacketIndex:
    """The packets of one video stream. A *position* counts packets as they are stored; a *frame index*
    counts frames as they are shown.

    Attributes:
        timed: Whether display times distinguish frames. Where not, frames are found by counting what is decoded, and no
            part of the video can be left out.
        pts: Display time of each frame shown, by frame index, in ticks. Just the frame indices where not timed.
        positions: Position of each frame shown, by frame index.
        key_pts: Display times of key frames, ascending.
        key_positions: Their positions.
        key_seeks: A time from which on the container finds each of them: decode time in MP4, display time elsewhere.
        packets: Packets in all, those of frames that are decoded and never shown among them.
        tick: Seconds of one tick.
        last_ticks: How long the last frame is shown.
        header_fps: The rate that the header claims; 0.0 for none.
        gradual: Whether a key frame refreshes the picture over several frames (H.264), so that frames after it depend
            on those before it.
        layered: Whether frames lie in temporal layers (HEVC), in which "not a reference" has another meaning.
        paired: Whether some frames are two packets, one for each field (H.264). Their position is the second one's.
        changes: Whether a packet on the way brings other parameters for the decoder, as where files were joined without
            a new encode. It comes through to those who read all packets only.
        hidden: Frames that are decoded besides one for each packet: VP9 and AV1 may store several in one.
    """

    timed: bool
    pts: array[int]
    positions: array[int]
    key_pts: array[int]
    key_positions: array[int]
    key_seeks: array[int]
    packets: int
    tick: float
    last_ticks: int
    header_fps: float
    layered: bool
    gradual: bool
    paired: bool
    changes: bool
    hidden: int = 0

    @property
    def total(self) -> int:
        """Frames shown."""
        return len(self.pts)

    @cached_property
    def duration(self) -> float:
        """Seconds from the first frame to the end of the last."""
        if not self.timed:
            return self.total / self.fps if self.fps else 0.0
        return (self.pts[-1] - self.pts[0] + self.last_ticks) * self.tick

    @cached_property
    def fps(self) -> float:
        """The header's rate where the frames bear it out within a twentieth, their mean otherwise."""
        if not self.timed:
            return self.header_fps
        mean = self.total / self.duration if self.duration > 0 else 0.0
        if mean == 0 or abs(self.header_fps - mean) <= mean / 20:
            return self.header_fps
        return mean

    @property
    def times(self) -> list[float]:
        """Seconds from the first frame, by frame index. Made anew each time: a cache holds no more than `nbytes`."""
        if not self.timed:
            return [frame_index / self.fps if self.fps else 0.0 for frame_index in range(self.total)]
        first = self.pts[0]
        return [(pts - first) * self.tick for pts in self.pts]

    @property
    def nbytes(self) -> int:
        """Bytes that this takes in a cache, about."""
        return 512 + 16 * len(self.pts) + 24 * len(self.key_pts)

    def frame_at(self, pts: int | None) -> int | None:
        """Which frame is shown at ``pts``; None for a time that no packet named."""
        if pts is None:
            return None
        frame_index = bisect_left(self.pts, pts)
        return frame_index if frame_index < self.total and self.pts[frame_index] == pts else None

    def entry(self, frame_index: int, *, before: int = 0) -> int:
        """The position at which decoding may begin so that the frame comes out right: that of the last key frame
        shown no later, or of one ``before`` it. The head where parameters change.
        """
        if not self.timed or self.changes:
            return 0
        key = bisect_right(self.key_pts, self.pts[frame_index]) - 1 - before
        return self.key_positions[key] if key >= 0 else 0

    def key_at(self, pts: int | None) -> int | None:
        """The position of the key frame shown at ``pts``; None where there is none, or more than one (of which edits
        show one).
        """
        if pts is None:
            return None
        key, behind = bisect_left(self.key_pts, pts), bisect_right(self.key_pts, pts)
        return self.key_positions[key] if behind == key + 1 else None

    def seek_times(self, position: int) -> tuple[int, ...]:
        """What to ask the container for, in this order, so that it lands on a key frame and not behind it.

        FFmpeg finds a key frame of an MP4 by its display time, but for files whose frames are shown later than the next
        key frame is decoded; by its decode time it lands a group of frames earlier, where an edit moves all times.
        """
        key = self._key(position)
        return () if key is None else tuple(dict.fromkeys((self.key_pts[key], self.key_seeks[key])))

    def key_time(self, position: int) -> int | None:
        """The display time of the key frame stored at ``position``; None where there is none."""
        key = self._key(position)
        return None if key is None else self.key_pts[key]

    def _key(self, position: int) -> int | None:
        key = bisect_left(self.key_positions, position)
        return key if key < len(self.key_positions) and self.key_positions[key] == position else None


__all__ = ["PacketIndex"]
