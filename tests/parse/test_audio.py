"""Audio items: what is mapped onto a reference, and what becomes of samples that came decoded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lazymedia.errors import ReleasedError, UnprocessableMediaError
from lazymedia.limits import Limits
from lazymedia.media.audio import AudioMediaIO, resample, to_channels
from lazymedia.media.raw import RawBytesMediaIO
from lazymedia.media.ref import MediaRef
from lazymedia.parse.audio import AudioProcessorItems, AudioRules, audio_rules, parse_audio_data
from lazymedia.testing.audio import encode, make_audio, sound
from lazymedia.testing.decoders import CountingMediaIO


def parse(data: object, rules: AudioRules | None = None) -> AudioProcessorItems:
    items = parse_audio_data(data, rules)
    assert items is not None
    return items


MONO = sound(1)[:, 0]
STEREO = sound(1, channels=2)
MEAN = (STEREO[:, 0] + STEREO[:, 1]) * np.float32(0.5)

SHAPES: dict[str, tuple[Any, Any]] = {
    "(N,)": (MONO, MONO),
    "(1, N)": (MONO[None], MONO),
    "(N, 1)": (MONO[:, None], MONO),
    "(N, 2)": (STEREO, MEAN),
    "(2, N)": (STEREO.T, MEAN),
    "float64": (MONO.astype(np.float64), MONO),
    "int16": ((MONO * 32_768).astype(np.int16), MONO),
    "int32": ((MONO.astype(np.float64) * 2**31).astype(np.int32), MONO),
    "a list of numbers": (MONO.tolist(), MONO),
}


@pytest.mark.parametrize("with_rate", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_samples_of_every_shape_become_mono(shape: str, with_rate: bool) -> None:
    """The mean over the wrong axis gave two numbers; (1, N) was mishandled."""
    given, want = SHAPES[shape]

    items = parse((given, 16_000) if with_rate else given, audio_rules(16_000, 1))

    assert len(items) == 1
    assert items.get(0).dtype == np.float32
    assert np.array_equal(items.get(0), want)
    assert items.get_audio_length(0) == 16_000
    assert items.get_rate(0) == 16_000
    assert items.get_duration(0) == 1.0


def test_unsigned_bytes_are_centred() -> None:
    assert parse(np.array([0, 128, 192], np.uint8)).get(0).tolist() == [-1.0, 0.0, 0.5]


def test_several_channels_stay_where_none_are_asked_for() -> None:
    assert np.array_equal(parse(STEREO).get(0), STEREO.T)


def test_a_clip_handed_in_equals_the_same_clip_fetched() -> None:
    """One item, one result, whichever way it came."""
    samples = sound(1, 44_100, 2)
    rules = audio_rules(16_000, 1)
    ref = AudioMediaIO().load_bytes_ref(encode(samples, 44_100))

    items = parse([ref, (samples, 44_100), (np.ascontiguousarray(samples.T), 44_100.0)], rules)

    assert [items.get_audio_length(index) for index in range(3)] == [16_000] * 3
    assert np.array_equal(items.get(0), items.get(1))
    assert np.array_equal(items.get(0), items.get(2))


def test_rules_are_mapped_onto_a_reference_and_decode_nothing() -> None:
    reader = CountingMediaIO(AudioMediaIO())
    ref = reader.load_bytes_ref(make_audio(1, 44_100))

    one, again, other, bare = (
        parse(ref, rules).get_raw(0) for rules in (audio_rules(16_000), audio_rules(16_000), audio_rules(24_000), None)
    )

    assert isinstance(one, MediaRef)
    assert isinstance(again, MediaRef)
    assert isinstance(other, MediaRef)
    assert one.key == again.key
    assert len({ref.key, one.key, other.key}) == 3
    assert bare is ref
    assert one.spec.settings["target_sr"] == 16_000
    assert reader.calls == 0


def test_a_reference_gives_its_samples_rate_and_length() -> None:
    items = parse(AudioMediaIO().load_bytes_ref(make_audio(0.5, 44_100)))

    assert items.get(0).shape == (22_050,)
    assert items.get_rate(0) == 44_100
    assert items.get_audio_length(0) == 22_050
    assert items.get_duration(0) == 0.5


def test_channels_are_part_of_the_key() -> None:
    ref = AudioMediaIO().load_bytes_ref(make_audio(0.1))
    mapped = parse(ref, audio_rules(None, 1)).get_raw(0)

    assert isinstance(mapped, MediaRef)
    assert mapped.spec.settings == {"audio_backend": "soundfile", "target_channels": 1}
    assert mapped.key != ref.key


def test_more_channels_than_a_clip_has_are_an_error_of_that_clip() -> None:
    items = parse([AudioMediaIO().load_bytes_ref(make_audio(0.1)), MONO], audio_rules(None, 2))

    for index in range(2):
        with pytest.raises(UnprocessableMediaError, match="1 channel"):
            items.get(index)


def test_media_that_is_its_own_bytes_is_left_alone() -> None:
    ref = RawBytesMediaIO("audio").load_bytes_ref(b"payload")
    items = parse(ref, audio_rules(16_000, 1))

    assert items.get_raw(0) is ref
    assert items.get(0) == b"payload"


def test_an_item_named_by_its_uuid_alone_keeps_its_place() -> None:
    items = parse([MONO, None, (MONO, 16_000)], audio_rules(16_000))

    assert len(items) == 3
    assert items.get(1) is None
    assert items.get_raw(1) is None
    assert items.select([2, 1]).get_original_index(0) == 2


def test_no_items_are_none() -> None:
    assert parse_audio_data([]) is None
    assert parse_audio_data(None) is None


def test_bare_samples_are_taken_to_be_at_the_target_rate() -> None:
    items = parse(MONO, audio_rules(24_000))

    assert items.get_rate(0) == 24_000
    assert np.array_equal(items.get(0), MONO)
    assert parse(MONO).get_rate(0) is None
    assert parse(MONO).get_duration(0) is None
    assert parse((MONO, 8_000)).get_rate(0) == 8_000


def test_a_pair_is_one_clip_and_two_arrays_are_two() -> None:
    assert len(parse((MONO, 16_000))) == 1
    assert len(parse((MONO, MONO))) == 2
    assert len(parse([(MONO, 16_000), (MONO, 8_000)])) == 2
    assert len(parse([[0.0, 0.5], [0.25]])) == 2


WRONG: dict[str, object] = {
    "a string": "clip.wav",
    "bytes": b"RIFF",
    "a list of strings": ["clip.wav"],
    "three axes": np.zeros((1, 2, 3), np.float32),
    "as many channels as samples": np.zeros((2, 2), np.float32),
    "complex numbers": np.zeros(10, np.complex64),
    "truth values": np.zeros(10, bool),
    "64-bit integers": np.zeros(10, np.int64),
    "a rate of 0": (MONO, 0),
    "half a hertz": (MONO, 16_000.5),
    "a rate that is none": (MONO, float("nan")),
    "an infinite rate": (MONO, float("inf")),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_no_clip_is_the_callers_fault(what: str) -> None:
    with pytest.raises(TypeError):
        parse_audio_data(WRONG[what])


ODD: dict[str, tuple[Any, int | None]] = {
    "no samples": (np.zeros(0, np.float32), None),
    "no samples of two channels": (np.zeros((2, 0), np.float32), None),
    "1 Hz": (np.zeros(1_000, np.float32), 1),
    "a gigahertz": (np.zeros(1_000, np.float32), 10**9),
    "nine channels": (np.zeros((1_000, 9), np.float32), 16_000),
    "eleven minutes": (np.zeros(11 * 60 * 16_000, np.int8), 16_000),
}


@pytest.mark.parametrize("what", ODD)
def test_an_item_over_a_limit_is_refused_before_it_is_read(what: str) -> None:
    samples, rate = ODD[what]
    items = parse(samples if rate is None else (samples, rate), audio_rules(16_000))

    for look in (items.check_limits, items.get):
        with pytest.raises(UnprocessableMediaError):
            look(0)


def test_what_resampling_would_blow_up_is_refused_before_it_is_read() -> None:
    rules = audio_rules(48_000, limits=Limits(max_audio_decoded_bytes=100_000))
    items = parse((np.zeros(20_000, np.float32), 8_000), rules)

    with pytest.raises(UnprocessableMediaError, match="after resampling"):
        items.check_limits(0)


def test_samples_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(UnprocessableMediaError, match="finite"):
        parse(np.full(10, np.nan, np.float32)).get(0)


def test_the_callers_samples_are_not_changed() -> None:
    given = STEREO.copy()

    parse((given, 16_000), audio_rules(8_000, 1)).get(0)

    assert np.array_equal(given, STEREO)


def test_a_released_reference_takes_nothing_with_it() -> None:
    good = AudioMediaIO().load_bytes_ref(make_audio(0.1))
    gone = AudioMediaIO().load_bytes_ref(make_audio(0.1))
    gone.release()

    with pytest.raises(ReleasedError):
        parse_audio_data([good, gone], audio_rules(16_000))
    assert good.decode()[1] == 16_000


def test_tensors_are_read_as_arrays_are() -> None:
    torch = pytest.importorskip("torch")

    items = parse([torch.from_numpy(MONO.copy()), torch.from_numpy(STEREO.T.copy())], audio_rules(None, 1))

    assert np.array_equal(items.get(0), MONO)
    assert np.array_equal(items.get(1), MEAN)


def test_the_rules_resample_as_the_transform_does() -> None:
    clip = sound(1, 44_100)[:, 0]

    assert np.array_equal(parse((clip, 44_100), audio_rules(16_000)).get(0), resample(16_000)((clip, 44_100))[0])


def _torch(values: list[float], dtype: str) -> Any:
    torch = pytest.importorskip("torch")
    return torch.tensor(values, dtype=getattr(torch, dtype))


BEYOND: dict[str, Any] = {
    "a float of 3e38": np.full(100, 3e38, np.float32),
    "a float just beyond the limit": np.full(100, 2.0**33, np.float32),
    "a negative one": np.full(100, -3e38, np.float32),
    "stereo whose sum is infinite": np.full((2, 100), 3e38, np.float32),
    "stereo of both signs": np.stack([np.full(100, 3e38, np.float32), np.full(100, -3e38, np.float32)]),
    "a double that no float holds": np.full(100, 1e300),
    "a list of one": [1e300] * 100,
    "a list of a whole number that no float holds": [10**400] * 100,
    "a list with an infinity": [0.0, float("inf")],
    "NaN in one channel": np.stack([np.zeros(100), np.full(100, np.nan)]),
    "an infinite half": np.full(100, np.inf, np.float16),
}


@pytest.mark.parametrize("rules", [(), (8_000,), (None, 1), (8_000, 1), (48_000, 2)], ids=str)
@pytest.mark.parametrize("with_rate", [False, True])
@pytest.mark.parametrize("what", BEYOND)
def test_samples_beyond_any_recording_never_become_an_item(what: str, with_rate: bool, rules: tuple[Any, ...]) -> None:
    """Finite ones too: their sum, or what resampling makes of them, would not be."""
    given = BEYOND[what]

    with pytest.raises(UnprocessableMediaError, match="samples") as caught:
        parse((given, 16_000) if with_rate else given, audio_rules(*rules)).get(0)

    assert caught.value.modality == "audio"


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_tensors_beyond_any_recording_are_refused_too(dtype: str) -> None:
    with pytest.raises(UnprocessableMediaError, match="samples"):
        parse(_torch([1e38] * 100, dtype)).get(0)


def test_an_operator_sets_how_large_samples_may_be() -> None:
    rules = audio_rules(limits=Limits(max_audio_amplitude=2))

    assert parse(np.full(10, 2.0, np.float32), rules).get(0).max() == 2
    with pytest.raises(UnprocessableMediaError, match="beyond 2"):
        parse(np.full(10, 2.1, np.float32), rules).get(0)


def test_what_transforms_make_is_checked_whatever_they_are_given() -> None:
    """Called by themselves, as on the result of another decoder."""
    loud = np.full((2, 4_000), 3e38, np.float32)

    with pytest.raises(UnprocessableMediaError, match="finite"):
        to_channels(1)((loud, 16_000))
    for clip in (loud, loud[0]):
        with pytest.raises(UnprocessableMediaError, match="samples"):
            resample(8_000)((clip, 16_000))
