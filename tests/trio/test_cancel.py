"""Cancellation on trio alone: scopes, nurseries, and a cancellation at every scheduling point of a request."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
import trio
import trio.testing

from lazymedia.cache import ProcessorCache
from lazymedia.pipeline import MultiModalProcessor
from lazymedia.processing import MultiModalInputs
from lazymedia.testing.decoders import GatedMediaIO
from lazymedia.testing.quiet import assert_quiet
from tests.pipeline.support import (
    GatedCache,
    WatchedInfo,
    hf_processor,
    open_gated,
    opened,
    picture,
    reached,
    refs,
    request,
)


async def test_a_phase_whose_scope_is_cancelled_is_never_joined_by_another(nursery: trio.Nursery) -> None:
    """The twin of the native-cancel test: the first request's phase goes on in its thread, and the second one waits."""
    cache = GatedCache()
    cache.gate.arm()
    async with opened(cache=cache) as processor:
        results: list[MultiModalInputs] = []
        ended = trio.Event()
        scope = trio.CancelScope()

        async def first() -> None:
            with scope:
                await processor.apply(request(processor, [picture(1)]))
            ended.set()

        async def second() -> None:
            results.append(await processor.apply(request(processor, [picture(2)])))

        nursery.start_soon(first)
        await reached(cache.gate.reached)
        for _ in range(3):
            scope.cancel()
            await trio.testing.wait_all_tasks_blocked()
        cache.gate.armed = False
        nursery.start_soon(second)
        await trio.testing.wait_all_tasks_blocked()

        assert processor.statistics().waiting_phases == 1
        assert not ended.is_set()
        assert not results
        cache.gate.open()
        await ended.wait()
        while not results:
            await trio.lowlevel.checkpoint()
        assert scope.cancelled_caught


@pytest.mark.parametrize("place", ["phase 1", "decode", "phase 2"])
async def test_a_request_in_a_nursery_that_fails_drains_before_the_nursery_ends(place: str) -> None:
    cache, info, io = GatedCache(), WatchedInfo(hf_processor(), return_tensors="np"), GatedMediaIO[Any](picture(1))
    event = {"phase 1": cache.gate.reached, "decode": io.started, "phase 2": info.gate.reached}[place]
    if place == "phase 1":
        cache.gate.arm()
    elif place == "phase 2":
        info.gate.arm()
    if place != "decode":
        io.release()
    async with opened(cache=cache, info=info) as processor:
        with pytest.RaisesGroup(LookupError):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(processor.apply, request(processor, refs(io, 2)))
                await reached(event)
                for let_go in (cache.gate.open, info.gate.open, io.release):
                    threading.Timer(0.02, let_go).start()
                raise LookupError

        assert processor.statistics().open_requests == 0
        assert_quiet(processor)


async def test_every_asynchronous_step_is_a_checkpoint() -> None:
    async with opened(cache=ProcessorCache(1 << 30)) as processor:
        with trio.testing.assert_checkpoints():
            await processor.apply(processor.make_inputs("hello", {}))
        async with processor.open_apply(processor.make_inputs("hello", {})) as state:
            for step in (state.phase1, state.wait_decodes, state.phase2):
                with trio.testing.assert_checkpoints():
                    await step()


class CancelAt(trio.abc.Instrument):
    """Cancels a scope right before the k-th step of one task."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.taken = 0
        self.task: trio.lowlevel.Task | None = None
        self.scope = trio.CancelScope()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self.task:
            if self.taken == self.step:
                self.scope.cancel()
            self.taken += 1


async def cancelled_at(step: int, run: Callable[[], Awaitable[object]]) -> bool:
    """Run something in a task, cancelled before that task's k-th step; whether it had so many."""
    instrument = CancelAt(step)

    async def child() -> None:
        instrument.task = trio.lowlevel.current_task()
        with instrument.scope:
            await run()

    trio.lowlevel.add_instrument(instrument)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(child)
    finally:
        trio.lowlevel.remove_instrument(instrument)
    return instrument.taken > step


async def test_a_request_can_be_cancelled_at_every_step_of_its_task() -> None:
    io = open_gated()
    async with opened(cache=ProcessorCache(1 << 30), decode_workers=2) as processor:
        step = 0

        async def apply() -> None:
            await processor.apply(request(processor, refs(io, 3, first=step)))

        while await cancelled_at(step, apply):
            assert_quiet(processor)
            step += 1

        assert step >= 5, "a request has at least a step for each of its waits"
        assert (await processor.apply(request(processor, refs(io, 3)))).mm_kwargs["image"]


async def test_a_processor_can_be_cancelled_at_every_step_of_its_owner() -> None:
    step = 0
    left: list[MultiModalProcessor] = []

    async def own() -> None:
        async with MultiModalProcessor(
            WatchedInfo(hf_processor(), return_tensors="np"), warm_up="background"
        ) as processor:
            left.append(processor)
            await processor.apply(request(processor, [picture(1)]))

    while await cancelled_at(step, own):
        assert not any(processor.statistics().phase_running for processor in left)
        step += 1

    assert step >= 5


async def test_a_deadline_around_a_running_decode_is_not_jumped_over(autojump_clock: trio.testing.MockClock) -> None:
    """The mock clock knows nothing of threads: it jumps to the deadline at once, and the request waits for its
    thread.
    """
    io: GatedMediaIO[Any] = GatedMediaIO(picture(1))
    async with opened() as processor:
        with trio.move_on_after(3600) as scope:
            async with processor.open_apply(request(processor, refs(io, 1))) as state:
                await state.phase1()
                threading.Timer(0.05, io.release).start()
                await state.wait_decodes()
                await trio.sleep_forever()

        assert scope.cancelled_caught
        assert io.running == 0
        assert anyio.get_cancelled_exc_class() is trio.Cancelled
