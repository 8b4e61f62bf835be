"""Connector, processor, renderer and their synchronous twins: where, when and by how many they can be used."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, contextmanager
from functools import partial
from typing import Any

import anyio
import pytest
from anyio.from_thread import start_blocking_portal

from lazymedia import (
    MediaConnector,
    MultiModalProcessor,
    OverloadedError,
    RawBytesMediaIO,
    Renderer,
    SyncMediaConnector,
    SyncRenderer,
    open_renderer,
)
from lazymedia.nursery import Child, open_nursery
from lazymedia.owners import open_blocking_calls
from lazymedia.testing import GatedMediaIO, MediaServer, Request, Response, assert_quiet, make_image
from tests.pipeline.support import WAIT, Gate, WatchedInfo, hf_processor, opened, picture, reached, refs, request
from tests.test_renderer_cancel import LOOPBACK, ask

pytestmark = pytest.mark.every_loop

IMAGE = RawBytesMediaIO("image")
BOTH = pytest.mark.parametrize("backend", ["asyncio", "trio"])

Call = Callable[[], Awaitable[object]]


def processor_calls(processor: MultiModalProcessor) -> dict[str, Call]:
    async def open_apply() -> None:
        async with processor.open_apply(request(processor, [picture(1)])):
            pass

    return {
        "apply": lambda: processor.apply(request(processor, [picture(1)])),
        "open_apply": open_apply,
        "warm_up": processor.warm_up,
    }


def connector_calls(media: MediaConnector) -> dict[str, Call]:
    url = "data:,payload"
    return {
        "fetch_image": lambda: media.fetch_image(url, IMAGE),
        "fetch_video": lambda: media.fetch_video(url, IMAGE),
        "fetch_audio": lambda: media.fetch_audio(url, IMAGE),
        "fetch_video_and_audio": lambda: media.fetch_video_and_audio(url, IMAGE, IMAGE),
        "load_from_url": lambda: media.load_from_url(url, IMAGE),
        "build_ref": lambda: media.build_ref(b"payload", IMAGE),
    }


def renderer_calls(renderer: Renderer) -> dict[str, Call]:
    return {
        "render_chat": lambda: renderer.render_chat(ask("data:,payload")),
        "render": lambda: renderer.render("<image>\n", {"image": picture(1)}),
        "render a URL": lambda: renderer.render("<image>\n", {"image": "data:,payload"}),
    }


def sync_connector_calls(media: SyncMediaConnector) -> dict[str, Callable[[], object]]:
    url = "data:,payload"
    return {
        "fetch_image": lambda: media.fetch_image(url, IMAGE),
        "fetch_video": lambda: media.fetch_video(url, IMAGE),
        "fetch_audio": lambda: media.fetch_audio(url, IMAGE),
        "fetch_video_and_audio": lambda: media.fetch_video_and_audio(url, IMAGE, IMAGE),
        "load_from_url": lambda: media.load_from_url(url, IMAGE),
    }


def sync_renderer_calls(renderer: SyncRenderer) -> dict[str, Callable[[], object]]:
    return {
        "render_chat": lambda: renderer.render_chat(ask("data:,payload")),
        "plan_chat": lambda: renderer.plan_chat(ask("data:,payload")),
        "render": lambda: renderer.render("<image>\n", {"image": picture(1)}),
    }


def make_processor_owner() -> MultiModalProcessor:
    return MultiModalProcessor(WatchedInfo(hf_processor(), return_tensors="np"))


@asynccontextmanager
async def every_owner() -> AsyncGenerator[dict[str, Call], None]:
    """All asynchronous calls of all owners, entered."""
    async with (
        make_processor_owner() as processor,
        MediaConnector() as media,
        open_renderer(hf_processor(), warm_up="off") as renderer,
    ):
        yield {**processor_calls(processor), **connector_calls(media), **renderer_calls(renderer)}


# --- before and after -------------------------------------------------------------------------------------------------


async def raised_by(call: Call) -> BaseException | None:
    try:
        await call()
    except Exception as error:
        return error
    return None


async def test_calls_before_entering_are_the_callers_mistake() -> None:
    for name, call in {**processor_calls(make_processor_owner()), **connector_calls(MediaConnector())}.items():
        assert type(await raised_by(call)) is RuntimeError, name


@BOTH
def test_blocking_calls_before_entering_are_the_callers_mistake(backend: str) -> None:
    calls: dict[str, Callable[[], object]] = {
        **sync_connector_calls(SyncMediaConnector(backend=backend)),
        **sync_renderer_calls(SyncRenderer(hf_processor(), backend=backend)),
        "apply_blocking": lambda: make_processor_owner().apply_blocking(None),  # type: ignore[arg-type]  # never read
    }
    for name, call in calls.items():
        with pytest.raises(RuntimeError) as caught:
            call()
        assert type(caught.value) is RuntimeError, name


async def test_calls_after_leaving_say_that_the_owner_shuts_down() -> None:
    async with every_owner() as calls:
        pass
    for name, call in calls.items():
        error = await raised_by(call)
        assert type(error) is OverloadedError, name
        assert "shutting down" in str(error)


@BOTH
def test_blocking_calls_after_leaving_say_that_the_owner_shuts_down(backend: str) -> None:
    with SyncMediaConnector(backend=backend) as media, SyncRenderer(hf_processor(), backend=backend) as renderer:
        pass
    for call in {**sync_connector_calls(media), **sync_renderer_calls(renderer)}.values():
        with pytest.raises(OverloadedError, match="shutting down"):
            call()


async def test_a_blocking_apply_after_leaving_says_that_the_owner_shuts_down() -> None:
    async with make_processor_owner() as processor:
        inputs = request(processor, [picture(1)])
    with pytest.raises(OverloadedError, match="shutting down"):
        await anyio.to_thread.run_sync(processor.apply_blocking, inputs)


class GatedTemplates(WatchedInfo):
    """Its chat template waits at a gate."""

    def __init__(self) -> None:
        super().__init__(hf_processor(), return_tensors="np")
        self.template = Gate()
        self.template.arm()

    def apply_chat_template(self, *args: Any, **kwargs: Any) -> Any:
        self.template.pass_through()
        return super().apply_chat_template(*args, **kwargs)


@pytest.mark.parametrize("url", ["data:,payload", "http"])
@pytest.mark.parametrize("lends", [False, True], ids=["its own connector", "a connector of the caller's"])
async def test_a_request_at_its_template_when_the_renderer_is_left_raises_its_error(url: str, lends: bool) -> None:
    info = GatedTemplates()
    errors: list[BaseException | None] = []
    async with MediaServer({"/a.png": make_image(8, 8)}) as server, MediaConnector(allowed_networks=LOOPBACK) as media:
        async with anyio.create_task_group() as nursery:
            async with open_renderer(info, warm_up="off", connector=media if lends else None) as renderer:

                async def one() -> None:
                    urls = server.url("/a.png") if url == "http" else url
                    errors.append(await raised_by(lambda: renderer.render_chat(ask(urls))))

                nursery.start_soon(one)
                await reached(info.template.reached)
            info.template.open()

    assert [type(error) for error in errors] == [OverloadedError]


async def test_a_request_that_fetches_when_the_renderer_is_left_raises_its_error() -> None:
    asked = anyio.Event()
    errors: list[BaseException | None] = []

    async def silent(_: Request) -> Response:
        asked.set()
        await anyio.sleep_forever()
        raise AssertionError

    async with MediaServer({"/silent": silent}) as server, anyio.create_task_group() as nursery:
        async with open_renderer(hf_processor(), warm_up="off", allowed_networks=LOOPBACK) as renderer:

            async def one() -> None:
                errors.append(await raised_by(lambda: renderer.render_chat(ask(server.url("/silent")))))

            nursery.start_soon(one)
            await asked.wait()

    assert [type(error) for error in errors] == [OverloadedError]


# --- another loop, another thread -------------------------------------------------------------------------------------


@BOTH
async def test_an_owner_used_from_a_loop_in_another_thread_is_refused_at_once(backend: str) -> None:
    async with every_owner() as calls:
        for name, call in calls.items():
            error = await anyio.to_thread.run_sync(partial(anyio.run, raised_by, call, backend=backend))
            assert type(error) is RuntimeError, name
            assert "another event loop" in str(error), name


async def test_a_request_whose_steps_are_taken_in_another_loop_is_refused() -> None:
    async with opened() as processor, processor.open_apply(request(processor, [picture(1)])) as state:
        for step in (state.phase1, state.wait_decodes):
            error = await anyio.to_thread.run_sync(partial(anyio.run, raised_by, step))
            assert type(error) is RuntimeError


@BOTH
def test_an_owner_used_from_a_later_loop_of_its_thread_is_refused(backend: str) -> None:
    """Its first loop has ended under it."""
    box: list[dict[str, Call]] = []
    kept: list[AbstractAsyncContextManager[Any]] = []

    async def enter() -> None:
        async with every_owner() as calls:
            box.append(calls)
            # What was left would say that it shuts down; this is an owner that nobody left.
            media = MediaConnector()
            kept.append(media)
            box.append(connector_calls(media))

    async def use() -> None:
        for call in box[0].values():
            assert type(await raised_by(call)) is OverloadedError
        for call in box[1].values():
            assert type(await raised_by(call)) is RuntimeError

    anyio.run(enter, backend=backend)
    anyio.run(use, backend=backend)


async def test_a_connector_of_another_loop_is_refused_by_a_renderer() -> None:
    async def render(media: MediaConnector) -> None:
        async with open_renderer(hf_processor(), warm_up="off", connector=media):
            raise AssertionError

    async with MediaConnector() as media:
        error = await anyio.to_thread.run_sync(partial(anyio.run, raised_by, partial(render, media)))
    assert type(error) is RuntimeError


# --- one connector, several renderers ---------------------------------------------------------------------------------


async def test_a_connector_with_a_block_of_its_own_is_shared_and_stays_open() -> None:
    async with MediaServer({"/a.png": make_image(8, 8)}) as server, MediaConnector(allowed_networks=LOOPBACK) as media:
        messages = ask(server.url("/a.png"))
        async with open_renderer(hf_processor(), warm_up="off", connector=media) as first:
            async with open_renderer(hf_processor(), warm_up="off", connector=media) as second:
                await second.render_chat(messages)
            await first.render_chat(messages)
        await media.fetch_image(server.url("/a.png"), IMAGE)


async def test_a_connector_that_a_renderer_entered_is_refused_by_another_one() -> None:
    media = MediaConnector()
    async with open_renderer(hf_processor(), warm_up="off", connector=media) as first:
        with pytest.raises(RuntimeError, match="another renderer"):
            async with open_renderer(hf_processor(), warm_up="off", connector=media):
                raise AssertionError
        with pytest.raises(RuntimeError, match=r"open already|already been entered"):
            async with media:
                raise AssertionError
        await first.connector.fetch_image("data:,payload", IMAGE)
    async with open_renderer(hf_processor(), warm_up="off", connector=media) as later:  # one after the other
        await later.connector.fetch_image("data:,payload", IMAGE)


async def test_of_renderers_that_enter_one_connector_at_the_same_time_one_is_refused() -> None:
    media = MediaConnector()
    outcomes: list[str] = []
    opened_, leave = anyio.Event(), anyio.Event()

    async def one() -> None:
        try:
            async with open_renderer(hf_processor(), warm_up="off", connector=media) as renderer:
                await renderer.connector.fetch_image("data:,payload", IMAGE)
                opened_.set()
                await leave.wait()
                await renderer.connector.fetch_image("data:,payload", IMAGE)
                outcomes.append("used")
        except RuntimeError as error:
            assert type(error) is RuntimeError
            outcomes.append("refused")

    with anyio.fail_after(WAIT):
        async with anyio.create_task_group() as nursery:
            for _ in range(3):
                nursery.start_soon(one)
            await opened_.wait()
            while len(outcomes) < 2:
                await anyio.lowlevel.checkpoint()
            leave.set()

    assert outcomes == ["refused", "refused", "used"]


# --- blocking calls under deadlines -----------------------------------------------------------------------------------


async def test_a_deadline_around_a_blocking_apply_ends_its_request() -> None:
    io: GatedMediaIO[Any] = GatedMediaIO(picture(1))
    async with opened(decode_workers=1) as processor:
        inputs = request(processor, refs(io, 6))
        with pytest.raises(TimeoutError):
            with anyio.fail_after(None) as scope:
                async with anyio.create_task_group() as nursery:

                    async def expire() -> None:
                        await reached(io.started)
                        scope.deadline = anyio.current_time()
                        threading.Timer(0.1, io.release).start()

                    nursery.start_soon(expire)
                    await anyio.to_thread.run_sync(processor.apply_blocking, inputs)

        assert io.calls == 1
        assert_quiet(processor)


async def test_a_scope_around_a_blocking_apply_ends_its_request() -> None:
    io: GatedMediaIO[Any] = GatedMediaIO(picture(1), stoppable=True)
    async with opened(decode_workers=1) as processor:
        inputs = request(processor, refs(io, 6))
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as nursery:
                nursery.start_soon(anyio.to_thread.run_sync, processor.apply_blocking, inputs)
                await reached(io.started)
                scope.cancel()

        assert scope.cancelled_caught
        assert (io.calls, io.stopped) == (1, 1)
        assert_quiet(processor)


@BOTH
async def test_a_deadline_in_one_loop_ends_a_blocking_call_in_another(backend: str) -> None:
    """The synchronous twins have a loop of their own; so may the owner of a processor."""
    asked = threading.Event()

    async def silent(_: Request) -> Response:
        asked.set()
        await anyio.sleep_forever()
        raise AssertionError

    async with MediaServer({"/silent": silent}) as server:
        media = await anyio.to_thread.run_sync(SyncMediaConnector(backend=backend, allowed_networks=LOOPBACK).__enter__)
        try:
            with anyio.fail_after(WAIT), anyio.CancelScope() as scope:
                async with anyio.create_task_group() as nursery:
                    url = server.url("/silent")
                    nursery.start_soon(anyio.to_thread.run_sync, partial(media.fetch_image, url, IMAGE))
                    await reached(asked)
                    scope.cancel()
            assert scope.cancelled_caught
        finally:
            await anyio.to_thread.run_sync(media.__exit__, None, None, None)


@contextmanager
def interrupted_once(started: threading.Event) -> Iterator[None]:
    """Ctrl-C for the main thread, which is the one that runs tests, once something has begun."""

    def press() -> None:
        assert started.wait(WAIT)
        os.kill(os.getpid(), signal.SIGINT)

    # A shell starts what it puts into the background with the signal ignored, and that is inherited.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=press)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        thread.join()
        signal.signal(signal.SIGINT, before)


@BOTH
def test_ctrl_c_in_a_blocking_apply_ends_its_request(backend: str) -> None:
    io: GatedMediaIO[Any] = GatedMediaIO(picture(1))
    with start_blocking_portal(backend) as portal, portal.wrap_async_context_manager(opened(decode_workers=1)) as owner:
        inputs = request(owner, refs(io, 6))
        with interrupted_once(io.started):
            owner.apply_blocking(inputs)
        io.release()

        async def drained() -> None:
            while owner.statistics().open_requests:
                await anyio.lowlevel.checkpoint()

        portal.call(drained)
        assert io.calls == 1


@BOTH
def test_ctrl_c_in_a_synchronous_twin_ends_its_call(backend: str) -> None:
    io: GatedMediaIO[Any] = GatedMediaIO(picture(1))
    with SyncRenderer(hf_processor(), backend=backend, warm_up="off", decode_workers=1) as renderer:
        with interrupted_once(io.started):
            renderer.render("<image>\n" * 6, {"image": refs(io, 6)})
        io.release()

    assert io.calls == 1


# --- warm-ups ---------------------------------------------------------------------------------------------------------


async def test_cancelled_warm_ups_leave_the_queue() -> None:
    info = WatchedInfo(hf_processor(), return_tensors="np")
    info.gate.arm()
    async with opened(info=info) as processor, anyio.create_task_group() as nursery:
        nursery.start_soon(processor.apply, request(processor, [picture(1)]))
        await reached(info.gate.reached)
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as waiters:
                for _ in range(10):
                    waiters.start_soon(processor.warm_up)
                while processor.statistics().waiting_phases < 10:
                    await anyio.lowlevel.checkpoint()
                scope.cancel()
        while processor.statistics().waiting_phases:  # within some ticks
            await anyio.lowlevel.checkpoint()

        assert scope.cancelled_caught
        info.gate.open()
    assert info.processed == 1
    assert processor.statistics().warm_up == "none"


# --- generators and exceptions ----------------------------------------------------------------------------------------


@asynccontextmanager
async def applying() -> AsyncGenerator[object, None]:
    io: GatedMediaIO[Any] = GatedMediaIO(picture(1), stoppable=True)
    async with opened() as processor, processor.open_apply(request(processor, refs(io, 2))) as state:
        await state.phase1()
        await reached(io.started)
        yield state


@asynccontextmanager
async def nursing() -> AsyncGenerator[object, None]:
    async with open_nursery() as nursery:
        child = Child(nursery, anyio.sleep_forever)
        try:
            yield nursery
        finally:
            child.cancel()


OWNERS: dict[str, Callable[[], AbstractAsyncContextManager[object]]] = {
    "apply": applying,
    "processor": lambda: MultiModalProcessor(WatchedInfo(hf_processor()), warm_up="background"),
    "connector": MediaConnector,
    "renderer": lambda: open_renderer(hf_processor()),
    "nursery": nursing,
    "blocking calls": lambda: open_blocking_calls("owner"),
}


@pytest.mark.parametrize("owner", OWNERS.values(), ids=OWNERS)
async def test_a_generator_that_is_closed_inside_an_owner_closes(
    owner: Callable[[], AbstractAsyncContextManager[object]],
) -> None:
    seen: list[BaseException] = []

    async def generate() -> AsyncGenerator[int, None]:
        try:
            async with owner():
                yield 1
        except BaseException as error:
            seen.append(error)
            raise

    generator = generate()
    async with aclosing(generator):
        assert await anext(generator) == 1

    assert [type(error) for error in seen] == [GeneratorExit]


@pytest.mark.parametrize(
    "raised", [LookupError("mine"), ExceptionGroup("mine", [ValueError(1)]), SystemExit(3), KeyboardInterrupt()]
)
@pytest.mark.parametrize("owner", OWNERS.values(), ids=OWNERS)
async def test_an_exception_inside_an_owner_arrives_as_itself(
    owner: Callable[[], AbstractAsyncContextManager[object]], raised: BaseException
) -> None:
    try:
        async with owner():
            raise raised
    except BaseException as caught:
        assert caught is raised
    else:
        raise AssertionError
