"""What holds of every decode of many frames at a time, whatever the codec: limits, pipes, threads, and how it ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import pytest

from lazymedia.errors import UnprocessableMediaError
from lazymedia.media.audio import feed, piped
from lazymedia.media.stopping import DecodeStopped, stopping_when
from lazymedia.testing.audio import make_audio
from tests.media.audio_clips import with_packet
from tests.media.many_at_a_time import by_packets, load, open_files, outcome
from tests.media.stops import After

pytestmark = [
    pytest.mark.skipif(not piped.is_possible(), reason="needs pipes that tell how much they hold"),
    pytest.mark.parametrize("format_", ["M4A", "OPUS"]),
]


@cache
def clip(format_: str) -> bytes:
    """Of many calls, the last of which is short."""
    return make_audio(18, 48_000, 2, format=format_)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"max_audio_seconds": 17}, "last 17 seconds"),
        ({"max_audio_decoded_bytes": 6_700_000}, "decode to 6700000 bytes"),
        ({"max_audio_channels": 1}, "2 channels"),
        ({"max_audio_rate": 44_100}, "48000 Hz"),
    ],
)
def test_limits_hold(format_: str, limits: dict[str, int], words: str) -> None:
    with pytest.raises(UnprocessableMediaError, match=words) as caught:
        load(clip(format_), **limits)

    assert caught.value.__cause__ is None


@pytest.fixture
def _files_stay(format_: str) -> Iterator[None]:
    load(clip(format_))
    before = open_files()
    yield
    assert open_files() == before


@pytest.mark.usefixtures("_files_stay")
def test_no_file_stays_open_whatever_ends_a_decode(format_: str) -> None:
    load(clip(format_))
    outcome(with_packet(clip(format_), 500, b"\xff" * 64))
    for left in range(8):
        with stopping_when(After(left)), pytest.raises(DecodeStopped):
            load(clip(format_))


@pytest.mark.usefixtures("_files_stay")
@pytest.mark.parametrize("size", [4_096, 1 << 16, 80_000, 1 << 17])
def test_a_small_pipe_takes_fewer_frames_or_none(format_: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "_PIPE", (size, size))

    assert np.array_equal(load(clip(format_)), by_packets(load, clip(format_)))


@pytest.mark.usefixtures("_files_stay")
def test_where_no_more_files_may_be_opened_it_goes_packet_by_packet(
    format_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> Any:
        raise OSError(24, "too many open files")

    want = by_packets(load, clip(format_))
    monkeypatch.setattr(os, "pipe", fail)

    assert np.array_equal(load(clip(format_)), want)


def test_decodes_in_many_threads_do_not_meet(format_: str) -> None:
    clips = [make_audio(4, 48_000, 1 + seed % 2, format=format_, seed=seed) for seed in range(6)]
    want = [by_packets(load, one) for one in clips]

    with ThreadPoolExecutor(6) as pool:
        got = list(pool.map(load, clips * 4))

    assert all(np.array_equal(one, other) for one, other in zip(got, want * 4, strict=True))
