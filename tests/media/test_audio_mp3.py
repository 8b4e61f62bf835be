"""MP3s of any length and number of recordings: every frame is heard, whatever a header tells or a bit rate suggests."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest

from lazymedia.limits import Limits
from lazymedia.media.audio import AudioMediaIO
from tests.media.hearing import RATE, decode, pitches, refusal
from tests.media.many_at_a_time import load, outcome
from tests.media.mp3_clips import (
    ape,
    constant,
    dropping,
    flipped,
    frames,
    id3v1,
    id3v2,
    in_wav,
    layer_two,
    song,
    telling,
    untold,
)

FRAME = 1152


@pytest.mark.parametrize("rate", [8_000, 11_025, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000])
@pytest.mark.parametrize("channels", [1, 2])
def test_without_a_frame_that_tells_their_number_all_frames_are_heard(rate: int, channels: int) -> None:
    """On its own, libsndfile takes the bit rate of the first for that of all, and ends with a part of them."""
    clip = song(seconds=3, rate=rate, channels=channels)
    bare = untold(clip)

    samples, got = AudioMediaIO().load_bytes(bare)

    per_frame = FRAME if rate >= 32_000 else FRAME // 2
    assert (len(samples), got) == (per_frame * len(frames(bare)), rate)


SONGS = [song(440), untold(song(1_000)), song(700), untold(song(300))]
BETWEEN = {
    "nothing": b"",
    "a tag behind": id3v1(),
    "a tag before": id3v2(5_000),
    "a tag before, with a footer": id3v2(300, 0x10),
    "a long tag before": id3v2(200_000),
    "a tag of APE's": ape(3_000),
    "all of them": ape(100) + id3v1() + id3v2(77),
}


@pytest.mark.parametrize("between", BETWEEN.values(), ids=BETWEEN)
def test_recordings_in_a_row_are_all_heard(between: bytes) -> None:
    """As advertisements are put into a podcast, or files behind each other by ``cat``."""
    together = decode(between.join(SONGS))

    parts = [decode(one) for one in SONGS]
    assert np.array_equal(together, np.concatenate(parts))
    starts = np.cumsum([0, *map(len, parts)])
    assert [pitches(together[start + 9_600 :])[0] for start in starts[:-1]] == [440, 1_000, 700, 300]


@pytest.mark.parametrize("other", [{"rate": 44_100}, {"rate": 24_000}, {"channels": 2}])
@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("turned", [False, True])
def test_recordings_in_a_row_that_differ_are_an_error(other: dict[str, int], bare: bool, turned: bool) -> None:
    songs = [untold(one) if bare else one for one in (song(), song(**other))]

    assert "in the middle" in refusal(b"".join(reversed(songs) if turned else songs))


@pytest.mark.parametrize("told", [0, 1, 40, 83, 85, 1_000, 2**31, 2**32 - 1])
def test_a_number_of_frames_that_is_wrong_hides_none(told: int) -> None:
    clip = song()
    count = len(frames(clip)) - 1

    heard = len(decode(telling(clip, told)))

    # Beyond what was told a few are padding; that they begin and end with silence is told beside their number.
    assert FRAME * (count - 5) <= heard <= FRAME * count


@pytest.mark.parametrize(
    "clip",
    [
        constant(rate=44_100),
        constant(rate=16_000, channels=2),
        untold(constant()),
        layer_two(),
        id3v2(3_000) + id3v2(10) + song(),
        song() + bytes(100_000),
        song() + b"LYRICSBEGIN" + bytes(range(1, 255)) * 50 + id3v1(),
        untold(song()) + bytes(range(1, 255)) * 50,
        untold(song()) + ape(3_000) + id3v1(),
    ],
    ids=["constant", "slow", "untold", "layer II", "two tags", "zeros", "words", "untold, words", "untold, tags"],
)
def test_what_surrounds_frames_changes_nothing(clip: bytes) -> None:
    samples, rate = AudioMediaIO().load_bytes(clip)

    (recording,) = mp3_recordings.find(clip)
    ((_, start),) = recording.breaks
    assert start == clip.index(b"\xff")
    assert np.array_equal(samples, decode(clip[start : int(recording.ends[-1])]))
    assert pitches(samples, rate)[0] in {440, 880}  # the second channel is twice as high


@pytest.mark.parametrize("clip", [song(), untold(song()), layer_two(), song() + untold(song())])
@pytest.mark.parametrize("told", [None, 10, 96_000])
def test_in_a_wav_an_mp3_is_as_long_as_on_its_own(clip: bytes, told: int | None) -> None:
    channels = 2 if clip == layer_two() else 1
    wav = in_wav(clip, channels=channels, tag=0x55 if channels == 1 else 0x50, told=told)
    reference = AudioMediaIO().load_bytes_ref(wav)

    assert np.array_equal(reference.decode()[0], decode(clip))
    outline = reference.outline()
    assert outline is not None
    assert (outline.rate, outline.channels) == (RATE, channels)


@pytest.mark.parametrize("bare", [False, True])
def test_a_last_frame_that_is_cut_is_left_out(bare: bool) -> None:
    clip = untold(song()) if bare else song()
    *kept, last = frames(clip)

    for left in (1, 3, 4, len(last) // 2, len(last) - 1):
        assert np.array_equal(decode(b"".join(kept) + last[:left]), decode(b"".join(kept)))


@pytest.mark.parametrize("bit", range(32))
@pytest.mark.parametrize("channels", [1, 2])
def test_a_header_that_is_wrong_in_one_bit_costs_a_frame_or_two_and_not_the_rest(bit: int, channels: int) -> None:
    for clip in (song(channels=channels), untold(song(channels=channels)), constant(channels=channels)):
        every = frames(clip)
        every[30] = flipped(every[30], bit)

        samples = decode(b"".join(every))

        assert len(decode(clip)) - 4 * FRAME <= len(samples) <= len(decode(clip))
        assert pitches(samples[-RATE - 2_000 :])[0] in {440, 880}


JUNK = {
    "a byte": b"\0",
    "a byte of a header": b"\xff",
    "zeros": bytes(3_000),
    "many zeros": bytes(300_000),
    "ones": b"\1" * 70_000,
    "words": b"LYRICSBEGIN" + bytes(range(1, 255)) * 20 + id3v1(),
    "tags the other way round": id3v2(100) + id3v1(),
    "many tags": id3v2(9) * 9,
    "a tag that claims to be longer than all": b"ID3\4\0\0\x7f\x7f\x7f\x7f",
    "another": b"APETAGEX" + bytes(4) + b"\0\0\0\x40" + bytes(16),
    "half a frame": frames(song())[40][:150],
}


@pytest.mark.parametrize("junk", JUNK.values(), ids=JUNK)
@pytest.mark.parametrize("rate", [8_000, 48_000])
def test_whatever_lies_between_frames_hides_none(junk: bytes, rate: int) -> None:
    one, other = song(440, rate=rate), song(1_000, rate=rate)
    whole, last = len(decode(one)), (FRAME if rate == 48_000 else FRAME // 2) * (len(frames(other)) - 1)

    assert np.array_equal(decode(one + junk + other), np.concatenate([decode(one), decode(other)]))
    assert len(decode(one + junk + untold(other))) == whole + last
    for first in (untold(one), telling(one, 0)):
        assert len(decode(first + junk + other)) == len(decode(first)) + len(decode(other))
        assert len(decode(first + junk + untold(other))) == len(decode(first)) + last
    assert pitches(decode(one + junk + untold(other)), rate)[2] == 1_000


PROGRAM = b"\xff\xff\x25\xba".ljust(64, b"\x90") * 20
"""Jumps, as a linker writes them: frames of layer I, if that is what they were."""


@pytest.mark.parametrize("first", [song(), untold(song())])
def test_what_only_looks_like_frames_is_left_out(first: bytes) -> None:
    other = song(1_000)

    for junk in (PROGRAM, b"\0" + PROGRAM, bytes(1_000) + PROGRAM + bytes(100_000)):
        assert np.array_equal(decode(first + junk), decode(first))
        assert np.array_equal(decode(first + junk + other), np.concatenate([decode(first), decode(other)]))


@pytest.mark.parametrize("frame", [b"", *frames(song(seconds=0.1))[1:2]])
def test_a_recording_too_short_to_be_opened_costs_no_other(frame: bytes) -> None:
    telling_alone = frames(song())[0] + frame

    for clip in (telling_alone + id3v1() + song(), song() + telling_alone, song() + b"\0" + telling_alone + b"\0"):
        assert np.array_equal(decode(clip), decode(song()))


def test_segments_with_a_tag_each_are_one_recording() -> None:
    """As HLS sends them."""
    every = frames(untold(song(seconds=12)))

    assert len(every) > MAX_RECORDINGS
    assert np.array_equal(decode(b"".join(id3v2(63) + frame for frame in every)), decode(b"".join(every)))


def test_titles_within_frames_cost_no_frame() -> None:
    """As a radio station sends them, and whoever asks for them has to take out."""
    clip = untold(song(seconds=8))
    titled = b"".join(clip[at : at + 4_096] + b"\1StreamTitle='';\0" for at in range(0, len(clip), 4_096))

    assert len(clip) / 4_096 > 15
    assert len(decode(clip)) - 2 * FRAME <= len(decode(titled)) <= len(decode(clip))


def test_a_clip_that_is_cut_before_another_hides_none_of_it() -> None:
    one, other = song(440), untold(song(1_000))

    samples = decode(one[:-100] + other)

    assert len(decode(one)) + len(decode(other)) - 5 * FRAME < len(samples)
    assert pitches(samples)[2] == 1_000


@pytest.mark.parametrize("rate", [8_000, 48_000])
@pytest.mark.parametrize("dropped", [(0, 0), (4_095, 4_095), (576, 4_095)])
@pytest.mark.parametrize("besides", [0, -4, 5])
def test_a_limit_of_just_its_length_lets_it_pass(rate: int, dropped: tuple[int, int], besides: int) -> None:
    clip = song(seconds=3, rate=rate)
    clip = dropping(telling(clip, len(frames(clip)) - 1 + besides), *dropped)

    for row in (clip, clip * 20):
        samples = decode(row)
        limits = Limits(max_audio_seconds=len(samples) / rate, max_audio_decoded_bytes=4 * len(samples))
        assert np.array_equal(AudioMediaIO(limits=limits).load_bytes(row)[0], samples)


def test_what_is_known_beforehand_is_what_is_decoded() -> None:
    lone = frames(song(rate=44_100, channels=2))[1]
    clips = [id3v2(50, 0x10) + untold(song()), lone + untold(song()), in_wav(song(rate=24_000)), in_wav(song(), rate=0)]

    for clip in clips:
        ref = AudioMediaIO().load_bytes_ref(clip)
        outline = ref.outline()
        assert outline is not None
        assert (outline.rate, outline.channels) == (ref.decode()[1], 1)


def test_a_wav_that_does_not_tell_where_its_mp3_is_is_an_error_and_not_a_part_of_it() -> None:
    refusal(in_wav(untold(song()), chunks=65))
    refusal(in_wav(untold(song()), size=0))
    assert len(decode(in_wav(untold(song()), chunks=60, size=2**32 - 1))) == len(decode(untold(song())))
