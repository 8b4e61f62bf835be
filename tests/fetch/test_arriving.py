"""What is done with a payload while it comes: it is judged by its beginning, read for its digest, and held once."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from anyio import CapacityLimiter

from lazymedia.errors import LazyMediaError, OverloadedError, PayloadTooLargeError, UnprocessableMediaError
from lazymedia.fetch import MediaConnector
from lazymedia.fetch.arriving import LOOKS, ArrivingPayload
from lazymedia.fetch.digests import ArrivingDigest
from lazymedia.fetch.slots import ByteBudget
from lazymedia.limits import Limits
from lazymedia.media import DecodeSpec, MediaRef, derive_media_key, shared_payload_digest
from lazymedia.media.image import ImageMediaIO
from lazymedia.media.raw import RawBytesMediaIO
from lazymedia.testing.media import make_image
from lazymedia.testing.server import MediaServer, Request, Response

LOOPBACK = ("127.0.0.0/8",)
RAW = RawBytesMediaIO("video")
MIB = 1 << 20


class Slow:
    """Sends a beginning, then nothing for ever, or as much as anybody takes."""

    def __init__(self, *pieces: bytes, declared: int | None = None, floods: bool = False) -> None:
        self._pieces = pieces
        self._declared = declared
        self._floods = floods
        self.sent = 0
        self.left = anyio.Event()

    async def __call__(self, request: Request) -> Response:
        headers = {} if self._declared is None else {"Content-Length": str(self._declared)}
        return Response(headers=headers, body=self._body())

    async def _body(self) -> AsyncIterator[bytes]:
        try:
            for piece in self._pieces:
                yield piece
                await anyio.wait_all_tasks_blocked()
            while self._floods:
                self.sent += MIB
                yield bytes(MIB)
            await anyio.sleep_forever()
        finally:
            self.left.set()


def tight(**limits: int) -> ImageMediaIO:
    return ImageMediaIO(limits=Limits(max_image_bytes=1 << 40, **limits))  # type: ignore[arg-type]  # numbers


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP"])
@pytest.mark.parametrize("declared", [None, 1 << 30])
async def test_a_picture_over_the_limits_never_downloads_its_rest(kind: str, declared: int | None) -> None:
    """The server sends the beginning only; whoever waited for the rest would wait for ever."""
    head = make_image(3000, 20, format=kind)[:2000]
    limits = Limits(max_download_bytes=1 << 40, max_downloading_bytes=1 << 40)
    async with (
        MediaServer({"/a": Slow(head, declared=declared)}) as server,
        MediaConnector(allowed_networks=LOOPBACK, limits=limits) as media,
    ):
        with anyio.fail_after(10), pytest.raises(UnprocessableMediaError, match="2999 pixels"):
            await media.fetch_image(server.url("/a"), tight(max_image_side=2999))

        assert media._owned.budget.held == 0


async def test_of_a_flood_behind_a_refused_header_only_what_buffers_hold_is_sent() -> None:
    slow = Slow(make_image(3000, 20), declared=1 << 30, floods=True)
    limits = Limits(max_download_bytes=1 << 40, max_downloading_bytes=1 << 40)
    async with (
        MediaServer({"/a": slow}) as server,
        MediaConnector(allowed_networks=LOOPBACK, limits=limits) as media,
    ):
        with pytest.raises(UnprocessableMediaError):
            await media.fetch_image(server.url("/a"), tight(max_image_side=2999))
        with anyio.fail_after(10):
            await slow.left.wait()

    assert slow.sent < 64 * MIB, "of a gigabyte"


class LookingIO(RawBytesMediaIO):
    def __init__(self) -> None:
        super().__init__("video")
        self.looks: list[tuple[int, int | None]] = []
        self.threads: set[threading.Thread] = set()

    def judge_head(self, head: bytes, declared: int | None) -> bool:
        self.looks.append((len(head), declared))
        self.threads.add(threading.current_thread())
        return False


@pytest.mark.parametrize(("declared", "is_looked_at"), [(90_000, True), (60_000, False), (None, True)])
async def test_beginnings_are_looked_at_a_few_times_off_the_loop(declared: int | None, is_looked_at: bool) -> None:
    """Also of a plug-in that would look for ever; and not where the whole is there as soon."""
    looking = LookingIO()

    async def trickle(request: Request) -> Response:
        async def body() -> AsyncIterator[bytes]:
            for _ in range(6):
                yield bytes((declared or 600_000) // 6)
                await anyio.wait_all_tasks_blocked()

        return Response(headers={"Content-Length": str(declared)} if declared else {}, body=body())

    async with MediaServer({"/a": trickle}) as server, MediaConnector(allowed_networks=LOOPBACK) as media:
        await media.fetch_video(server.url("/a"), looking)

    sizes = [size for size, _ in looking.looks]
    assert sizes == sorted(sizes)
    assert len(sizes) <= len(LOOKS)
    assert bool(sizes) == is_looked_at
    assert {seen for _, seen in looking.looks} <= {declared}
    assert threading.current_thread() not in looking.threads
    assert max(sizes, default=0) <= LOOKS[-1]


async def test_two_decoders_of_one_download_both_look() -> None:
    video, audio = LookingIO(), LookingIO()
    data = bytes(500_000)
    async with MediaServer({"/a": data}) as server, MediaConnector(allowed_networks=LOOPBACK) as media:
        await media.fetch_video_and_audio(server.url("/a"), video, audio)

    assert video.looks == audio.looks


class Sha(list[int]):
    """Counts what is hashed, and where."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.threads: set[threading.Thread] = set()
        sha256, mine = hashlib.sha256, self

        class Counting:
            def __init__(self, data: bytes = b"") -> None:
                self._hash = sha256(data)

            def update(self, data: bytes) -> None:
                if len(data) > 1000:
                    mine.append(len(data))
                    mine.threads.add(threading.current_thread())
                self._hash.update(data)

            def copy(self) -> Counting:
                twin = Counting()
                twin._hash = self._hash.copy()
                return twin

            def digest(self) -> bytes:
                return self._hash.digest()

        monkeypatch.setattr(hashlib, "sha256", Counting)


@pytest.mark.parametrize("size", [MIB - 1, MIB, MIB + 1, 3 * MIB + 7])
@pytest.mark.parametrize("chunked", [False, True])
async def test_a_payload_is_hashed_once_and_its_key_is_the_usual_one(
    size: int, chunked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it was read along with its arrival (from a megabyte on, its length being known) or afterwards."""
    data = os.urandom(size)

    async def pieces(request: Request) -> Response:
        async def body() -> AsyncIterator[bytes]:
            for start in range(0, size, 100_000):
                yield data[start : start + 100_000]

        return Response(body=body())

    sha = Sha(monkeypatch)
    async with (
        MediaServer({"/a": pieces if chunked else data}) as server,
        MediaConnector(allowed_networks=LOOPBACK) as media,
    ):
        video_ref, audio_ref = await media.fetch_video_and_audio(server.url("/a"), RAW, RawBytesMediaIO("audio"))
    monkeypatch.undo()

    assert video_ref.key == derive_media_key(data, DecodeSpec({"video_decode": "raw_bytes"}))
    assert audio_ref.key == derive_media_key(data, DecodeSpec({"audio_decode": "raw_bytes"}))
    assert sum(sha) == size
    assert threading.current_thread() not in sha.threads
    assert (len(sha) > 1) == (size >= MIB and not chunked), "read in one piece only where it was read afterwards"


def test_a_digest_that_falls_behind_is_completed_from_the_payload() -> None:
    data = os.urandom(9 * MIB)
    digest = ArrivingDigest(len(data))
    for start in range(0, len(data), 65536):
        digest.feed(data[start : start + 65536])
    assert digest._handed_over < 5 * MIB, "no more than that waits to be read"
    digest.complete(data)
    digest.end()
    taken = digest.run()
    assert taken is not None
    with shared_payload_digest(data, taken):
        key = derive_media_key(data, DecodeSpec())
    assert key == derive_media_key(data, DecodeSpec())


@pytest.mark.parametrize("end", ["cancelled", "short", "capped", "gone"])
async def test_the_thread_that_reads_along_ends_with_the_body(end: str) -> None:
    before = threading.active_count()
    total = 8 * MIB
    started = anyio.Event()

    async def begin(request: Request) -> Response | bytes:
        async def body() -> AsyncIterator[bytes]:
            yield bytes(2 * MIB)
            await anyio.wait_all_tasks_blocked()
            started.set()
            await anyio.sleep_forever()

        if end == "cancelled":
            return Response(headers={"Content-Length": str(total)}, body=body())
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % total + bytes(2 * MIB)

    limits = Limits(max_retries=0, max_downloading_bytes=MIB if end == "capped" else 1 << 40)
    async with (
        MediaServer({"/a": begin}) as server,
        MediaConnector(allowed_networks=LOOPBACK, limits=limits) as media,
    ):
        threads = media._owned.downloader._digests
        assert threads is not None
        async with anyio.create_task_group() as nursery:

            async def fetch() -> None:
                with pytest.raises(LazyMediaError):
                    await media.fetch_video(server.url("/a"), RAW)

            nursery.start_soon(fetch)
            if end == "cancelled":
                await started.wait()
                assert threads.borrowed_tokens == 1
                nursery.cancel_scope.cancel()
        assert threads.borrowed_tokens == 0
        assert media._owned.budget.held == 0
    assert threading.active_count() <= before + 40, "idle workers of the loop, which it keeps for a while"


async def test_without_a_thread_to_be_had_a_payload_is_read_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytes(2 * MIB)
    async with MediaServer({"/a": data}) as server, MediaConnector(allowed_networks=LOOPBACK) as media:
        media._owned.downloader._digests = CapacityLimiter(1)
        media._owned.downloader._digests.acquire_on_behalf_of_nowait(object())
        ref = await media.fetch_video(server.url("/a"), RAW)

    assert ref.key == derive_media_key(data, RAW.get_decode_spec())


def test_a_body_starts_anew_or_goes_on() -> None:
    budget = ByteBudget(100)
    told: list[int] = []
    arriving = ArrivingPayload(50, budget=budget, on_head=lambda: told.append(len(arriving)))
    arriving.begin(20)
    arriving.write(b"0123456789")
    arriving.begin(20, 10)
    arriving.write(b"abcde")
    assert (arriving.getvalue(), budget.held, arriving.head()) == (b"0123456789abcde", 15, b"0123456789abcde")
    arriving.begin(None)
    arriving.write(b"xyz")
    assert (arriving.getvalue(), budget.held, told) == (b"xyz", 3, [10, 3])
    with pytest.raises(PayloadTooLargeError):
        arriving.begin(51)
    with pytest.raises(PayloadTooLargeError):
        arriving.write(bytes(51))
    arriving.close()
    assert (budget.held, len(arriving)) == (0, 0)


def test_bytes_beyond_the_budget_are_refused_and_counted_until_given_back() -> None:
    budget = ByteBudget(10)
    budget.take(6)
    with pytest.raises(OverloadedError) as refused:
        budget.admit(5)
    assert refused.value.retry_after == 1.0
    budget.admit(4)
    with pytest.raises(OverloadedError):
        budget.take(5)
    budget.give_back(11)
    assert budget.held == 0


MEASURE = """
import sys, anyio
from pathlib import Path
from lazymedia.fetch import MediaConnector
from lazymedia.limits import Limits
from lazymedia.media.raw import RawBytesMediaIO

def resident(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))

async def main(url, backend):
    decoder = RawBytesMediaIO("video")
    async with MediaConnector(allowed_networks=["127.0.0.0/8"]) as media:
        await media.fetch_video(url + "2000000", decoder)
        Path("/proc/self/clear_refs").write_text("5")
        before = resident("VmHWM")
        ref = await media.fetch_video(url + "64000000", decoder)
        print(resident("VmHWM") - before)

anyio.run(main, sys.argv[1], sys.argv[2], backend=sys.argv[2])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("anyio_backend", [("trio", {})], ids=["trio"])
@pytest.mark.parametrize("loop", ["trio", "asyncio"])
async def test_a_large_payload_is_held_once(loop: str) -> None:
    """By the peak of a process that does nothing else: the payload, and 8 MiB at most beside it."""

    async def zeros(request: Request) -> Response:
        size = int(request.path[1:])

        async def body() -> AsyncIterator[bytes]:
            for _ in range(0, size, 1_000_000):
                yield bytes(1_000_000)

        return Response(headers={"Content-Length": str(size)}, body=body())

    async with MediaServer({"/2000000": zeros, "/64000000": zeros}) as server:
        done = await anyio.run_process(
            [sys.executable, "-c", MEASURE, server.url("/"), loop],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
            stderr=subprocess.PIPE,
        )
    assert int(done.stdout) * 1024 <= 64_000_000 + 8 * MIB


async def test_keys_of_short_payloads_are_taken_on_the_loop_by_decoders_that_say_so() -> None:
    threads: list[threading.Thread] = []

    class Watching(RawBytesMediaIO):
        reads_quickly = True

        def load_bytes_ref(self, data: bytes) -> MediaRef[bytes]:
            threads.append(threading.current_thread())
            return super().load_bytes_ref(data)

    async with (
        MediaServer({"/a": bytes(65536), "/b": bytes(65537)}) as server,
        MediaConnector(allowed_networks=LOOPBACK) as media,
    ):
        await media.fetch_image(server.url("/a"), Watching("image"))
        await media.fetch_image(server.url("/b"), Watching("image"))

    assert [thread is threading.current_thread() for thread in threads] == [True, False]
