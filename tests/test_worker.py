"""Calls into worker threads: owned, settled in the thread, never left before their thread has ended."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial

import anyio
import pytest
from anyio import CapacityLimiter, from_thread
from anyio.lowlevel import checkpoint as loop_checkpoint
from anyio.lowlevel import current_token

from lazymedia.errors import DecoderCrashedError, OverloadedError
from lazymedia.media.cancellation import DecodeStopped, checkpoint
from lazymedia.nursery import open_nursery
from lazymedia.testing.quiet import native_cancel
from lazymedia.worker import in_thread_call, run_in_thread
from tests.loops import ASYNCIO_ONLY

pytestmark = pytest.mark.every_loop

WAIT = 10.0


class Gate:
    """Work that says when it has begun and waits to be let go."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.opened = threading.Event()
        self.finished = False

    def __call__(self) -> str:
        self.started.set()
        assert self.opened.wait(WAIT)
        self.finished = True
        return "value"

    async def wait_started(self) -> None:
        await anyio.to_thread.run_sync(self.started.wait, WAIT)


async def test_a_hop_returns_what_its_function_returns_and_raises_what_it_raises() -> None:
    limiter = CapacityLimiter(1)

    def fail() -> None:
        raise KeyError("x")

    assert await run_in_thread(lambda: 3, limiter) == 3
    with pytest.raises(KeyError, match="x"):
        await run_in_thread(fail, limiter)


async def test_stop_iteration_is_an_ordinary_failure() -> None:
    def fail() -> None:
        raise StopIteration

    with pytest.raises(RuntimeError):
        await run_in_thread(fail, CapacityLimiter(1))


@pytest.mark.parametrize(
    "make",
    [
        SystemExit,
        KeyboardInterrupt,
        GeneratorExit,
        asyncio.CancelledError,
        type("Panic", (BaseException,), {}),
    ],
)
async def test_what_is_no_exception_is_a_crash_of_the_decoder(make: Callable[[], BaseException]) -> None:
    """Not a cancellation that nobody asked for, not the end of the process, and never a group."""
    crash = make()

    def fail() -> None:
        raise crash

    with pytest.raises(DecoderCrashedError) as caught:
        await run_in_thread(fail, CapacityLimiter(1))

    assert caught.value.__cause__ is crash


async def test_a_cancelled_scope_waits_for_the_thread() -> None:
    gate, limiter = Gate(), CapacityLimiter(1)
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as nursery:
            nursery.start_soon(run_in_thread, gate, limiter)
            await gate.wait_started()
            scope.cancel()
            threading.Timer(0, gate.opened.set).start()

    assert gate.finished
    assert limiter.borrowed_tokens == 0


@ASYNCIO_ONLY
async def test_native_cancels_wait_for_the_thread(anyio_backend: object) -> None:
    gate, limiter = Gate(), CapacityLimiter(1)
    task = asyncio.get_running_loop().create_task(run_in_thread(gate, limiter))
    await gate.wait_started()
    for _ in range(3):
        native_cancel(task, 2)
        for _ in range(5):
            await loop_checkpoint()

        assert not task.done()
        assert limiter.borrowed_tokens == 1
    gate.opened.set()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert gate.finished
    assert limiter.borrowed_tokens == 0


async def test_a_queued_hop_that_is_cancelled_never_runs() -> None:
    first, second, limiter = Gate(), Gate(), CapacityLimiter(1)
    async with anyio.create_task_group() as nursery:
        nursery.start_soon(run_in_thread, first, limiter)
        await first.wait_started()
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as inner:
                inner.start_soon(run_in_thread, second, limiter)
                await anyio.wait_all_tasks_blocked()
                scope.cancel()
        first.opened.set()

    assert not second.started.is_set()


async def test_a_checkpoint_ends_a_function_whose_caller_was_cancelled() -> None:
    started, stopped = threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        try:
            while True:
                checkpoint()
        finally:
            stopped.set()

    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as nursery:
            nursery.start_soon(run_in_thread, work, CapacityLimiter(1))
            await anyio.to_thread.run_sync(started.wait, WAIT)
            scope.cancel()

    assert stopped.is_set()
    assert scope.cancelled_caught


async def test_a_function_that_asks_anyio_itself_is_stopped_too() -> None:
    started = threading.Event()

    def work() -> None:
        started.set()
        while True:
            from_thread.check_cancelled()

    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as nursery:
            nursery.start_soon(run_in_thread, work, CapacityLimiter(1))
            await anyio.to_thread.run_sync(started.wait, WAIT)
            scope.cancel()

    assert scope.cancelled_caught


async def test_a_checkpoint_does_nothing_elsewhere() -> None:
    checkpoint()
    seen: list[str] = []

    def in_a_thread_of_its_own() -> None:
        checkpoint()
        seen.append("passed")

    def work() -> None:
        thread = threading.Thread(target=in_a_thread_of_its_own)
        thread.start()
        thread.join()

    with anyio.CancelScope() as scope:
        scope.cancel()
        with anyio.CancelScope(shield=True):
            await run_in_thread(work, CapacityLimiter(1))

    assert seen == ["passed"]


@pytest.mark.parametrize("raised", [DecodeStopped, StopIteration, StopAsyncIteration])
async def test_what_only_looks_like_a_stop_is_a_failure(raised: type[BaseException]) -> None:
    def fail() -> None:
        raise raised

    with pytest.raises(RuntimeError, match=raised.__name__):
        await run_in_thread(fail, CapacityLimiter(1))


async def test_a_process_out_of_threads_is_overloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_more(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("anyio.to_thread.run_sync", no_more)

    with pytest.raises(OverloadedError, match="no more threads"):
        await run_in_thread(int, CapacityLimiter(1))


async def test_a_block_that_raises_leaves_as_itself_after_its_children() -> None:
    ended = False

    async def child() -> None:
        nonlocal ended
        try:
            await anyio.sleep_forever()
        finally:
            ended = True

    for raised in (LookupError(), SystemExit(3), KeyboardInterrupt(), ExceptionGroup("mine", [ValueError()])):
        ended = False
        with pytest.raises(type(raised)) as caught:
            async with open_nursery() as nursery:
                nursery.start_soon(child)
                await anyio.wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()
                raise raised

        assert caught.value is raised
        assert ended


async def test_a_function_knows_that_it_runs_in_a_hop() -> None:
    loop = current_token()
    assert await run_in_thread(partial(in_thread_call, loop), CapacityLimiter(1))
    assert not in_thread_call(loop)
    assert not await anyio.to_thread.run_sync(in_thread_call, loop)
