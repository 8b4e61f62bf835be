"""Recordings that follow each other in one OGG, as radio stations send songs."""

from __future__ import annotations

import io
from itertools import pairwise

import numpy as np
import pytest
import soundfile

from lazymedia.limits import Limits
from lazymedia.media.audio import AudioMediaIO
from lazymedia.media.containers import ogg
from lazymedia.media.containers.ogg import MAX_LINKS
from lazymedia.testing.audio import make_audio, sound
from tests.media.hearing import RATE, decode, pitches, refusal
from tests.media.ogg_pages import packed, sheets


def song(frequency: float, *, rate: int = RATE, channels: int = 1, format_: str = "OGG", quality: float = 0.5) -> bytes:
    """A second of a tone as one OGG; every song has a serial number of its own."""
    buffer = io.BytesIO()
    kind = {"OGG": "VORBIS", "OPUS": "OPUS"}[format_]
    with soundfile.SoundFile(
        buffer, "w", rate, channels, format="OGG", subtype=kind, compression_level=quality
    ) as file:
        for start in range(0, rate, 1 << 14):
            file.write(sound(1, rate, channels, frequency=frequency)[start : start + (1 << 14)])
    return buffer.getvalue()


@pytest.mark.parametrize("backend", ["auto", "pyav"])
@pytest.mark.parametrize("qualities", [(0.5, 0.5), (0.0, 1.0), (1.0, 0.0)])
def test_recordings_in_a_row_are_all_heard_whatever_tables_each_has(
    qualities: tuple[float, float], backend: str
) -> None:
    """FFmpeg by itself goes on with the first one's tables and makes noise."""
    songs = [song(440, quality=qualities[0]), song(1000, quality=qualities[1]), song(700)]

    together = decode(b"".join(songs), backend)

    assert np.array_equal(together, np.concatenate([decode(one, backend) for one in songs]))
    assert pitches(together) == [440, 1000, 700]


@pytest.mark.parametrize(
    "songs",
    [
        (song(440), song(440, channels=2)),
        (song(440, channels=2), song(440)),
        (song(440), song(440, rate=24_000)),
        (song(440, rate=24_000), song(440)),
        (song(440, format_="OPUS"), song(440, channels=2, format_="OPUS")),
        (song(440, channels=2, format_="OPUS"), song(440, format_="OPUS")),
    ],
    ids=["more channels", "fewer channels", "slower", "faster", "Opus, more channels", "Opus, fewer channels"],
)
@pytest.mark.parametrize("backend", ["auto", "pyav"])
def test_recordings_in_a_row_that_differ_are_an_error_and_not_the_first_of_them(
    songs: tuple[bytes, bytes], backend: str
) -> None:
    assert refusal(b"".join(songs), backend)


def test_opus_in_a_row_is_all_heard() -> None:
    songs = [song(frequency, format_="OPUS") for frequency in (440, 1000)]

    for backend in ("auto", "pyav"):
        assert pitches(decode(b"".join(songs), backend)) == [440, 1000]


@pytest.mark.parametrize("backend", ["auto", "pyav"])
def test_flac_in_a_row_is_all_heard_and_differing_ones_are_an_error(backend: str) -> None:
    one, other = (make_audio(1, RATE, format="OGA", frequency=frequency) for frequency in (440, 1000))

    assert np.array_equal(decode(one + other, backend), np.concatenate([decode(one), decode(other)]))
    for odd in (make_audio(1, RATE, 2, format="OGA"), make_audio(1, 24_000, format="OGA")):
        assert refusal(one + odd, backend)
        assert refusal(odd + one, backend)


def test_very_many_recordings_in_a_row_are_rejected_and_the_limit_on_seconds_counts_all() -> None:
    tiny = make_audio(0.001, 8_000, format="OGG")
    assert len(decode(tiny * 20)) == 20 * len(decode(tiny))

    assert f"{MAX_LINKS} recordings" in refusal(tiny * (MAX_LINKS + 1))
    assert "2 seconds" in refusal(song(440) * 3, limits=Limits(max_audio_seconds=2))


@pytest.mark.parametrize("at_once", [1, 2, 5, 100, 4_242])
def test_where_recordings_begin_does_not_depend_on_how_much_is_searched_at_once(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    songs = [song(frequency)[: 4_000 + frequency] for frequency in (440, 1000, 700)]
    monkeypatch.setattr(ogg, "_AT_ONCE", at_once)

    starts = np.cumsum([0, *map(len, songs)])
    assert ogg.links_of(b"".join(songs), "audio") == [slice(*ends) for ends in pairwise(starts)]


@pytest.mark.parametrize("kept", [0.3, 0.8, 0.95])
def test_recordings_in_a_row_cut_off_yield_what_exists(kept: float) -> None:
    songs = [song(440), song(1000)]
    both = b"".join(songs)
    whole, first = decode(both), len(decode(songs[0]))

    samples = decode(both[: int(len(both) * kept)])

    assert np.array_equal(samples, whole[: len(samples)])
    assert len(samples) < first if kept < 0.5 else first <= len(samples) < 2 * first


@pytest.mark.parametrize("damaged", [0, 1, 2])
def test_a_recording_whose_tables_are_damaged_is_left_out_and_counted(damaged: int) -> None:
    songs = [song(440), song(1000), song(700)]
    broken = [one[:1_000] + bytes(1_000) + one[2_000:] if at == damaged else one for at, one in enumerate(songs)]

    (samples, _), info = AudioMediaIO().load_bytes_and_info(b"".join(broken))

    assert np.array_equal(samples, np.concatenate([decode(one) for at, one in enumerate(songs) if at != damaged]))
    assert info.errors == 1


@pytest.mark.parametrize("format_", ["OGG", "OPUS", "FLAC"])
def test_a_recording_of_headers_alone_is_left_out_and_counted(format_: str) -> None:
    if format_ == "FLAC":
        songs = [make_audio(1, RATE, format="OGA", frequency=frequency) for frequency in (440, 1000)]
    else:
        songs = [song(440, format_=format_), song(1000, format_=format_)]
    headers = packed([sheet for sheet in sheets(songs[1]) if sheet.granule <= 0])
    assert len(headers) < len(songs[1]) // 2

    for clip in (songs[0] + headers, headers + songs[0]):
        (samples, _), info = AudioMediaIO().load_bytes_and_info(clip)
        assert np.array_equal(samples, decode(songs[0]))
        assert info.errors
    refusal(headers)


def test_a_recording_that_is_cut_within_its_tables_is_left_out_and_counted() -> None:
    songs = [song(440), song(1000)]

    (samples, _), info = AudioMediaIO().load_bytes_and_info(songs[0] + songs[1][:1_000])

    assert np.array_equal(samples, decode(songs[0]))
    assert info.errors


@pytest.mark.parametrize("format_", ["OGG", "OPUS"])
@pytest.mark.parametrize("backend", ["auto", "pyav"])
def test_one_number_for_two_recordings_loses_no_sample(format_: str, backend: str) -> None:
    """RFC 3533 gives each its own. FFmpeg by itself loses samples of them."""
    one = song(440, format_=format_)

    assert np.array_equal(decode(one + one, backend), np.tile(decode(one, backend), 2))
