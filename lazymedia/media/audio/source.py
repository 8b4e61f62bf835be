"""An open clip as every library presents it, and what is known of its damage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy.typing as npt

_JITTER: Final = 200
"""A gap between time stamps counts from 1/200 s on. Matroska, FLV and AVI round to 1 ms; the shortest packet in common
use, of Opus, lasts 20 ms."""


@dataclass(slots=True)
class Losses:
    """What a decode found missing so far.

    Attributes:
        samples: Per channel, at least so many.
        errors: Places where the decoder or the demuxer reported an error, or where the payload ends too early.
    """

    samples: int = 0
    errors: int = 0

    def at_least(self, samples: int) -> None:
        """Raise `samples` to a number that another way of counting found."""
        self.samples = max(self.samples, samples)


class NoSamplesError(Exception):
    """A header that could be read, and no frame behind it that decodes."""


class Clock:
    """Counts the samples that time stamps show to be missing between frames, for containers that declare no length.

    Where one is declared, the difference to it is certain, and time stamps are not: FFmpeg's of Vorbis jump by a block
    at the end of a page.

    Args:
        losses: They are added to this.
        most: Samples; a longer jump is a new time line, as behind a joint, and counts for nothing.
    """

    def __init__(self, losses: Losses, most: float) -> None:
        self._losses = losses
        self._most = most
        self._expected: tuple[int, int] | None = None

    def add(self, frame: Any) -> None:
        """The next frame of PyAV's."""
        tick, rate, pts = frame.time_base, frame.sample_rate, frame.pts
        if pts is None or tick is None:
            self._expected = None
            return
        # In units of 1 / (rate * denominator) seconds, so that all numbers are whole.
        unit, start = tick.denominator, pts * tick.numerator * rate
        if self._expected is not None and self._expected[1] == unit:
            gap = start - self._expected[0]
            if gap > tick.numerator * rate + unit * rate // _JITTER and gap <= self._most * unit:
                self._losses.samples += gap // unit
        self._expected = start + frame.samples * unit, unit


@dataclass(frozen=True, slots=True)
class Source:
    """A clip that is being decoded.

    Attributes:
        rate: Hz, of the samples that come out.
        channels: Of every block.
        blocks: (channels, N) each, N as the decoder likes; of the type in which the samples are stored, see `to_mono`.
            A block is valid until the next one is requested.
        losses: Complete when `blocks` has ended.
    """

    rate: int
    channels: int
    blocks: Iterator[npt.NDArray[Any]]
    losses: Losses = field(default_factory=Losses)


__all__ = ["Clock", "Losses", "NoSamplesError", "Source"]
