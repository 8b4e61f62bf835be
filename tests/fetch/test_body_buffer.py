"""A payload while it downloads: its header is checked early, and it is hashed once and held once."""

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

from lazymedia.errors import OverloadedError, PayloadTooLargeError, UnprocessableMediaError
from lazymedia.fetch import MediaConnector
from lazymedia.fetch.body_buffer import PREFIX_SIZES, BodyBuffer, ByteBudget
from lazymedia.limits import Limits
from lazymedia.media import DecodeSpec, MediaRef, Payload, derive_media_key
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

    def check_header(self, prefix: bytes, declared: int | None) -> bool:
        self.looks.append((len(prefix), declared))
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
    assert len(sizes) <= len(PREFIX_SIZES)
    assert bool(sizes) == is_looked_at
    assert {seen for _, seen in looking.looks} <= {declared}
    assert threading.current_thread() not in looking.threads
    assert max(sizes, default=0) <= PREFIX_SIZES[-1]


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


@pytest.mark.parametrize("size", [MIB - 1, 3 * MIB + 7])
async def test_a_payload_is_hashed_once_and_off_the_loop(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = os.urandom(size)
    sha = Sha(monkeypatch)
    async with MediaServer({"/a": data}) as server, MediaConnector(allowed_networks=LOOPBACK) as media:
        video_ref, audio_ref = await media.fetch_video_and_audio(server.url("/a"), RAW, RawBytesMediaIO("audio"))
    monkeypatch.undo()

    assert video_ref.key == derive_media_key(data, DecodeSpec({"video_decode": "raw_bytes"}))
    assert audio_ref.key == derive_media_key(data, DecodeSpec({"audio_decode": "raw_bytes"}))
    assert list(sha) == [size]
    assert threading.current_thread() not in sha.threads


def test_a_body_starts_anew_or_goes_on() -> None:
    budget = ByteBudget(100)
    prefixes: list[int] = []
    buffer = BodyBuffer(50, budget=budget, on_prefix=lambda: prefixes.append(len(buffer)))
    buffer.begin(20)
    buffer.write(b"0123456789")
    buffer.begin(20, 10)
    buffer.write(b"abcde")
    assert (buffer.getvalue(), budget.held, buffer.prefix()) == (b"0123456789abcde", 15, b"0123456789abcde")
    buffer.begin(None)
    buffer.write(b"xyz")
    assert (buffer.getvalue(), budget.held, prefixes) == (b"xyz", 3, [10, 3])
    with pytest.raises(PayloadTooLargeError):
        buffer.begin(51)
    with pytest.raises(PayloadTooLargeError):
        buffer.write(bytes(51))
    buffer.close()
    assert (budget.held, len(buffer)) == (0, 0)


def test_bytes_beyond_the_budget_are_refused_and_counted_until_given_back() -> None:
    budget = ByteBudget(10)
    budget.take(6)
    with pytest.raises(OverloadedError) as rejected:
        budget.check(5)
    assert rejected.value.retry_after == 1.0
    budget.check(4)
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

        def load_ref(self, payload: Payload) -> MediaRef[bytes]:
            threads.append(threading.current_thread())
            return super().load_ref(payload)

    async with (
        MediaServer({"/a": bytes(65536), "/b": bytes(65537)}) as server,
        MediaConnector(allowed_networks=LOOPBACK) as media,
    ):
        await media.fetch_image(server.url("/a"), Watching("image"))
        await media.fetch_image(server.url("/b"), Watching("image"))

    assert [thread is threading.current_thread() for thread in threads] == [True, False]
