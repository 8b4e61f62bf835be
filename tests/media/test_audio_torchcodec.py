"""torchcodec gives the samples that PyAV gives: equal for lossless codecs, to 3e-7 for the others; or an error."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import Limits
from lazymedia.media.audio import AudioMediaIO, resample
from lazymedia.media.cancellation import DecodeStopped, stopping_when
from lazymedia.media.spec import DecodeSpec
from lazymedia.testing.audio import encode, make_audio, sound
from lazymedia.testing.video import make_video
from tests.media.audio_clips import flac, wav, with_packet
from tests.media.stops import After
from tests.media.test_audio_formats import EXACT, FORMATS
from tests.media.torchcodec_here import load_or_skip

BY_OTHERS = {"MP3": "pyav", "AIFF": "soundfile", "AAC": "pyav", "TS": "pyav", "MPEG": "pyav"}
"""What FFmpeg could take for another format, and what then reads it."""

TOLERANCE = 3e-7
"""Between one release of FFmpeg and another, for codecs that compute with floats."""


@pytest.fixture(scope="module", autouse=True)
def torchcodec() -> None:
    load_or_skip()


def by_torchcodec(**settings: Any) -> AudioMediaIO:
    return AudioMediaIO(audio_backend="torchcodec", **settings)


def by_pyav(**settings: Any) -> AudioMediaIO:
    return AudioMediaIO(audio_backend="pyav", **settings)


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("format_", FORMATS)
def test_every_format_has_the_same_samples(format_: str, channels: int) -> None:
    clip = make_audio(1.5, 48_000, channels, format=format_)
    backend = BY_OTHERS.get(format_, "torchcodec")
    want, want_rate = by_pyav().load_bytes(clip)

    ref = by_torchcodec().load_bytes_ref(clip)
    samples, rate = ref.decode()

    assert ref.spec == DecodeSpec({"audio_backend": backend})
    assert (rate, samples.shape) == (want_rate, want.shape)
    assert samples.dtype == np.float32
    if backend == "torchcodec":
        assert np.abs(samples - want).max() <= (0 if format_ in EXACT else TOLERANCE)


@pytest.mark.parametrize(
    ("format_", "subtype"),
    [
        *(("WAV", name) for name in ("PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW", "ALAW")),
        ("FLAC", "PCM_24"),
        ("MOV", "pcm_s24le"),
        ("MOV", "pcm_f32le"),
        ("M4A", "alac"),
    ],
)
@pytest.mark.parametrize("channels", [1, 2])
def test_lossless_samples_are_equal_whatever_their_width(format_: str, subtype: str, channels: int) -> None:
    clip = make_audio(1, 44_100, channels, format=format_, subtype=subtype)

    assert np.array_equal(by_torchcodec().load_bytes(clip)[0], by_pyav().load_bytes(clip)[0])


@pytest.mark.parametrize("channels", [3, 6, 8])
def test_mono_of_many_channels_is_their_mean(channels: int) -> None:
    clip = encode(sound(0.5, 48_000, channels), 48_000, format="FLAC")

    assert np.array_equal(by_torchcodec().load_bytes(clip)[0], by_pyav().load_bytes(clip)[0])


@pytest.mark.parametrize(("bits", "lowest"), [(8, b"\x00"), (16, b"\x00\x80"), (24, b"\0\0\x80"), (32, b"\0\0\0\x80")])
def test_the_lowest_integer_is_minus_one_exactly(bits: int, lowest: bytes) -> None:
    assert by_torchcodec().load_bytes(wav(lowest * 100, bits=bits))[0].tolist() == [-1.0] * 100


def test_the_sound_of_a_film_is_read_past_its_pictures() -> None:
    film = make_video(50, audio=True)

    assert np.abs(by_torchcodec().load_bytes(film)[0] - by_pyav().load_bytes(film)[0]).max() <= TOLERANCE


def test_resampling_on_the_way_gives_the_same_as_afterwards() -> None:
    clip = make_audio(3, 44_100, 2, format="FLAC")
    rule = resample(16_000)

    on_the_way, _ = by_torchcodec().load_bytes_resampled(clip, rule)

    assert np.array_equal(on_the_way, rule(by_torchcodec().load_bytes(clip))[0])


@pytest.mark.parametrize(
    ("clip", "limits", "words"),
    [
        (make_audio(3, format="M4A"), Limits(max_audio_seconds=2), "last 2 seconds"),
        (make_audio(3, format="OGG"), Limits(max_audio_seconds=2), "last 2 seconds"),
        (make_audio(3, format="FLAC"), Limits(max_audio_decoded_bytes=1000), "decode to 1000 bytes"),
        (make_audio(3, 48_000, 2, format="WEBM"), Limits(max_audio_decoded_bytes=600_000), "decode to 600000 bytes"),
        (make_audio(1, 48_000, 6, format="MKV"), Limits(max_audio_channels=5), "6 channels"),
        (make_audio(1, 48_000, format="M4A"), Limits(max_audio_rate=44_100), "48000 Hz"),
        (flac(rate=1), Limits(), "1 Hz"),
    ],
)
def test_limits_hold(clip: bytes, limits: Limits, words: str) -> None:
    with pytest.raises(UnprocessableMediaError, match=words) as caught:
        by_torchcodec(limits=limits).load_bytes(clip)

    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (make_video(3), "no audio track"),
        (wav(b""), "no samples"),
        (b"", "empty"),
        (b"#EXTM3U\n#EXTINF:1,\nfile:///secret\n", "not a supported audio format"),
        (make_audio(1, format="M4A")[:300], "cannot be decoded"),
    ],
)
def test_what_holds_no_sound_is_the_payloads_fault(data: bytes, words: str) -> None:
    with pytest.raises(UnprocessableMediaError, match=words):
        by_torchcodec().load_bytes(data)


@pytest.mark.parametrize("format_", ["WAV", "FLAC", "OGG", "OPUS", "OGA", "M4A", "WEBM", "MKV"])
def test_damage_is_an_error_or_what_pyav_makes_of_it(format_: str) -> None:
    """Never another exception, and never more sound than there was."""
    rng = random.Random(7)
    whole = make_audio(1, 48_000, 2, format=format_)
    for number in range(30):
        clip = bytearray(whole)
        for _ in range(1 + number):
            clip[rng.randrange(400, len(clip))] = rng.randrange(256)
        cut = bytes(clip[: rng.randrange(len(clip) // 2, len(clip))] if number % 2 else clip)
        try:
            samples, rate = by_torchcodec().load_bytes(cut)
        except UnprocessableMediaError:
            continue
        assert 4_000 <= rate <= 384_000
        assert len(samples) <= 48_000 + 2048


@pytest.mark.parametrize("number", [5, 400])
def test_a_damaged_packet_of_aac_is_left_out_and_counted(number: int) -> None:
    whole = make_audio(12, 48_000, 2, format="M4A")
    clip = with_packet(whole, number, b"\xff" * 64)

    (samples, _), info = by_torchcodec().load_bytes_and_info(clip)

    assert len(samples) == len(by_pyav().load_bytes(whole)[0]) - 1024
    assert (info.lost_samples, info.errors) == (1024, 1)


def test_ogg_that_ffmpeg_by_itself_would_read_wrong_is_pyavs() -> None:
    """Recordings in a row, and one of a single page."""
    one, other = (make_audio(2, 48_000, format="OGG", seed=seed) for seed in (0, 1))
    small = make_audio(0.1, 48_000, format="OGG")

    assert by_torchcodec().load_bytes_ref(one).spec == DecodeSpec({"audio_backend": "torchcodec"})
    for clip in (one + other, small):
        ref = by_torchcodec().load_bytes_ref(clip)
        assert ref.spec == DecodeSpec({"audio_backend": "pyav"})
        assert np.array_equal(ref.decode()[0], by_pyav().load_bytes(clip)[0])


@pytest.mark.parametrize("blocks", [0, 1, 5])
def test_a_decode_that_nobody_wants_ends_between_packets(blocks: int) -> None:
    check = After(blocks)
    with stopping_when(check), pytest.raises(DecodeStopped):
        by_torchcodec().load_bytes(make_audio(2, 48_000, format="WEBM"))

    assert check.calls == blocks + 1


def test_backends_have_keys_of_their_own_and_what_falls_to_another_has_its_key() -> None:
    clip, song = make_audio(0.1, format="FLAC"), make_audio(0.1, format="MP3")

    assert by_torchcodec().load_bytes_ref(clip).key != AudioMediaIO().load_bytes_ref(clip).key
    assert by_torchcodec().load_bytes_ref(song).key == AudioMediaIO().load_bytes_ref(song).key
    assert by_torchcodec().get_decode_spec() == DecodeSpec({"audio_backend": "torchcodec"})
