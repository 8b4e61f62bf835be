"""Another rate: how many samples, which, what the spec says, and what a lying rate costs."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import soxr

from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import Limits
from lazymedia.media.audio import AudioMediaIO, resample, to_channels
from lazymedia.media.audio.samples import Collector
from lazymedia.media.audio.transforms import resampled_length
from lazymedia.media.cancellation import DecodeStopped, stopping_when
from lazymedia.parse.audio import audio_rules
from lazymedia.testing.audio import make_audio, sound
from tests.media.stops import After

RATES = [8_000, 11_025, 22_050, 32_000, 44_100, 48_000, 96_000]


@pytest.mark.parametrize("rate", RATES)
def test_one_second_gives_exactly_the_target_rate_and_keeps_its_pitch(rate: int) -> None:
    """Integer ratios bent pitch and length, unflushed tails lost samples."""
    samples, target = resample(16_000)((sound(1, rate)[:, 0], rate))

    assert target == 16_000
    assert samples.dtype == np.float32
    assert len(samples) == 16_000
    assert int(np.abs(np.fft.rfft(samples)).argmax()) == 440
    assert np.abs(samples).max() == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("rate", [*RATES, 44_056, 7_999, 384_000])
def test_the_length_is_the_exact_one_rounded_and_blocks_equal_the_whole(rate: int) -> None:
    for count in (1_001, 65_535, 65_536, 65_537, 200_003):
        clip = np.random.default_rng(count).uniform(-0.5, 0.5, count).astype(np.float32)
        samples, _ = resample(16_000)((clip, rate))

        assert len(samples) == resampled_length(count, rate, 16_000) == int(count * 16_000 / rate + 0.5)
        assert np.array_equal(samples, soxr.resample(clip, rate, 16_000, "HQ"))


def test_the_end_of_a_clip_is_there() -> None:
    """A resampler keeps the tail unless it is flushed."""
    clip = np.zeros(48_000, np.float32)
    clip[-100] = 1

    samples, _ = resample(16_000)((clip, 48_000))

    assert abs(int(np.abs(samples).argmax()) - (48_000 - 100) / 3) <= 1
    assert np.abs(samples).max() > 0.25


def test_samples_at_the_target_rate_are_the_very_same() -> None:
    clip = sound(0.1)[:, 0]

    assert resample(16_000)((clip, 16_000))[0] is clip


@pytest.mark.parametrize("format_", ["WAV", "MP3", "M4A"])
def test_resampling_while_decoding_equals_resampling_afterwards(format_: str) -> None:
    clip = make_audio(5, 44_100, 2, format=format_)
    reader, transform = AudioMediaIO(), resample(16_000)

    whole, rate = transform(reader.load_bytes(clip))
    streamed, streamed_rate = reader.load_bytes_resampled(clip, transform)

    assert rate == streamed_rate == 16_000
    assert np.array_equal(whole, streamed)


def test_resampling_while_decoding_leaves_a_clip_at_the_target_rate_as_it_is() -> None:
    clip = make_audio(1)

    streamed, _ = AudioMediaIO().load_bytes_resampled(clip, resample(16_000))

    assert np.array_equal(streamed, AudioMediaIO().load_bytes(clip)[0])


@pytest.mark.parametrize("channels", [None, 1])
def test_a_mapped_reference_resamples_while_decoding(channels: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clip at its own rate never exists: only the other way of loading it is taken."""
    clip = make_audio(2, 44_100, 2)
    rules = audio_rules(16_000, channels)
    expected = resample(16_000)(AudioMediaIO().load_bytes(clip))
    ref = AudioMediaIO().load_bytes_ref(clip)

    mapped = ref.map(rules, **rules.settings())
    with monkeypatch.context() as patched:
        patched.setattr("lazymedia.media.audio.samples.Collector.append", only_of_rate(16_000, 2.0))
        samples, rate = mapped.decode()

    assert rate == expected[1]
    assert np.array_equal(samples, expected[0])
    assert not ref.is_decoded
    assert len(ref.decode()[0]) == 2 * 44_100


def only_of_rate(rate: int, seconds: float) -> Any:
    """A collector's ``append`` that takes no more than so much at that rate."""
    append, most = Collector.append, round(rate * seconds)

    def checked(self: Collector, block: Any) -> None:
        append(self, block)
        assert self._length <= most

    return checked


def test_a_clip_that_is_there_already_is_not_decoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ref = AudioMediaIO().load_bytes_ref(make_audio(1, 44_100))
    decoded, rules = ref.decode(), audio_rules(16_000)
    mapped = ref.map(rules, **rules.settings())
    monkeypatch.setattr(AudioMediaIO, "_mono_blocks", None)

    assert np.array_equal(mapped.decode()[0], resample(16_000)(decoded)[0])


def test_a_decoder_with_a_way_of_its_own_is_asked_for_the_whole() -> None:
    class Halved(AudioMediaIO):
        def load_bytes(self, data: bytes) -> Any:
            samples, rate = super().load_bytes(data)
            return samples[: len(samples) // 2], rate

    ref = Halved().load_bytes_ref(make_audio(1, 44_100))

    assert len(ref.map(resample(16_000)).decode()[0]) == 8_000


def test_more_channels_than_one_are_asked_of_the_whole() -> None:
    rules = audio_rules(16_000, 2)

    with pytest.raises(UnprocessableMediaError, match="2 are needed"):
        AudioMediaIO().load_bytes_ref(make_audio(0.2, 44_100)).map(rules).decode()


def test_several_channels_are_resampled_each_for_itself() -> None:
    stereo = np.ascontiguousarray(sound(1, 48_000, 2).T)

    samples, _ = resample(16_000)((stereo, 48_000))

    assert samples.shape == (2, 16_000)
    for channel in range(2):
        assert np.array_equal(samples[channel], resample(16_000)((stereo[channel], 48_000))[0])


def test_the_spec_names_library_rate_and_quality() -> None:
    ref = AudioMediaIO().load_bytes_ref(make_audio(0.2, 44_100))

    def mapped(*args: Any) -> Any:
        transform = resample(*args)
        return ref.map(transform, **transform.settings())

    high = mapped(16_000)
    assert high.spec.settings == {
        "audio_backend": "soundfile",
        "resampler": "soxr",
        "resampler_quality": "HQ",
        "target_sr": 16_000,
    }
    assert high.key == mapped(16_000.0, "HQ").key
    assert len({ref.key, high.key, mapped(24_000).key, mapped(16_000, "VHQ").key}) == 4
    assert not ref.is_decoded
    assert high.decode()[1] == 16_000


def test_the_one_hertz_bomb_is_defused_before_it_is_resampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "soxr", None)  # would be an ImportError
    clip = np.zeros(50_000, np.float32)

    with pytest.raises(UnprocessableMediaError, match="1 Hz"):
        resample(16_000)((clip, 1))
    with pytest.raises(UnprocessableMediaError, match="after resampling"):
        resample(16_000, limits=Limits(max_audio_decoded_bytes=300_000))((clip, 8_000))
    with pytest.raises(UnprocessableMediaError, match="after resampling"):
        resample(16_000, limits=Limits(max_audio_decoded_bytes=500_000))((np.stack([clip, clip]), 8_000))


def test_the_limit_after_resampling_holds_while_decoding_too() -> None:
    small = resample(48_000, limits=Limits(max_audio_decoded_bytes=2 * 48_000 * 4))

    with pytest.raises(UnprocessableMediaError, match="after resampling"):
        AudioMediaIO().load_bytes_resampled(make_audio(30, 8_000), small)


def test_a_clip_that_would_vanish_is_an_error() -> None:
    with pytest.raises(UnprocessableMediaError, match="too short"):
        resample(16_000)((np.ones(1, np.float32), 96_000))


def test_without_soxr_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """And it is no fault of the payload's: ImportError passes."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    transform = resample(16_000)

    with pytest.raises(ImportError, match="needs soxr"):
        transform((np.zeros(100, np.float32), 8_000))
    with pytest.raises(ImportError, match="needs soxr"):
        AudioMediaIO().load_bytes_resampled(make_audio(0.1, 8_000), transform)


def test_resampling_stops_between_two_blocks() -> None:
    with stopping_when(After(2)), pytest.raises(DecodeStopped):
        resample(16_000)((np.zeros(1_000_000, np.float32), 48_000))


@pytest.mark.parametrize(("rate", "quality"), [(0, "HQ"), (-1, "HQ"), (1, "HQ"), (16_000.5, "HQ"), (16_000, "best")])
def test_what_cannot_be_is_rejected_when_it_is_configured(rate: float, quality: str) -> None:
    with pytest.raises(ValueError):
        resample(rate, quality)


@pytest.mark.parametrize("quality", ["QQ", "LQ", "MQ", "HQ", "VHQ"])
def test_every_quality_works(quality: str) -> None:
    assert len(resample(16_000, quality)((sound(1, 44_100)[:, 0], 44_100))[0]) == 16_000


def test_channels_become_one_by_their_mean_and_more_by_taking_the_first() -> None:
    samples = np.ascontiguousarray(sound(0.1, channels=3).T)

    assert np.abs(to_channels(1)((samples, 16_000))[0] - samples.mean(axis=0)).max() < 1e-6
    assert np.array_equal(to_channels(2)((samples, 16_000))[0], samples[:2])
    assert to_channels(3)((samples, 16_000))[0] is not None
    assert np.array_equal(to_channels(1)((samples[0], 16_000))[0], samples[0])
    with pytest.raises(UnprocessableMediaError, match="1 channel"):
        to_channels(2)((samples[0], 16_000))
    for wrong in (0, -1, True, 1.5):
        with pytest.raises(ValueError):
            to_channels(wrong)  # type: ignore[arg-type]  # the case under test
