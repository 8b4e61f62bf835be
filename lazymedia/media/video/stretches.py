"""Which packets have to be decoded for the frames that are wanted.

Comes in: a packet index and ranks. Goes out: stretches of positions. Never here: a packet.

Each stretch begins at a key frame, and a new one begins where that leaves packets out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lazymedia.media.video.index import PacketIndex


@dataclass(frozen=True, slots=True)
class Stretch:
    """Positions to decode, the last included, and the position of every rank in it that is wanted."""

    start: int
    stop: int
    wanted: Mapping[int, int]


def plan(index: PacketIndex, ranks: Sequence[int], *, before: int = 0) -> list[Stretch]:
    """The stretches that yield these frames, in stored order.

    Args:
        index: Of the whole video.
        ranks: The wanted frames, each once.
        before: Begin that many key frames earlier than needed.
    """
    if not index.timed:
        # Whatever is shown later may be stored earlier: only counting from the first tells.
        return [Stretch(0, index.packets - 1, {})]
    needs = sorted((index.entry(rank, before=before), index.positions[rank], rank) for rank in ranks)
    stretches: list[Stretch] = []
    for entry, position, rank in needs:
        last = stretches[-1] if stretches else None
        if last is not None and entry <= last.stop + 1:
            stretches[-1] = Stretch(last.start, max(last.stop, position), {**last.wanted, position: rank})
        else:
            stretches.append(Stretch(entry, max(entry, position), {position: rank}))
    return stretches


class Parts:
    """Parts of a decode that nobody has begun yet. Any number of threads may take them at once, each the next one when
    it is done with its last.
    """

    def __init__(self, parts: Sequence[list[Stretch]]) -> None:
        self._left = deque(parts)

    def __iter__(self) -> Iterator[list[Stretch]]:
        while True:
            try:
                yield self._left.popleft()
            except IndexError:
                return


def shares(stretches: list[Stretch], number: int) -> list[list[Stretch]]:
    """The stretches in at most so many runs, of about as many packets each."""
    walk = sum(stretch.stop - stretch.start + 1 for stretch in stretches)
    parts: list[list[Stretch]] = [[]]
    begun = 0
    for stretch in stretches:
        if parts[-1] and begun >= walk * len(parts) / number:
            parts.append([])
        parts[-1].append(stretch)
        begun += stretch.stop - stretch.start + 1
    return parts


__all__ = ["Parts", "Stretch", "plan", "shares"]
