"""Arithmetic on blocks of samples, the same whichever library decoded them.

Comes in: blocks (channels, N) of any type. Goes out: mono, and one array out of many blocks. Never here: a library that
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


__all__ = ["BLOCK", "Collector", "Samples", "to_mono"]
