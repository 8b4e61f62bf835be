"""Empty, truncated and damaged clips: what exists, or an error that says what is wrong."""

from __future__ import annotations

import contextlib
import io
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any

import av
import numpy as np
import pytest

from lazymedia.errors import UnprocessableMediaError
from lazymedia.media.audio import AudioMediaIO, resample
from lazymedia.testing.audio import encode, make_audio, sound
from lazymedia.testing.video import make_video as make_video_of
from tests.media import odd_clips
from tests.media.audio_clips import flac, wav
from tests.media.hearing import pitches
from tests.media.mp4_files import remuxed
from tests.media.torchcodec_here import load_or_skip

BACKENDS = ["auto", "soundfile", "pyav"]


def decode(clip: bytes, backend: str = "auto") -> np.ndarray[Any, Any]:
    return AudioMediaIO(audio_backend=backend).load_bytes(clip)[0]  # type: ignore[arg-type]  # from a table


def short_video(*, audio_after: bool = False) -> bytes:
    """A short MPEG-4 video in MP4, with or without an audio track behind the video."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mp4") as container:
        video: Any = container.add_stream("mpeg4", rate=10)
        video.width, video.height, video.pix_fmt = 64, 48, "yuv420p"
        audio: Any = container.add_stream("aac", rate=48_000, layout="mono") if audio_after else None
        for number in range(5):
            frame = av.VideoFrame.from_ndarray(np.full((48, 64, 3), 50 * number, np.uint8), format="rgb24")
            container.mux(video.encode(frame))
        container.mux(video.encode(None))
        if audio is not None:
            sound = av.AudioFrame.from_ndarray(np.full((1, 24_000), 0.25, np.float32), format="fltp", layout="mono")
            sound.sample_rate = 48_000
            container.mux(audio.encode(sound))
            container.mux(audio.encode(None))
    return buffer.getvalue()


EMPTY: dict[str, bytes] = {
    "nothing": b"",
    "a WAV header without samples": wav(b""),
    "a WAV whose data size is 0": wav(data_size=0),
    "a FLAC without samples": encode(np.empty((0, 1), np.float32), 16_000, format="FLAC"),
    "an AIFF without samples": encode(np.empty((0, 1), np.float32), 16_000, format="AIFF"),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("what", EMPTY)
def test_audio_without_samples_is_an_error_whatever_reads_it(what: str, backend: str) -> None:
    """Empty audio killed engines; of a data size of 0, one library makes nothing, the other all."""
    with pytest.raises(UnprocessableMediaError) as caught:
        decode(EMPTY[what], backend)
    assert str(caught.value)


def test_a_video_without_an_audio_track_says_so() -> None:
    """StopIteration and IndexError, elsewhere."""
    with pytest.raises(UnprocessableMediaError, match="no audio track"):
        decode(short_video())


def test_the_audio_track_of_a_video_is_found_behind_the_video() -> None:
    """By type, and not by index 0."""
    samples = decode(short_video(audio_after=True))

    assert len(samples) >= 24_000
    assert samples[4_000:20_000].mean() == pytest.approx(0.25, abs=0.01)


@pytest.mark.parametrize("backend", ["soundfile", "pyav"])
@pytest.mark.parametrize("size", [0xFFFFFFFF, 0x80000000, 0x7FFFFFFF])
def test_a_wav_as_pipes_write_it_holds_all_there_is(size: int, backend: str) -> None:
    pcm = np.arange(8_000, dtype="<i2").tobytes()

    assert np.array_equal(decode(wav(pcm, riff_size=size, data_size=size), backend), decode(wav(pcm)))


@pytest.mark.parametrize("riff_size", [0, 1, 36, 0xFFFFFFFF])
def test_the_size_of_the_whole_is_not_believed(riff_size: int) -> None:
    assert len(decode(wav(riff_size=riff_size))) == 800


JUNK: dict[str, bytes] = {
    "no bits": wav(bits=0),
    "255 bits": wav(bits=255),
    "no channels": wav(channels=0),
    "a rate of 0": wav(rate=0),
    "GSM": wav(tag=0x31),
    "an unknown codec": wav(tag=0x7777),
    "a header cut short": wav()[:30],
    "samples before their format": b"RIFF\x2c\0\0\0WAVEdata\4\0\0\0\0\0\0\0",
    "a RIFF of something else": b"RIFF\x24\0\0\0WEBPVP8 " + b"\0" * 24,
    "text": b"hello, this is no audio at all",
    "a PNG": b"\x89PNG\r\n\x1a\n" + b"\0" * 64,
    "half an MP4 header": b"\0\0\0\x20ftypisom" + b"\0" * 20,
    "Matroska without anything": b"\x1aE\xdf\xa3" + b"\0" * 64,
    "an ID3 tag alone": b"ID3\4\0\0\0\0\0\x0a" + b"\0" * 10,
    "a MAT5": b"MATLAB 5.0 MAT-file" + b" " * 105 + b"\0\1IM" + b"\0" * 64,
    "an AU": b".snd" + (24).to_bytes(4, "big") + b"\0\0\0\xc8\0\0\0\3\0\0\x1f\x40\0\0\0\1" + b"\0" * 200,
    "a CAF": b"caff\0\1\0\0desc" + b"\0" * 64,
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("what", JUNK)
def test_what_is_no_audio_here_is_an_error_that_names_no_address(what: str, backend: str) -> None:
    with pytest.raises(UnprocessableMediaError) as caught:
        decode(JUNK[what], backend)
    assert "0x7" not in str(caught.value)


CUT: dict[str, bool] = {
    "WAV": True,
    "AIFF": True,
    "FLAC": True,
    "MP3": True,
    "MP4, index first": True,
    "WEBM": True,
    "MKV": True,
    "OGG": False,
    "OPUS": False,
    "OGA": False,
    "AAC": False,
    "TS": False,
    "MPEG": False,
}
"""Formats that yield what exists when they are cut, and whether they still say how long the whole was."""


@cache
def clip_of(what: str, seconds: float = 4) -> bytes:
    """Larger than what is decoded frame by frame for its size."""
    if what != "MP4, index first":
        return make_audio(seconds, 48_000, 2, format=what)
    return remuxed(make_audio(seconds, 48_000, 2, format="MP4"), movflags="faststart")


@cache
def samples_of(what: str) -> np.ndarray[Any, Any]:
    """Of the whole clip of eight seconds."""
    return decode(clip_of(what, 8))


@pytest.mark.parametrize("backend", ["auto", "pyav", "torchcodec"])
@pytest.mark.parametrize("kept", [0.35, 0.62, 0.97])
@pytest.mark.parametrize("what", CUT)
def test_a_clip_that_is_cut_yields_what_exists_and_says_how_much_is_missing(
    what: str, kept: float, backend: str
) -> None:
    if backend == "torchcodec":
        load_or_skip()
    clip, whole = clip_of(what, 8), samples_of(what)

    reader = AudioMediaIO(audio_backend=backend)  # type: ignore[arg-type]  # from a table
    (samples, rate), info = reader.load_bytes_and_info(clip[: int(len(clip) * kept)])

    assert 0.9 * kept - 0.15 < len(samples) / len(whole) < kept + 0.15
    assert np.abs(samples[: len(samples) - 4_800] - whole[: len(samples) - 4_800]).max() < 1e-6
    assert (info.rate, info.channels, info.samples) == (rate, 2, len(samples))
    assert info.lost_samples is not None
    if CUT[what]:
        assert info.lost_samples == pytest.approx(len(whole) - len(samples), abs=200 if what == "WEBM" else 0)
        assert info.errors
    else:
        assert info.lost_samples <= len(whole) - len(samples)
        assert info.errors or what in {"TS", "MPEG"}


@pytest.mark.parametrize("where", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("what", ["FLAC", "MP3", "MP4, index first", "M4A", "MKV", "OGG", "OPUS", "OGA", "AAC", "TS"])
def test_damage_costs_what_is_damaged_and_nothing_behind_it(what: str, where: float) -> None:
    """Four thousand bytes that are no sound."""
    clip, whole = clip_of(what, 8), samples_of(what)
    at = int(len(clip) * where)
    damaged = clip[:at] + random.Random(0).randbytes(4_000) + clip[at + 4_000 :]

    reference = AudioMediaIO().load_bytes_ref(damaged)
    samples, _ = reference.decode()
    info = reference.probe()

    lost = len(whole) - len(samples)
    assert 0 <= lost < (2.1 if what in {"OPUS", "OGG", "OGA"} else 0.7) * 48_000  # a page is of a second
    early, late = int(len(whole) * (where - 0.15)), int(len(whole) * (0.97 - where) * 0.5)
    assert np.array_equal(samples[:early], whole[:early])
    if where < 0.9:
        # The noise in AAC depends on all that was decoded before; MP3 ends elsewhere, where frames were lost.
        assert np.abs(samples[-late:] - whole[-late:]).mean() < 1e-3 or what == "MP3"
        assert pitches(samples)[-1] in {440, 880}
    assert info is not None
    assert info.errors
    assert info.lost_samples is not None
    assert info.lost_samples <= lost
    # What declares a length shows all that is lost, but for Vorbis of which the end is lost.
    if what in {"FLAC", "MP3", "M4A", "MP4, index first", "MKV"}:
        assert info.lost_samples == lost


SOUND: dict[str, Callable[[], bytes]] = {
    **{format_: partial(clip_of, format_, 2) for format_ in (*CUT, "M4A", "MP4", "MOV") if "," not in format_},
    "a film": partial(make_video_of, 60, audio=True),
    "a film in Matroska": partial(make_video_of, 60, container="mkv", audio=True),
    "a film in a transport stream": partial(make_video_of, 60, container="ts", audio=True),
    "a film in fragments": partial(
        make_video_of, 60, audio=True, container_options={"movflags": "frag_keyframe+empty_moov"}
    ),
    "no edit": lambda: remuxed(make_audio(2, 48_000, 2, format="M4A"), use_editlist="0"),
    "index first": lambda: clip_of("MP4, index first"),
    "a pipe's WAV": lambda: wav(data_size=0xFFFFFFFF, riff_size=0xFFFFFFFF),
    "a FLAC of unknown length": lambda: flac(total=0),
    "AMR": odd_clips.amr,
    "Flash": lambda: odd_clips.muxed(("libmp3lame", sound(2, 44_100), 0), container="flv", rate=44_100),
    "AVI": lambda: odd_clips.muxed(("libmp3lame", sound(2, 44_100), 0), container="avi", rate=44_100),
    "two tracks": lambda: odd_clips.muxed(("libopus", sound(2, 48_000), 0), ("libopus", sound(3, 48_000), 0)),
    "late sound": lambda: odd_clips.muxed(("libopus", sound(2, 48_000), 0), start=96_000),
}


@pytest.mark.parametrize("what", SOUND)
def test_a_sound_clip_has_lost_nothing(what: str) -> None:
    clip = SOUND[what]()
    for backend in ("auto", "pyav"):
        ref = AudioMediaIO(audio_backend=backend).load_bytes_ref(clip)
        before = ref.probe()
        assert before is not None
        assert (before.lost_samples, before.errors) == (None, None)

        samples, rate = ref.decode()

        after = ref.probe()
        assert after is not None
        assert (after.rate, after.samples, after.lost_samples, after.errors) == (rate, len(samples), 0, 0)


def test_what_was_lost_is_known_too_where_a_clip_is_resampled_on_the_way_and_in_every_fork() -> None:
    clip = clip_of("FLAC")[:200_000]
    ref = AudioMediaIO().load_bytes_ref(clip)
    fork = ref.fork()
    to_16k = resample(16_000)

    mapped = ref.map(to_16k, **to_16k.settings())
    mapped.decode()

    for handle in (ref, fork):
        info = handle.probe()
        assert info is not None
        assert info.rate == 48_000
        assert info.lost_samples
    ref.release()
    assert fork.probe() is not None


def test_damage_is_logged_without_a_word_of_the_payload(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="lazymedia.media"):
        decode(clip_of("FLAC")[:200_000])

    (record,) = caplog.records
    assert "lost" in record.message


@pytest.mark.parametrize("count", [2**31 - 1, 2**32 - 1, 2**28])
def test_a_movie_whose_table_claims_gigabytes_is_at_fault_itself(count: int) -> None:
    """Before FFmpeg sees it, which would say that memory is out."""
    clip = bytearray(make_audio(0.2, 48_000, format="M4A"))
    table = clip.index(b"stts") + 8
    clip[table : table + 4] = count.to_bytes(4, "big")

    with pytest.raises(UnprocessableMediaError, match="stts table claims more entries"):
        decode(bytes(clip))


def test_a_damaged_clip_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """A callback that raises is printed by cffi: a way to fill a log."""
    clip = bytearray(make_audio(0.3, 48_000, 2, format="AIFF"))
    for seed in range(300):
        dice = random.Random(seed)
        damaged = clip[: dice.randrange(12, len(clip))] if seed % 2 else bytearray(clip)
        start = dice.randrange(12, 64)
        damaged[start : start + 4] = dice.choice([0, 2**31 - 1, 2**31, 2**32 - 1]).to_bytes(4, "big")
        with contextlib.suppress(UnprocessableMediaError):
            decode(bytes(damaged), "soundfile")

    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("format_", ["MP3", "MPEG", "AAC", "TS", "OGG", "OPUS", "M4A", "FLAC"])
def test_no_library_prints_what_it_finds_wrong(format_: str, capfd: pytest.CaptureFixture[str]) -> None:
    """One printed 40,000 lines for a megabyte and a half."""
    clip = bytearray(clip_of(format_, 8))
    for at in range(2_000, len(clip), 700):
        clip[at : at + 9] = bytes(range(9))
    with contextlib.suppress(UnprocessableMediaError):
        decode(bytes(clip[: len(clip) // 2]))

    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("format_", "packet"), [("AAC", 1), ("TS", 188)])
def test_a_recording_that_begins_in_the_middle_of_a_frame_begins_with_the_next_one(format_: str, packet: int) -> None:
    clip = make_audio(2, 48_000, format=format_)
    start = 50 * packet if packet > 1 else 5_001

    assert 0.5 * 96_000 < len(decode(clip[start:])) < 98_304


def test_half_a_movie_without_its_index_is_an_error() -> None:
    clip = make_audio(2, 48_000, format="M4A")

    with pytest.raises(UnprocessableMediaError):
        decode(clip[: len(clip) // 2])


def test_a_clip_whose_channels_or_rate_change_in_the_middle_is_an_error() -> None:
    mono, stereo = (make_audio(1, 48_000, channels, format="AAC") for channels in (1, 2))
    slow = make_audio(1, 24_000, format="AAC")

    for changing in (mono + stereo, stereo + mono, mono + slow, slow + mono):
        with pytest.raises(UnprocessableMediaError, match="in the middle"):
            decode(changing)
    assert len(decode(mono + mono)) >= 96_000


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("backend", ["soundfile", "pyav"])
def test_samples_that_are_no_numbers_are_rejected(value: float, backend: str) -> None:
    pcm = np.full(1_000, value, "<f4").tobytes()

    with pytest.raises(UnprocessableMediaError, match="finite"):
        decode(wav(pcm, bits=32, tag=3), backend)


def test_metadata_that_is_no_text_does_not_matter() -> None:
    clip = make_audio(0.5, 48_000, format="M4A")
    assert b"Lavf" in clip

    assert len(decode(clip.replace(b"Lavf", b"L\xed\xff\xfe"))) >= 24_000


@pytest.mark.parametrize("format_", ["WAV", "FLAC", "OGG", "MP3", "AIFF", "M4A", "WEBM", "AAC", "TS", "MPEG"])
def test_any_damage_ends_in_samples_or_in_one_kind_of_error(format_: str) -> None:
    clip = make_audio(0.2, 48_000, 2, format=format_)
    for seed in range(40):
        dice = random.Random(seed)
        damaged = bytearray(clip[: dice.randrange(1, len(clip) + 1)] if seed % 2 else clip)
        for _ in range(dice.randrange(1, 12)):
            damaged[dice.randrange(min(len(damaged), 400 if seed % 3 else 10**9))] = dice.randrange(256)
        try:
            samples = decode(bytes(damaged))
        except UnprocessableMediaError as error:
            assert len(str(error)) <= 300, seed
        else:
            assert samples.ndim == 1, seed
            assert np.isfinite(samples).all(), seed


def test_sixteen_threads_that_open_bad_and_good_clips_at_once_get_what_is_theirs() -> None:
    """The error of a failed opening lies in one place for the whole process, in libsndfile."""
    good = {format_: make_audio(0.2, 48_000, format=format_) for format_ in ("WAV", "FLAC", "MP3", "M4A")}
    want = {format_: decode(clip) for format_, clip in good.items()}

    def work(number: int) -> bool:
        format_ = list(good)[number % 4]
        if number % 3 == 0:
            with pytest.raises(UnprocessableMediaError):
                decode(JUNK["255 bits"] if number % 2 else good["FLAC"][:50])
            return True
        return np.array_equal(decode(good[format_]), want[format_])

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(work, range(192)))
