"""Another number of channels, as a transform that is mapped onto a reference.

Comes in: samples whose axes are known. Goes out: as many channels as asked for. Never here: a guess at which axis is
which (that is `parse.audio`'s, for arrays that callers hand in).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lazymedia.limits import DEFAULT_LIMITS
from lazymedia.media.audio.bounds import check_range, refused

if TYPE_CHECKING:
    from lazymedia.media.audio.samples import Samples


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
            raise refused(f"audio with {have} channel(s) where {self.target_channels} are needed")
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


__all__ = ["ChannelRule", "to_channels"]
