"""Clips that made other readers fail, as users of such readers reported them, and what becomes of each here."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy import typing as npt

from lazymedia.limits import Limits
from lazymedia.media.audio import AudioMediaIO, resample
from lazymedia.media.audio.formats import sniff
from lazymedia.testing import make_image
from lazymedia.testing.audio import encode, make_audio, sound
from lazymedia.testing.video import make_video
from tests.media import odd_clips
from tests.media.audio_clips import flac, wav
from tests.media.hearing import RATE, decode, pitches, refusal
from tests.media.odd_clips import muxed

DEFAULT, COMMENT, VISUALLY_IMPAIRED = 1, 8, 256
"""FFmpeg's bits for what a track is for."""


# Telephones and Flash


@pytest.mark.parametrize(("container", "name"), [("amr", "AMR"), ("3gp", "MP4")])
def test_amr_of_telephones_decodes(container: str, name: str) -> None:
    clip = odd_clips.amr(2, container)
    told = sniff(clip)
    assert told is not None
    assert told.name == name

    samples, rate = AudioMediaIO().load_bytes(clip)

    assert rate == 8_000
    assert 16_000 <= len(samples) <= 16_000 + 2 * 160  # it comes in frames of 160
    assert pitches(samples[:16_000], rate) == [440, 440]
    assert np.abs(samples).max() <= 1


def test_wide_band_amr_decodes_at_its_own_rate() -> None:
    """Frames that say there is nothing to hear: no encoder of it is at hand."""
    samples, rate = AudioMediaIO().load_bytes(b"#!AMR-WB\n" + b"\x7c" * 50)

    assert (rate, len(samples)) == (16_000, 16_000)


def test_amr_that_ends_early_yields_what_exists() -> None:
    clip = odd_clips.amr(1)
    frame = 13  # at 4.75 kbit/s, which the encoder takes
    assert (len(clip) - 6) % frame == 0

    assert len(decode(clip[: 6 + 10 * frame])) == 10 * 160
    (samples, _), info = AudioMediaIO().load_bytes_and_info(clip[: 6 + 10 * frame + 5])
    assert 10 * 160 <= len(samples) <= 11 * 160
    assert info.errors == 1
    refusal(clip[:6])


@pytest.mark.parametrize("codec", ["aac", "libmp3lame", "pcm_s16le"])
def test_the_sound_of_flash_decodes(codec: str) -> None:
    clip = muxed((codec, sound(1, 44_100), 0), container="flv", rate=44_100)

    samples, rate = AudioMediaIO().load_bytes(clip)

    assert rate == 44_100
    assert 44_100 <= len(samples) <= 44_100 + 2 * 1152
    assert pitches(samples, rate) == [440]


@pytest.mark.parametrize("codec", ["adpcm_swf", "nellymoser"])
def test_a_codec_of_flash_that_is_not_decoded_is_named(codec: str) -> None:
    rate = 8_000 if codec == "nellymoser" else 44_100

    assert f"the audio codec {codec} is not decoded" in refusal(
        muxed((codec, sound(0.5, rate), 0), container="flv", rate=rate)
    )


def test_the_sound_of_a_flash_video_is_found_beside_its_frames() -> None:
    samples, rate = AudioMediaIO().load_bytes(make_video(50, codec="flv", container="flv", b_frames=0, audio=True))

    assert pitches(samples, rate) == [440] * (len(samples) // rate)
    assert len(samples) >= 2 * rate


# Several tracks


def tone(frequency: float, seconds: float = 1.0) -> npt.NDArray[np.float32]:
    return sound(seconds, RATE, frequency=frequency)


@pytest.mark.parametrize(
    ("first", "second", "heard"),
    [
        (0, DEFAULT, 1000),
        (DEFAULT, 0, 440),
        (DEFAULT, DEFAULT, 440),
        (0, 0, 440),
        (VISUALLY_IMPAIRED, 0, 1000),
        (DEFAULT | VISUALLY_IMPAIRED, DEFAULT, 1000),
        (COMMENT, DEFAULT, 1000),
    ],
)
def test_of_several_tracks_the_default_one_is_heard_however_long_another_is(
    first: int, second: int, heard: int
) -> None:
    """And none that describes pictures to the blind, where there is another."""
    for longer in (1, 2):
        seconds = (1, longer) if heard == 440 else (longer, 1)
        tracks = zip((440, 1000), seconds, (first, second))
        clip = muxed(*(("pcm_s16le", tone(frequency, length), bits) for frequency, length, bits in tracks))

        assert pitches(decode(clip)) == [heard]


def test_the_sound_of_the_second_program_is_heard_where_the_first_has_none() -> None:
    clip = odd_clips.programs(odd_clips.program(1, frames=60), odd_clips.program(2, frames=60, audio=True))

    assert pitches(decode(clip)) == [440] * 2


@pytest.mark.parametrize("radio_first", [False, True])
def test_the_sound_of_the_videos_program_is_heard_and_not_a_longer_one_of_another_program(*, radio_first: bool) -> None:
    """So that frames and sound that are fetched together belong together."""
    video, radio = 1 + radio_first, 2 - radio_first
    clips = {
        video: odd_clips.program(video, frames=60, audio=True),
        radio: odd_clips.radio_program(radio, tone(1000, 4), 384_000),
    }

    assert pitches(decode(odd_clips.programs(clips[1], clips[2]))) == [440] * 2


@pytest.mark.parametrize("container", ["matroska", "mp4"])
def test_a_cover_beside_the_sound_is_passed_over(container: str) -> None:
    picture = make_image(format="JPEG")

    with_cover = decode(muxed(("aac", tone(440), 0), container=container, cover=picture))

    assert np.array_equal(with_cover, decode(muxed(("aac", tone(440), 0), container=container)))


@pytest.mark.parametrize("backend", ["auto", "pyav"])
def test_an_mp3_sounds_the_same_with_and_without_its_cover(backend: str) -> None:
    clip = make_audio(1, 44_100, format="MP3")
    assert odd_clips.behind_cover(clip)[-len(clip) :] == clip

    for picture in (make_image(format="JPEG"), b"\xff\xd8\xff no picture at all", b"\xff\xfb\x90\x64" * 500):
        assert np.array_equal(decode(odd_clips.behind_cover(clip, picture), backend), decode(clip, backend))


def test_a_header_without_tracks_and_one_without_packets_are_errors() -> None:
    segments = make_video(5, audio=True, container_options={"movflags": "frag_keyframe+empty_moov"})

    assert "no audio track" in refusal(odd_clips.header_without_tracks())
    assert "no samples" in refusal(segments[: segments.index(b"moof") - 4])


# Where sound begins and ends


@pytest.mark.parametrize("format_", ["WAV", "FLAC", "AIFF", "OGG", "OPUS", "MP3", "M4A", "MP4", "WEBM"])
def test_a_click_is_heard_when_it_was_made(format_: str) -> None:
    """Encoders put samples of their own in front, and containers say how many."""
    samples = np.zeros((RATE, 1), np.float32)
    samples[RATE // 2] = 0.9

    decoded = decode(encode(samples, RATE, format=format_))

    assert int(np.abs(decoded).argmax()) == RATE // 2
    assert RATE <= len(decoded) < RATE + 1024


@pytest.mark.parametrize(
    ("codec", "container"), [("flac", "matroska"), ("libopus", "webm"), ("mp2", "mpegts"), ("aac", "mp4")]
)
def test_sound_that_begins_late_is_neither_preceded_by_silence_nor_cut(codec: str, container: str) -> None:
    late, on_time = (muxed((codec, tone(440), 0), container=container, start=start) for start in (2 * RATE, 0))

    samples = decode(late)

    # Where encoders begin late their own leading samples stay, a frame of them at most.
    assert len(decode(on_time)) <= len(samples) <= len(decode(on_time)) + 1024
    assert pitches(samples) == [440]


@pytest.mark.parametrize("format_", ["WAV", "FLAC", "AIFF", "OGG", "OPUS", "MP3"])
@pytest.mark.parametrize("count", [1, 5])
def test_a_clip_of_a_few_samples_has_so_many(count: int, format_: str) -> None:
    samples, rate = AudioMediaIO().load_bytes(make_audio(count / RATE, RATE, format=format_))

    assert (len(samples), rate) == (count, RATE)


@pytest.mark.parametrize("told", [1_000, 15_999])
def test_a_flac_that_promises_less_than_it_holds_ends_where_its_reader_says_and_the_reader_is_in_the_key(
    told: int,
) -> None:
    """The libraries differ here: one believes the header, the other what follows."""
    clip = flac(total=told)
    refs = {backend: AudioMediaIO(audio_backend=backend).load_bytes_ref(clip) for backend in ("soundfile", "pyav")}

    assert {backend: len(ref.decode()[0]) for backend, ref in refs.items()} == {"soundfile": told, "pyav": 16_000}
    assert refs["soundfile"].key != refs["pyav"].key
    assert AudioMediaIO().load_bytes_ref(clip).key == refs["soundfile"].key
    assert np.array_equal(refs["soundfile"].decode()[0], refs["pyav"].decode()[0][:told])


def test_an_mp3_of_less_than_a_frame_is_an_error() -> None:
    clip = make_audio(1, 44_100, format="MP3")

    for size in (4, 100, 400):
        refusal(clip[:size])


@pytest.mark.parametrize("backend", ["auto", "pyav"])
def test_an_mp3_is_as_long_as_what_was_read_of_it(backend: str) -> None:
    """Half of the bytes, whose header still tells the length of the whole."""
    clip = make_audio(5, 44_100, format="MP3")
    whole, half = decode(clip, backend), decode(clip[: len(clip) // 2], backend)

    assert 0.4 * len(whole) < len(half) < 0.6 * len(whole)
    assert np.array_equal(half[:44_100], whole[:44_100])


# Rates, widths and lengths


@pytest.mark.parametrize("format_", ["WAV", "FLAC", "M4A", "WEBM"])
@pytest.mark.parametrize("seconds", [31, 65])
def test_a_clip_longer_than_half_a_minute_is_whole_or_rejected_and_the_next_one_is_read(
    seconds: int, format_: str
) -> None:
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, (seconds * 16_000, 1)).astype(np.float32)
    clip = encode(noise, 16_000, format=format_)

    samples, rate = resample(16_000)(AudioMediaIO().load_bytes(clip))

    assert (rate, len(samples) // 16_000) == (16_000, seconds)
    assert "30 seconds" in refusal(clip, limits=Limits(max_audio_seconds=30))
    assert AudioMediaIO(limits=Limits(max_audio_seconds=30)).load_bytes(make_audio(30, format="WAV"))[1] == 16_000


@pytest.mark.parametrize(
    ("subtype", "codec"),
    [("PCM_16", "pcm_s16le"), ("PCM_24", "pcm_s24le"), ("PCM_32", "pcm_s32le"), ("FLOAT", "pcm_f32le")],
)
def test_a_tone_at_half_scale_peaks_at_half_in_a_wav_and_in_a_movie(subtype: str, codec: str) -> None:
    tone_ = (0.5 * np.sin(2 * np.pi * 440 * np.arange(16_000) / 16_000)).astype(np.float32)
    stereo = np.stack([tone_, tone_ / 2], axis=1)

    for samples in (tone_[:, None], stereo):
        clips = [encode(samples, 16_000, subtype=subtype), encode(samples, 16_000, format="MOV", subtype=codec)]
        for clip in clips:
            decoded = decode(clip)
            assert len(decoded) == 16_000
            assert np.abs(decoded).max() == pytest.approx(0.5 if samples.shape[1] == 1 else 0.375, abs=1e-4)


@pytest.mark.parametrize("width", ["PCM_U8", "PCM_32"])
def test_rare_widths_are_centred_and_resampled_to_twice_as_many(width: str) -> None:
    samples, _ = resample(16_000)(AudioMediaIO().load_bytes(make_audio(4, 8_000, subtype=width)))

    assert len(samples) == 64_000
    assert abs(float(samples.mean())) < 0.005
    assert np.abs(samples).max() == pytest.approx(0.5, abs=0.03)


KEYED: dict[str, Callable[[], bytes]] = {
    "a WAV": partial(make_audio, 0.5),
    "a WAV as long as the first 64 KiB and more": partial(make_audio, 10),
    "an M4A": partial(make_audio, 0.5, 48_000, format="M4A"),
}


@pytest.mark.parametrize("what", KEYED)
def test_clips_that_differ_in_their_last_byte_have_different_keys(what: str) -> None:
    clip = KEYED[what]()
    other = clip[:-1] + bytes([clip[-1] ^ 1])

    assert AudioMediaIO().load_bytes_ref(clip).key != AudioMediaIO().load_bytes_ref(other).key
    assert AudioMediaIO().load_bytes_ref(clip).key == AudioMediaIO().load_bytes_ref(bytes(bytearray(clip))).key


PIPED: dict[str, dict[str, Any]] = {
    "as pipes write them": {"riff_size": 0xFFFFFFFF, "data_size": 0xFFFFFFFF},
    "of the samples alone": {"data_size": 0xFFFFFFFF},
    "of the whole alone": {"riff_size": 0xFFFFFFFF},
    "of the whole, zero": {"riff_size": 0},
}


@pytest.mark.parametrize("backend", ["soundfile", "pyav"])
@pytest.mark.parametrize("sizes", PIPED)
def test_sizes_that_a_pipe_could_not_know_cost_no_sample_of_either_channel(sizes: str, backend: str) -> None:
    pcm = np.arange(8_000, dtype="<i2").tobytes()

    assert np.array_equal(decode(wav(pcm, channels=2, **PIPED[sizes]), backend), decode(wav(pcm, channels=2)))
    assert len(decode(wav(pcm, channels=2))) == 4_000
