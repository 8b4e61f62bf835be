"""The limits on audio: on what a header says, and on the samples that come of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import Limits

if TYPE_CHECKING:
    import numpy.typing as npt

SAMPLE_BYTES = 4
"""Bytes of a sample as float32, which is what every limit on decoded bytes counts."""

_FEW_PACKETS: Final = 2_000
_PACKET_BYTES: Final = 16
_PACKETS_PER_SECOND: Final = 500
"""Packets: so many, one more for each of so many bytes of the payload, and so many more for each second that was
decoded. Reading and decoding one takes some 20 microseconds. Opus has 400 in a second at most."""

_SPARE_BYTES: Final = 1 << 20
"""What packets may hold together beyond twice the payload; see `lazymedia.media.video.container`."""


def rejection(message: str) -> UnprocessableMediaError:
    """The error for a clip that is at fault itself."""
    return UnprocessableMediaError(message, modality="audio")


def reason(exc: Exception) -> str:
    """What a library says, without the number and the name that FFmpeg's errors put around it."""
    return str(getattr(exc, "strerror", None) or exc)


def check_layout(rate: int, channels: int, limits: Limits) -> None:
    """Reject a clip whose rate or number of channels no real recording has.

    A low rate would be blown up by resampling; a high one makes a long clip look short.

    Raises:
        UnprocessableMediaError: Outside `Limits.min_audio_rate` to `Limits.max_audio_rate`, no channel, or more than
            `Limits.max_audio_channels`. No cause.
    """
    if not limits.min_audio_rate <= rate <= limits.max_audio_rate:
        raise rejection(f"a sample rate of {rate} Hz is outside {limits.min_audio_rate} to {limits.max_audio_rate} Hz")
    if not 1 <= channels <= limits.max_audio_channels:
        raise rejection(f"{channels} channels: audio may have 1 to {limits.max_audio_channels}")


def check_length(samples: int, rate: int, channels: int, limits: Limits) -> None:
    """Reject a clip that is longer than an operator allows.

    Args:
        samples: Per channel.
        rate: Hz.
        channels: As decoded, before they are mixed.
        limits: Which.

    Raises:
        UnprocessableMediaError: Over `Limits.max_audio_seconds` or `Limits.max_audio_decoded_bytes`. No cause.
    """
    if samples > limits.max_audio_seconds * rate:
        raise rejection(f"audio may last {limits.max_audio_seconds:g} seconds at most")
    if samples * channels * SAMPLE_BYTES > limits.max_audio_decoded_bytes:
        raise rejection(f"audio may decode to {limits.max_audio_decoded_bytes} bytes at most, all channels counted")


def check_range(samples: npt.NDArray[Any], limits: Limits) -> None:
    """Reject samples that are no numbers, or far beyond what any recording holds.

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
        raise rejection("the audio holds samples that are no finite numbers")
    if peak > limits.max_audio_amplitude:
        raise rejection(f"the audio holds samples beyond {limits.max_audio_amplitude:g}, where full scale is 1")


class PacketCount:
    """The packets of one recording, compared with its size and with the length that they decode to.

    Args:
        payload_bytes: Bytes of the recording.
    """

    def __init__(self, payload_bytes: int) -> None:
        self._packets_left: float = _FEW_PACKETS + payload_bytes // _PACKET_BYTES
        self._bytes_left = _SPARE_BYTES + 2 * payload_bytes

    def add(self, size: int) -> None:
        """Count a packet of so many bytes.

        Raises:
            UnprocessableMediaError: More packets, or bytes in them, than are allowed. No cause.
        """
        self._packets_left -= 1
        self._bytes_left -= size
        if self._packets_left < 0:
            raise rejection("the audio has more packets than are allowed for its size and length")
        if self._bytes_left < 0:
            raise rejection("the audio's packets hold more bytes than are allowed for its size")

    def decoded(self, seconds: float) -> None:
        """Allow more packets for so many seconds of sound."""
        self._packets_left += _PACKETS_PER_SECOND * seconds


__all__ = ["SAMPLE_BYTES", "PacketCount", "check_layout", "check_length", "check_range", "reason", "rejection"]
