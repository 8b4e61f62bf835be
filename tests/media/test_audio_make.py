"""`make_audio`: the same clip for the same arguments, another for others."""

from __future__ import annotations

import io

import numpy as np
import pytest
import soundfile

from lazymedia.testing.audio import encode, make_audio, sound


def test_equal_arguments_give_equal_bytes_and_another_seed_another_clip() -> None:
    for format_ in ("WAV", "FLAC", "MP3", "M4A"):
        assert make_audio(0.1, 48_000, format=format_) == make_audio(0.1, 48_000, format=format_), format_
        assert make_audio(0.1, 48_000, format=format_) != make_audio(0.1, 48_000, format=format_, seed=1), format_


def test_the_clip_holds_what_was_asked_for() -> None:
    with soundfile.SoundFile(io.BytesIO(make_audio(0.5, 22_050, 2, subtype="PCM_24"))) as file:
        assert (file.samplerate, file.channels, file.frames, file.subtype) == (22_050, 2, 11_025, "PCM_24")
        assert np.array_equal(file.read(dtype="float32"), sound(0.5, 22_050, 2))


def test_every_channel_has_a_tone_of_its_own() -> None:
    samples = sound(1, 16_000, 3, frequency=500)

    assert [int(np.abs(np.fft.rfft(samples[:, channel])).argmax()) for channel in range(3)] == [500, 1000, 1500]


def test_a_long_vorbis_clip_can_be_made() -> None:
    """Written in one go, it overran the encoder's stack."""
    assert len(make_audio(120, 44_100, format="OGG")) > 100_000


def test_an_unknown_format_is_rejected() -> None:
    with pytest.raises(ValueError, match="WAV"):
        encode(sound(0.1), 16_000, format="RAW")
