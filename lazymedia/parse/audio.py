"""Audio items: references to encoded clips, and samples that are decoded already."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, Any, Final

from lazymedia.errors import UnprocessableMediaError
from lazymedia.foreign import is_array
from lazymedia.limits import DEFAULT_LIMITS, Limits
from lazymedia.media.audio.bounds import check_layout, check_length
from lazymedia.media.audio.transforms import ChannelRule, Resampler, resample, to_channels
from lazymedia.media.ref import MediaRef
from lazymedia.parse.audio_samples import as_stored, channel_axis, to_floats
from lazymedia.parse.items import ModalityDataItems, as_sequence

if TYPE_CHECKING:
    from lazymedia.media.audio.samples import Samples

_EXPECTED: Final = (
    "expected a MediaRef, an array or tensor of one or two axes, a list of numbers, a pair of one of these and a rate "
    "in Hz, or None together with a UUID"
)


@dataclass(frozen=True, slots=True)
class AudioRules:
    """What a model wants of its clips. Make one with `audio_rules`."""

    resampler: Resampler | None = None
    channels: ChannelRule | None = None
    limits: Limits = field(default=DEFAULT_LIMITS, repr=False)

    def settings(self) -> dict[str, object]:
        """What a reference's spec holds for it."""
        steps = (self.channels, self.resampler)
        return {name: value for step in steps if step is not None for name, value in step.settings().items()}

    @property
    def for_mono(self) -> Resampler | None:
        """See `ResamplesMono`: clips are decoded to mono, so that a decode can resample as it goes."""
        mono = self.channels is None or self.channels.target_channels == 1
        return self.resampler if mono else None

    def __call__(self, clip: tuple[Samples, int]) -> tuple[Samples, int]:
        """The channels first: fewer are then resampled, and the mean commutes with resampling."""
        if self.channels is not None:
            clip = self.channels(clip)
        return clip if self.resampler is None else self.resampler(clip)


def audio_rules(
    target_sr: float | None = None,
    target_channels: int | None = None,
    *,
    quality: str = "HQ",
    limits: Limits | None = None,
) -> AudioRules:
    """The rules for a model that wants one rate, one number of channels, or both.

    Args:
        target_sr: Hz; None leaves every clip at its own rate.
        target_channels: None leaves every clip with its channels. Decoded clips are mono.
        quality: Of resampling; see `lazymedia.media.audio.resample`.
        limits: The limits on audio are taken from here.

    Raises:
        ValueError: A rate, number or quality that cannot be. The operator's fault.
    """
    limits = DEFAULT_LIMITS if limits is None else limits
    return AudioRules(
        None if target_sr is None else resample(target_sr, quality, limits=limits),
        None if target_channels is None else to_channels(target_channels),
        limits,
    )


class AudioProcessorItems(ModalityDataItems[Any]):
    """Clips. ``get`` gives float32 samples within ±1: (N,), or (channels, N) where a clip came with several and none
    were asked for.

    Args:
        data: `MediaRef`, array, tensor, ``(samples, Hz)`` or None, each; as `parse_audio_data` stores them.
        rules: What makes a clip that came decoded equal to one decoded from bytes. References carry theirs already.
    """

    def __init__(self, data: Sequence[object], rules: AudioRules | None = None) -> None:
        super().__init__(data, "audio")
        self._rules = AudioRules() if rules is None else rules

    def check_limits(self, index: int) -> None:
        raw = self.get_raw(index)
        if raw is None or isinstance(raw, MediaRef):
            return
        array, rate = raw if isinstance(raw, tuple) else (raw, None)
        rules, axis = self._rules, channel_axis(array.shape)
        count = array.shape[0] if axis is None else array.shape[1 - axis]
        channels = 1 if axis is None else array.shape[axis]
        if count == 0:
            raise UnprocessableMediaError("the audio holds no samples", modality="audio")
        rate = rate or _assumed(rules)
        if rate is not None:
            check_layout(rate, channels, rules.limits)
        check_length(count, rate or rules.limits.max_audio_rate, channels, rules.limits)
        if rate is not None and rules.resampler is not None:
            rules.resampler.check(count, rate, 1 if rules.channels is None else rules.channels.target_channels)

    def get(self, index: int) -> Any:
        media = self._media(index)
        return media[0] if _is_clip(media) else media

    def get_rate(self, index: int) -> int | None:
        """The rate of what `get` gives, in Hz. None for bare samples where no target rate is set either. Decodes a
        reference that is not decoded yet.
        """
        media = self._media(index)
        return media[1] if _is_clip(media) else None

    def get_audio_length(self, index: int) -> int:
        """Samples per channel of what `get` gives. Decodes a reference that is not decoded yet."""
        return int(self.get(index).shape[-1])

    def get_duration(self, index: int) -> float | None:
        """Seconds of what `get` gives; None where its rate is not known. Decodes a reference that is not decoded
        yet.
        """
        rate = self.get_rate(index)
        return None if rate is None else self.get_audio_length(index) / rate

    def _media(self, index: int) -> Any:
        raw = self.get_raw(index)
        if isinstance(raw, MediaRef):
            return raw.decode()
        if raw is None:
            return None
        self.check_limits(index)
        array, rate = raw if isinstance(raw, tuple) else (raw, None)
        samples = to_floats(array, self._rules.limits)
        rate = rate or _assumed(self._rules)
        if rate is None:
            # Without a rate there is nothing to resample to either.
            return self._rules((samples, 0))[0], None
        return self._rules((samples, rate))


def parse_audio_data(data: object, rules: AudioRules | None = None) -> AudioProcessorItems | None:
    """One clip or a sequence of clips as items; None where there is none.

    * A reference decodes to ``(samples, Hz)``; the rules are mapped onto it, with their settings in its spec. One
      whose media is its own bytes is left alone.
    * Samples without a rate are taken to be at the target rate.
    * Of two axes the shorter holds the channels: (N, 2) and (2, N) are stereo, (1, N) and (N, 1) mono.
    * Floats are taken as they are, int8, int16, int32 and uint8 as PCM.
    * A list of numbers is one clip. A tuple of samples and a number is one clip with its rate.

    Raises:
        TypeError: Something that is no clip, or as many channels as samples. The caller's fault.
        ReleasedError: A reference that was released before it was decoded. The caller's fault.
    """
    rules = AudioRules() if rules is None else rules
    clips = [data] if _is_one(data) else list(as_sequence(data, None, f"audio data is {{type}}; {_EXPECTED}"))
    stored: list[object] = []
    try:
        for index, clip in enumerate(clips):
            stored.append(_stored(clip, index, rules))  # one by one: kept on failure
    except BaseException:
        for mapped, given in zip(stored, clips):
            if isinstance(mapped, MediaRef) and mapped is not given:
                mapped.release()
        raise
    return AudioProcessorItems(stored, rules) if stored else None


def _stored(clip: object, index: int, rules: AudioRules) -> object:
    if clip is None:
        return None
    if isinstance(clip, MediaRef):
        settings = rules.settings()
        raw = clip.spec.settings.get("audio_decode") == "raw_bytes"
        return clip.map(rules, **settings) if settings and not raw else clip
    if not _is_one(clip):
        raise TypeError(f"audio at index {index} is {type(clip).__name__}; {_EXPECTED}")
    if isinstance(clip, tuple):
        samples, rate = clip
        return as_stored(samples, index), _whole(rate, index)
    return as_stored(clip, index)


def _whole(rate: Any, index: int) -> int:
    nearest = round(float(rate)) if math.isfinite(rate) else 0
    if nearest < 1 or abs(float(rate) - nearest) > 1e-6:
        raise TypeError(f"audio at index {index} has a rate of {rate} Hz; expected a positive whole number")
    return nearest


def _assumed(rules: AudioRules) -> int | None:
    return None if rules.resampler is None else rules.resampler.target_rate


def _is_clip(media: object) -> bool:
    return isinstance(media, tuple) and len(media) == 2


def _is_one(value: object) -> bool:
    if isinstance(value, tuple):
        return len(value) == 2 and _is_number(value[1]) and (is_array(value[0]) or _is_numbers(value[0]))
    return isinstance(value, MediaRef) or is_array(value) or _is_numbers(value)


def _is_numbers(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_number, value))


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


__all__ = ["AudioProcessorItems", "AudioRules", "audio_rules", "parse_audio_data"]
