"""Another sample rate or number of channels, as transforms that are mapped onto a reference.

soxr is not among the library's own requirements. Everything here can be built and keyed without it; using it raises an
ImportError that names what to install.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from lazymedia.limits import DEFAULT_LIMITS, Limits
from lazymedia.media.audio.bounds import SAMPLE_BYTES, check_layout, check_range, rejection
from lazymedia.media.cancellation import checkpoint

if TYPE_CHECKING:
    from lazymedia.media.audio.samples import Samples


QUALITIES: Final = ("QQ", "LQ", "MQ", "HQ", "VHQ")
"""soxr's recipes, from quick to very high quality; HQ keeps 20 bits and is what soxr itself defaults to."""


def resampled_length(samples: int, rate: int, target_rate: int) -> int:
    """Samples after resampling: ``samples * target_rate / rate``, rounded, halves up.

    One second gives exactly ``target_rate``. This is soxr's own rule.
    """
    return (2 * samples * target_rate + rate) // (2 * rate)


@runtime_checkable
class ResamplesMono(Protocol):
    """A transform of clips that may come down to resampling them."""

    @property
    def for_mono(self) -> Resampler | None:
        """The resampler that does to a mono clip all that this does; None where there is none."""
        ...


@dataclass(frozen=True, slots=True)
class Resampler:
    """Brings clips to one rate. Call it with ``(samples, Hz)``; map it onto a reference with its `settings`.

    Make one with `resample`.
    """

    target_rate: int
    quality: str
    limits: Limits = field(repr=False)

    def settings(self) -> dict[str, object]:
        """What a spec holds for it. Equal for equal samples, whatever the native rate."""
        return {"target_sr": self.target_rate, "resampler": "soxr", "resampler_quality": self.quality}

    @property
    def for_mono(self) -> Resampler:
        """Itself; see `ResamplesMono`."""
        return self

    def __call__(self, clip: tuple[Samples, int]) -> tuple[Samples, int]:
        """The clip at the target rate; the very same samples where that is theirs.

        Args:
            clip: float32 (N,) or (channels, N), and its rate in Hz.

        Raises:
            UnprocessableMediaError: The result would be over `Limits.max_audio_decoded_bytes`, which is known before
                any of it is made; the rate is outside the limits; nothing would be left; or the result holds samples
                that are no finite numbers or beyond `Limits.max_audio_amplitude`.
            ImportError: soxr is not installed.
        """
        samples, rate = clip
        if rate == self.target_rate:
            return clip
        if samples.ndim == 1:
            return self.resample_blocks(_pieces(samples), rate, total=len(samples)), self.target_rate
        import numpy as np

        self.check(samples.shape[1], rate, len(samples))
        rows = [self.resample_blocks(_pieces(row), rate, total=len(row)) for row in samples]
        return np.stack(rows), self.target_rate

    def check(self, samples: int, rate: int, channels: int = 1) -> None:
        """Check the length of the result before anything is resampled.

        Raises:
            UnprocessableMediaError: As for a call.
        """
        check_layout(rate, channels, self.limits)
        self._check_output(resampled_length(samples, rate, self.target_rate) * channels)

    def _check_output(self, samples: int) -> None:
        if samples * SAMPLE_BYTES > self.limits.max_audio_decoded_bytes:
            raise rejection(f"audio may have {self.limits.max_audio_decoded_bytes} bytes at most after resampling")

    def resample_blocks(self, blocks: Iterable[Samples], rate: int, *, total: int | None = None) -> Samples:
        """Mono blocks of one clip, put together at the target rate. Equal to resampling the whole, bit for bit.

        Args:
            blocks: float32 (N,) each.
            rate: Hz.
            total: Samples in all, where that is known; what would be too much is then rejected first.

        Raises:
            UnprocessableMediaError: As for a call. Where the total is not known, at the block that is too many.
            ImportError: soxr is not installed.
        """
        from lazymedia.media.audio.samples import Collector

        check_layout(rate, 1, self.limits)
        if total is not None:
            self.check(total, rate)
        collector = Collector(self.limits.max_audio_decoded_bytes // SAMPLE_BYTES)
        stream = None if rate == self.target_rate else self._stream(rate)
        taken = 0
        for block in blocks:
            checkpoint()
            taken += len(block)
            self._check_output(resampled_length(taken, rate, self.target_rate))
            collector.append(block if stream is None else self._checked(stream.resample_chunk(block)))
        if stream is not None:
            collector.append(self._checked(stream.resample_chunk(_nothing(), last=True)))
        done = collector.finish()
        if not len(done):
            raise rejection("the audio is too short to be resampled")
        return done

    def _checked(self, samples: Samples) -> Samples:
        check_range(samples, self.limits)
        return samples

    def _stream(self, rate: int) -> Any:
        require()
        import soxr

        return soxr.ResampleStream(rate, self.target_rate, 1, dtype="float32", quality=self.quality)


def resample(target_rate: float, quality: str = "HQ", *, limits: Limits | None = None) -> Resampler:
    """What brings clips to ``target_rate``.

    Args:
        target_rate: Hz; a whole number.
        quality: One of `QUALITIES`.
        limits: The limits on rates and on decoded bytes are taken from here.

    Raises:
        ValueError: A rate that is not whole or outside the limits, or another quality.
    """
    limits = DEFAULT_LIMITS if limits is None else limits
    if target_rate != int(target_rate) or not limits.min_audio_rate <= target_rate <= limits.max_audio_rate:
        raise ValueError(f"target_rate must be whole and from {limits.min_audio_rate} to {limits.max_audio_rate} Hz")
    if quality not in QUALITIES:
        raise ValueError(f"quality must be one of {', '.join(QUALITIES)}")
    return Resampler(int(target_rate), quality, limits)


def require() -> None:
    """Raise ImportError unless soxr is there; for owners who want to know before the first request."""
    if importlib.util.find_spec("soxr") is None:
        raise ImportError("resampling audio needs soxr, which is not installed: install the extra 'audio' of lazymedia")


def _pieces(samples: Samples) -> Iterator[Samples]:
    from lazymedia.media.audio.samples import BLOCK

    for start in range(0, len(samples), BLOCK):
        yield samples[start : start + BLOCK]


def _nothing() -> Samples:
    import numpy as np

    return np.empty(0, np.float32)


@dataclass(frozen=True, slots=True)
class ChannelRule:
    """Brings clips to ``target_channels``: to one by the mean of all, to more by taking the first ones.

    Mono is (N,), more is (channels, N). Make one with `to_channels`.
    """

    target_channels: int

    def settings(self) -> dict[str, object]:
        """What a spec holds for it."""
        return {"target_channels": self.target_channels}

    def __call__(self, clip: tuple[Samples, int]) -> tuple[Samples, int]:
        """The clip with that many channels; the very same samples where it has them.

        Raises:
            UnprocessableMediaError: It has fewer, or their mean is no finite number.
        """
        samples, rate = clip
        have = 1 if samples.ndim == 1 else len(samples)
        if have < self.target_channels:
            raise rejection(f"audio with {have} channel(s) where {self.target_channels} are needed")
        if samples.ndim == 1:
            return clip
        if self.target_channels == 1:
            from lazymedia.media.audio.samples import to_mono

            mono = to_mono(samples)
            check_range(mono, DEFAULT_LIMITS)
            return mono, rate
        return samples[: self.target_channels], rate


def to_channels(target_channels: int) -> ChannelRule:
    """What brings clips to ``target_channels``.

    Raises:
        ValueError: Not a positive whole number.
    """
    if type(target_channels) is not int or target_channels < 1:
        raise ValueError("target_channels must be a whole number, 1 or more")
    return ChannelRule(target_channels)


__all__ = [
    "QUALITIES",
    "ChannelRule",
    "Resampler",
    "ResamplesMono",
    "require",
    "resample",
    "resampled_length",
    "to_channels",
]
