"""`Task.cancel` from outside, together with a deadline or a scope of the caller's: the cancellation is what arrives.

`asyncio.timeout` and anyio's scopes count a task's cancellations to know whose is whose. anyio 4.16 miscounts where a
nursery's child was cancelled on its own; see `lazymedia.nursery.Child`. Each test brings a nursery of lazymedia's into
that state, and holds it there by a gate.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import pytest

from lazymedia import MediaConnector, RawBytesMediaIO
from lazymedia.chat.fetching import fetch_parts
from lazymedia.chat.messages import MediaPart
from lazymedia.errors import UnprocessableMediaError
from lazymedia.media import MediaIO, MediaRef
from lazymedia.nursery import Child, open_nursery
from lazymedia.pipeline import MultiModalProcessor
from lazymedia.testing import GatedMediaIO, MediaServer, Request, Response, assert_quiet
from tests.loops import ASYNCIO_ONLY
from tests.pipeline.cancelling import some_ticks
from tests.pipeline.support import WAIT, GatedCache, WatchedInfo, hf_processor, opened, picture, reached, refs, request

pytestmark = pytest.mark.every_loop


class Small(RawBytesMediaIO):
    """Of such small payloads several may be fetched at once."""

    def get_max_bytes(self) -> int:
        return 100


IMAGE = Small("image")


@dataclass
class Scene:
    """What is cancelled, and how its children come to be cancelled at the same time.

    Attributes:
        host: Opens a nursery and waits in it.
        is_ready: Waits until the host does.
        also: Called in the same tick as the cancellation.
        go_on: Lets the children end.
    """

    host: Callable[[], Awaitable[object]]
    is_ready: Callable[[], Awaitable[object]]
    also: Callable[[], object] = lambda: None
    go_on: Callable[[], object] = lambda: None


class Stubborn:
    """A coroutine whose clean-up waits for a gate."""

    def __init__(self) -> None:
        self.started, self.gate = anyio.Event(), anyio.Event()

    async def __call__(self) -> None:
        try:
            self.started.set()
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await self.gate.wait()


@asynccontextmanager
async def a_child_cancelled_on_its_own() -> AsyncIterator[Scene]:
    child = Stubborn()
    children: list[Child] = []

    async def host() -> None:
        async with open_nursery() as nursery:
            children.append(Child(nursery, child))

    def cancel() -> None:
        children[0].cancel()

    yield Scene(host, child.started.wait, cancel, child.gate.set)


@asynccontextmanager
async def a_deadline_inside_a_child() -> AsyncIterator[Scene]:
    child = Stubborn()
    scope = anyio.CancelScope()

    async def inner() -> None:
        with scope:
            await child()

    async def host() -> None:
        async with open_nursery() as nursery:
            Child(nursery, inner)

    yield Scene(host, child.started.wait, scope.cancel, child.gate.set)


@asynccontextmanager
async def queued_decodes() -> AsyncIterator[Scene]:
    io: GatedMediaIO[Any] = GatedMediaIO(picture(1))
    async with opened(decode_workers=1) as processor:
        yield Scene(
            lambda: processor.apply(request(processor, refs(io, 4))), lambda: reached(io.started), go_on=io.release
        )


@asynccontextmanager
async def a_queued_phase() -> AsyncIterator[Scene]:
    cache = GatedCache()
    cache.gate.arm()
    async with opened(cache=cache) as processor, anyio.create_task_group() as nursery:
        nursery.start_soon(processor.apply, request(processor, [picture(1)]))
        await reached(cache.gate.reached)

        async def queued() -> None:
            while not processor.statistics().waiting_phases:
                await some_ticks(1)

        yield Scene(lambda: processor.apply(request(processor, [picture(2)])), queued)
        cache.gate.open()


@asynccontextmanager
async def a_warm_up_whose_caller_leaves() -> AsyncIterator[Scene]:
    cache = GatedCache()
    cache.gate.arm()
    box: list[MultiModalProcessor] = []
    entered = anyio.Event()
    waiter = anyio.CancelScope()

    async def host() -> None:
        async with MultiModalProcessor(WatchedInfo(hf_processor()), cache=cache) as processor:
            box.append(processor)
            entered.set()
            await anyio.sleep_forever()

    async def wait() -> None:
        with waiter:
            await box[0].warm_up()

    async def ask() -> None:
        with pytest.raises(Exception, match="shutting down"):
            await box[0].apply(request(box[0], [picture(1)]))

    async def ready() -> None:
        await entered.wait()
        nursery.start_soon(ask)
        await reached(cache.gate.reached)
        nursery.start_soon(wait)
        while not box[0].statistics().waiting_phases:
            await some_ticks(1)

    async with anyio.create_task_group() as nursery:
        yield Scene(host, ready, waiter.cancel, cache.gate.open)


class Waiting(MediaConnector):
    """Fails where the URL says so, and elsewhere waits for a gate when it is cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.fails, self.slow = anyio.Event(), Stubborn()

    async def load_from_url(
        self, url: str, media_io: MediaIO[Any], fetch_timeout: float | None = None
    ) -> MediaRef[Any]:
        if url == "bad":
            await self.fails.wait()
            raise UnprocessableMediaError("bad")
        await self.slow()
        raise AssertionError


@asynccontextmanager
async def a_fetch_behind_one_that_failed() -> AsyncIterator[Scene]:
    async with Waiting() as media:
        parts = [MediaPart("image", url=url) for url in ("bad", "slow")]

        async def ready() -> None:
            await media.slow.started.wait()
            media.fails.set()
            await some_ticks()

        yield Scene(lambda: fetch_parts(media, parts, lambda _: IMAGE, 1000), ready, go_on=media.slow.gate.set)


@asynccontextmanager
async def a_download_whose_last_waiter_leaves() -> AsyncIterator[Scene]:
    asked, entered = anyio.Event(), anyio.Event()
    waiter = anyio.CancelScope()
    box: list[MediaConnector] = []

    async def silent(_: Request) -> Response:
        asked.set()
        await anyio.sleep_forever()
        raise AssertionError

    async def host() -> None:
        async with MediaConnector(allowed_networks=["127.0.0.0/8"]) as media:
            box.append(media)
            entered.set()
            await anyio.sleep_forever()

    async with MediaServer({"/silent": silent}) as server, anyio.create_task_group() as nursery:

        async def fetch() -> None:
            with waiter:
                await box[0].fetch_image(server.url("/silent"), IMAGE)

        async def ready() -> None:
            await entered.wait()
            nursery.start_soon(fetch)
            await asked.wait()

        yield Scene(host, ready, waiter.cancel)


class Caller:
    """A task that calls something; how often it had been cancelled when the cancellation arrived."""

    def __init__(self, call: Callable[[], Awaitable[object]]) -> None:
        self._call = call
        self._counts: list[int] = []
        self._went_on = False
        self.task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        try:
            await self._call()
            self._went_on = True
        except asyncio.CancelledError:
            task = asyncio.current_task()
            assert task is not None
            self._counts.append(task.cancelling())
            raise

    def assert_cancelled(self, *where: object) -> None:
        assert self.task.cancelled(), (where, self.task.exception())
        assert (self._counts, self._went_on) == ([1], False), where


SCENES = [
    a_child_cancelled_on_its_own,
    a_deadline_inside_a_child,
    queued_decodes,
    a_queued_phase,
    a_warm_up_whose_caller_leaves,
    a_fetch_behind_one_that_failed,
    a_download_whose_last_waiter_leaves,
]


@ASYNCIO_ONLY
@pytest.mark.parametrize("first", ["the task", "the children"])
@pytest.mark.parametrize("make", SCENES)
async def test_a_deadline_that_ends_while_a_cancelled_task_drains_does_not_replace_the_cancellation(
    make: Callable[[], Any], first: str, anyio_backend: object
) -> None:
    async with make() as scene:
        deadline = asyncio.timeout(None)

        async def call() -> None:
            async with deadline:
                await scene.host()

        caller = Caller(call)
        with anyio.fail_after(WAIT):
            await scene.is_ready()
        if first == "the children":
            scene.also()
        caller.task.cancel()
        if first == "the task":
            scene.also()
        asyncio.get_running_loop().call_soon(deadline.reschedule, asyncio.get_running_loop().time())
        await some_ticks()
        scene.go_on()
        await asyncio.wait([caller.task])

        caller.assert_cancelled()


@ASYNCIO_ONLY
@pytest.mark.parametrize("ticks", range(-3, 4))
@pytest.mark.parametrize("make", SCENES)
async def test_a_scope_of_the_callers_does_not_swallow_a_cancellation_from_outside(
    make: Callable[[], Any], ticks: int, anyio_backend: object
) -> None:
    """The scope is cancelled so many ticks of the loop before or after the task."""
    async with make() as scene:
        scope = anyio.CancelScope()

        async def call() -> None:
            with scope:
                await scene.host()

        caller = Caller(call)
        with anyio.fail_after(WAIT):
            await scene.is_ready()
        scene.also()
        if ticks < 0:
            scope.cancel()
            await some_asyncio_ticks(-ticks - 1)
        was_running = caller.task.cancel()
        if ticks >= 0:
            await some_asyncio_ticks(ticks)
            scope.cancel()
        await some_asyncio_ticks(3)
        scene.go_on()
        await asyncio.wait([caller.task])

        if was_running:
            caller.assert_cancelled()


async def some_asyncio_ticks(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@ASYNCIO_ONLY
async def test_a_request_cancelled_twice_at_any_tick_is_cancelled(anyio_backend: object) -> None:
    """From outside and by a scope of its caller's, a few ticks apart, wherever it is in its life."""
    io: GatedMediaIO[Any] = GatedMediaIO(picture(1))
    async with opened(decode_workers=1) as processor, anyio.create_task_group() as nursery:
        nursery.start_soon(processor.apply, request(processor, refs(io, 1)))
        await reached(io.started)  # the slot is taken, so that the decodes of the others queue

        for after in range(1, 40, 3):
            for apart in range(-4, 5):
                scope = anyio.CancelScope()

                async def call(scope: anyio.CancelScope = scope) -> None:
                    with scope:
                        await processor.apply(request(processor, refs(io, 3, first=5)))

                caller = Caller(call)
                await some_asyncio_ticks(after)
                if apart < 0:
                    scope.cancel()
                await some_asyncio_ticks(-apart)
                was_running = caller.task.cancel()
                await some_asyncio_ticks(apart)
                scope.cancel()
                await asyncio.wait([caller.task])

                if was_running:
                    caller.assert_cancelled(after, apart)
        io.release()
    assert_quiet(processor)
