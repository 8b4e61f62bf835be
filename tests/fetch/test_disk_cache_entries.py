"""Entries and folders that were broken, planted or opened to others: a miss, whatever befell them."""

from __future__ import annotations

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
from lazymedia.fetch.disk_cache.entry import BrokenEntryError, Head, Renewal
from tests.fetch.kept_downloads import BODY, NOW, URL, Clock, body_of, files, put, the_entry


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
    """The code that made the file that long: it is checked before it is read."""
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
    head = Head(b"k" * 32, b"d" * 32, 1, final_url="", etag="", last_modified="", way="", **times)

    with pytest.raises(BrokenEntryError):
        Head.read(reader(head.encoded()))


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
