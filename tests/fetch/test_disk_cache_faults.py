"""The download cache while its calls fail, its disk is full, its processes are killed, and others use its folder.

Run as a program, this file is such a process.
"""

from __future__ import annotations

import errno
import itertools
import json
import logging
import multiprocessing
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import pytest

from lazymedia import DownloadCache
from lazymedia.fetch.disk_cache import private_file, private_folder

ROOT: Final = Path(__file__).parents[2]
IS_LONG: Final = bool(os.environ.get("LAZYMEDIA_LONG_TESTS"))

ALLOCATING: Final = frozenset({"read", "listdir", "urandom"})
CALLS: Final = ALLOCATING | {
    *("open", "fstat", "stat", "write", "ftruncate", "utime", "fsync", "close"),
    *("rename", "unlink", "rmdir", "mkdir", "makedirs"),
}
"""Everything that the cache asks of the operating system, but for the lock, without which it also works."""


def url_of(number: int) -> str:
    return f"http://example.com/{number}"


def body_of(number: int, version: int = 0) -> bytes:
    """Says by itself whose it is."""
    return sha256(b"%d.%d" % (number, version)).digest() * (1 + number * 37 % 200)


def put(cache: DownloadCache, number: int, version: int = 0) -> None:
    body = body_of(number, version)
    pairs = [(b"content-length", b"%d" % len(body)), (b"cache-control", b"max-age=60"), (b"etag", b'"x"')]
    cache.put(url_of(number), body, final_url=url_of(number), headers=pairs)


def check(cache: DownloadCache, number: int, *versions: int) -> bool:
    """Whether there is a download, which is then one of those that were stored."""
    found = cache.get(url_of(number))
    assert found is None or found.data in [body_of(number, version) for version in versions], number
    return found is not None


Step = Callable[[int, str], None]


def nothing(number: int, name: str) -> None:
    return


class Faulty:
    """The module ``os``, whose calls are counted and told of before they are made."""

    def __init__(self, before: Step = nothing) -> None:
        self.calls: Counter[str] = Counter()
        self.supports_dir_fd = [self.open]
        self._before = before

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name not in CALLS:
            return real

        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls[name] += 1
            number = self.calls.total()
            try:
                self._before(number, name)
            except (OSError, MemoryError):
                if name == "close":
                    real(*args)  # a close that fails closes all the same
                raise
            # Flushing is slow, and shows nothing where no power fails.
            return None if name == "fsync" else real(*args, **kwargs)

        # Kept, so that os.open is one object, as supports_dir_fd wants it.
        self.__dict__[name] = call
        return call


@contextmanager
def installed(faulty: Faulty) -> Iterator[None]:
    seams = vars(private_file), vars(private_folder)
    for seam in seams:
        seam["os"] = faulty
    try:
        yield
    finally:
        for seam in seams:
            seam["os"] = os


def every_operation(folder: Path, clock: Callable[[], float]) -> None:
    """Everything that the cache does, in a folder that holds number 1 and too much for what is to come."""
    cache = DownloadCache(folder, max_bytes=6 * 4096, clock=clock)
    check(cache, 1, 0)
    put(cache, 1, version=1)
    found = cache.get(url_of(1))
    assert found is None or found.data in {body_of(1, 0), body_of(1, 1)}
    if found is not None:
        cache.refresh(found, [(b"cache-control", b"max-age=600")])
    check(cache, 1, 0, 1)
    for number in (2, 3):  # these need room
        put(cache, number)
    for number in (1, 2, 3):
        check(cache, number, 0, 1)
    cache.remove(url_of(3))
    cache.size()
    cache.clear()
    put(cache, 4)
    check(cache, 4, 0)


def stocked(folder: Path) -> None:
    """A folder with number 1, and with others that fill it."""
    cache = DownloadCache(folder)
    for number in (1, 5, 6):
        put(cache, number)


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def stock(tmp_path: Path) -> Path:
    with installed(Faulty()):
        stocked(tmp_path / "stock")
    return tmp_path / "stock"


def test_every_call_is_made_somewhere_in_what_the_fault_tests_do(stock: Path) -> None:
    faulty = Faulty()
    with installed(faulty):
        every_operation(stock, time.time)
        DownloadCache(stock / "new").clear()

    assert CALLS - faulty.calls.keys() == {"rmdir"}  # only where something was planted
    assert faulty.calls.total() > 150


ERRORS: Final = (
    "EIO",
    "ENOSPC",
    "EACCES",
    "EROFS",
    "EMFILE",
    "ENOENT",
    "EEXIST",
    "ENOTDIR",
    "ELOOP",
    "EDQUOT",
    "memory",
)


def error_of(name: str, number: int) -> Exception:
    error = ERRORS[number % len(ERRORS)]
    if error != "memory":
        return OSError(getattr(errno, error), "said by the operating system")
    return MemoryError() if name in ALLOCATING else InterruptedError()


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("turn", range(len(ERRORS)) if IS_LONG else [0])
def test_any_call_may_fail(
    stock: Path, tmp_path: Path, turn: int, lasting: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Each with one error or another, each with each in the long run.

    Never an error, a wrong body or an open file; at most one warning; and all is well when it is over.
    """
    caplog.set_level(logging.WARNING)
    for call in itertools.count(1):
        folder = tmp_path / str(call)
        shutil.copytree(stock, folder)
        caplog.clear()

        def fail(number: int, name: str, call: int = call) -> None:
            if number == call or (lasting and number > call):
                raise error_of(name, call + turn)

        before = descriptors()
        faulty = Faulty(fail)
        with installed(faulty):
            every_operation(folder, time.time)
        assert descriptors() == before, call
        assert len(caplog.records) <= 1, call
        with installed(Faulty()):
            afterwards(folder)
        shutil.rmtree(folder)
        if faulty.calls.total() < call:
            break

    assert call > 350


def afterwards(folder: Path) -> None:
    """What is left is whole, and two hours later nothing is left of what was not finished."""
    cache = DownloadCache(folder, clock=lambda: time.time() + 7200)
    for number in range(1, 7):
        check(cache, number, 0, 1)
    put(cache, 7)
    assert check(cache, 7, 0)
    assert not list(folder.glob("*/*.unfinished"))


@pytest.mark.parametrize("size", [1, 7])
def test_reads_and_writes_may_be_of_any_size(tmp_path: Path, size: int) -> None:
    """A system may do less than it is asked for."""
    faulty = Faulty()
    faulty.read = lambda descriptor, length: os.read(descriptor, min(size, length))  # type: ignore[attr-defined]
    faulty.write = lambda descriptor, data: os.write(descriptor, data[:size])  # type: ignore[attr-defined]
    with installed(faulty):
        cache = DownloadCache(tmp_path / "cache")
        put(cache, 1)

        assert check(cache, 1, 0)


def test_what_is_removed_while_it_is_read_is_still_read(tmp_path: Path) -> None:
    cache = DownloadCache(tmp_path / "cache")
    put(cache, 1)

    def remove(number: int, name: str) -> None:
        if name == "fstat":
            for path in tmp_path.glob("cache/*/*.entry"):
                path.unlink()

    with installed(Faulty(remove)):
        check(cache, 1, 0)
    assert not check(cache, 1, 0)


def child(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", __file__, *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def report_of(process: subprocess.Popen[str]) -> Any:
    """What a child printed at its end."""
    out, _ = process.communicate(timeout=100 if not IS_LONG else 3000)
    assert process.returncode == 0, out
    return json.loads(out)


# -- full disks -------------------------------------------------------------------------------------------------------


def fill(folder: Path, longest: int) -> dict[str, int]:
    """Store more than there is room for, no file longer than so many bytes (zero: as long as there is room)."""
    logging.disable()
    if longest:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (longest, longest))
    cache = DownloadCache(folder)
    for number in range(200):
        put(cache, number)
        for earlier in range(0, number + 1, 7):
            check(cache, earlier, 0)
    kept = sum(check(cache, number, 0) for number in range(200))
    return {"kept": kept, "unfinished": len(list(folder.glob("*/*.unfinished")))}


def test_no_file_may_be_longer_than_a_limit_of_the_system(tmp_path: Path) -> None:
    report = report_of(child("fill", tmp_path / "cache", 3000))

    small = sum(len(body_of(number)) < 2500 for number in range(200))
    assert small <= report["kept"] < 200
    assert report["unfinished"] == 0


def can_mount() -> bool:
    done = subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "t", "/mnt"], capture_output=True, check=False)
    return done.returncode == 0


@pytest.mark.skipif(not shutil.which("unshare") or not can_mount(), reason="no file system can be mounted here")
def test_a_disk_that_is_full_keeps_what_fits(tmp_path: Path) -> None:
    mount = f"mount -t tmpfs -o size=256k,mode=700 t {tmp_path}"
    program = f"{sys.executable} {__file__} fill {tmp_path}/cache 0"
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", f"{mount} && exec {program}"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)

    assert 10 < report["kept"] < 200
    assert report["unfinished"] == 0


# -- killed processes -------------------------------------------------------------------------------------------------


def kill_at_every_call(folder: Path) -> dict[str, int]:
    """Fork a process that is killed before its n-th call, for every n; look at what it left each time.

    What the call before it did is done by then, so that this is every moment at which something can be left.
    """
    stock = folder / "stock"
    with installed(Faulty()):
        stocked(stock)
    torn = 0
    for killed in itertools.count():
        victim = folder / str(killed)
        shutil.copytree(stock, victim)

        def kill(number: int, name: str, call: int = killed + 1) -> None:
            if number == call:
                os.kill(os.getpid(), signal.SIGKILL)

        pid = os.fork()
        if pid == 0:
            with installed(Faulty(kill)):
                every_operation(victim, time.time)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        torn += len(list(victim.glob("*/*.unfinished")))
        with installed(Faulty()):
            afterwards(victim)
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0
            return {"killed": killed, "torn": torn}
    raise AssertionError


def test_a_process_killed_at_any_call_leaves_nothing_torn(tmp_path: Path) -> None:
    report = report_of(child("kill", tmp_path))

    assert report["killed"] > 300
    assert report["torn"] > 20  # leftovers there were, before the sweep


# -- several processes ------------------------------------------------------------------------------------------------

URLS: Final = 50
LIMIT: Final = 60 * 4096
OPERATIONS: Final = 100_000 if IS_LONG else 2_000


def work(folder: Path, seed: int, operations: int) -> dict[str, int]:
    """Random operations on the same URLs as others; a wrong body ends it."""
    dice = random.Random(seed)
    done: Counter[str] = Counter(hits=0, most=0)
    cache = DownloadCache(folder, max_bytes=LIMIT)
    for _ in range(operations):
        number = dice.randrange(URLS)
        match dice.choices(("get", "put", "remove", "size", "clear"), (600, 300, 50, 20, 1))[0]:
            case "get":
                done["hits"] += check(cache, number, 0, 1, 2)
            case "put":
                put(cache, number, dice.randrange(3))
            case "remove":
                cache.remove(url_of(number))
            case "size":
                done["most"] = max(done["most"], cache.size())
            case _:
                cache.clear()
    return dict(done)


def work_together(folder: Path, processes: int) -> list[dict[str, int]]:
    """As many processes at a time, each with its part of the operations."""
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        shares = [(folder, seed, OPERATIONS // processes) for seed in range(processes)]
        return pool.starmap(work, shares, chunksize=1)


@pytest.mark.parametrize("processes", [2, 8])
def test_processes_that_share_a_folder_never_see_a_wrong_body(tmp_path: Path, processes: int) -> None:
    """Nor do they exceed the limit by more than a tenth together, at any moment that one of them looked."""
    assert sum(-(-len(body_of(number)) // 4096) for number in range(URLS)) * 4096 > LIMIT
    folder = tmp_path / "cache"
    reports = report_of(child("together", folder, processes))

    assert sum(report["hits"] for report in reports) > OPERATIONS / 20
    assert 0 < max(report["most"] for report in reports) <= LIMIT * 1.1
    assert DownloadCache(folder).size() <= LIMIT * 1.1
    assert not list(folder.glob("*/*.unfinished"))


def test_threads_that_share_a_cache_never_see_a_wrong_body(tmp_path: Path) -> None:
    cache = DownloadCache(tmp_path / "cache", max_bytes=LIMIT)

    def run(seed: int) -> int:
        dice = random.Random(seed)
        hits = 0
        for _ in range(100):
            number = dice.randrange(URLS)
            if dice.random() < 0.4:
                put(cache.scoped(str(number % 2)), number)
            else:
                hits += check(cache.scoped(str(number % 2)), number, 0)
        return hits

    with ThreadPoolExecutor(8) as pool, installed(Faulty()):
        hits = list(pool.map(run, range(8)))

    assert sum(hits) > 50
    assert cache.size() <= LIMIT


def main(command: str, folder: str, *arguments: str) -> None:
    commands: dict[str, Callable[..., Any]] = {"fill": fill, "kill": kill_at_every_call, "together": work_together}
    print(json.dumps(commands[command](Path(folder), *map(int, arguments))))  # noqa: T201  # the report


if __name__ == "__main__":
    main(*sys.argv[1:])
