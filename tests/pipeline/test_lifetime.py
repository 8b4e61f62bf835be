"""A processor's own life: warm-up before anything, leaving with requests open, callers without a loop."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from lazymedia.errors import OverloadedError
from lazymedia.pipeline import MultiModalProcessor
from lazymedia.testing.decoders import GatedMediaIO
from lazymedia.testing.quiet import native_cancel
from tests.loops import ASYNCIO_ONLY
from tests.pipeline.support import (
    WAIT,
    GatedCache,
    WatchedInfo,
    caching,
    hf_processor,
    open_gated,
    opened,
    picture,
    reached,
    refs,
    request,
)
from tests.programs import Programs


class Recording(WatchedInfo):
    """Writes down what ran."""

    def __init__(self) -> None:
        super().__init__(hf_processor(), return_tensors="np")
        self.order: list[str] = []

    def warm_up(self) -> None:
        self.order.append("warm-up")
        super().warm_up()

    def process_item(self, modality: str, media: Any, mm_processor_kwargs: Any = None) -> Any:
        self.order.append("item")
        return super().process_item(modality, media, mm_processor_kwargs)


# --- warm-up ----------------------------------------------------------------------------------------------------------


async def test_the_warm_up_comes_before_a_request_that_enters_in_its_very_tick() -> None:
    """Trio starts children in random order, so this is tried often."""
    for _ in range(20):
        info = Recording()
        async with MultiModalProcessor(info, warm_up="background") as processor:
            async with anyio.create_task_group() as nursery:
                nursery.start_soon(processor.apply, request(processor, [picture(1)]))
            assert info.order[0] == "warm-up"
            assert processor.statistics().warm_up == "done"


async def test_a_request_waits_for_the_warm_up_and_is_never_beside_it() -> None:
    info = Recording()
    info.gate.arm()
    async with MultiModalProcessor(info, warm_up="background") as processor, anyio.create_task_group() as nursery:
        await reached(info.gate.reached)
        nursery.start_soon(processor.apply, request(processor, [picture(1)]))
        await anyio.wait_all_tasks_blocked()

        assert processor.statistics().waiting_phases == 1
        assert processor.statistics().warm_up == "running"
        info.gate.open()


async def test_a_warm_up_can_be_awaited_and_keeps_nothing() -> None:
    async with caching() as processor:
        await processor.warm_up()

        assert processor.info.processed == 1
        assert len(processor.cache) == 0  # type: ignore[arg-type]  # it has one
        assert processor.statistics().warm_up == "done"


async def test_a_failing_warm_up_is_told_to_who_waits_for_it_and_recorded_for_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL, "lazymedia.pipeline")

    def fail(_: object) -> None:
        raise NotImplementedError("out of order")

    info = Recording()
    info.fail = fail
    async with MultiModalProcessor(info, warm_up="background") as processor:
        with pytest.raises(NotImplementedError):
            await processor.warm_up()
        assert processor.statistics().warm_up == "failed: NotImplementedError"
        info.fail = lambda _: None
        await processor.apply(request(processor, [picture(1)]))


async def test_who_waits_for_a_warm_up_that_never_comes_is_told_that_the_processor_closes() -> None:
    cache = GatedCache()
    cache.gate.arm()
    told: list[BaseException] = []

    async def wait(processor: MultiModalProcessor) -> None:
        try:
            await processor.warm_up()
        except OverloadedError as exc:
            told.append(exc)

    async def ask(processor: MultiModalProcessor) -> None:
        with pytest.raises(OverloadedError):
            await processor.apply(request(processor, [picture(1)]))

    async with anyio.create_task_group() as nursery:
        with anyio.CancelScope() as scope:
            async with MultiModalProcessor(Recording(), cache=cache) as processor:
                nursery.start_soon(ask, processor)
                await reached(cache.gate.reached)
                nursery.start_soon(wait, processor)
                await anyio.wait_all_tasks_blocked()
                threading.Timer(0.05, cache.gate.open).start()
                scope.cancel()
                await checkpoint()

    assert [type(exc) for exc in told] == [OverloadedError]


async def test_a_warm_up_that_never_ran_is_not_said_to_run() -> None:
    with anyio.CancelScope() as scope:
        async with MultiModalProcessor(Recording(), warm_up="background") as processor:
            scope.cancel()
            await checkpoint()

    assert processor.statistics().warm_up in {"none", "done"}


async def test_leaving_waits_for_a_running_warm_up() -> None:
    info = Recording()
    info.gate.arm()
    async with MultiModalProcessor(info, warm_up="background"):
        await reached(info.gate.reached)
        threading.Timer(0, info.gate.open).start()

    assert info.processed == 1


@pytest.mark.parametrize("when", ["before its first step", "while it runs"])
async def test_an_owner_that_is_cancelled_gives_the_warm_ups_token_back(when: str) -> None:
    info = Recording()
    info.gate.arm()
    with anyio.CancelScope() as scope:
        async with MultiModalProcessor(info, warm_up="background") as processor:
            if when == "while it runs":
                await reached(info.gate.reached)
            scope.cancel()
            threading.Timer(0.05, info.gate.open).start()
            await checkpoint()

    assert scope.cancelled_caught
    assert not processor.statistics().phase_running


# --- leaving ----------------------------------------------------------------------------------------------------------


async def test_leaving_ends_open_requests_with_an_error_of_their_own_and_waits_for_them() -> None:
    io: GatedMediaIO[Any] = GatedMediaIO(picture(1), stoppable=True)
    told: list[BaseException] = []

    async def one(processor: MultiModalProcessor) -> None:
        try:
            await processor.apply(request(processor, refs(io, 1)))
        except OverloadedError as exc:
            told.append(exc)

    async with anyio.create_task_group() as nursery:
        async with MultiModalProcessor(WatchedInfo(hf_processor())) as processor:
            for _ in range(3):
                nursery.start_soon(one, processor)
            await reached(io.started)
        assert io.running == 0
        assert processor.statistics().open_requests == 0
        with pytest.raises(OverloadedError):
            await processor.apply(request(processor, [picture(1)]))

    assert [(type(exc), exc.status_hint) for exc in told] == [(OverloadedError, 503)] * 3  # type: ignore[attr-defined]


async def test_leaving_waits_for_a_decode_that_cannot_stop_and_a_phase_in_the_queue_is_refused() -> None:
    cache = GatedCache()
    cache.gate.arm()
    outcomes: list[str] = []

    async def one(processor: MultiModalProcessor, number: int) -> None:
        try:
            await processor.apply(request(processor, [picture(number)]))
            outcomes.append("done")
        except OverloadedError:
            outcomes.append("refused")

    async with anyio.create_task_group() as nursery:
        info = WatchedInfo(hf_processor())
        async with MultiModalProcessor(info, cache=cache) as processor:
            for number in range(3):
                nursery.start_soon(one, processor, number)
            await reached(cache.gate.reached)
            await anyio.wait_all_tasks_blocked()
            threading.Timer(0.05, cache.gate.open).start()

        assert info.processed == 0
    assert outcomes == ["refused"] * 3


@ASYNCIO_ONLY
async def test_an_owner_that_is_cancelled_natively_waits_all_the_same(anyio_backend: object) -> None:
    io: GatedMediaIO[Any] = GatedMediaIO(picture(1))
    entered = asyncio.Event()
    box: list[MultiModalProcessor] = []

    async def own() -> None:
        async with MultiModalProcessor(WatchedInfo(hf_processor())) as processor:
            box.append(processor)
            entered.set()
            await asyncio.Event().wait()

    owner = asyncio.get_running_loop().create_task(own())
    await entered.wait()
    client = asyncio.get_running_loop().create_task(box[0].apply(request(box[0], refs(io, 1))))
    await reached(io.started)
    for _ in range(5):
        native_cancel(owner)
        for _ in range(5):
            await checkpoint()

    assert not owner.done()
    assert not client.done()
    io.release()
    with pytest.raises(asyncio.CancelledError):
        await owner
    with pytest.raises(OverloadedError):
        await client
    assert box[0].statistics().running_decodes == 0


@pytest.mark.parametrize(
    "raised", [LookupError("mine"), ExceptionGroup("mine", [ValueError(1)]), SystemExit(3), KeyboardInterrupt()]
)
async def test_an_exception_in_the_owners_block_arrives_as_itself(raised: Exception) -> None:
    cause = ValueError("its cause")
    try:
        async with MultiModalProcessor(WatchedInfo(hf_processor()), warm_up="background"):
            raise raised from cause
    except BaseException as caught:
        assert caught is raised
        assert caught.__cause__ is cause


async def test_a_request_in_the_owners_own_block_is_closed_before_the_owner() -> None:
    async with opened() as processor, processor.open_apply(request(processor, [picture(1)])) as state:
        await state.phase1()


# --- callers without a loop -------------------------------------------------------------------------------------------


async def test_a_foreign_thread_shares_limiter_and_cache() -> None:
    io = open_gated()
    async with caching() as processor:
        results: list[Any] = []
        inputs = request(processor, refs(io, 1))
        thread = threading.Thread(target=lambda: results.append(processor.apply_blocking(inputs)))
        thread.start()
        await anyio.to_thread.run_sync(thread.join)
        here = await processor.apply(request(processor, refs(io, 1)))

        assert (results[0].cached, here.cached) == ({"image": [False]}, {"image": [True]})


async def test_a_worker_thread_of_the_callers_own_may_block() -> None:
    async with opened() as processor:
        result = await anyio.to_thread.run_sync(processor.apply_blocking, request(processor, [picture(1)]))

        assert result.cached == {"image": [False]}


async def test_blocking_where_it_would_wait_for_itself_is_refused() -> None:
    async with opened() as processor:
        inputs = request(processor, [picture(1)])
        with pytest.raises(RuntimeError, match="await the asynchronous one"):
            processor.apply_blocking(inputs)

        from_a_decode: GatedMediaIO[Any] = GatedMediaIO(lambda _: processor.apply_blocking(inputs))
        from_a_decode.release()
        with pytest.raises(Exception, match="would wait for itself"):
            await processor.apply(request(processor, refs(from_a_decode, 1)))

        def from_a_phase(_: object) -> None:
            processor.apply_blocking(inputs)

        processor.info.fail = from_a_phase
        with pytest.raises(RuntimeError, match="would wait for itself"):
            await processor.apply(request(processor, [picture(2)]))


async def test_a_blocked_thread_is_told_when_the_processor_closes() -> None:
    io: GatedMediaIO[Any] = GatedMediaIO(picture(1), stoppable=True)
    told: list[BaseException] = []

    def block(processor: MultiModalProcessor, inputs: Any) -> None:
        try:
            processor.apply_blocking(inputs)
        except BaseException as exc:  # what it is told is the point
            told.append(exc)

    async with MultiModalProcessor(WatchedInfo(hf_processor())) as processor:
        thread = threading.Thread(target=block, args=(processor, request(processor, refs(io, 1))))
        thread.start()
        await reached(io.started)
    await anyio.to_thread.run_sync(thread.join, WAIT)

    assert [type(exc) for exc in told] == [OverloadedError]
    with pytest.raises(OverloadedError):
        await anyio.to_thread.run_sync(processor.apply_blocking, request(processor, [picture(1)]))


PROGRAM = """
import asyncio, threading
import anyio
from lazymedia.pipeline import MultiModalProcessor
from lazymedia.testing.decoders import GatedMediaIO
from tests.pipeline.support import WatchedInfo, hf_processor, picture, refs, request

io = GatedMediaIO(picture(1), stoppable=True)
told = []
threads = []

def block(processor, inputs):
    try:
        processor.apply_blocking(inputs)
    except BaseException as exc:
        told.append(type(exc).__name__)

async def own():
    async with MultiModalProcessor(WatchedInfo(hf_processor())) as processor:
        thread = threading.Thread(target=block, args=(processor, request(processor, refs(io, 1))))
        threads.append(thread)
        thread.start()
        await asyncio.Event().wait()

async def main():
    orphan = asyncio.ensure_future(own())
    await anyio.to_thread.run_sync(io.started.wait, 10)
    # asyncio.run now cancels the owner, the request's task and the request's children, all natively

asyncio.run(main())
threads[0].join(10)
print(told)
"""


def test_no_class_of_a_dying_loop_reaches_a_blocked_thread(programs: Programs) -> None:
    """On trio no task outlives the run's own, so only asyncio can die under a blocked thread."""
    done = programs.run("-c", PROGRAM, timeout=60)

    assert done.stdout.strip().splitlines()[-1:] == ["['OverloadedError']"], done.stderr
