"""Samples that callers hand in: which axis is which, and what their numbers mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from lazymedia.errors import UnprocessableMediaError
from lazymedia.foreign import is_tensor
from lazymedia.media.audio.bounds import check_range

if TYPE_CHECKING:
    from lazymedia.limits import Limits
    from lazymedia.media.audio.samples import Samples

_INTEGERS: Final = {"uint8": (128, 2.0**-7), "int8": (0, 2.0**-7), "int16": (0, 2.0**-15), "int32": (0, 2.0**-31)}
"""What brings PCM within ±1: the middle that is taken off, and the factor. Wider integers are no PCM that is sent."""

_FLOATS: Final = {"float16", "bfloat16", "float32", "float64"}


def channel_axis(shape: Sequence[int]) -> int | None:
    """Which of two axes holds the channels, 0 or 1: the shorter. None where there is one axis.

    Raises:
        TypeError: Another number of axes, or two of one length above 1.
    """
    if len(shape) == 1:
        return None
    if len(shape) != 2:
        raise TypeError(f"an array or tensor of shape {tuple(shape)} is no audio: expected one or two axes")
    rows, columns = shape
    if rows == columns and rows != 1:
        raise TypeError(f"of shape {tuple(shape)} neither axis is clearly that of the channels")
    if 0 in {rows, columns}:
        return 0 if columns == 0 else 1
    return 0 if rows <= columns else 1


def as_stored(value: Any, index: int) -> Any:
    """The samples as they are hashed and kept: the caller's own array, or a list's numbers as float32.

    Raises:
        TypeError: Axes or numbers that are no audio. The caller's fault.
        UnprocessableMediaError: A whole number that no float holds.
    """
    if isinstance(value, list):
        import numpy as np

        try:
            with np.errstate(over="ignore"):
                return np.asarray(value, np.float32)
        except OverflowError as exc:  # a whole number beyond what any float holds
            raise UnprocessableMediaError(
                f"audio at index {index} holds samples that are no finite numbers", modality="audio"
            ) from exc
    channel_axis(value.shape)
    dtype = _dtype(value)
    if dtype not in _FLOATS and dtype not in _INTEGERS:
        raise TypeError(f"audio at index {index} holds {dtype}; expected floats, int8, int16, int32 or uint8")
    return value


def to_floats(array: Any, limits: Limits) -> Samples:
    """Samples as float32, (N,) or (channels, N), within ±1 where they are PCM.

    Raises:
        UnprocessableMediaError: NaN, an infinity (also a float64 beyond the range of float32), or more than
            `Limits.max_audio_amplitude`.
    """
    import numpy as np

    dtype = _dtype(array)
    if is_tensor(array):
        array = (array.float() if dtype == "bfloat16" else array).detach().cpu().numpy()
    axis = channel_axis(array.shape)
    if axis is not None:
        array = array if axis == 0 else array.T
        array = array[0] if len(array) == 1 else array
    with np.errstate(over="ignore"):  # float64 may hold what float32 does not; the check below finds it
        samples: Samples = array.astype(np.float32, copy=False)
    if dtype in _INTEGERS:
        middle, scale = _INTEGERS[dtype]
        samples = (samples - np.float32(middle)) * np.float32(scale)
    check_range(samples, limits)
    return samples


def _dtype(array: Any) -> str:
    return str(array.dtype).removeprefix("torch.")


__all__ = ["as_stored", "channel_axis", "to_floats"]
