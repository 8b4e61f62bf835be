"""Arithmetic on blocks of samples, the same whichever library decoded them.

Comes in: blocks of float32 (channels, N). Goes out: mono, and one array out of many blocks. Never here: a library that
decodes, or a limit.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

Samples: TypeAlias = npt.NDArray[np.float32]

BLOCK: Final = 1 << 16
"""Samples per channel that are decoded, mixed or resampled in one go: about a second, and a millisecond of work."""

_STEP: Final = 1 << 20
"""Samples by which a `Collector` grows: 4 MiB, and no more than that is ever held in vain."""

_ROOM: Final = 64 * _STEP
"""Samples that a `Collector` has room for at first, where it may come to hold as many: 256 MiB of addresses. Memory
that is never written to costs nothing, whereas growing NumPy's large arrays may copy them once.
"""

_SCALES: Final = {"uint8": 2.0**-7, "int16": 2.0**-15, "int32": 2.0**-31, "int64": 2.0**-63}
"""What turns an integer sample into one within ±1; the powers of two that libsndfile uses."""


def to_floats(block: npt.NDArray[Any]) -> Samples:
    """Samples of any type that FFmpeg has, as float32; integers within ±1. For float32 the very same array."""
    floats: Samples = block.astype(np.float32, copy=False)
    scale = _SCALES.get(block.dtype.name)
    if scale is None:
        return floats
    if block.dtype == np.uint8:
        floats -= np.float32(128)
    floats *= np.float32(scale)
    return floats


def to_mono(block: Samples) -> Samples:
    """The mean of the channels of (channels, N), as (N,). For one channel a view.

    Channels are added one after the other: NumPy's ``mean(axis=...)`` over interleaved stereo takes seventeen times as
    long. Of two channels this is ``0.5 * (left + right)``, which is exact for integer PCM of up to 23 bits. FFmpeg's
    own mix to mono is not used anywhere: it scales and is louder.
    """
    if len(block) == 1:
        only: Samples = block[0]
        return only
    mixed: Samples = block[0] + block[1]
    for channel in block[2:]:
        mixed += channel
    mixed /= np.float32(len(block))
    return mixed


class Collector:
    """Blocks put together in place, so that memory peaks at the result and 4 MiB, whatever length was promised.

    Args:
        most: Samples that it may come to hold, as a limit tells; more grow it.
    """

    def __init__(self, most: float = _ROOM) -> None:
        self._held: Samples = np.empty(max(int(min(most, _ROOM)), 0), np.float32)
        self._length = 0

    def append(self, block: Samples) -> None:
        """Copy (N,) behind what is there."""
        end = self._length + len(block)
        if end > len(self._held):
            # No view of the array is ever handed out, so that nothing can see it move.
            self._held.resize(-(-end // _STEP) * _STEP, refcheck=False)
        self._held[self._length : end] = block
        self._length = end

    def finish(self) -> Samples:
        """All of it, as (N,). The collector is empty afterwards."""
        done, self._held = self._held, np.empty(0, np.float32)
        done.resize(self._length, refcheck=False)
        self._length = 0
        return done


__all__ = ["BLOCK", "Collector", "Samples", "to_floats", "to_mono"]
