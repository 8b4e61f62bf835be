"""Cancelled requests: never two phases at once, no payload released under a decode, nothing left, cancellation as
itself.

Every point at which a request may be cancelled is reached through a gate. What an outsider does on asyncio
(`Task.cancel`, once or many times, without any scope) has its twin on trio in `tests/trio`.
"""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest

from lazymedia.cache import ProcessorCache
from lazymedia.errors import OverlapError
from lazymedia.media.ref import MediaRef
from lazymedia.pipeline import MultiModalProcessor
from lazymedia.pipeline.serial import Phases
from lazymedia.processing import MultiModalInputs
from lazymedia.testing.decoders import GatedMediaIO
from lazymedia.testing.quiet import assert_quiet, native_cancel
from tests.loops import ASYNCIO_ONLY
from tests.pipeline.cancelling import Moment, running, some_ticks, ways
from tests.pipeline.support import GatedCache, caching, open_gated, opened, picture, reached, refs, request

pytestmark = pytest.mark.every_loop

# --- the first test: a phase is never left running alone --------------------------------------------------------------


@ASYNCIO_ONLY
async def test_a_phase_whose_task_is_cancelled_three_times_is_never_joined_by_another(anyio_backend: object) -> None:
    """With a bare thread call the first cancellation frees the limiter, and the second request's phase runs beside."""
    cache = GatedCache()
    cache.gate.arm()
    async with opened(cache=cache) as processor:
        first = asyncio.get_running_loop().create_task(processor.apply(request(processor, [picture(1)])))
        await reached(cache.gate.reached)
        for _ in range(3):
            native_cancel(first)
            await some_ticks()
        cache.gate.armed = False
        second = asyncio.get_running_loop().create_task(processor.apply(request(processor, [picture(2)])))
        await some_ticks(50)

        assert processor.statistics().waiting_phases == 1
        assert not first.done()
        assert not second.done()
        cache.gate.open()
        result = await second
        with pytest.raises(asyncio.CancelledError):
            await first
        assert result.cached == {"image": [False]}


async def test_the_overlap_guard_turns_a_second_phase_into_an_error() -> None:
    phases = Phases()
    with pytest.raises(OverlapError):
        phases.exclusively(lambda: phases.exclusively(lambda: None))

    assert phases.exclusively(lambda: 3) == 3


# --- cancelled anywhere, once or often --------------------------------------------------------------------------------


@pytest.mark.parametrize("times", [1, 5])
@pytest.mark.parametrize("name", ["phase 1", "decode", "phase 2"])
async def test_a_cancelled_request_drains_then_releases_then_ends(
    name: str, times: int, anyio_backend: tuple[str, object]
) -> None:
    for native in ways(anyio_backend):
        moment = Moment(name)
        async with opened(cache=moment.cache, info=moment.info) as processor:
            mine = refs(moment.io, 2)
            forks: list[MediaRef[Any]] = []

            async def apply(mine: Any = mine, forks: Any = forks, processor: MultiModalProcessor = processor) -> Any:
                async with processor.open_apply(request(processor, mine)) as state:
                    forks += state.inputs.mm_data_items["image"].get_all_raw()
                    await state.phase1()
                    await state.wait_decodes()
                    return await state.phase2()

            async with running(apply, native) as request_:
                await reached(moment.event)
                for _ in range(times):
                    request_.cancel()
                    await some_ticks()

                assert not request_.ended.is_set(), "it must wait for its thread"
                assert all(fork.data for fork in forks), "a thread may still read them"
                moment.go_on()
                await request_.ended.wait()

            if name == "phase 2" and not native:  # a scope may find the request finished in that very call
                assert request_.was_cancelled or isinstance(request_.outcome, MultiModalInputs)
            else:
                assert request_.was_cancelled
            assert all(not fork.data for fork in forks)
            assert all(ref.data for ref in mine)
            assert_quiet(processor)
            assert len(await pixels_after(processor, moment)) == 2


async def pixels_after(processor: MultiModalProcessor, moment: Moment) -> Any:
    """The next request works, whatever became of the one before."""
    result = await processor.apply(request(processor, refs(moment.io, 2)))
    return result.mm_kwargs["image"]


@pytest.mark.parametrize("times", [1, 5])
async def test_a_request_cancelled_while_it_drains_still_drains(times: int, anyio_backend: tuple[str, object]) -> None:
    for native in ways(anyio_backend):
        io: GatedMediaIO[Any] = GatedMediaIO(picture(1))
        async with caching() as processor:
            left = anyio.Event()
            forks: list[MediaRef[Any]] = []

            async def leave_early(
                processor: Any = processor, io: Any = io, left: Any = left, forks: Any = forks
            ) -> None:
                async with processor.open_apply(request(processor, refs(io, 1))) as state:
                    forks += state.inputs.mm_data_items["image"].get_all_raw()
                    await state.phase1()
                    await reached(io.started)
                    left.set()

            async with running(leave_early, native) as request_:
                await left.wait()
                await some_ticks()
                for _ in range(times):
                    request_.cancel()
                    await some_ticks()

                assert not request_.ended.is_set()
                assert io.running == 1
                assert all(fork.data for fork in forks)
                io.release()
                await request_.ended.wait()

            assert forks
            assert not any(fork.data for fork in forks)
            assert_quiet(processor)


@pytest.mark.parametrize("times", [1, 5])
async def test_a_failure_that_is_cancelled_while_it_drains_is_never_a_group(
    times: int, anyio_backend: tuple[str, object]
) -> None:
    """Asyncio then raises the cancellation, trio the failure."""
    for native in ways(anyio_backend):
        io: GatedMediaIO[Any] = GatedMediaIO(picture(1))
        async with opened() as processor:
            failing = anyio.Event()

            async def fail(processor: Any = processor, io: Any = io, failing: Any = failing) -> None:
                async with processor.open_apply(request(processor, refs(io, 1))) as state:
                    await state.phase1()
                    await reached(io.started)
                    failing.set()
                    raise LookupError("the caller's own")

            async with running(fail, native) as request_:
                await failing.wait()
                await some_ticks()
                for _ in range(times):
                    request_.cancel()
                    await some_ticks()
                io.release()
                await request_.ended.wait()

            assert request_.was_cancelled or isinstance(request_.outcome, LookupError)
            assert_quiet(processor)


async def test_a_decode_that_looks_at_checkpoints_stops(anyio_backend: tuple[str, object]) -> None:
    for native in ways(anyio_backend):
        io: GatedMediaIO[Any] = GatedMediaIO(picture(1), stoppable=True)
        async with opened() as processor:

            async def apply(processor: Any = processor, io: Any = io) -> Any:
                return await processor.apply(request(processor, refs(io, 1)))

            async with running(apply, native) as request_:
                await reached(io.started)
                request_.cancel()

            assert request_.was_cancelled
            assert (io.stopped, io.running) == (1, 0)


# --- storms -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("native", [False, True])
async def test_a_storm_of_cancelled_requests_leaves_nothing(native: bool, anyio_backend: tuple[str, object]) -> None:
    """Requests cancelled after any number of ticks, some often; the processor is whole afterwards."""
    if native and anyio_backend[0] != "asyncio":
        pytest.skip("trio has no native cancellation")
    io = open_gated()
    async with opened(cache=ProcessorCache(8 << 20), decode_workers=2) as processor:
        outcomes: list[str] = []

        async def one(number: int) -> None:
            async def apply() -> Any:
                return await processor.apply(request(processor, refs(io, 3, first=number % 7)))

            async with running(apply, native) as request_:
                await some_ticks(number * 7 % 90)
                for _ in range(1 + number % 5):
                    if not request_.ended.is_set():
                        request_.cancel()
                    await some_ticks(number % 3)
            outcomes.append("cancelled" if request_.was_cancelled else type(request_.outcome).__name__)

        for _ in range(8):
            async with anyio.create_task_group() as nursery:
                for number in range(12):
                    nursery.start_soon(one, number)
            assert_quiet(processor)

        assert set(outcomes) <= {"cancelled", "MultiModalInputs", "NoneType"}
        assert (await processor.apply(request(processor, refs(io, 3)))).mm_kwargs["image"][0] is not None
