"""CpuBudget: who counts as busy, what is idle, and what one decode makes of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from lazymedia.media import MediaRef
from lazymedia.media.cpu_budget import CpuBudget
from lazymedia.media.video import VideoMediaIO, parallel, reader
from lazymedia.testing import make_video

LONG = make_video(120, gop=12)


@pytest.fixture
def cores(monkeypatch: pytest.MonkeyPatch) -> CpuBudget:
    """Four of them, instead of this machine's."""
    four = CpuBudget(4)
    for user in ("lazymedia.media.cell", "lazymedia.media.video.reader", "lazymedia.media.video.io"):
        monkeypatch.setattr(f"{user}.CPU_BUDGET", four)
    return four


@pytest.fixture
def helpers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many threads each decode asked for beside its own."""
    asked: list[int] = []

    def counted(first: Callable[[], None], others: Sequence[Callable[[], None]]) -> None:
        asked.append(len(others))
        parallel.run_all(first, others)

    monkeypatch.setattr(reader, "run_all", counted)
    return asked


def test_a_thread_counts_once_and_what_is_taken_is_given_back() -> None:
    cores = CpuBudget(4)

    with cores.one(), cores.one(), cores.idle(2) as some, cores.idle(9) as rest, cores.idle(9) as nothing:
        assert (some, rest, nothing) == (2, 1, 0)
    with pytest.raises(ValueError, match="inside"), cores.one(), cores.idle(1):
        raise ValueError("inside")
    with cores.idle(9) as all_of_them:
        assert all_of_them == 4


def test_more_decodes_than_cores_leave_none_idle() -> None:
    cores = CpuBudget(1)
    inside, leave = threading.Barrier(3), threading.Event()

    def decode() -> None:
        with cores.one():
            inside.wait(10)
            assert leave.wait(10)

    busy = [threading.Thread(target=decode) for _ in range(2)]
    for thread in busy:
        thread.start()
    inside.wait(10)
    with cores.idle(1) as idle:
        assert idle == 0
    leave.set()
    for thread in busy:
        thread.join()
    with cores.idle(1) as idle:
        assert idle == 1


def test_a_lone_video_takes_the_idle_cores_and_changes_no_pixel(cores: CpuBudget, helpers: list[int]) -> None:
    alone = VideoMediaIO(num_frames=6).load_bytes_ref(LONG).decode()
    one = VideoMediaIO(num_frames=6, decoder_threads=1).load_bytes(LONG)

    assert helpers == [3, 0]
    assert np.array_equal(alone[0], one[0])
    assert alone[1] == one[1]
    with cores.idle(4) as idle:
        assert idle == 4


def test_a_video_takes_no_more_threads_than_it_has_parts(cores: CpuBudget, helpers: list[int]) -> None:
    VideoMediaIO(num_frames=1).load_bytes(LONG)
    assert helpers == [0]
    with cores.idle(2):
        VideoMediaIO(num_frames=6).load_bytes(LONG)
    assert helpers == [0, 1]


@pytest.mark.usefixtures("cores")
def test_a_video_beside_other_decodes_leaves_their_cores_alone(helpers: list[int]) -> None:
    """The others are no videos: every reference that is being decoded counts."""
    inside, leave = threading.Barrier(3), threading.Event()

    def decode() -> None:
        inside.wait(10)
        assert leave.wait(10)

    busy = [threading.Thread(target=MediaRef(decode, bytes([number])).decode) for number in range(2)]
    for thread in busy:
        thread.start()
    inside.wait(10)
    VideoMediaIO(num_frames=6).load_bytes_ref(LONG).decode()
    leave.set()
    for thread in busy:
        thread.join()

    assert helpers == [1]
