"""MP3s through a pipe beside MP3s as a stream: what holds whatever ends a decode, and that nothing is lost."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any, Final
from unittest.mock import patch

import numpy as np
import pytest

from lazymedia.media.audio import feed
from lazymedia.media.audio.mp3_reader import Recorded
from lazymedia.media.audio.mp3_recordings import Recording
from lazymedia.media.stopping import DecodeStopped, stopping_when
from tests.media.many_at_a_time import checks, load, open_files, outcome
from tests.media.mp3_clips import ape, constant, dropping, frames, id3v1, id3v2, layer_two, song, telling, untold
from tests.media.stops import After

pytestmark = pytest.mark.skipif(not feed.is_possible(), reason="needs pipes that tell how much they hold")

MUTANTS: Final = 20_000 if os.environ.get("LAZYMEDIA_LONG_TESTS") else 400


def long() -> bytes:
    """Of many calls, the last of which is short, at the highest bit rate there is."""
    return constant(15, 48_000, 2, kbits=320)


def as_stream(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function with decodes as where there are no pipes."""
    with patch.object(feed, "_HERE", new=False):
        return function(*args)


def test_a_pipe_is_what_a_good_clip_goes_through() -> None:
    opened: list[bool] = []
    read_pipe = Recorded._read_pipe

    def spy(self: Recorded, pipe: feed.Feed, out: Any) -> Any:
        got = read_pipe(self, pipe, out)
        opened.append(got is not None)
        return got

    with patch.object(Recorded, "_read_pipe", spy):
        load(long())
    assert len(opened) > 10
    assert all(opened)


@pytest.mark.parametrize("clip", [long, partial(song, 440, 25)], ids=["constant", "variable"])
@pytest.mark.parametrize("size", [4_096, 1 << 16, 80_000, 100_000, 1 << 17, 1 << 20])
def test_a_pipe_of_any_size_gives_what_a_stream_gives(
    clip: Callable[[], bytes], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "_PIPE", (size, size))

    with patch.object(Recorded, "_go_on_as_stream", side_effect=AssertionError):
        for one in (clip(), untold(clip())):
            assert np.array_equal(load(one), as_stream(load, one))


@pytest.mark.parametrize("few", [1, 2, 7])
def test_where_a_pipe_runs_dry_the_rest_is_read_as_a_stream(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end is what libsndfile would take it for."""
    pieces, go_on, went_on = Recording.pieces, Recorded._go_on_as_stream, 0

    def too_little(self: Recording, samples: int) -> Iterator[memoryview]:
        for number, piece in enumerate(memoryview(piece) for piece in pieces(self, samples)):
            size = len(piece) if number < few else 500
            yield from (piece[start : start + size] for start in range(0, len(piece), size))

    def counted(self: Recorded, out: Any) -> None:
        nonlocal went_on
        went_on += 1
        go_on(self, out)

    want = as_stream(load, long())
    monkeypatch.setattr(Recording, "pieces", too_little)
    monkeypatch.setattr(Recorded, "_go_on_as_stream", counted)

    assert np.array_equal(load(long()), want)
    assert went_on == 1


def test_no_file_stays_open_whatever_ends_a_decode() -> None:
    damaged = long()[:50_000] + bytes(2_000) + long()[50_000:]
    row = song(seconds=0.5) + untold(song(seconds=0.5))
    load(row)
    before = open_files()

    for clip in (damaged, row, long()):
        outcome(clip)
        for left in range(8):
            with stopping_when(After(left)), pytest.raises(DecodeStopped):
                load(long())
        for left in range(checks(row)):
            with stopping_when(After(left)), pytest.raises(DecodeStopped):
                load(row)
    assert open_files() == before


def test_where_no_more_files_may_be_opened_it_is_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Any:
        raise OSError(24, "too many open files")

    want = load(long())
    monkeypatch.setattr(os, "pipe", fail)

    assert np.array_equal(load(long()), want)


@cache
def good() -> list[bytes]:
    """Of every version, layer and mode that an encoder here writes."""
    rates = (8_000, 11_025, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
    made = [song(seconds=0.4, rate=rate, channels=channels) for rate in rates for channels in (1, 2)]
    made += [constant(0.4, rate, channels) for rate in rates for channels in (1, 2)]
    return [*made, layer_two(), layer_two(24_000)]


def mutant(dice: random.Random) -> bytes:
    """Some of them, with and without what tells their frames, between tags, cut, and with bytes that are wrong."""
    parts = []
    for _ in range(dice.choice([1, 1, 1, 2, 4])):
        clip = dice.choice(good())
        if clip[:1] == b"\xff" and len(frames(clip)) > 2 and dice.random() < 0.5:
            clip = clip[len(frames(clip)[0]) :]
        elif dice.random() < 0.3 and b"Xing" in clip[:60]:
            clip = telling(clip, dice.choice([0, 1, 5, len(frames(clip)) - 1, 1_000, 2**31, 2**32 - 1]))
            clip = dropping(clip, *dice.choice([(576, 1_000), (4_095, 4_095), (0, 1_152), (0, 4_095)]))
        parts += [dice.choice([b"", b"", id3v1(), id3v2(dice.randrange(3_000)), ape(32 + dice.randrange(99))]), clip]
    made = bytearray(b"".join(parts))
    for _ in range(dice.choice([0, 1, 1, 2, 30]) if len(made) > 1_000 else 0):
        at = dice.randrange(1 + (len(made) if dice.random() < 0.7 else min(len(made), 200)))
        change = dice.randrange(4)
        if change < 2:
            made[at : at + 1] = dice.randbytes(1)
        elif change == 2:
            made[at : at + dice.randrange(600)] = dice.randbytes(dice.randrange(50))
        else:
            made[at : at + 4] = dice.choice([b"Xing", b"Info", b"\xff\xfb\x90\xc4", b"TAG\0", b"ID3\3", bytes(4)])
    return bytes(made[: dice.randrange(len(made) + 1)] if dice.random() < 0.2 else made)


def test_any_damage_comes_to_the_same_by_pipe_and_by_stream() -> None:
    heard = 0
    for seed in range(MUTANTS):
        clip = mutant(random.Random(seed))
        got = outcome(clip)
        assert got == as_stream(outcome, clip), seed
        heard += isinstance(got[0], int)
    assert heard > MUTANTS // 3
