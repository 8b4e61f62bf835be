"""MP3s of any length and number of recordings: every frame is heard, whatever a header says or a bit rate suggests."""

from __future__ import annotations

import numpy as np
import pytest

from lazymedia.limits import Limits
from lazymedia.media.audio import AudioInfo, AudioMediaIO
from tests.media.hearing import RATE, decode, pitches, refusal
from tests.media.mp3_clips import (
    ape,
    constant,
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


def read(clip: bytes) -> tuple[np.ndarray[tuple[int], np.dtype[np.float32]], AudioInfo]:
    (samples, _), info = AudioMediaIO().load_bytes_and_info(clip)
    return samples, info


@pytest.mark.parametrize("rate", [8_000, 11_025, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000])
@pytest.mark.parametrize("channels", [1, 2])
def test_without_a_frame_that_tells_their_number_all_frames_are_heard(rate: int, channels: int) -> None:
    """A reader that takes the bit rate of the first frame for that of all ends with a part of them."""
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
    """As advertisements are put into a podcast, or files behind each other by ``cat``. No error is reported. The frame
    that says how many follow is heard as one of silence, and a tag behind a recording may cost a frame.
    """
    together, info = read(between.join(SONGS))

    parts = [len(decode(one)) for one in SONGS]
    assert sum(parts) - 3 * FRAME <= len(together) <= sum(parts) + 8 * FRAME
    assert (info.lost_samples, info.errors) == (0, 0)
    starts = np.cumsum([0, *parts])
    assert [pitches(together[start + 9_600 :])[0] for start in starts[:-1]] == [440, 1_000, 700, 300]


@pytest.mark.parametrize("other", [{"rate": 44_100}, {"rate": 24_000}, {"channels": 2}])
@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("turned", [False, True])
def test_recordings_in_a_row_that_differ_are_an_error(other: dict[str, int], bare: bool, turned: bool) -> None:
    songs = [untold(one) if bare else one for one in (song(), song(**other))]

    assert "in the middle" in refusal(b"".join(reversed(songs) if turned else songs))


@pytest.mark.parametrize("told", [0, 1, 40, 83, 85, 1_000, 2**31, 2**32 - 1])
def test_a_number_of_frames_that_is_wrong_hides_none(told: int) -> None:
    """The padding that the tag counts from there is left out, which is a frame or so."""
    clip = song()
    count = len(frames(clip)) - 1

    heard, info = read(telling(clip, told))

    assert FRAME * (count - 5) <= len(heard) <= FRAME * count
    assert info.lost_samples is not None
    assert (info.lost_samples > 0) == (told > count)


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
def test_what_surrounds_frames_changes_at_most_the_last_of_them(clip: bytes) -> None:
    samples, rate = AudioMediaIO().load_bytes(clip)

    start = clip.index(b"\xff")
    bare = clip[start:].split(b"LYRICS")[0].split(bytes(range(1, 255)))[0].split(b"APETAGEX")[0].rstrip(b"\0")
    alone = decode(bare)
    assert abs(len(samples) - len(alone)) <= 2 * FRAME
    assert np.array_equal(samples[: len(alone) - 2 * FRAME], alone[: -2 * FRAME])
    assert pitches(samples, rate)[0] in {440, 880}  # the second channel is twice as high


@pytest.mark.parametrize("clip", [song(), untold(song()), layer_two(), song() + untold(song())])
@pytest.mark.parametrize("told", [None, 10, 96_000])
def test_in_a_wav_an_mp3_has_all_its_frames(clip: bytes, told: int | None) -> None:
    channels = 2 if clip == layer_two() else 1
    wav = in_wav(clip, channels=channels, tag=0x55 if channels == 1 else 0x50, told=told)
    reference = AudioMediaIO().load_bytes_ref(wav)

    header = reference.probe()
    assert header is not None
    assert (header.rate, header.channels, header.samples) == (RATE, channels, None)
    samples = reference.decode()[0]
    assert len(decode(clip)) <= len(samples) <= len(decode(clip)) + 3 * FRAME
    assert set(pitches(samples)) <= {440, 880}


@pytest.mark.parametrize("bare", [False, True])
def test_a_last_frame_that_is_cut_costs_no_other(bare: bool) -> None:
    clip = untold(song()) if bare else song()
    *kept, last = frames(clip)
    whole = decode(b"".join(kept))

    for left in (1, 3, 4, len(last) // 2, len(last) - 1):
        samples = decode(b"".join(kept) + last[:left])
        assert len(whole) <= len(samples) <= len(whole) + FRAME
        assert np.array_equal(samples[: len(whole) - FRAME], whole[:-FRAME])


@pytest.mark.parametrize("bit", range(32))
@pytest.mark.parametrize("channels", [1, 2])
def test_a_header_that_is_wrong_in_one_bit_costs_a_few_frames_and_not_the_rest(bit: int, channels: int) -> None:
    for clip in (song(channels=channels), untold(song(channels=channels)), constant(channels=channels)):
        every = frames(clip)
        every[30] = flipped(every[30], bit)

        samples = decode(b"".join(every))

        assert len(decode(clip)) - 5 * FRAME <= len(samples) <= len(decode(clip))
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
def test_whatever_lies_between_frames_hides_a_frame_or_two_and_not_the_rest(junk: bytes, rate: int) -> None:
    for one, other in ((song, song), (untold, song), (song, untold), (untold, untold)):
        first = song(440, rate=rate) if one is song else untold(song(440, rate=rate))
        second = song(1_000, rate=rate) if other is song else untold(song(1_000, rate=rate))

        samples = decode(first + junk + second)

        both = len(decode(first)) + len(decode(second))
        assert both - 2 * FRAME <= len(samples) <= both + 4 * FRAME
        assert pitches(samples, rate)[2] == 1_000


PROGRAM = b"\xff\xff\x25\xba".ljust(64, b"\x90") * 20
"""Jumps, as a linker writes them: frames of layer I, if that is what they were."""


@pytest.mark.parametrize("first", [song(), untold(song())])
def test_what_only_looks_like_frames_is_left_out(first: bytes) -> None:
    other = song(1_000)

    for junk in (PROGRAM, b"\0" + PROGRAM, bytes(1_000) + PROGRAM + bytes(100_000)):
        samples, info = read(first + junk)
        assert abs(len(samples) - len(decode(first))) <= 2 * FRAME
        assert info.errors
        assert pitches(decode(first + junk + other))[2] == 1_000


@pytest.mark.parametrize("frame", [b"", *frames(song(seconds=0.1))[1:2]])
def test_a_recording_of_hardly_a_frame_costs_no_other(frame: bytes) -> None:
    telling_alone = frames(song())[0] + frame

    for clip in (telling_alone + id3v1() + song(), song() + telling_alone, song() + b"\0" + telling_alone + b"\0"):
        assert abs(len(decode(clip)) - len(decode(song()))) <= 4 * FRAME
        assert pitches(decode(clip)) == [440, 440]


def test_segments_with_a_tag_each_are_one_recording() -> None:
    """As HLS sends them. FFmpeg's demuxer puts a tag into the packet of the frame behind it."""
    every = frames(untold(song(seconds=12)))

    samples, info = read(b"".join(id3v2(63) + frame for frame in every))

    assert np.array_equal(samples, decode(b"".join(every)))
    assert (info.lost_samples, info.errors) == (0, 0)


def test_titles_within_frames_cost_a_frame_or_two() -> None:
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
def test_a_limit_of_just_its_length_lets_it_pass(rate: int) -> None:
    for clip in (song(seconds=3, rate=rate), untold(song(seconds=3, rate=rate)) * 20):
        samples = decode(clip)
        limits = Limits(max_audio_seconds=len(samples) / rate, max_audio_decoded_bytes=4 * len(samples))
        assert np.array_equal(AudioMediaIO(limits=limits).load_bytes(clip)[0], samples)


def test_what_is_known_beforehand_is_what_is_decoded() -> None:
    lone = frames(song(rate=44_100, channels=2))[1]

    for clip in (id3v2(50, 0x10) + untold(song()), lone + untold(song()), in_wav(song(rate=24_000))):
        ref = AudioMediaIO().load_bytes_ref(clip)
        header = ref.probe()
        assert header is not None
        assert (header.rate, header.channels) == (ref.decode()[1], 1)
