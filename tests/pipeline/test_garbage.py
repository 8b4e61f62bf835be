"""What a request that ended early held is freed at once, without the garbage collector."""

from __future__ import annotations

import gc
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import pytest
from anyio import CapacityLimiter, to_thread

from lazymedia import Renderer, open_renderer
from lazymedia.errors import UnprocessableMediaError
from lazymedia.fetch.body_buffer import BodyBuffer
from lazymedia.media import MediaRef, Payload
from lazymedia.testing import FailingMediaIO, GatedMediaIO, MediaServer, Request, Response, make_image
from tests.pipeline.cancelling import Moment, running, some_ticks, ways
from tests.pipeline.support import WatchedInfo, hf_processor, open_gated, opened, picture, reached, refs, request
from tests.test_renderer_cancel import LOOPBACK, ask

HOLDERS = (MediaRef, Payload, BodyBuffer)


def holds(kept: Any) -> bool:
    match kept:
        case MediaRef():
            return bool(kept.data) or kept.is_decoded
        case BodyBuffer():
            return len(kept) > 0
        case _:
            return len(kept.data) > 0


def held() -> Counter[str]:
    """Objects that hold payloads or media, by type."""
    return Counter(type(kept).__name__ for kept in gc.get_objects() if type(kept) in HOLDERS and holds(kept))


@asynccontextmanager
async def without_collector() -> AsyncIterator[None]:
    """Nothing may be left at the end of the block that was not there at its beginning."""
    gc.collect()
    before = held()
    gc.disable()
    try:
        yield
        await give_each_worker_another_call()
        assert held() - before == Counter()
    finally:
        gc.enable()


async def give_each_worker_another_call() -> None:
    """A worker thread of anyio drops its call just after it reported the result, and before its next call for sure."""
    count = threading.active_count()
    barrier, limiter = threading.Barrier(count), CapacityLimiter(count)
    async with anyio.create_task_group() as nursery:
        for _ in range(count):
            nursery.start_soon(partial(to_thread.run_sync, barrier.wait, limiter=limiter))


class Served:
    """A picture that comes at once, one whose server is silent, and one that is missing."""

    def __init__(self, server: MediaServer, asked: anyio.Event) -> None:
        self.came, self.silent, self.missing = map(server.url, ("/a.png", "/silent.png", "/missing.png"))
        self.asked = asked
        self.server = server


@asynccontextmanager
async def served() -> AsyncIterator[tuple[Served, Renderer]]:
    asked = anyio.Event()

    async def silent(request: Request) -> Response:
        asked.set()
        await anyio.sleep_forever()
        raise AssertionError

    routes: dict[str, Any] = {"/silent.png": silent, "/a.png": make_image(40, 30)}
    async with (
        MediaServer(routes) as server,
        open_renderer(hf_processor(), warm_up="off", allowed_networks=LOOPBACK) as renderer,
    ):
        yield Served(server, asked), renderer


async def until_it_came(url_hits: Callable[[], int]) -> None:
    while not url_hits():
        await some_ticks(1)
    while not held()["MediaRef"]:  # made in a worker thread, or on the loop
        await some_ticks(1)


async def test_a_picture_that_came_goes_with_its_request_while_another_is_awaited(
    anyio_backend: tuple[str, object],
) -> None:
    for native in ways(anyio_backend):
        async with served() as (at, renderer):
            async with without_collector():
                async with running(lambda: renderer.render_chat(ask(at.came, at.silent)), native) as request_:
                    await at.asked.wait()
                    await until_it_came(lambda: at.server.hits["/a.png"])
                    request_.cancel()
                assert request_.was_cancelled


async def test_it_goes_with_a_request_in_a_task_group_that_is_cancelled() -> None:
    """On asyncio anyio keeps a cancelled child's exception in a cycle, and with it all frames that it went through."""
    async with served() as (at, renderer):
        async with without_collector():
            async with anyio.create_task_group() as nursery:
                nursery.start_soon(renderer.render_chat, ask(at.came, at.silent))
                await at.asked.wait()
                await until_it_came(lambda: at.server.hits["/a.png"])
                nursery.cancel_scope.cancel()


@pytest.mark.parametrize("name", ["phase 1", "decode", "phase 2"])
async def test_payloads_go_with_a_request_that_is_cancelled_later(name: str) -> None:
    moment = Moment(name)
    async with opened(cache=moment.cache, info=moment.info) as processor:
        async with without_collector():
            async with anyio.create_task_group() as nursery:
                nursery.start_soon(processor.apply, request(processor, refs(moment.io, 2)))
                await reached(moment.event)
                nursery.cancel_scope.cancel()
                moment.go_on()


async def test_payloads_go_with_a_request_whose_steps_are_the_callers_own() -> None:
    io: GatedMediaIO[Any] = GatedMediaIO(picture(1), stoppable=True)

    async def steps(processor: Any) -> None:
        async with processor.open_apply(request(processor, refs(io, 2))) as state:
            await state.phase1()
            await state.wait_decodes()

    async with opened() as processor:
        async with without_collector():
            async with anyio.create_task_group() as nursery:
                nursery.start_soon(steps, processor)
                await reached(io.started)
                nursery.cancel_scope.cancel()


async def test_payloads_go_with_a_failure_that_was_dealt_with() -> None:
    async with served() as (at, renderer):
        async with without_collector():
            with pytest.raises(UnprocessableMediaError):
                await renderer.render_chat(ask(at.came, at.missing))
        async with without_collector():
            with pytest.raises(UnprocessableMediaError):
                await renderer.render_chat(ask(at.missing, at.came))

    bad = FailingMediaIO(ValueError("bad"))
    async with opened() as processor:
        async with without_collector():
            with pytest.raises(UnprocessableMediaError):
                await processor.apply(request(processor, [*refs(open_gated(), 1), *refs(bad, 1)]))

    def fail(_: object) -> None:
        raise NotImplementedError

    info = WatchedInfo(hf_processor(), return_tensors="np")
    info.fail = fail
    async with opened(info=info) as processor:
        async with without_collector():
            with pytest.raises(NotImplementedError):
                await processor.apply(request(processor, refs(open_gated(), 2)))
