"""The download cache gives back what was stored, while it may, and nothing else."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

from lazymedia import DownloadCache
from lazymedia.fetch import CachedDownload
from tests.fetch.kept_downloads import BODY, FINAL, HOUR, NOW, URL, Clock, body_of, files, headers, put, the_entry


def test_a_download_comes_back_with_all_that_is_known_of_it(cache: DownloadCache, clock: Clock) -> None:
    modified = (b"Last-Modified", b"Fri, 15 Jan 2027 07:00:00 GMT")
    cache.put(URL, BODY, final_url=FINAL, headers=[*headers(), modified])
    clock.now += 10
    found = cache.get(URL)

    assert isinstance(found, CachedDownload)
    assert (found.data, found.final_url) == (BODY, FINAL)
    assert (found.etag, found.last_modified) == ('"v1"', modified[1].decode())
    assert (found.stored_at, found.vouched_at, found.fresh_until) == (NOW, NOW, NOW + 60)
    assert found.conditions == [(b"If-None-Match", b'"v1"'), (b"If-Modified-Since", modified[1])]
    assert BODY.decode() not in repr(found)
    assert "example" not in repr(found)


def test_nothing_is_found_where_nothing_was_stored(cache: DownloadCache, caplog: pytest.LogCaptureFixture) -> None:
    assert cache.get(URL) is None
    cache.remove(URL)
    assert cache.size() == 0
    assert not caplog.records


def test_another_process_would_find_it_too(cache: DownloadCache, folder: Path, clock: Clock) -> None:
    put(cache)

    assert body_of(DownloadCache(folder, clock=clock)) == BODY


def test_the_latest_download_is_what_is_kept(cache: DownloadCache, folder: Path) -> None:
    put(cache)
    put(cache, body=b"another")

    assert body_of(cache) == b"another"
    assert len(files(folder)) == 1


@pytest.mark.parametrize("mask", [0, 0o022, 0o077])
def test_files_and_folders_are_this_users_alone(folder: Path, clock: Clock, mask: int) -> None:
    """With whatever mask the process was started."""
    before = os.umask(mask)
    try:
        cache = DownloadCache(folder, clock=clock)
        put(cache)
    finally:
        os.umask(before)

    assert body_of(cache) == BODY
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(the_entry(folder).parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(the_entry(folder).stat().st_mode) == 0o600


def test_removing_and_clearing(cache: DownloadCache, folder: Path) -> None:
    put(cache)
    put(cache, "http://example.com/b")
    (folder / "alien").write_text("not the cache's")
    cache.remove(URL)
    assert cache.get(URL) is None
    assert body_of(cache, "http://example.com/b") == BODY
    cache.clear()

    assert cache.get("http://example.com/b") is None
    assert files(folder) == []
    assert cache.size() == 0
    assert (folder / "alien").exists()


@pytest.mark.parametrize(
    ("body", "pairs"),
    [
        (b"", headers(b"")),
        (BODY, headers(control="no-store")),
        (BODY, headers(control="private, max-age=60")),
        (BODY, [*headers(), (b"Vary", b"Cookie")]),
        (BODY, headers(control="no-cache", etag=None)),
        (BODY, [(b"Content-Length", b"%d" % len(BODY))]),
        (BODY, headers()[1:]),
        (BODY, headers(BODY + b"more")),
        (BODY, [*headers(), (b"Content-Range", b"bytes 0-20/100")]),
    ],
    ids=["empty", "no-store", "private", "vary", "never usable", "says nothing", "no length", "cut off", "a range"],
)
def test_what_is_not_stored(cache: DownloadCache, folder: Path, body: bytes, pairs: list[tuple[bytes, bytes]]) -> None:
    """Nor does an older download outlive the answer that took its place."""
    put(cache)
    cache.put(URL, body, final_url=FINAL, headers=pairs)

    assert cache.get(URL) is None
    assert files(folder) == []


def test_a_final_url_that_no_fetch_has_is_not_stored(cache: DownloadCache) -> None:
    cache.put(URL, BODY, final_url="http://a/" + "x" * 20_000, headers=headers())

    assert cache.get(URL) is None


ODD_URLS = [
    "http://example.com/list.m3u8",
    "http://example.com/a.png\0",
    "http://example.com/../../etc/passwd",
    "../x",
    "/etc/passwd",
    "",
    "http://example.com/?" + "q" * 4096,
    "http://example.com/\udcff",
    "http://example.com/a?token=1",
    "http://example.com/a?token=2",
    "http://example.com/A",
    "http://example.com:80/a",
    "\n",
]


def test_names_of_files_are_digests_whatever_the_url(cache: DownloadCache, folder: Path) -> None:
    for url in ODD_URLS:
        put(cache, url, repr(url).encode())

    for url in ODD_URLS:
        assert body_of(cache, url) == repr(url).encode()
    assert len(files(folder)) == len(ODD_URLS)
    for path in files(folder):
        name, suffix = path.name.split(".")
        assert (len(name), set(name) - set("0123456789abcdef"), suffix) == (64, set(), "entry")
        assert path.parent.name == name[:2]


def test_a_fragment_is_no_part_of_the_name(cache: DownloadCache) -> None:
    put(cache, URL + "#one")

    assert body_of(cache, URL + "#two") == BODY


SCOPED = [("", "ab"), ("a", "b"), ("ab", ""), ("a", "ab"), ("\0", "ab"), ("", "\0ab")]


def test_scopes_are_apart_wherever_scope_and_url_meet(cache: DownloadCache) -> None:
    for scope, url in SCOPED:
        put(cache.scoped(scope), url, repr((scope, url)).encode())

    for scope, url in SCOPED:
        assert body_of(cache.scoped(scope), url) == repr((scope, url)).encode()
        assert cache.scoped("another").get(url) is None


def test_a_scope_given_at_construction_is_the_same(folder: Path, clock: Clock) -> None:
    put(DownloadCache(folder, clock=clock, scope="tenant"))

    assert body_of(DownloadCache(folder, clock=clock).scoped("tenant")) == BODY
    assert DownloadCache(folder, clock=clock).get(URL) is None


def test_an_entry_under_another_urls_name_is_a_miss(cache: DownloadCache, folder: Path) -> None:
    """As with a digest that is cut short: the whole one in the file decides."""
    put(cache)
    mine = the_entry(folder)
    put(cache, "http://example.com/other", b"other")
    (other,) = set(files(folder)) - {mine}
    shutil.copy2(other, mine)

    assert cache.get(URL) is None
    assert not mine.exists()
    assert body_of(cache, "http://example.com/other") == b"other"


MINUTE_FRESH, ASK_EACH_TIME = "max-age=60", "no-cache"


@pytest.mark.parametrize(
    ("control", "after", "found", "fresh"),
    [
        (MINUTE_FRESH, 0, True, True),
        (MINUTE_FRESH, 59.9, True, True),
        (MINUTE_FRESH, 60, True, False),
        (MINUTE_FRESH, HOUR - 0.1, True, False),
        (MINUTE_FRESH, HOUR, False, False),
        (MINUTE_FRESH, 1e12, False, False),
        (MINUTE_FRESH, -1, True, True),  # clocks of two processes are a little apart
        (MINUTE_FRESH, -6, False, False),
        (MINUTE_FRESH, -NOW, False, False),
        ("max-age=999999999", HOUR - 0.1, True, True),
        ("max-age=999999999", HOUR, False, False),
        (ASK_EACH_TIME, 0, True, False),
        (ASK_EACH_TIME, HOUR - 0.1, True, False),
    ],
)
def test_age_counts_from_the_download(
    folder: Path, clock: Clock, control: str, after: float, found: bool, fresh: bool
) -> None:
    cache = DownloadCache(folder, clock=clock, max_age=HOUR)
    put(cache, control=control)
    clock.now += after
    got = cache.get(URL)

    assert (got is not None, got is not None and got.is_fresh(clock.now)) == (found, fresh)
    assert bool(files(folder)) == found


def test_reading_and_touching_make_nothing_younger(folder: Path, clock: Clock) -> None:
    cache = DownloadCache(folder, clock=clock, max_age=HOUR)
    put(cache)
    for _ in range(59):
        clock.now += 60
        assert body_of(cache) == BODY
        assert the_entry(folder).stat().st_mtime == NOW
    os.utime(the_entry(folder), (4e9, 4e9))
    clock.now += 60

    assert cache.get(URL) is None


def test_what_can_be_used_no_more_is_removed(cache: DownloadCache, folder: Path, clock: Clock) -> None:
    """Not fresh, and nothing to ask with."""
    cache.put(URL, BODY, final_url=FINAL, headers=headers(etag=None))
    clock.now += 60

    assert cache.get(URL) is None
    assert files(folder) == []


@pytest.mark.parametrize("now", [float("1e300"), -1e300])
def test_a_clock_beyond_any_file_systems_stores_nothing(folder: Path, clock: Clock, now: float) -> None:
    clock.now = now
    cache = DownloadCache(folder, clock=clock)
    put(cache)

    assert cache.get(URL) is None
    assert files(folder) == []


def not_modified(control: str | None = "max-age=60") -> list[tuple[bytes, bytes]]:
    return [] if control is None else [(b"cache-control", control.encode())]


def test_a_304_makes_a_download_fresh_again_but_not_younger(folder: Path, clock: Clock) -> None:
    cache = DownloadCache(folder, clock=clock, max_age=HOUR)
    put(cache)
    clock.now += 1800
    stale = cache.get(URL)
    assert stale is not None
    assert not stale.is_fresh(clock.now)
    cache.refresh(stale, not_modified("max-age=7200"))

    renewed = DownloadCache(folder, clock=clock, max_age=HOUR).get(URL)
    assert renewed is not None
    assert renewed.is_fresh(clock.now)
    assert (renewed.stored_at, renewed.vouched_at, renewed.fresh_until) == (NOW, NOW + 1800, NOW + 1800 + 7200)
    clock.now += 1800
    assert cache.get(URL) is None


@pytest.mark.parametrize("control", ["no-cache", "max-age=0", None])
def test_a_304_that_gives_no_time_ends_the_freshness_there_was(
    cache: DownloadCache, clock: Clock, control: str | None
) -> None:
    put(cache)
    found = cache.get(URL)
    assert found is not None
    cache.refresh(found, not_modified(control))
    again = cache.get(URL)

    assert again is not None
    assert not again.is_fresh(clock.now)


def test_redirects_bound_how_long_a_body_stands_for_the_url_that_led_to_it(cache: DownloadCache, clock: Clock) -> None:
    cache.put(URL, BODY, final_url=FINAL, headers=headers(), redirects=[not_modified("max-age=20")])
    found = cache.get(URL)
    assert found is not None
    assert found.fresh_until == NOW + 20
    cache.refresh(found, not_modified(), [not_modified("max-age=30"), not_modified()])
    found = cache.get(URL)
    assert found is not None
    assert found.fresh_until == NOW + 30
    cache.refresh(found, not_modified(), [not_modified("no-store")])

    assert cache.get(URL) is None


def test_a_304_that_changes_nothing_writes_nothing(cache: DownloadCache, folder: Path) -> None:
    put(cache, control="no-cache")
    found = cache.get(URL)
    assert found is not None
    cache.refresh(found, not_modified(None))

    assert files(folder, ".renewed") == []


def test_a_304_that_forbids_keeping_removes_the_download(cache: DownloadCache, folder: Path) -> None:
    put(cache)
    found = cache.get(URL)
    assert found is not None
    cache.refresh(found, not_modified("no-store"))

    assert files(folder) == []


def test_a_renewal_belongs_to_the_download_it_was_asked_for(cache: DownloadCache, clock: Clock) -> None:
    """One that another process replaced meanwhile is as fresh as its own headers said."""
    put(cache)
    old = cache.get(URL)
    assert old is not None
    clock.now += 1
    put(cache, body=b"another")
    cache.refresh(old, not_modified("max-age=9999"))
    found = cache.get(URL)

    assert found is not None
    assert (found.data, found.fresh_until) == (b"another", NOW + 61)


def test_a_renewal_from_the_future_makes_nothing_fresh(cache: DownloadCache, clock: Clock) -> None:
    put(cache)
    found = cache.get(URL)
    assert found is not None
    clock.now += 1000
    cache.refresh(found, not_modified("max-age=1000"))
    clock.now -= 900
    again = cache.get(URL)

    assert again is not None
    assert not again.is_fresh(clock.now)


def test_a_broken_renewal_renews_nothing_and_is_removed(cache: DownloadCache, folder: Path, clock: Clock) -> None:
    put(cache)
    found = cache.get(URL)
    assert found is not None
    clock.now += 60
    cache.refresh(found, not_modified())
    (path,) = files(folder, ".renewed")
    whole = path.read_bytes()
    broken = [whole[:length] for length in range(len(whole))] + [whole + b"x"]
    broken += [whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :] for at in range(len(whole))]
    for data in broken:
        path.touch(0o600)
        path.write_bytes(data)
        got = cache.get(URL)
        assert got is not None
        assert got.data == BODY
        assert not got.is_fresh(clock.now)
        assert not path.exists()


def test_removing_a_download_removes_its_renewal(cache: DownloadCache, folder: Path, clock: Clock) -> None:
    put(cache)
    found = cache.get(URL)
    assert found is not None
    cache.refresh(found, not_modified())
    cache.remove(URL)

    assert files(folder) == []
