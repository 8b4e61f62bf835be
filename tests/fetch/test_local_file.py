"""Files below the operator's folder, and nothing else of this host."""

from __future__ import annotations

import errno
import os
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from lazymedia.errors import NotAllowedError, OverloadedError, PayloadTooLargeError, UnprocessableMediaError
from lazymedia.fetch import MediaConnector
from lazymedia.fetch.policy.url import FileUrl, parse_url
from lazymedia.fetch.sources.local_file import LocalRoot
from lazymedia.limits import Limits
from lazymedia.media.raw import RawBytesMediaIO

IMAGE = RawBytesMediaIO("image")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder of media beside a folder of secrets."""
    folder = tmp_path / "media"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "media-secret").mkdir()
    for path in ("media/a.png", "media/sub/b.png", "secret.png", "media-secret/s.png"):
        (tmp_path / path).write_bytes(path.encode())
    (folder / "empty.png").touch()
    (folder / "closed.png").write_bytes(b"closed")
    (folder / "closed.png").chmod(0)
    (folder / "to-file").symlink_to(folder / "a.png")
    (folder / "to-folder").symlink_to(folder / "sub")
    (folder / "to-outside").symlink_to(tmp_path / "secret.png")
    (folder / "to-above").symlink_to(tmp_path)
    (folder / "to-itself").symlink_to("to-itself")
    os.mkfifo(folder / "fifo")
    return folder


def read(root: Path, url: str, max_bytes: int = 1000) -> bytes:
    parsed = parse_url(url, max_length=100_000)
    assert isinstance(parsed, FileUrl)
    return LocalRoot(root).read(parsed, max_bytes)


@pytest.mark.parametrize("prefix", ["file://", "file://localhost", "file:", "FILE://"])
def test_a_file_below_the_root_is_read(root: Path, prefix: str) -> None:
    assert read(root, f"{prefix}{root}/a.png") == b"media/a.png"
    assert read(root, f"{prefix}{root}/sub/b.png") == b"media/sub/b.png"
    assert read(root, f"{prefix}{root}//sub/./b.png") == b"media/sub/b.png"


@pytest.mark.parametrize("name", ["a b.png", "a%20b.png", "ü.png", "a#b.png", "a?b.png", "100%.png", "a[1].png"])
def test_a_name_with_odd_characters_is_found_by_its_url(root: Path, name: str) -> None:
    (root / name).write_bytes(name.encode())

    assert read(root, (root / name).as_uri()) == name.encode()


def test_a_root_may_be_written_as_it_was_given_or_as_it_is(root: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(root)

    for spelling in (link, root):
        url = parse_url(f"file://{spelling}/a.png", max_length=1000)
        assert isinstance(url, FileUrl)
        assert LocalRoot(link).read(url, 1000) == b"media/a.png"


REJECTED: dict[str, Callable[[Path], str]] = {
    "missing": lambda root: f"file://{root}/missing.png",
    "missing folder": lambda root: f"file://{root}/missing/a.png",
    "the root": lambda root: f"file://{root}",
    "the root with a slash": lambda root: f"file://{root}/",
    "a folder": lambda root: f"file://{root}/sub",
    "a file as a folder": lambda root: f"file://{root}/a.png/b",
    "a file with a slash": lambda root: f"file://{root}/a.png/",
    "beside": lambda root: f"file://{root.parent}/secret.png",
    "beside with the same beginning": lambda root: f"file://{root}-secret/s.png",
    "the root's own name going on": lambda root: f"file://{root}a.png",
    "above": lambda root: f"file://{root}/../secret.png",
    "above and back": lambda root: f"file://{root}/../media/a.png",
    "inside and back": lambda root: f"file://{root}/sub/../a.png",
    "above, escaped": lambda root: f"file://{root}/%2e%2e/secret.png",
    "above, slash escaped": lambda root: f"file://{root}/..%2fsecret.png",
    "above, escaped twice": lambda root: f"file://{root}/%252e%252e/secret.png",
    "link to a file": lambda root: f"file://{root}/to-file",
    "link to a folder": lambda root: f"file://{root}/to-folder/b.png",
    "link to outside": lambda root: f"file://{root}/to-outside",
    "link to above": lambda root: f"file://{root}/to-above/secret.png",
    "link to itself": lambda root: f"file://{root}/to-itself",
    "FIFO": lambda root: f"file://{root}/fifo",
    "trailing blank": lambda root: f"file://{root}/a.png%20",
    "long name": lambda root: f"file://{root}/{'a' * 5000}",
    "long path": lambda root: f"file://{root}/{'a/' * 5000}b",
    "leading slashes": lambda root: f"file:////{str(root)[1:]}/a.png",
    "passwd": lambda root: "file:///etc/passwd",
    "zero": lambda root: "file:///dev/zero",
    "environ": lambda root: "file:///proc/self/environ",
    "relative": lambda root: "file:media/a.png",
    "another host": lambda root: f"file://127.0.0.1{root}/a.png",
    "NUL": lambda root: f"file://{root}/a.png%00",
}


@pytest.mark.parametrize("url", REJECTED.values(), ids=REJECTED)
def test_everything_else_is_refused_in_the_same_words(root: Path, url: Callable[[Path], str]) -> None:
    """What is missing, forbidden or unreadable cannot be told apart; a FIFO is not waited for."""
    with pytest.raises(NotAllowedError) as caught:
        read(root, url(root))

    assert str(caught.value) == str(NotAllowedError())
    assert caught.value.__cause__ is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_refused_in_the_same_words(root: Path) -> None:
    with pytest.raises(NotAllowedError) as caught:
        read(root, f"file://{root}/closed.png")

    assert str(caught.value) == str(NotAllowedError())


def test_a_socket_is_refused(root: Path) -> None:
    with (
        tempfile.TemporaryDirectory() as short,
        socket.socket(socket.AF_UNIX) as server,
    ):  # its path has a hundred bytes
        server.bind(f"{short}/s")
        with pytest.raises(NotAllowedError):
            read(Path(short), f"file://{short}/s")


def test_a_device_is_refused_even_below_the_root() -> None:
    with pytest.raises(NotAllowedError):
        read(Path("/dev"), "file:///dev/zero")


def test_the_root_folder_itself_may_be_the_root() -> None:
    """Unwise, and the operator's choice; its own path ends in a slash."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"payload")
        file.flush()

        assert read(Path("/"), f"file://{os.path.realpath(file.name)}") == b"payload"


def test_the_byte_cap_is_exact(root: Path) -> None:
    (root / "big").write_bytes(b"x" * 1000)

    assert len(read(root, f"file://{root}/big", 1000)) == 1000
    with pytest.raises(PayloadTooLargeError):
        read(root, f"file://{root}/big", 999)


def test_a_sparse_terabyte_is_refused_by_its_size(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (root / "sparse").open("wb") as file:
        file.truncate(1 << 40)

    monkeypatch.setattr(os, "read", None)  # nothing is
    with pytest.raises(PayloadTooLargeError):
        read(root, f"file://{root}/sparse", 1 << 20)


def test_a_file_without_a_size_is_counted_while_it_is_read() -> None:
    """Files of /proc say they have zero bytes."""
    with pytest.raises(PayloadTooLargeError):
        read(Path("/proc/self"), f"file:///proc/{os.getpid()}/maps", 100)


def test_an_empty_file_is_no_media(root: Path) -> None:
    with pytest.raises(UnprocessableMediaError):
        read(root, f"file://{root}/empty.png")


@pytest.mark.parametrize("step", ["folder", "file"])
def test_a_swap_for_a_link_leads_nowhere(root: Path, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was looked at before, each name is opened in the folder that is open already, not through a link."""
    real_open = os.open

    def swapping_open(path: str | bytes, flags: int, *args: object, dir_fd: int | None = None) -> int:
        if step == "folder" and path == b"sub":
            (root / "sub").rename(root / "sub-was")
            (root / "sub").symlink_to(root.parent)
        if step == "file" and path == b"b.png":
            (root / "sub" / "b.png").unlink()
            (root / "sub" / "b.png").symlink_to(root.parent / "secret.png")
        return real_open(path, flags, dir_fd=dir_fd)

    url = parse_url(f"file://{root}/sub/b.png", max_length=1000)
    assert isinstance(url, FileUrl)
    reader = LocalRoot(root)
    monkeypatch.setattr(os, "open", swapping_open)
    with pytest.raises(NotAllowedError):
        reader.read(url, 1000)


@pytest.mark.parametrize("swap", ["a link", "another folder", "nothing"])
def test_what_stands_later_under_the_name_of_the_root_is_not_read(root: Path, tmp_path: Path, swap: str) -> None:
    """The folder is opened at construction. The code that may rename it could lead everywhere else."""
    held = LocalRoot(root)
    root.rename(tmp_path / "moved")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.png").write_bytes(b"another's")
    (tmp_path / "other" / "b.png").write_bytes(b"another's")
    if swap == "a link":
        root.symlink_to(tmp_path / "other")
    elif swap == "another folder":
        (tmp_path / "other").rename(root)

    assert held.read(FileUrl(os.fsencode(root / "a.png")), 1000) == b"media/a.png"
    with pytest.raises(NotAllowedError):
        held.read(FileUrl(os.fsencode(root / "b.png")), 1000)


def test_a_root_closes_its_folder_when_it_is_gone(root: Path) -> None:
    before = descriptors()
    held = LocalRoot(root)
    assert descriptors() == before + 1
    del held
    assert descriptors() == before


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_no_descriptor_stays_open(root: Path) -> None:
    before = descriptors()
    for url in [make(root) for make in REJECTED.values()] + [f"file://{root}/sub/b.png", f"file://{root}/empty.png"]:
        try:
            read(root, url, 5)
        except (NotAllowedError, PayloadTooLargeError, UnprocessableMediaError):
            continue

    assert descriptors() == before


@pytest.mark.parametrize(
    ("number", "error"),
    [
        (errno.EMFILE, OverloadedError),
        (errno.ENFILE, OverloadedError),
        (errno.ENOMEM, OverloadedError),
        (errno.EACCES, NotAllowedError),
        (errno.EIO, NotAllowedError),
    ],
)
@pytest.mark.parametrize("call", ["open", "read"])
def test_a_call_that_fails_says_whose_fault_it_is(
    root: Path, call: str, number: int, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **kwargs: object) -> int:
        raise OSError(number, "said by the operating system", "/a/path")

    reader = LocalRoot(root)
    monkeypatch.setattr(os, call, fail)
    with pytest.raises(error) as caught:
        reader.read(FileUrl(os.fsencode(root / "a.png")), 1000)
    assert "path" not in str(caught.value)


@pytest.mark.parametrize("path", ["", "missing", "media/a.png"])
def test_a_root_that_is_no_folder_fails_at_construction(tmp_path: Path, root: Path, path: str) -> None:
    with pytest.raises(ValueError, match="allowed_local_media_path"):
        MediaConnector(allowed_local_media_path=tmp_path / path if path else "")


def test_a_relative_root_is_resolved_at_construction(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root.parent)
    reader = LocalRoot("media")
    monkeypatch.chdir("/")

    assert reader.read(FileUrl(os.fsencode(root / "a.png")), 1000) == b"media/a.png"


async def test_files_are_out_of_reach_by_default(root: Path) -> None:
    async with MediaConnector() as media:
        with pytest.raises(NotAllowedError):
            await media.fetch_image(f"file://{root}/a.png", IMAGE)


async def test_a_connector_reads_files_below_its_root(root: Path) -> None:
    async with MediaConnector(allowed_local_media_path=root, limits=Limits(max_download_bytes=11)) as media:
        ref = await media.fetch_image(f"file://{root}/a.png", IMAGE)
        with pytest.raises(PayloadTooLargeError):
            await media.fetch_image(f"file://{root}/sub/b.png", IMAGE)

    assert ref.data == b"media/a.png"
