"""Requests that end early, by deadlines, given-up phases or failures: what stops, and what reaches the caller."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from lazymedia.errors import UnprocessableMediaError
from lazymedia.pipeline import MultiModalApplyState
from lazymedia.testing.decoders import FailingMediaIO, GatedMediaIO
from lazymedia.testing.quiet import assert_quiet
from tests.loops import ASYNCIO_ONLY
from tests.pipeline.cancelling import Moment
from tests.pipeline.support import GatedCache, open_gated, opened, picture, reached, refs, request

# --- deadlines, given-up phases ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["phase 1", "phase 2"])
async def test_a_phase_that_was_given_up_while_it_ran_spoils_its_request(name: str) -> None:
    moment = Moment(name)
    async with opened(cache=moment.cache, info=moment.info) as processor:
        async with processor.open_apply(request(processor, refs(moment.io, 1))) as state:
            if name == "phase 2":
                await state.phase1()
                await state.wait_decodes()
            await give_up(state.phase1 if name == "phase 1" else state.phase2, moment.event)
            for later in (state.phase1, state.wait_decodes, state.phase2):
                with pytest.raises(RuntimeError, match=r"given up|after phase1|already"):
                    await later()
            moment.go_on()

        assert len(moment.cache) <= 1


async def give_up(phase: Callable[[], Awaitable[object]], event: threading.Event) -> None:
    async with anyio.create_task_group() as nursery:
        with anyio.CancelScope() as scope:

            async def watch() -> None:
                await reached(event)
                scope.cancel()

            nursery.start_soon(watch)
            await phase()
    assert scope.cancelled_caught


async def test_a_phase_that_was_given_up_in_the_queue_never_runs_and_spoils_its_request() -> None:
    cache = GatedCache()
    cache.gate.arm()
    async with opened(cache=cache) as processor:
        async with anyio.create_task_group() as nursery:
            nursery.start_soon(processor.apply, request(processor, [picture(1)]))
            await reached(cache.gate.reached)
            async with processor.open_apply(request(processor, [picture(2)])) as state:
                with anyio.CancelScope() as scope:
                    scope.cancel()
                    await state.phase1()
                with pytest.raises(RuntimeError, match="given up"):
                    await state.phase1()
            cache.gate.open()

        assert processor.info.processed == 1


async def test_a_task_outside_the_nursery_that_waits_for_a_phase_is_told_when_the_request_ends() -> None:
    cache = GatedCache()
    cache.gate.arm()
    async with opened(cache=cache) as processor:
        told: list[BaseException] = []

        async def outsider(state: MultiModalApplyState) -> None:
            try:
                await state.phase1()
            except RuntimeError as exc:
                told.append(exc)

        async with anyio.create_task_group() as nursery:
            nursery.start_soon(processor.apply, request(processor, [picture(1)]))
            await reached(cache.gate.reached)
            async with processor.open_apply(request(processor, [picture(2)])) as state:
                nursery.start_soon(outsider, state)
                await anyio.wait_all_tasks_blocked()
            cache.gate.open()

        assert len(told) == 1


async def test_a_deadline_around_the_whole_request() -> None:
    io: GatedMediaIO[Any] = GatedMediaIO(picture(1), stoppable=True)
    async with opened() as processor:
        with pytest.raises(TimeoutError):
            with anyio.fail_after(0.01):
                await processor.apply(request(processor, refs(io, 1)))


@ASYNCIO_ONLY
@pytest.mark.parametrize("how", ["wait_for", "timeout"])
async def test_asyncios_own_deadlines_drain_too(how: str, anyio_backend: object) -> None:
    io: GatedMediaIO[Any] = GatedMediaIO(picture(1))
    async with opened() as processor:
        threading.Timer(0.2, io.release).start()
        with pytest.raises(TimeoutError):
            if how == "wait_for":
                await asyncio.wait_for(processor.apply(request(processor, refs(io, 1))), 0.05)
            else:
                async with asyncio.timeout(0.05):
                    await processor.apply(request(processor, refs(io, 1)))

        assert io.running == 0
        assert_quiet(processor)


# --- what reaches the caller ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "raised",
    [
        LookupError("mine"),
        ExceptionGroup("mine", [ValueError(1)]),
        StopAsyncIteration(),
        SystemExit(3),
        KeyboardInterrupt(),
    ],
)
async def test_the_callers_own_exception_arrives_as_itself(raised: BaseException) -> None:
    io: GatedMediaIO[Any] = open_gated()
    cause = ValueError("its cause")
    async with opened() as processor:
        try:
            async with processor.open_apply(request(processor, refs(io, 2))) as state:
                await state.phase1()
                raise raised from cause
        except BaseException as caught:  # what arrives is the point
            assert caught is raised
            assert caught.__cause__ is cause


async def test_the_first_failure_arrives_as_itself_when_a_sibling_is_still_running() -> None:
    io: GatedMediaIO[Any] = GatedMediaIO(picture(1))

    def fail(_: bytes) -> ValueError:
        io.release()
        return ValueError("bad")

    bad = FailingMediaIO(fail)
    async with opened() as processor:
        with pytest.raises(UnprocessableMediaError, match="bad"):
            await processor.apply(request(processor, [*refs(bad, 1), *refs(io, 1)]))


async def test_a_decoder_that_calls_into_the_loop_fails_loudly_or_finishes_but_never_hangs() -> None:
    """The rule is that it must not; with the loop waiting for it in release(), it would wait for ever."""

    def ask_the_loop(_: bytes) -> Any:
        return anyio.from_thread.run_sync(picture, 1)

    io: GatedMediaIO[Any] = GatedMediaIO(ask_the_loop)
    async with opened() as processor:
        with anyio.fail_after(10):
            async with processor.open_apply(request(processor, refs(io, 1))) as state:
                await state.phase1()
                await reached(io.started)
                io.release()
