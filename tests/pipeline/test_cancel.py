"""Cancelled requests: never two phases at once, no payload released under a decode, nothing left, cancellation as
itself.

Every point at which a request may be cancelled is reached through a gate. What an outsider does on asyncio
(`Task.cancel`, once or many times, without any scope) has its twin on trio in `tests/trio`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from lazymedia.cache import ProcessorCache
from lazymedia.errors import OverlapError, UnprocessableMediaError
from lazymedia.media.ref import MediaRef
from lazymedia.pipeline import MultiModalApplyState, MultiModalProcessor
from lazymedia.pipeline.serial import Phases
from lazymedia.processing import MultiModalInputs
from lazymedia.testing.decoders import FailingMediaIO, GatedMediaIO
from lazymedia.testing.quiet import assert_quiet, native_cancel
from tests.pipeline.support import (
    Cache,
    Gate,
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

ASYNCIO_ONLY = pytest.mark.parametrize("anyio_backend", [("asyncio", {"debug": True})], ids=["asyncio"])


async def some_ticks(count: int = 10) -> None:
    for _ in range(count):
        await checkpoint()


class Cancelled:
    """A request in a task of its own, cancelled natively on asyncio and by its scope elsewhere."""

    def __init__(self, run: Callable[[], Awaitable[Any]], native: bool) -> None:
        self._run = run
        self._native = native
        self._scope = anyio.CancelScope()
        self._task: asyncio.Task[Any] | None = None
        self.ended = anyio.Event()
        self.outcome: Any = None
        self.was_cancelled = False

    async def __call__(self) -> None:
        if self._native:
            self._task = asyncio.get_running_loop().create_task(self._recorded())
            await asyncio.wait([self._task])
        else:
            with self._scope:
                await self._recorded()

    async def _recorded(self) -> None:
        try:
            self.outcome = await self._run()
        except anyio.get_cancelled_exc_class():
            self.was_cancelled = True
            raise
        except BaseException as exc:  # the test judges what it is
            self.outcome = exc
        finally:
            self.ended.set()

    def cancel(self) -> None:
        if self._native:
            if self._task is not None:  # it may be cancelled before it exists; then it is not
                native_cancel(self._task)
        else:
            self._scope.cancel()


@asynccontextmanager
async def running(run: Callable[[], Awaitable[Any]], native: bool) -> AsyncIterator[Cancelled]:
    async with anyio.create_task_group() as nursery:
        request_ = Cancelled(run, native)
        nursery.start_soon(request_)
        yield request_


def ways(anyio_backend: tuple[str, object]) -> list[bool]:
    return [True, False] if anyio_backend[0] == "asyncio" else [False]


class Moment:
    """One place in a request's life at which it stands still until it is told to go on."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.cache = GatedCache()
        self.info = WatchedInfo(hf_processor(), return_tensors="np")
        self.io: GatedMediaIO[Any] = GatedMediaIO(picture(1))
        self.event = {"phase 1": self.cache.gate.reached, "decode": self.io.started, "phase 2": self.info.gate.reached}[
            name
        ]
        if name == "phase 1":
            self.cache.gate.arm()
        if name == "phase 2":
            self.info.gate.arm()
        if name != "decode":
            self.io.release()

    def go_on(self) -> None:
        self.cache.gate.open()
        self.info.gate.open()
        self.io.release()


# --- the first test: a phase is never left running alone --------------------------------------------------------------


@ASYNCIO_ONLY
async def test_a_phase_whose_task_is_cancelled_three_times_is_never_joined_by_another(anyio_backend: object) -> None:
    """With a bare thread hop the first cancellation frees the limiter, and the second request's phase runs beside."""
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

            if name == "phase 2" and not native:  # a scope may find the request finished in that very hop
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
        async with opened(cache=ProcessorCache(1 << 30)) as processor:
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


async def test_queued_decodes_of_a_cancelled_request_never_start(anyio_backend: tuple[str, object]) -> None:
    for native in ways(anyio_backend):
        io: GatedMediaIO[Any] = GatedMediaIO(picture(1))
        async with opened(decode_workers=1) as processor:

            async def apply(processor: Any = processor, io: Any = io) -> Any:
                return await processor.apply(request(processor, refs(io, 20)))

            async with running(apply, native) as request_:
                await reached(io.started)
                request_.cancel()
                await some_ticks()
                io.release()

            assert io.calls == 1
            assert_quiet(processor)


@pytest.mark.parametrize("how", ["success", "failure"])
async def test_leaving_early_decodes_nothing_that_has_not_begun(how: str) -> None:
    io: GatedMediaIO[Any] = GatedMediaIO(picture(1))
    async with opened(decode_workers=1) as processor:
        try:
            async with processor.open_apply(request(processor, refs(io, 6))) as state:
                await state.phase1()
                await reached(io.started)
                threading.Timer(0, io.release).start()
                if how == "failure":
                    raise LookupError
        except LookupError:
            pass

        assert io.calls <= 2  # the second may have been given its slot in the moment in which the first ended


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


async def test_a_reference_that_two_requests_share_survives_the_cancellation_of_one() -> None:
    io: GatedMediaIO[Any] = GatedMediaIO(picture(1), stoppable=True)
    async with opened(cache=ProcessorCache(1 << 30)) as processor:
        shared = refs(io, 1)
        results = []

        async def second() -> None:
            results.append(await processor.apply(request(processor, shared)))

        async with anyio.create_task_group() as nursery:
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as inner:
                    inner.start_soon(processor.apply, request(processor, shared))
                    await reached(io.started)
                    nursery.start_soon(second)
                    await anyio.wait_all_tasks_blocked()
                    scope.cancel()
            io.release()

        assert len(results) == 1
        assert io.calls == 2


async def test_four_requests_for_one_reference_take_one_decode_slot() -> None:
    io: GatedMediaIO[Any] = GatedMediaIO(picture(1))
    async with opened(decode_workers=2) as processor:
        shared = refs(io, 1)
        async with anyio.create_task_group() as nursery:
            for _ in range(4):
                nursery.start_soon(processor.apply, request(processor, shared))
            await reached(io.started)
            thumbnail = await processor.apply(request(processor, refs(open_gated(), 1)))

            assert thumbnail.cached == {"image": [False]}
            assert processor.statistics().running_decodes == 1
            io.release()

        assert io.calls == 1


async def test_a_cancelled_request_holds_the_others_up_no_longer_than_one_item_takes(
    anyio_backend: tuple[str, object],
) -> None:
    for native in ways(anyio_backend):
        info = WatchedInfo(hf_processor(), return_tensors="np")
        info.gate.arm()
        async with opened(info=info) as processor:

            async def apply(processor: Any = processor) -> Any:
                return await processor.apply(request(processor, [picture(number) for number in range(20)]))

            async with running(apply, native) as request_:
                await reached(info.gate.reached)
                request_.cancel()
                await some_ticks()
                info.gate.open()

            assert request_.was_cancelled
            assert info.processed == 1


async def test_what_was_committed_is_handed_over_although_its_request_was_cancelled(
    anyio_backend: tuple[str, object],
) -> None:
    """Both sides then agree on the order of use: what is held here was told there."""
    for native in ways(anyio_backend):
        gate = Gate()
        outbox: list[MultiModalInputs] = []

        def receive(result: MultiModalInputs, gate: Gate = gate, outbox: Any = outbox) -> None:
            gate.pass_through()
            outbox.append(result)

        cache: Cache = ProcessorCache(1 << 30)
        async with opened(cache=cache, on_commit=receive) as processor:
            await processor.apply(request(processor, [picture(1), picture(2)]))
            gate.arm()

            async def apply(processor: Any = processor) -> Any:
                return await processor.apply(request(processor, [picture(3), picture(1)]))

            async with running(apply, native) as request_:
                await reached(gate.reached)
                for _ in range(3):
                    request_.cancel()
                    await some_ticks()
                gate.open()
            await processor.apply(request(processor, [picture(4)]))

            assert request_.was_cancelled or isinstance(request_.outcome, MultiModalInputs)
            mirror: dict[str, None] = {}
            for handed in outbox:
                hashes = handed.mm_hashes["image"]
                for mm_hash in [known for known in hashes if known in mirror] + hashes:
                    if mm_hash in mirror and mm_hash in hashes:
                        mirror.pop(mm_hash)
                    mirror[mm_hash] = None
            assert len(outbox) == 3
            assert set(mirror) == set(cache._entries)


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


async def test_releasing_and_forking_the_users_reference_on_the_loop_never_waits_for_a_request() -> None:
    io: GatedMediaIO[Any] = GatedMediaIO(picture(1))
    async with opened() as processor:
        mine = refs(io, 1)
        async with anyio.create_task_group() as nursery:
            nursery.start_soon(processor.apply, request(processor, mine))
            await reached(io.started)
            fork = mine[0].fork()
            mine[0].release()

            assert io.running == 1
            io.release()

        assert fork.decode().size == picture(1).size


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
