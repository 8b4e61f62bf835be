"""How much the download cache keeps, and what makes room."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from lazymedia import DownloadCache
from lazymedia.fetch.disk_cache.budget import billed
from tests.fetch.kept_downloads import BODY, HOUR, URL, Clock, body_of, files, put, the_entry


def url_of(number: int) -> str:
    return f"http://example.com/{number}"


def held(cache: DownloadCache, numbers: range) -> list[int]:
    return [number for number in numbers if cache.get(url_of(number)) is not None]


def test_the_oldest_downloads_make_room_however_often_they_are_read(folder: Path, clock: Clock) -> None:
    cache = DownloadCache(folder, clock=clock, max_bytes=10 * 4096)
    for number in range(25):
        clock.now += 1
        put(cache, url_of(number))
        cache.get(url_of(0))
        assert cache.size() <= 10 * 4096

    kept = held(cache, range(25))
    assert kept == list(range(kept[0], 25))
    assert len(kept) >= 8


def test_the_limit_counts_what_is_on_disk_before_this_process(folder: Path, clock: Clock) -> None:
    put(DownloadCache(folder, clock=clock), url_of(1), b"x" * 30_000)
    clock.now += 1
    cache = DownloadCache(folder, clock=clock, max_bytes=40_000)
    put(cache, url_of(2), b"x" * 30_000)

    assert held(cache, range(3)) == [2]


def test_what_is_larger_than_the_cache_is_not_stored_and_evicts_nothing(folder: Path, clock: Clock) -> None:
    cache = DownloadCache(folder, clock=clock, max_bytes=8192)
    put(cache, url_of(1))
    put(cache, url_of(2), b"x" * 8192)

    assert held(cache, range(3)) == [1]


def test_scopes_share_the_limit(folder: Path, clock: Clock) -> None:
    cache = DownloadCache(folder, clock=clock, max_bytes=4 * 4096)
    for number in range(10):
        clock.now += 1
        put(cache.scoped(str(number)))

    assert cache.size() <= 4 * 4096
    assert body_of(cache.scoped("9")) == BODY


@pytest.mark.parametrize(("size", "bill"), [(0, 4096), (1, 4096), (4096, 4096), (4097, 8192)])
def test_small_files_count_as_blocks(size: int, bill: int) -> None:
    assert billed(size) == bill


def test_a_sweep_removes_what_is_too_old_and_what_is_from_the_future(folder: Path, clock: Clock) -> None:
    """Nobody has to ask for it: the next download sees to that, after ten minutes at most."""
    cache = DownloadCache(folder, clock=clock, max_age=HOUR)
    for number in range(3):
        put(cache, url_of(number))
    future = files(folder)[0]
    clock.now += HOUR
    os.utime(future, (4e9, 4e9))
    put(cache, url_of(3))

    assert len(files(folder)) == 1
    assert held(cache, range(4)) == [3]


@pytest.mark.parametrize(("age", "stays"), [(0, True), (HOUR - 1, True), (HOUR, False), (-HOUR, False)])
def test_leftovers_of_killed_writers_are_swept_after_an_hour(
    cache: DownloadCache, folder: Path, clock: Clock, age: float, stays: bool
) -> None:
    put(cache)
    leftover = the_entry(folder).parent / ("0" * 32 + ".unfinished")
    leftover.write_bytes(b"half")
    clock.now += HOUR
    os.utime(leftover, (clock.now - age, clock.now - age))
    put(cache, url_of(1))

    assert leftover.exists() == stays


def test_unfinished_files_count(folder: Path, clock: Clock) -> None:
    cache = DownloadCache(folder, clock=clock, max_bytes=40_960)
    put(cache)
    leftover = the_entry(folder).parent / ("0" * 32 + ".unfinished")
    leftover.write_bytes(b"x" * 36_864)
    os.utime(leftover, (clock.now + 1, clock.now + 1))

    assert cache.size() == 40_960
    put(cache, url_of(1))
    assert cache.size() <= 40_960


def test_a_file_system_without_locks_is_used_without(cache: DownloadCache, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr("fcntl.flock", flock)
    put(cache)

    assert body_of(cache) == BODY


def test_a_lock_that_another_process_keeps_costs_one_download(folder: Path, clock: Clock) -> None:
    DownloadCache(folder, clock=clock)
    cache = DownloadCache(folder, clock=clock)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        put(cache)
        assert cache.get(URL) is None
    put(cache)

    assert body_of(cache) == BODY
