"""The limits on audio: on what a header says, and on the samples that come of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import Limits

if TYPE_CHECKING:
    import numpy.typing as npt

SAMPLE_BYTES = 4
"""Bytes of a sample as float32, which is what every limit on decoded bytes counts."""


def refused(message: str) -> UnprocessableMediaError:
    """The error for a clip that is at fault itself."""
    return UnprocessableMediaError(message, modality="audio")


def reason(exc: Exception) -> str:
    """What a library says, without the number and the name that FFmpeg's errors put around it."""
    return str(getattr(exc, "strerror", None) or exc)


def check_layout(rate: int, channels: int, limits: Limits) -> None:
    """Refuse a clip whose rate or number of channels no real recording has.

    A low rate would be blown up by resampling; a high one makes a long clip look short.

    Raises:
        UnprocessableMediaError: Outside `Limits.min_audio_rate` to `Limits.max_audio_rate`, no channel, or more than
            `Limits.max_audio_channels`. No cause.
    """
    if not limits.min_audio_rate <= rate <= limits.max_audio_rate:
        raise refused(f"a sample rate of {rate} Hz is outside {limits.min_audio_rate} to {limits.max_audio_rate} Hz")
    if not 1 <= channels <= limits.max_audio_channels:
        raise refused(f"{channels} channels: audio may have 1 to {limits.max_audio_channels}")


def check_length(samples: int, rate: int, channels: int, limits: Limits) -> None:
    """Refuse a clip that is longer than an operator allows.

    Args:
        samples: Per channel.
        rate: Hz.
        channels: As decoded, before they are mixed.
        limits: Which.

    Raises:
        UnprocessableMediaError: Over `Limits.max_audio_seconds` or `Limits.max_audio_decoded_bytes`. No cause.
    """
    if samples > limits.max_audio_seconds * rate:
        raise refused(f"audio may last {limits.max_audio_seconds:g} seconds at most")
    if samples * channels * SAMPLE_BYTES > limits.max_audio_decoded_bytes:
        raise refused(f"audio may decode to {limits.max_audio_decoded_bytes} bytes at most, all channels counted")


def check_range(samples: npt.NDArray[Any], limits: Limits) -> None:
    """Refuse samples that are no numbers, or far beyond what any recording holds.

    To be called after arithmetic as well as before it: finite samples may have a sum that is not.

    Args:
        samples: Floats of any shape, 1.0 at full scale.
        limits: Which.

    Raises:
        UnprocessableMediaError: NaN, an infinity, or more than `Limits.max_audio_amplitude`. No cause.
    """
    if not samples.size:
        return
    peak = max(float(samples.max()), -float(samples.min()))  # NaN if any sample is
    if not peak < float("inf"):
        raise refused("the audio holds samples that are no finite numbers")
    if peak > limits.max_audio_amplitude:
        raise refused(f"the audio holds samples beyond {limits.max_audio_amplitude:g}, where full scale is 1")


__all__ = ["SAMPLE_BYTES", "check_layout", "check_length", "check_range", "reason", "refused"]
