"""An open clip as every library presents it, and arithmetic on its blocks of samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
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


Samples: TypeAlias = npt.NDArray[np.float32]

BLOCK: Final = 1 << 16
"""Samples per channel that are decoded, mixed or resampled in one go: about a second, and a millisecond of work."""

_STEP: Final = 1 << 20
"""Samples by which a `Collector` grows: 4 MiB, and no more than that is ever held in vain."""

_ROOM: Final = 64 * _STEP
"""Samples that a `Collector` has room for at first, where it may come to hold as many: 256 MiB of addresses. Memory
that is never written to costs nothing, whereas growing NumPy's large arrays may copy them once.
"""

_INTEGERS: Final = {"uint8": (2.0**-7, 128), "int16": (2.0**-15, 0), "int32": (2.0**-31, 0), "int64": (2.0**-63, 0)}
"""What turns an integer sample into one within ±1, and which one is silence; as libsndfile has them."""


def to_mono(block: npt.NDArray[Any]) -> Samples:
    """The mean of the channels of (channels, N), as float32 (N,). Integers come out within ±1; of one channel of
    float32 this is a view.

    Channels are added one after the other: NumPy's ``mean(axis=...)`` over interleaved stereo takes seventeen times as
    long. Of two channels this is ``0.5 * (left + right)``, which is exact for integer PCM of up to 23 bits. FFmpeg's
    own mix to mono is not used anywhere: it scales and is louder.

    Finite floats may have a sum that is not: check the result, see `bounds.check_range`.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return _mean(block)


def _mean(block: npt.NDArray[Any]) -> Samples:
    channels, is_float = len(block), block.dtype.kind == "f"
    if channels == 1 and is_float:
        only: Samples = block[0].astype(np.float32, copy=False)
        return only
    scale, silence = (1.0, 0) if is_float else _INTEGERS[block.dtype.name]
    # Integers become floats on the way: as many passes over memory as floats take, and not one more.
    mixed: Samples = block[0].astype(np.float32) if channels == 1 else np.add(block[0], block[1], dtype=np.float32)
    for channel in block[2:]:
        np.add(mixed, channel, out=mixed, dtype=np.float32)
    if silence:
        mixed -= np.float32(silence * channels)
    if channels & (channels - 1) == 0:
        mixed *= np.float32(scale / channels)  # a power of two, which is exact
    else:
        mixed *= np.float32(scale)
        mixed /= np.float32(channels)
    return mixed


class Collector:
    """Blocks put together in place, so that memory peaks at the result and 4 MiB, whatever length was promised.

    Args:
        most: Samples that it may come to hold, by a limit; more grow it.
    """

    def __init__(self, most: float = _ROOM) -> None:
        self._held: Samples = np.empty(max(int(min(most, _ROOM)), 0), np.float32)
        self._length = 0

    def append(self, block: Samples) -> None:
        """Copy (N,) behind what is there."""
        end = self._length + len(block)
        if end > len(self._held):
            # No view of the array leaves this class, so it may move.
            self._held.resize(-(-end // _STEP) * _STEP, refcheck=False)
        self._held[self._length : end] = block
        self._length = end

    def finish(self) -> Samples:
        """All of it, as (N,). The collector is empty afterwards."""
        done, self._held = self._held, np.empty(0, np.float32)
        done.resize(self._length, refcheck=False)
        self._length = 0
        return done


__all__ = ["BLOCK", "Clock", "Collector", "Losses", "NoSamplesError", "Samples", "Source", "to_mono"]
