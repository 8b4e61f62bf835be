"""The download cache gives back what was stored, while it may, and nothing else, whatever befalls its files."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lazymedia import DownloadCache
from lazymedia.fetch import CachedDownload
from lazymedia.fetch.cache_budget import billed
from lazymedia.fetch.cache_entry import BrokenEntryError, Head, Renewal

URL = "http://example.com/a.png"
FINAL = "https://cdn.example.com/b.png"
BODY = b"the body of a picture"
NOW = 1_800_000_000.0
HOUR = 3600.0


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def cache(folder: Path, clock: Clock) -> DownloadCache:
    return DownloadCache(folder, clock=clock)


def headers(body: bytes = BODY, control: str = "max-age=60", etag: str | None = '"v1"') -> list[tuple[bytes, bytes]]:
    pairs = [(b"Content-Length", b"%d" % len(body)), (b"Cache-Control", control.encode())]
    return pairs if etag is None else [*pairs, (b"ETag", etag.encode())]


def put(cache: DownloadCache, url: str = URL, body: bytes = BODY, control: str = "max-age=60") -> None:
    cache.put(url, body, final_url=FINAL, headers=headers(body, control))


def body_of(cache: DownloadCache, url: str = URL) -> bytes | None:
    found = cache.get(url)
    return None if found is None else found.data


def files(folder: Path, kind: str = "") -> list[Path]:
    return sorted(path for path in folder.glob(f"[0-9a-f][0-9a-f]/*{kind}"))


def the_entry(folder: Path) -> Path:
    (path,) = files(folder, ".entry")
    return path


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


# -- names ------------------------------------------------------------------------------------------------------------

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


# -- broken entries ---------------------------------------------------------------------------------------------------


def test_an_entry_cut_to_any_length_is_a_miss_and_is_removed(cache: DownloadCache, folder: Path) -> None:
    put(cache)
    path = the_entry(folder)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert cache.get(URL) is None, length
        assert not path.exists(), length
        path.touch(0o600)
    path.write_bytes(whole)

    assert body_of(cache) == BODY


def test_an_entry_with_any_byte_changed_is_a_miss_and_is_removed(cache: DownloadCache, folder: Path) -> None:
    """One bit of each byte; every bit in the long run."""
    put(cache)
    path = the_entry(folder)
    whole = path.read_bytes()
    bits = range(8) if os.environ.get("LAZYMEDIA_LONG_TESTS") else range(1)
    for position in [at * 8 + (at + bit) % 8 for at in range(len(whole)) for bit in bits]:
        flipped = bytearray(whole)
        flipped[position // 8] ^= 1 << position % 8
        path.write_bytes(flipped)
        assert cache.get(URL) is None, position
        assert not path.exists(), position
        path.touch(0o600)
    path.write_bytes(whole)

    assert body_of(cache) == BODY


@pytest.mark.parametrize("more", [b"\0", b"x" * 10_000])
def test_an_entry_with_something_appended_is_a_miss(cache: DownloadCache, folder: Path, more: bytes) -> None:
    put(cache)
    path = the_entry(folder)
    path.write_bytes(path.read_bytes() + more)

    assert cache.get(URL) is None
    assert not path.exists()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.binary(max_size=400))
def test_an_entry_of_any_bytes_is_a_miss(cache: DownloadCache, folder: Path, data: bytes) -> None:
    put(cache)
    the_entry(folder).write_bytes(data)

    assert cache.get(URL) is None
    assert files(folder) == []


def as_symlink(path: Path, elsewhere: Path) -> None:
    path.symlink_to(elsewhere)


def as_dangling_symlink(path: Path, elsewhere: Path) -> None:
    path.symlink_to("nowhere")


def as_hard_link(path: Path, elsewhere: Path) -> None:
    path.hardlink_to(elsewhere)


def as_fifo(path: Path, elsewhere: Path) -> None:
    os.mkfifo(path, 0o600)


def as_device(path: Path, elsewhere: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root can make devices")


def as_folder(path: Path, elsewhere: Path) -> None:
    path.mkdir(0o700)


def as_socket(path: Path, elsewhere: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # its path may have a hundred bytes
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(here)


def as_readable_by_others(path: Path, elsewhere: Path) -> None:
    shutil.copyfile(elsewhere, path)
    path.chmod(0o644)


def as_writable_by_others(path: Path, elsewhere: Path) -> None:
    shutil.copyfile(elsewhere, path)
    path.chmod(0o602)


def as_unreadable(path: Path, elsewhere: Path) -> None:
    shutil.copyfile(elsewhere, path)
    path.chmod(0)


@pytest.mark.parametrize(
    "plant",
    [
        as_symlink,
        as_dangling_symlink,
        as_hard_link,
        as_fifo,
        as_device,
        as_folder,
        as_socket,
        as_readable_by_others,
        as_writable_by_others,
        as_unreadable,
    ],
)
def test_what_is_no_private_file_is_not_read_and_is_removed(
    cache: DownloadCache,
    folder: Path,
    tmp_path: Path,
    plant: Callable[[Path, Path], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Even where it leads to the very bytes that were stored."""
    put(cache)
    path, elsewhere = the_entry(folder), tmp_path / "elsewhere"
    path.rename(elsewhere)
    plant(path, elsewhere)

    with monkeypatch.context() as patch:
        patch.setattr(os, "read", None)  # nothing is
        assert cache.get(URL) is None
    assert not os.path.lexists(path)
    assert elsewhere.exists()
    put(cache)
    assert body_of(cache) == BODY


def test_a_folder_with_something_in_it_stays_and_is_a_miss(cache: DownloadCache, folder: Path) -> None:
    put(cache)
    path = the_entry(folder)
    path.unlink()
    (path / "inside").mkdir(parents=True)

    assert cache.get(URL) is None
    put(cache)
    assert cache.get(URL) is None
    assert files(folder, ".unfinished") == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_another_users_file_is_not_read(cache: DownloadCache, folder: Path) -> None:
    put(cache)
    os.chown(the_entry(folder), 12345, 12345)

    assert cache.get(URL) is None


def test_an_entry_larger_than_the_limit_is_not_read(folder: Path, clock: Clock) -> None:
    """Whoever made the file that long: it is judged before it is read."""
    cache = DownloadCache(folder, clock=clock, max_bytes=1 << 20)
    put(cache)
    with the_entry(folder).open("r+b") as file:
        file.truncate(1 << 40)

    assert cache.get(URL) is None


TEXTS = st.text(max_size=20)
TIMES = st.floats(allow_nan=False, allow_infinity=False)
HEADS = st.builds(
    Head,
    key=st.binary(min_size=32, max_size=32),
    digest=st.binary(min_size=32, max_size=32),
    length=st.integers(0, (1 << 64) - 1),
    stored_at=TIMES,
    fresh_for=TIMES,
    final_url=TEXTS,
    etag=TEXTS,
    last_modified=TEXTS,
)


def reader(data: bytes) -> Callable[[int], bytes]:
    left = [data]

    def read(size: int) -> bytes:
        taken, left[0] = left[0][:size], left[0][size:]
        return taken

    return read


@given(HEADS)
def test_a_head_is_read_as_it_was_written(head: Head) -> None:
    assert Head.read(reader(head.encoded() + b"body")) == (head, head.encoded())


@given(st.binary(min_size=32, max_size=32), TIMES, TIMES)
def test_a_renewal_is_read_as_it_was_written(of: bytes, at: float, fresh_for: float) -> None:
    renewal = Renewal(of, at, fresh_for)

    assert Renewal.parse(renewal.encoded()) == renewal


@pytest.mark.parametrize("field", ["stored_at", "fresh_for"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_time_that_is_no_number_is_refused(field: str, value: float) -> None:
    times = {"stored_at": NOW, "fresh_for": 60.0, field: value}
    head = Head(b"k" * 32, b"d" * 32, 1, final_url="", etag="", last_modified="", **times)

    with pytest.raises(BrokenEntryError):
        Head.read(reader(head.encoded()))


# -- the folder -------------------------------------------------------------------------------------------------------


def a_file(folder: Path) -> None:
    folder.write_text("a file")


def a_link(folder: Path) -> None:
    (folder.parent / "real").mkdir(mode=0o700)
    folder.symlink_to("real")


def open_to_all(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)


def open_to_the_group(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o720)


def below_a_file(folder: Path) -> None:
    folder.parent.rmdir()
    folder.parent.write_text("a file")


@pytest.mark.parametrize("spoil", [a_file, a_link, open_to_all, open_to_the_group, below_a_file])
def test_a_folder_that_is_not_private_is_not_used(
    tmp_path: Path, spoil: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    """Whether it was so from the start or became so; every call is a miss, and one warning is logged."""
    folder = tmp_path / "parent" / "cache"
    folder.parent.mkdir()
    spoil(folder)
    cache = DownloadCache(folder)
    put(cache)

    assert cache.get(URL) is None
    assert cache.size() == 0
    cache.remove(URL)
    cache.clear()
    assert files(folder) == []
    assert [(record.levelno, record.name) for record in caplog.records] == [(logging.WARNING, "lazymedia.fetch")]
    assert str(folder) in caplog.text


def test_a_folder_that_becomes_open_to_all_is_not_used_any_more(cache: DownloadCache, folder: Path) -> None:
    put(cache)
    folder.chmod(0o777)
    assert cache.get(URL) is None
    folder.chmod(0o700)

    assert body_of(cache) == BODY


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders away")
def test_another_users_folder_is_not_used(cache: DownloadCache, folder: Path) -> None:
    put(cache)
    os.chown(folder, 12345, 12345)

    assert cache.get(URL) is None


def test_a_folder_deleted_at_run_time_is_a_miss_and_made_anew(
    cache: DownloadCache, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(cache)
    shutil.rmtree(folder)
    assert cache.get(URL) is None
    assert cache.size() == 0
    put(cache)

    assert body_of(cache) == BODY
    assert not caplog.records


def test_a_link_in_place_of_a_sub_folder_is_not_followed(cache: DownloadCache, folder: Path, tmp_path: Path) -> None:
    put(cache)
    shard = the_entry(folder).parent
    shard.rename(tmp_path / "elsewhere")
    shard.symlink_to(tmp_path / "elsewhere")

    assert cache.get(URL) is None
    put(cache, body=b"another")
    assert cache.get(URL) is None
    assert BODY in next((tmp_path / "elsewhere").iterdir()).read_bytes()


def test_parents_are_made_too(tmp_path: Path) -> None:
    cache = DownloadCache(tmp_path / "a" / "b")
    put(cache)

    assert body_of(cache) == BODY


def test_a_relative_folder_is_resolved_at_construction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cache = DownloadCache("cache")
    monkeypatch.chdir("/")
    put(cache)

    assert len(files(tmp_path / "cache")) == 1


@pytest.mark.parametrize(
    ("setting", "error"),
    [
        ({"folder": ""}, ValueError),
        ({"folder": "a\0b"}, ValueError),
        ({"folder": None}, TypeError),
        ({"max_bytes": -1}, ValueError),
        ({"max_bytes": 1.5}, TypeError),
        ({"max_bytes": True}, TypeError),
        ({"max_age": -1}, ValueError),
        ({"max_age": float("nan")}, ValueError),
        ({"max_age": float("inf")}, ValueError),
        ({"max_age": "1"}, TypeError),
        ({"scope": None}, TypeError),
    ],
    ids=str,
)
def test_bad_settings_fail_at_construction(tmp_path: Path, setting: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        DownloadCache(**{"folder": tmp_path / "cache", **setting})  # type: ignore[arg-type]  # the point


@pytest.mark.parametrize("setting", [{"max_bytes": 0}, {"max_age": 0}])
def test_zero_keeps_nothing(folder: Path, setting: dict[str, int]) -> None:
    cache = DownloadCache(folder, **setting)  # type: ignore[arg-type]  # mypy reads every keyword into it
    put(cache)

    assert cache.get(URL) is None
    assert files(folder) == []


# -- time -------------------------------------------------------------------------------------------------------------

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


# -- asking again -----------------------------------------------------------------------------------------------------


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


# -- limits -----------------------------------------------------------------------------------------------------------


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
    import fcntl

    DownloadCache(folder, clock=clock)
    cache = DownloadCache(folder, clock=clock)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        put(cache)
        assert cache.get(URL) is None
    put(cache)

    assert body_of(cache) == BODY
