"""Every format by every backend: what it is told from, what it decodes to, and what its reference says."""

from __future__ import annotations

import io

import numpy as np
import pytest
import soundfile

from lazymedia.errors import UnprocessableMediaError
from lazymedia.media.audio import AudioMediaIO
from lazymedia.media.audio.formats import sniff
from lazymedia.media.spec import DecodeSpec
from lazymedia.testing.audio import encode, make_audio, sound
from tests.media.audio_clips import wav

FORMATS = {
    "WAV": ("WAV", "soundfile"),
    "FLAC": ("FLAC", "soundfile"),
    "OGG": ("OGG", "pyav"),
    "OGA": ("OGG FLAC", "pyav"),
    "OPUS": ("OGG", "pyav"),
    "MP3": ("MP3", "pyav"),
    "AIFF": ("AIFF", "soundfile"),
    "M4A": ("MP4", "pyav"),
    "MP4": ("MP4", "pyav"),
    "MOV": ("MP4", "pyav"),
    "WEBM": ("Matroska or WebM", "pyav"),
    "MKV": ("Matroska or WebM", "pyav"),
    "AAC": ("AAC", "pyav"),
    "TS": ("MPEG transport stream", "pyav"),
    "MPEG": ("MPEG program stream", "pyav"),
}
"""Format to make, what it is told to be, and what decodes it on auto."""

EXACT = ("WAV", "FLAC", "AIFF", "MOV", "MKV", "OGA")
"""Lossless as `make_audio` writes them."""

SLACK = {"AAC": 2304, "TS": 2304, "MPEG": 1152, "M4A": 1024, "MP4": 1024}
"""Samples by which a codec's frames may be longer than what was encoded."""


def test_every_format_is_told_from_its_bytes_and_its_backend_written_into_the_spec() -> None:
    for format_, (name, backend) in FORMATS.items():
        clip = make_audio(0.5, 48_000, 2, format=format_)
        told = sniff(clip)
        ref = AudioMediaIO().load_bytes_ref(clip)

        assert told is not None, format_
        assert told.name == name, format_
        assert ref.spec == DecodeSpec({"audio_backend": backend}), format_
        assert not ref.is_decoded


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("backend", ["auto", "pyav"])
@pytest.mark.parametrize("format_", FORMATS)
def test_every_format_decodes_to_mono_at_its_native_rate(format_: str, backend: str, channels: int) -> None:
    clip = make_audio(1, 48_000, channels, format=format_)
    want = sound(1, 48_000, channels).mean(axis=1)

    samples, rate = AudioMediaIO(audio_backend=backend).load_bytes(clip)  # type: ignore[arg-type]  # from a table

    assert rate == 48_000
    assert samples.dtype == np.float32
    assert samples.ndim == 1
    assert samples.flags.c_contiguous
    assert 48_000 <= len(samples) <= 48_000 + SLACK.get(format_, 0)
    if format_ in EXACT:
        assert np.array_equal(samples, want)
    # The same sound: loudness within a tenth, and the loudest frequency where it was put.
    assert np.sqrt(np.mean(samples**2)) == pytest.approx(np.sqrt(np.mean(want**2)), rel=0.1)
    spectrum = np.abs(np.fft.rfft(samples[:48_000]))
    tones = [440 * (channel + 1) for channel in range(channels)]
    assert any(abs(int(spectrum.argmax()) - tone) <= 1 for tone in tones)


@pytest.mark.parametrize("format_", ["WAV", "FLAC", "AIFF"])
def test_the_two_backends_agree_on_what_both_read(format_: str) -> None:
    clip = make_audio(1, 48_000, 2, format=format_)

    one, _ = AudioMediaIO(audio_backend="soundfile").load_bytes(clip)
    other, _ = AudioMediaIO(audio_backend="pyav").load_bytes(clip)

    assert np.array_equal(one, other)


@pytest.mark.parametrize("format_", ["OGG", "MP3"])
def test_lossy_codecs_give_what_libsndfile_gives(format_: str) -> None:
    """Called here directly; lazymedia gives it neither."""
    clip = make_audio(1, 48_000, 2, format=format_)
    want = soundfile.read(io.BytesIO(clip), dtype="float32")[0]

    samples, _ = AudioMediaIO().load_bytes(clip)

    assert len(samples) == len(want)
    assert np.abs(samples - want.mean(axis=1)).max() < 2e-5


@pytest.mark.parametrize(
    ("subtype", "in_mov", "step"),
    [
        ("PCM_16", "pcm_s16le", 2**-15),
        ("PCM_24", "pcm_s24le", 2**-23),
        ("PCM_32", "pcm_s32le", 2**-24),
        ("FLOAT", "pcm_f32le", 0),
        ("DOUBLE", "pcm_f64le", 0),
    ],
)
@pytest.mark.parametrize("channels", [1, 2])
def test_the_same_pcm_in_a_wav_and_in_a_movie_gives_the_same_samples(
    subtype: str, in_mov: str, step: float, channels: int
) -> None:
    samples = sound(0.5, 44_100, channels)

    by_soundfile, rate = AudioMediaIO().load_bytes(encode(samples, 44_100, format="WAV", subtype=subtype))
    in_movie, movie_rate = AudioMediaIO().load_bytes(encode(samples, 44_100, format="MOV", subtype=in_mov))

    assert rate == movie_rate == 44_100
    assert np.abs(by_soundfile - in_movie).max() <= step


def test_opus_gives_the_same_samples_in_ogg_and_in_webm() -> None:
    in_ogg = make_audio(1, 48_000, 2, format="OGG", subtype="libopus")
    in_webm = make_audio(1, 48_000, 2, format="WEBM")
    assert in_ogg[:4] == b"OggS"

    assert np.array_equal(AudioMediaIO().load_bytes(in_ogg)[0], AudioMediaIO().load_bytes(in_webm)[0])


@pytest.mark.parametrize("backend", ["soundfile", "pyav"])
@pytest.mark.parametrize("subtype", ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW", "ALAW"])
def test_pcm_of_any_width_lies_within_one_and_keeps_its_loudness(subtype: str, backend: str) -> None:
    """Integers cast to float without scaling went up to 32767."""
    clip = make_audio(1, 16_000, subtype=subtype)

    samples, _ = AudioMediaIO(audio_backend=backend).load_bytes(clip)  # type: ignore[arg-type]  # from a table

    assert 0.48 < np.abs(samples).max() < 0.53
    assert abs(samples.mean()) < 0.02


@pytest.mark.parametrize("format_", ["WAV", "AIFF", "FLAC"])
def test_each_sample_of_16_bits_is_the_float_that_libsndfile_makes_of_it(format_: str) -> None:
    every = np.arange(-32_768, 32_768, dtype=np.float32)[:, None] / np.float32(32_768)
    clip = encode(every, 16_000, format=format_)

    samples, _ = AudioMediaIO(audio_backend="soundfile").load_bytes(clip)

    assert np.array_equal(samples, soundfile.read(io.BytesIO(clip), dtype="float32")[0])
    assert np.array_equal(samples, every[:, 0])


@pytest.mark.parametrize("backend", ["soundfile", "pyav"])
@pytest.mark.parametrize(("bits", "lowest"), [(8, b"\x00"), (16, b"\x00\x80"), (24, b"\0\0\x80"), (32, b"\0\0\0\x80")])
def test_the_lowest_integer_is_minus_one_exactly(bits: int, lowest: bytes, backend: str) -> None:
    clip = wav(lowest * 100, bits=bits)

    samples, _ = AudioMediaIO(audio_backend=backend).load_bytes(clip)  # type: ignore[arg-type]  # from a table

    assert samples.tolist() == [-1.0] * 100


@pytest.mark.parametrize("backend", ["soundfile", "pyav"])
@pytest.mark.parametrize("format_", ["WAV", "FLAC"])
def test_packed_stereo_is_two_channels_and_not_one_of_double_length(format_: str, backend: str) -> None:
    """PyAV gives packed frames as one row."""
    samples = sound(1, 16_000, 2)

    clip = encode(samples, 16_000, format=format_)
    mono, _ = AudioMediaIO(audio_backend=backend).load_bytes(clip)  # type: ignore[arg-type]  # from a table

    assert np.array_equal(mono, (samples[:, 0] + samples[:, 1]) * np.float32(0.5))


@pytest.mark.parametrize("channels", [3, 6, 8])
@pytest.mark.parametrize("backend", ["soundfile", "pyav"])
def test_mono_of_many_channels_is_their_mean(channels: int, backend: str) -> None:
    samples = sound(0.5, 48_000, channels)

    clip = encode(samples, 48_000, format="FLAC")
    mono, _ = AudioMediaIO(audio_backend=backend).load_bytes(clip)  # type: ignore[arg-type]  # from a table

    assert np.abs(mono - samples.mean(axis=1)).max() < 1e-6


@pytest.mark.parametrize("format_", ["M4A", "WEBM", "AAC", "TS", "OGG", "OPUS", "MP3"])
def test_soundfile_by_name_reads_nothing_by_another_library(format_: str) -> None:
    reader = AudioMediaIO(audio_backend="soundfile")
    ref = reader.load_bytes_ref(make_audio(0.2, 48_000, format=format_))

    assert ref.spec == DecodeSpec({"audio_backend": "soundfile"})
    with pytest.raises(UnprocessableMediaError, match="soundfile does not read"):
        ref.decode()


def test_the_configured_spec_names_a_backend_only_where_the_operator_did() -> None:
    assert AudioMediaIO().get_decode_spec() == AudioMediaIO(audio_backend=None).get_decode_spec() == DecodeSpec()
    assert AudioMediaIO(audio_backend="pyav").get_decode_spec() == DecodeSpec({"audio_backend": "pyav"})
    with pytest.raises(ValueError, match="audio_backend"):
        AudioMediaIO(audio_backend="ffmpeg")  # type: ignore[arg-type]  # the case under test


def test_one_clip_has_one_key_whether_its_backend_was_named_or_chosen() -> None:
    clip = make_audio(0.1)

    assert AudioMediaIO().load_bytes_ref(clip).key == AudioMediaIO(audio_backend="soundfile").load_bytes_ref(clip).key
    assert AudioMediaIO().load_bytes_ref(clip).key != AudioMediaIO(audio_backend="pyav").load_bytes_ref(clip).key


@pytest.mark.parametrize("before", [b"ID3\4\0\0\0\0\0\x0a" + b"\0" * 10, b"\0" * 700])
def test_an_mp3_is_found_behind_tags_and_padding(before: bytes) -> None:
    ref = AudioMediaIO().load_bytes_ref(before + make_audio(1, 44_100, format="MP3"))

    assert ref.spec == DecodeSpec({"audio_backend": "pyav"})
    samples, rate = ref.decode()
    assert rate == 44_100
    # Behind padding FFmpeg does not look for the frame that says what an encoder added at both ends.
    assert len(samples) == 44_100 if before[:3] == b"ID3" else 44_100 <= len(samples) <= 44_100 + 3 * 1152


def test_a_picture_in_an_mp3_is_passed_over() -> None:
    """Cover art shows up as a video stream."""
    picture = b"\0image/png\0\3\0" + b"\x89PNG" + b"\0" * 5000
    frame = b"APIC" + len(picture).to_bytes(4, "big") + b"\0\0" + picture
    size = len(frame)
    tag = b"ID3\3\0\0" + bytes([size >> 21 & 127, size >> 14 & 127, size >> 7 & 127, size & 127]) + frame
    clip = tag + make_audio(1, 44_100, format="MP3")

    samples, _ = AudioMediaIO().load_bytes(clip)
    assert len(samples) == 44_100


def test_a_name_that_ffmpeg_would_follow_opens_nothing() -> None:
    """Playlists and the like are no audio here, whatever FFmpeg makes of them."""
    for text in (
        b"ffconcat version 1.0\nfile 'secret.wav'\n",
        b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n",
        b"v=0\r\n",
    ):
        for backend in ("auto", "pyav"):
            with pytest.raises(UnprocessableMediaError, match="not a supported audio format"):
                AudioMediaIO(audio_backend=backend).load_bytes(text)


@pytest.mark.parametrize("channels", [3, 6, 8])
@pytest.mark.parametrize("format_", ["M4A", "AAC", "TS", "WEBM", "OGG"])
def test_every_channel_of_a_lossy_clip_is_in_its_mono(format_: str, channels: int) -> None:
    """Eight planes, as 7.1 has, once ended the process."""
    subtype = "libopus" if format_ == "OGG" else None
    clip = make_audio(1, 48_000, channels, format=format_, subtype=subtype)

    samples, _ = AudioMediaIO().load_bytes(clip)

    spectrum = np.abs(np.fft.rfft(samples[:48_000]))
    tones = [440 * (channel + 1) for channel in range(channels)]
    # 5.1 and 7.1 have a channel for low frequencies, which AAC keeps of it only.
    wanted = [tone for channel, tone in enumerate(tones) if channels < 6 or channel != 3]
    assert set(wanted) <= {int(peak) for peak in np.argsort(spectrum)[-channels:]}
