"""One download for all who want the same URL at once, and none of them at the mercy of another."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import AsyncIterator
from typing import NoReturn

import anyio
import pytest
from anyio.lowlevel import checkpoint

from lazymedia.errors import (
    FetchTimeoutError,
    LazyMediaError,
    OverloadedError,
    PayloadTooLargeError,
    UnprocessableMediaError,
)
from lazymedia.fetch import MediaConnector
from lazymedia.limits import Limits
from lazymedia.media import MediaRef
from lazymedia.media.raw import RawBytesMediaIO
from lazymedia.testing.server import MediaServer, Request, Response

LOOPBACK = ("127.0.0.0/8",)
IMAGE = RawBytesMediaIO("image")
SMALL = RawBytesMediaIO("image", limits=Limits(max_image_bytes=3))
ONCE = Limits(max_retries=0)


class Held:
    """An answer that begins at once and ends when it is told to."""

    def __init__(self, status: int = 200, *, is_endless: bool = False) -> None:
        self.started, self.gate, self.left = anyio.Event(), anyio.Event(), anyio.Event()
        self._status = status
        self._is_endless = is_endless

    async def __call__(self, request: Request) -> Response:
        if self._status != 200:
            self.started.set()
            await self.gate.wait()
        return Response(self._status, body=self._body())

    async def _body(self) -> AsyncIterator[bytes]:
        try:
            yield b"pay"
            self.started.set()
            await self.gate.wait()
            yield b"load"
            while self._is_endless:
                yield b"x" * 1024
        finally:
            self.left.set()


async def boarded(media: MediaConnector, waiters: int) -> None:
    """Wait until so many wait for one flight."""
    while [len(flight._deadlines) for flight in media._owned.flights._running.values()] != [waiters]:
        await checkpoint()


async def test_a_url_that_many_want_at_once_is_downloaded_once() -> None:
    held = Held()
    refs: list[MediaRef[bytes]] = []
    async with MediaServer({"/a": held}) as server, MediaConnector(allowed_networks=LOOPBACK) as media:

        async def fetch(fragment: int) -> None:
            refs.append(await media.fetch_image(server.url(f"/a#{fragment}"), IMAGE))

        async with anyio.create_task_group() as nursery:
            for number in range(10):
                nursery.start_soon(fetch, number)
            await boarded(media, 10)
            held.gate.set()

        assert server.hits["/a"] == 1
        assert [ref.data for ref in refs] == [b"payload"] * 10
        assert len({id(ref.data) for ref in refs}) == 1, "the payload is held once"
        assert len(media._owned.flights) == 0
        assert media._owned.budget.held == 0


async def test_nothing_is_remembered_after_a_flight() -> None:
    async with MediaServer({"/a": b"payload"}) as server, MediaConnector(allowed_networks=LOOPBACK) as media:
        for _ in range(3):
            await media.fetch_image(server.url("/a"), IMAGE)

        assert server.hits["/a"] == 3


async def test_waiters_with_other_caps_make_other_flights() -> None:
    """The tighter cap fails its own fetch only."""
    held = Held()
    async with (
        MediaServer({"/a": held}) as server,
        MediaConnector(allowed_networks=LOOPBACK) as media,
        anyio.create_task_group() as nursery,
    ):

        async def small() -> None:
            with pytest.raises(PayloadTooLargeError):
                await media.fetch_image(server.url("/a"), SMALL)

        async def large() -> None:
            assert (await media.fetch_image(server.url("/a"), IMAGE)).data == b"payload"

        nursery.start_soon(large)
        nursery.start_soon(small)
        while server.hits["/a"] < 2:
            await checkpoint()
        held.gate.set()


async def test_a_waiter_that_leaves_leaves_the_others_unharmed_whoever_it_is() -> None:
    for leaver in range(3):
        held = Held()
        got: list[int] = []
        scopes = [anyio.CancelScope() for _ in range(3)]
        async with MediaServer({"/a": held}) as server, MediaConnector(allowed_networks=LOOPBACK) as media:

            async def fetch(number: int) -> None:
                with scopes[number]:  # noqa: B023  # one round at a time
                    assert (await media.fetch_image(server.url("/a"), IMAGE)).data == b"payload"
                    got.append(number)  # noqa: B023

            async with anyio.create_task_group() as nursery:
                for number in range(3):
                    nursery.start_soon(fetch, number)
                await boarded(media, 3)
                scopes[leaver].cancel()
                await boarded(media, 2)
                held.gate.set()

            assert sorted(got) == [number for number in range(3) if number != leaver]
            assert server.hits["/a"] == 1


async def test_each_waiter_has_its_own_deadline() -> None:
    held = Held()
    async with (
        MediaServer({"/a": held}) as server,
        MediaConnector(allowed_networks=LOOPBACK) as media,
        anyio.create_task_group() as nursery,
    ):

        async def patient() -> None:
            assert (await media.fetch_image(server.url("/a"), IMAGE)).data == b"payload"

        nursery.start_soon(patient)
        await held.started.wait()
        with pytest.raises(FetchTimeoutError, match=r"0\.01 s"):
            await media.load_from_url(server.url("/a"), IMAGE, fetch_timeout=0.01)
        held.gate.set()

    assert server.hits["/a"] == 1


async def test_the_last_waiter_to_leave_stops_the_download_and_sees_it_end() -> None:
    held = Held(is_endless=True)
    async with MediaServer({"/a": held}) as server, MediaConnector(allowed_networks=LOOPBACK) as media:
        with anyio.fail_after(5):  # the least rate would end the download too, after ten
            async with anyio.create_task_group() as nursery:
                for _ in range(3):
                    nursery.start_soon(media.fetch_image, server.url("/a"), IMAGE)
                await held.started.wait()
                await boarded(media, 3)
                nursery.cancel_scope.cancel()

        assert len(media._owned.flights) == 0
        assert media._owned.downloader.connection_limits.in_use == 0
        assert media._owned.budget.held == 0
        held.gate.set()
        with anyio.fail_after(5):
            await held.left.wait()


async def test_who_comes_after_the_last_has_left_begins_anew() -> None:
    first, second = Held(is_endless=True), Held()
    answers = iter((first, second))

    async def answer(request: Request) -> Response:
        return await next(answers)(request)

    async with MediaServer({"/a": answer}) as server, MediaConnector(allowed_networks=LOOPBACK) as media:
        with anyio.fail_after(5):  # as above
            async with anyio.create_task_group() as nursery:
                nursery.start_soon(media.fetch_image, server.url("/a"), IMAGE)
                await first.started.wait()
                nursery.cancel_scope.cancel()
        second.gate.set()
        assert (await media.fetch_image(server.url("/a"), IMAGE)).data == b"payload"
        first.gate.set()


async def test_every_waiter_of_a_failed_flight_gets_a_failure_of_its_own() -> None:
    held = Held(404)
    failures: list[LazyMediaError] = []
    async with (
        MediaServer({"/a": held}) as server,
        MediaConnector(allowed_networks=LOOPBACK, limits=ONCE) as media,
    ):

        async def fetch() -> None:
            try:
                await media.fetch_image(server.url("/a"), IMAGE)
            except UnprocessableMediaError as error:
                failures.append(error)

        async with anyio.create_task_group() as nursery:
            for _ in range(4):
                nursery.start_soon(fetch)
            await boarded(media, 4)
            held.gate.set()

        assert server.hits["/a"] == 1
        assert len({id(failure) for failure in failures}) == 4
        assert {str(failure) for failure in failures} == {"the server answers with status 404"}


class OddError(LazyMediaError):
    """Cannot be copied: its arguments are none of its constructor's."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(one + two)


async def test_a_failure_that_cannot_be_copied_still_reaches_every_waiter() -> None:
    seen: list[type[Exception]] = []
    async with MediaConnector() as media:
        flights = media._owned.flights

        class Failing:
            async def download(self, *_: object, **__: object) -> NoReturn:
                await anyio.wait_all_tasks_blocked()
                raise OddError("a", "b")

        flights._downloads = Failing()  # what a plug-in's transport could do

        async def fetch() -> None:
            try:
                await media.fetch_image("http://media.example/", IMAGE)
            except Exception as error:
                seen.append(type(error))

        async with anyio.create_task_group() as nursery:
            nursery.start_soon(fetch)
            nursery.start_soon(fetch)

    assert sorted(kind.__name__ for kind in seen) == ["OddError", "RuntimeError"]


class PickyIO(RawBytesMediaIO):
    """Rejects by the header, or accepts."""

    def __init__(self, *, accepts: bool) -> None:
        super().__init__("image")
        self._accepts = accepts
        self.heads: list[tuple[bytes, int | None]] = []

    def check_header(self, prefix: bytes, declared: int | None) -> bool:
        self.heads.append((prefix, declared))
        if not self._accepts:
            raise UnprocessableMediaError("by its beginning")
        return False


async def test_a_rejected_header_ends_the_wait_of_its_own_fetch_only() -> None:
    held = Held()
    picky, easy = PickyIO(accepts=False), PickyIO(accepts=True)
    async with (
        MediaServer({"/a": held}) as server,
        MediaConnector(allowed_networks=LOOPBACK) as media,
        anyio.create_task_group() as nursery,
    ):

        async def patient() -> None:
            assert (await media.fetch_image(server.url("/a"), easy)).data == b"payload"

        nursery.start_soon(patient)
        await held.started.wait()
        with pytest.raises(UnprocessableMediaError, match="beginning"):
            await media.fetch_image(server.url("/a"), picky)
        held.gate.set()

    assert picky.heads == [(b"pay", None)]
    assert easy.heads == [(b"pay", None)]
    assert server.hits["/a"] == 1


async def test_leaving_the_connector_ends_a_flight_with_all_its_waiters() -> None:
    held = Held(is_endless=True)
    async with MediaServer({"/a": held}) as server:
        async with anyio.create_task_group() as nursery:

            async def fetch() -> None:
                with pytest.raises(OverloadedError, match="shutting down"):
                    await media.fetch_image(server.url("/a"), IMAGE)

            async with MediaConnector(allowed_networks=LOOPBACK) as media:
                for _ in range(3):
                    nursery.start_soon(fetch)
                await boarded(media, 3)
        held.gate.set()


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"debug": True})], ids=["asyncio"])
async def test_native_cancels_of_one_waiter_tear_nothing_for_another() -> None:
    held = Held()
    async with MediaServer({"/a": held}) as server, MediaConnector(allowed_networks=LOOPBACK) as media:
        torn = asyncio.ensure_future(media.fetch_image(server.url("/a"), IMAGE))
        await held.started.wait()
        other = asyncio.ensure_future(media.fetch_image(server.url("/a"), IMAGE))
        await boarded(media, 2)
        while not torn.done():
            torn.cancel()
            await asyncio.sleep(0)
        assert torn.cancelled()
        held.gate.set()
        assert (await other).data == b"payload"

    assert server.hits["/a"] == 1


async def test_neither_flight_nor_failure_keeps_the_payload() -> None:
    """Not in a circle either: the collector is off."""
    payloads: list[bytes] = []

    class RefusingIO(RawBytesMediaIO):
        def load_bytes_ref(self, data: bytes) -> MediaRef[bytes]:
            payloads.append(data)
            raise UnprocessableMediaError("rejected")

    class KeepingIO(RawBytesMediaIO):
        def load_bytes_ref(self, data: bytes) -> MediaRef[bytes]:
            payloads.append(data)
            return super().load_bytes_ref(data)

    async with MediaServer({"/a": b"x" * 100_000}) as server, MediaConnector(allowed_networks=LOOPBACK) as media:
        gc.collect()
        gc.disable()
        try:
            with pytest.raises(UnprocessableMediaError):
                await media.fetch_image(server.url("/a"), RefusingIO("image"))
            ref = await media.fetch_image(server.url("/a"), KeepingIO("image"))
            assert len(ref.data) == 100_000
            del ref
            await anyio.wait_all_tasks_blocked()
            counts = [sys.getrefcount(payloads.pop()) for _ in range(2)]
        finally:
            gc.enable()

    assert counts == [1, 1], "nothing but the argument itself"
