"""Calls into worker threads, each owned by a nursery, with an outcome that is settled inside the thread.

A bare ``await to_thread.run_sync(...)`` is not enough: on asyncio, `Task.cancel` reaches through anyio's shield, frees
the limiter's token and leaves the thread running, so that a second phase starts beside the first. A nursery's child
sees such a cancellation only as that of its scope, which a call into a thread waits out.

Outcomes are settled in the thread because a decoder may raise anything, also a cancellation class of its own loop or a
native panic, and a nursery's child that raises turns the caller's failure into an exception group.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from contextvars import ContextVar
from typing import Generic, TypeVar, final

import anyio
from anyio import CapacityLimiter, from_thread, to_thread
from anyio.lowlevel import EventLoopToken, current_token

from lazymedia.errors import DecoderCrashedError, OverloadedError
from lazymedia.media.cancellation import DecodeStopped, stopping_when
from lazymedia.nursery import Child
from lazymedia.outcome import STOPPED, Failed, Outcome, Value

T = TypeVar("T")

_hop: ContextVar[tuple[int, EventLoopToken] | None] = ContextVar("lazymedia_thread_call", default=None)


def in_thread_call(loop: EventLoopToken) -> bool:
    """Whether this thread runs a call of ``loop``, where waiting for that loop could wait for itself.

    A thread that the function started is another one, also where it was given a copy of the context.
    """
    return _hop.get() == (threading.get_ident(), loop)


@final
class ThreadCall(Generic[T]):
    """One call into a worker thread. `run` is started in a nursery, never awaited by a task that others may cancel."""

    def __init__(self, fn: Callable[[], T], limiter: CapacityLimiter) -> None:
        self._fn = fn
        self._limiter = limiter
        self.outcome: Outcome[T] = STOPPED

    async def run(self) -> None:
        """Run the function and keep its outcome. Raises nothing but a cancellation of the scope that it runs in."""
        cancelled = anyio.get_cancelled_exc_class()
        try:
            box = await to_thread.run_sync(_boxed, self._fn, cancelled, current_token(), limiter=self._limiter)
            self.outcome = box.pop()
        except Exception as error:  # noqa: BLE001  # not the function's, which are settled: no thread could be started
            overloaded = OverloadedError("this process can start no more threads", retry_after=1.0)
            overloaded.__cause__ = error
            self.outcome = Failed(overloaded)
        if self.outcome is STOPPED:
            await anyio.lowlevel.checkpoint()

    def take(self) -> T:
        """What the function returned, or raise what it raised. Once."""
        outcome, self.outcome = self.outcome, STOPPED
        try:
            return outcome.unwrap()
        finally:
            del outcome  # see Failed.unwrap


async def run_in_thread(fn: Callable[[], T], limiter: CapacityLimiter) -> T:
    """Run ``fn`` in a worker thread; however often the caller is cancelled, it is not left before the thread has ended.

    Raises:
        Exception: Whatever ``fn`` raised, as itself.
        DecoderCrashedError: ``fn`` raised something that is no `Exception`.
    """
    call = ThreadCall(fn, limiter)
    async with anyio.create_task_group() as nursery:
        Child(nursery, call.run)
    return call.take()


def _boxed(fn: Callable[[], T], cancelled: type[BaseException], loop: EventLoopToken) -> list[Outcome[T]]:
    """The outcome in a box that is emptied on arrival.

    trio's worker keeps what it delivered in a frame that a failure's traceback keeps; with the failure in it, that
    would be a circle.
    """
    return [_settle(fn, cancelled, loop)]


def _settle(fn: Callable[[], T], cancelled: type[BaseException], loop: EventLoopToken) -> Outcome[T]:
    """Runs in the worker thread, in a copy of the caller's context."""

    def stop() -> None:
        try:
            from_thread.check_cancelled()
        except cancelled:
            raise DecodeStopped from None

    _hop.set((threading.get_ident(), loop))
    try:
        with stopping_when(stop):
            return Value(fn())
    except (StopIteration, StopAsyncIteration) as error:
        # No coroutine can raise these.
        failure = RuntimeError(f"{type(error).__name__} was raised")
        failure.__cause__ = error
        return Failed(failure)
    except Exception as error:  # noqa: BLE001  # any failure is an outcome here
        _forget_locals(error)
        return Failed(error)
    except BaseException as error:  # noqa: BLE001  # so is what is no failure anywhere else
        # Where the request is cancelled, this is how the function stopped, by our checkpoint or by asking anyio itself.
        # Otherwise it crashed.
        try:
            stop()
        except DecodeStopped:
            return STOPPED
        _forget_locals(error)
        crash = DecoderCrashedError(f"a decoder raised {type(error).__name__}")
        crash.__cause__ = error
        return Failed(crash)


def _forget_locals(error: BaseException) -> None:
    """Empty the frames that a failure went through in this thread; the lines of its traceback stay.

    Frames hold payloads, as long as the failure is held.
    """
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        one = pending.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            traceback.clear_frames(one.__traceback__)
            pending += [one.__cause__, one.__context__]


__all__ = ["ThreadCall", "in_thread_call", "run_in_thread"]
