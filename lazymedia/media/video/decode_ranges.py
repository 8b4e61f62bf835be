"""Which packets have to be decoded for the frames that are wanted.

Each range begins at a key frame, and a new one begins where that leaves packets out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lazymedia.media.video.index import PacketIndex


@dataclass(frozen=True, slots=True)
class DecodeRange:
    """Positions to decode, the last included, and the position of every frame index in it that is wanted."""

    start: int
    stop: int
    wanted: Mapping[int, int]


def plan(index: PacketIndex, frame_indices: Sequence[int], *, before: int = 0) -> list[DecodeRange]:
    """The ranges that yield these frames, in stored order.

    Args:
        index: Of the whole video.
        frame_indices: The wanted frames, each once.
        before: Begin that many key frames earlier than needed.
    """
    if not index.timed:
        # Whatever is shown later may be stored earlier: only counting from the first shows.
        return [DecodeRange(0, index.packets - 1, {})]
    if index.gradual:
        before += 1  # one refresh is complete where the next begins; FFmpeg 8.1 outputs frames before that
    needs = sorted(
        (index.entry(frame_index, before=before), index.positions[frame_index], frame_index)
        for frame_index in frame_indices
    )
    ranges: list[DecodeRange] = []
    for entry, position, frame_index in needs:
        last = ranges[-1] if ranges else None
        if last is not None and entry <= last.stop + 1:
            ranges[-1] = DecodeRange(last.start, max(last.stop, position), {**last.wanted, position: frame_index})
        else:
            ranges.append(DecodeRange(entry, max(entry, position), {position: frame_index}))
    return ranges


class Parts:
    """Parts of a decode that nobody has begun yet. Any number of threads may take them at once, each the next one when
    it is done with its last.
    """

    def __init__(self, parts: Sequence[list[DecodeRange]]) -> None:
        self._left = deque(parts)

    def __iter__(self) -> Iterator[list[DecodeRange]]:
        while True:
            try:
                yield self._left.popleft()
            except IndexError:
                return


def shares(ranges: list[DecodeRange], number: int) -> list[list[DecodeRange]]:
    """The ranges in at most so many runs, of about as many packets each."""
    walk = sum(decode_range.stop - decode_range.start + 1 for decode_range in ranges)
    parts: list[list[DecodeRange]] = [[]]
    begun = 0
    for decode_range in ranges:
        if parts[-1] and begun >= walk * len(parts) / number:
            parts.append([])
        parts[-1].append(decode_range)
        begun += decode_range.stop - decode_range.start + 1
    return parts


__all__ = ["DecodeRange", "Parts", "plan", "shares"]
