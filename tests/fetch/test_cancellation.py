"""A fetch that is cancelled, at any moment and in any way, leaves the connector as it was."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Self

import anyio
import pytest
from anyio.lowlevel import checkpoint

from lazymedia.errors import FetchTimeoutError, OverloadedError, UnprocessableMediaError, UpstreamError
from lazymedia.fetch import MediaConnector
from lazymedia.limits import Limits
from lazymedia.media import MediaRef
from lazymedia.media.raw import RawBytesMediaIO
from lazymedia.testing.server import Handler, MediaServer, Request, Response
from tests.fetch.descriptors import open_sockets
from tests.fetch.test_pool import pool_of
from tests.loops import is_added

pytestmark = pytest.mark.every_loop

LOOPBACK = ("127.0.0.0/8",)
IMAGE = RawBytesMediaIO("image")

STORMS = {"asyncio": 40, "trio": 100}
LONG_STORMS = 1000
"""Rounds of the storm. httpcore 1.0.9 on trio lost its first slot after about ten (encode/httpcore#1093); a round costs
some 190 ms of CPU on asyncio, which runs in its debug mode, and 30 on trio."""


def rounds(backend: tuple[str, object]) -> int:
    if os.environ.get("LAZYMEDIA_LONG_TESTS"):
        return LONG_STORMS
    return STORMS[backend[0]] // (5 if is_added(backend) else 1)


async def test_storms_of_cancelled_fetches_cost_the_pool_no_slot(anyio_backend: tuple[str, object]) -> None:
    """Twenty GETs at a time over ten connections, cancelled within 4 ms: while they connect or wait for a slot.

    Every other storm meets connections that are kept, and has up to 20 ms, so that some are cancelled later on.
    """
    seed = 20260913
    dice = random.Random(seed)
    async with (
        MediaServer({"/a": b"payload"}) as server,
        MediaConnector(allowed_networks=LOOPBACK, limits=Limits(max_connections=10)) as media,
    ):

        async def cancelled_fetch(seconds: float) -> None:
            with anyio.move_on_after(seconds):
                await media.fetch_image(server.url(f"/a?{seconds}"), IMAGE)  # each a download of its own

        before = open_sockets()
        storms = rounds(anyio_backend)
        for number in range(storms):
            longest = 0.020 if number % 2 else 0.004
            if number % 2:
                await media.fetch_image(server.url("/a"), IMAGE)
            async with anyio.create_task_group() as storm:
                for _ in range(20):
                    storm.start_soon(cancelled_fetch, dice.uniform(0, longest))
            assert pool_of(media)._in_use == 0, f"seed {seed}, round {number}"
        for _ in range(3):
            with anyio.fail_after(1):
                ref = await media.fetch_image(server.url("/a"), IMAGE)
            assert ref.data == b"payload"
        # At most the pool's ten connections, each with its two ends in this process.
        assert open_sockets() - before <= 20, f"seed {seed}"


@pytest.mark.parametrize("max_per_host", [3, 64])
async def test_storms_over_shared_downloads_cost_no_place(max_per_host: int, anyio_backend: tuple[str, object]) -> None:
    """Thirty fetches at a time of ten URLs on two hosts, some of which answer late or never, break off or reject.

    Fetches of one URL share a download, so that most cancellations leave it to others, and some end it.
    """
    seed = 20260913
    dice = random.Random(seed)
    limits = Limits(max_connections=8, max_connections_per_host=max_per_host, retry_backoff=0.001)

    async def late(request: Request) -> Response:
        await anyio.sleep(dice.uniform(0, 0.003))
        return Response(body=b"payload")

    async def never(request: Request) -> Response:
        await anyio.sleep_forever()
        raise AssertionError

    async def breaks(request: Request) -> bytes:
        return b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort"

    routes: dict[str, bytes | Handler] = {"/a": b"payload", "/late": late, "/never": never, "/breaks": breaks}
    paths = ("/a", "/a?2", "/late", "/late?2", "/never", "/breaks", "/missing")
    async with (
        MediaServer(routes) as one,
        MediaServer(routes) as two,
        MediaConnector(allowed_networks=LOOPBACK, limits=limits) as media,
    ):
        urls = [server.url(path) for server in (one, two) for path in paths]

        async def cancelled_fetch(url: str, seconds: float) -> None:
            with anyio.move_on_after(seconds):
                with suppress(UpstreamError, UnprocessableMediaError):
                    await media.fetch_image(url, IMAGE)

        before = open_sockets()
        storms = rounds(anyio_backend) // 2
        for _ in range(storms):
            async with anyio.create_task_group() as storm:
                for _ in range(30):
                    storm.start_soon(cancelled_fetch, dice.choice(urls), dice.uniform(0, 0.012))
            owned = media._owned
            slots = owned.downloader.connection_limits
            assert (len(owned.flights), slots.in_use, slots.known_hosts, owned.budget.held) == (0, 0, 0, 0), seed
        with anyio.fail_after(5):
            for url in (one.url("/a"), two.url("/a")):
                assert (await media.fetch_image(url, IMAGE)).data == b"payload"
        assert open_sockets() - before <= 16 + 2 * one.hits["/never"] + 2 * two.hits["/never"], f"seed {seed}"


class Dripping:
    """A body that sends one piece, tells so, and then waits for ever."""

    def __init__(self) -> None:
        self.started = anyio.Event()

    async def __call__(self, request: Request) -> Response:
        return Response(body=self._body())

    async def _body(self) -> AsyncIterator[bytes]:
        yield b"first"
        self.started.set()
        await anyio.sleep_forever()


async def test_a_fetch_cancelled_in_mid_download_closes_its_connection() -> None:
    drip = Dripping()
    limits = Limits(max_connections=1)
    async with (
        MediaServer({"/drip": drip, "/a": b"payload"}) as server,
        MediaConnector(allowed_networks=LOOPBACK, limits=limits) as media,
    ):
        before = open_sockets()
        async with anyio.create_task_group() as nursery:
            nursery.start_soon(media.fetch_image, server.url("/drip"), IMAGE)
            await drip.started.wait()
            await anyio.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

        # The server's end goes when it next looks; only its own task can be waiting for that.
        assert open_sockets() - before <= 1
        with anyio.fail_after(5):
            ref = await media.fetch_image(server.url("/a"), IMAGE)
        assert ref.data == b"payload"


async def test_an_outer_cancellation_is_not_turned_into_a_timeout() -> None:
    drip = Dripping()
    async with (
        MediaServer({"/drip": drip}) as server,
        MediaConnector(allowed_networks=LOOPBACK) as media,
    ):
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as nursery:

                async def cancel_when_started() -> None:
                    await drip.started.wait()
                    scope.cancel()

                nursery.start_soon(cancel_when_started)
                await media.fetch_image(server.url("/drip"), IMAGE)

        assert scope.cancelled_caught


async def test_the_total_deadline_ends_a_drip_that_never_does() -> None:
    """A server that goes on sending a byte at a time resets every timeout of one read; the total one it cannot."""

    async def drip(request: Request) -> Response:
        async def body() -> AsyncIterator[bytes]:
            while True:
                yield b"."
                await checkpoint()

        return Response(body=body())

    async with (
        MediaServer({"/drip": drip}) as server,
        MediaConnector(allowed_networks=LOOPBACK, limits=Limits(max_connections=1)) as media,
    ):
        for _ in range(2):  # the second shows that the first gave its connection back
            with pytest.raises(FetchTimeoutError, match="did not end within"):
                await media.load_from_url(server.url("/drip"), IMAGE, fetch_timeout=0.1)


async def test_the_total_deadline_ends_a_server_that_says_nothing() -> None:
    async def silence(request: Request) -> Response:
        await anyio.sleep_forever()
        raise AssertionError

    async with (
        MediaServer({"/silence": silence}) as server,
        MediaConnector(allowed_networks=LOOPBACK, limits=Limits(image_timeout=0.1)) as media,
    ):
        with pytest.raises(FetchTimeoutError):
            await media.fetch_image(server.url("/silence"), IMAGE)


class GatedKeyIO(RawBytesMediaIO):
    """Building a reference waits at a gate, as hashing a large payload would take long."""

    def __init__(self) -> None:
        super().__init__("image")
        self.started = threading.Event()
        self.gate = threading.Event()
        self.ended = threading.Event()

    def load_bytes_ref(self, data: bytes) -> MediaRef[bytes]:
        self.started.set()
        try:
            assert self.gate.wait(10)
            return super().load_bytes_ref(data)
        finally:
            self.ended.set()


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"debug": True})], ids=["asyncio"])
@pytest.mark.parametrize("source", ["data:,payload", "http"])
async def test_three_native_cancels_do_not_leave_a_thread_behind(source: str) -> None:
    """`Task.cancel` exists on asyncio only; it would free a bare call's token while its thread runs on."""
    media_io = GatedKeyIO()
    async with MediaServer({"/a": b"payload"}) as server, MediaConnector(allowed_networks=LOOPBACK) as media:
        url = server.url("/a") if source == "http" else source
        task = asyncio.ensure_future(media.fetch_image(url, media_io))
        while not media_io.started.is_set():
            await checkpoint()
        for _ in range(3):
            task.cancel()
            await checkpoint()
        assert not task.done()
        media_io.gate.set()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert media_io.ended.is_set()
        assert media._owned.keys.borrowed_tokens == 0


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"debug": True})], ids=["asyncio"])
async def test_native_cancels_in_mid_download_leave_the_pool_whole() -> None:
    """The second cancellation hits the clean-up after the first, which on asyncio no shield protects."""
    limits = Limits(max_connections=1)
    async with AsyncDrips() as drips, MediaConnector(allowed_networks=LOOPBACK, limits=limits) as media:
        for _ in range(10):
            drip = drips.next()
            task = asyncio.ensure_future(media.fetch_image(drips.url, IMAGE))
            await drip.started.wait()
            await anyio.wait_all_tasks_blocked()
            while not task.done():
                task.cancel()
                await asyncio.sleep(0)
            assert task.cancelled()
        with anyio.fail_after(5):
            ref = await media.fetch_image(drips.server.url("/a"), IMAGE)

        assert ref.data == b"payload"


class AsyncDrips:
    """A server whose ``/drip`` hangs anew each time."""

    def __init__(self) -> None:
        self._drip = Dripping()
        self.server = MediaServer({"/drip": self._answer, "/a": b"payload"})

    async def __aenter__(self) -> Self:
        await self.server.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.server.__aexit__(None, None, None)

    @property
    def url(self) -> str:
        return self.server.url("/drip")

    def next(self) -> Dripping:
        self._drip = Dripping()
        return self._drip

    async def _answer(self, request: Request) -> Response:
        return await self._drip(request)


@pytest.mark.parametrize("phase", ["head", "body"])
async def test_leaving_a_connector_ends_the_fetches_of_other_tasks(phase: str) -> None:
    """In any phase, on a fresh connection or a kept one, and those that wait for a connection of the pool as well."""
    drip, silent = Dripping(), anyio.Event()

    async def silence(request: Request) -> Response:
        silent.set()
        await anyio.sleep_forever()
        raise AssertionError

    async with MediaServer({"/body": drip, "/head": silence, "/a": b"payload"}) as server:
        before = open_sockets()
        async with anyio.create_task_group() as nursery:

            async def fetch(number: int) -> None:
                with pytest.raises(OverloadedError, match="shutting down"):
                    await media.fetch_image(server.url(f"/{phase}?{number}"), IMAGE)

            async with MediaConnector(allowed_networks=LOOPBACK, limits=Limits(max_connections=1)) as media:
                await media.fetch_image(server.url("/a"), IMAGE)
                for number in range(3):
                    nursery.start_soon(fetch, number)
                await (silent if phase == "head" else drip.started).wait()
                await anyio.wait_all_tasks_blocked()

        assert server.hits[f"/{phase}"] == 1
        assert open_sockets() - before <= 1  # the server's end


async def test_a_payload_is_collectable_once_its_fetch_was_cancelled() -> None:
    """Neither the call nor an error keeps what nobody can get any more."""
    media_io = GatedKeyIO()
    async with MediaConnector() as media:
        async with anyio.create_task_group() as nursery:
            nursery.start_soon(media.fetch_image, "data:,payload-of-a-cancelled-fetch", media_io)
            while not media_io.started.is_set():
                await checkpoint()
            nursery.cancel_scope.cancel()
            media_io.gate.set()
        gc.collect()

        held = [kept for kept in gc.get_objects() if type(kept) is MediaRef]  # asking some objects their class warns
        assert not [ref for ref in held if ref.data == b"payload-of-a-cancelled-fetch"]
