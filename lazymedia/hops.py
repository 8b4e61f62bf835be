"""One call into a worker thread, owned by a nursery and settled inside the thread.

Comes in: a synchronous function. Goes out: its `Outcome`, a value that is passed on without being raised. Never here:
what the function does, or how many may run at once (the caller's limiter says).

Why a bare ``await to_thread.run_sync(...)`` is not enough: on asyncio, `Task.cancel` reaches through anyio's shield,
frees the limiter's token and leaves the thread running, so that a second phase starts beside the first. A nursery's
child sees such a cancellation only as that of its scope, which a thread hop waits out. So a child does the hop, and
the task that an outsider can cancel waits for the child.

Why outcomes are settled in the thread: a decoder may raise anything, also a cancellation class of its own loop or a
native panic, and a nursery's child that raises turns the caller's failure into an exception group.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import AsyncIterator, Callable, Coroutine
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, ParamSpec, TypeVar, final

import anyio
from anyio import CapacityLimiter, from_thread, to_thread
from anyio.lowlevel import EventLoopToken, current_token

from lazymedia.contexts import asynccontextmanager
from lazymedia.errors import DecoderCrashedError, OverloadedError
from lazymedia.media.stopping import DecodeStopped, stopping_when

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

T = TypeVar("T")
P = ParamSpec("P")


@final
@dataclass(frozen=True, slots=True)
class Value(Generic[T]):
    """The function returned this."""

    value: T

    def unwrap(self) -> T:
        return self.value


@final
@dataclass(frozen=True, slots=True)
class Failed:
    """The function raised this."""

    error: Exception

    def unwrap(self) -> NoReturn:
        error = self.error
        try:
            raise error
        finally:
            del self, error  # a frame that holds what it raised keeps it, and every payload below, from being freed


@final
@dataclass(frozen=True, slots=True)
class Stopped:
    """The function was given up: it never started, or it stopped at a checkpoint. Never yields a value."""

    def unwrap(self) -> NoReturn:
        raise RuntimeError("this call was given up; its result is nobody's")


STOPPED: Final = Stopped()
Outcome = Value[T] | Failed | Stopped

_hop: ContextVar[tuple[int, EventLoopToken] | None] = ContextVar("lazymedia_hop", default=None)


def in_hop(loop: EventLoopToken) -> bool:
    """Whether this thread runs a hop of ``loop``'s, where waiting for that loop could wait for itself.

    A thread that the hop's function started is another one, also where it was given a copy of the context.
    """
    return _hop.get() == (threading.get_ident(), loop)


@final
class Hop(Generic[T]):
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
            refusal = OverloadedError("this process can start no more threads", retry_after=1.0)
            refusal.__cause__ = error
            self.outcome = Failed(refusal)
        if self.outcome is STOPPED:
            await anyio.lowlevel.checkpoint()

    def take(self) -> T:
        """What the function returned, or raise what it raised. Once."""
        outcome, self.outcome = self.outcome, STOPPED
        try:
            return outcome.unwrap()
        finally:
            del outcome  # see Failed.unwrap


def frees_when_cancelled(fn: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Let a coroutine function that is cancelled free its payloads at once.

    On asyncio, anyio 4.16 leaves the cancellation of a task group's child in a reference cycle with all frames that it
    went through (its ``task_done`` keeps the exception that it caught in a local variable), so that what they hold
    waits for the garbage collector.
    """

    @wraps(fn)
    async def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        call = fn(*args, **kwargs)
        del args, kwargs
        try:
            return await call
        except anyio.get_cancelled_exc_class() as error:
            traceback.clear_frames(error.__traceback__)  # its __context__ may belong to a task that goes on
            raise

    return wrapper


@final
class Child:
    """A task in a nursery, which can be waited for and cancelled on its own. Start children with this and not with
    ``start_soon``, on whose `anyio.TaskHandle.cancel` the next paragraph holds as well.

    A work-around for anyio 4.16 on asyncio: a scope that was cancelled, and that is left while a scope around it is
    cancelled too, adds its count of `asyncio.Task.uncancel` calls to be made to the scope around it, also where that is
    the nursery's and belongs to another task. That task then takes back cancellations that anyio never made: a
    `Task.cancel` from outside is lost, `asyncio.timeout` makes a TimeoutError of it, or the task goes on. (Next to
    https://github.com/agronholm/anyio/issues/1214, which covers scopes of one task.) Here each child has an outermost
    scope of its own, which is cancelled and shielded before it is left by an exception: such a scope makes its calls
    itself. ``tests/pipeline/test_native_cancel.py`` fails without.

    Args:
        nursery: Where it runs.
        fn: The task's function.
        *args: What it is called with.
        name: For debuggers.
    """

    def __init__(
        self, nursery: TaskGroup, fn: Callable[..., Coroutine[Any, Any, object]], *args: Any, name: str | None = None
    ) -> None:
        self._scope = anyio.CancelScope()
        self._handle = nursery.start_soon(_run, self._scope, fn, args, name=name or getattr(fn, "__qualname__", None))

    async def wait(self) -> None:
        """Wait until it has ended, however it ends. Being cancelled here does not cancel it."""
        await self._handle.wait()

    def cancel(self) -> None:
        """Cancel it, unless it has ended."""
        self._scope.cancel()


async def _run(scope: anyio.CancelScope, fn: Callable[..., Coroutine[Any, Any, object]], args: tuple[Any, ...]) -> None:
    with scope:
        try:
            await fn(*args)
        except BaseException as error:
            traceback.clear_frames(error.__traceback__)  # see frees_when_cancelled; this frame empties itself
            del fn, args
            scope.shield = True
            scope.cancel()
            raise
    if scope.cancelled_caught:  # perhaps a cancellation of the nursery
        await anyio.lowlevel.checkpoint_if_cancelled()


@asynccontextmanager
async def open_nursery() -> AsyncIterator[TaskGroup]:
    """A task group whose block's own exception leaves as itself, after the children have ended.

    A bare one would wrap it in a group, also a KeyboardInterrupt, or the GeneratorExit of an async generator that is
    closed inside the block. Children are ours and record what they raise; one that raises all the same is a bug, and
    leaves as a group.
    """
    failure: BaseException | None = None
    cancelled = anyio.get_cancelled_exc_class()
    async with anyio.create_task_group() as nursery:
        try:
            yield nursery
        except cancelled:
            raise
        except BaseException as error:  # noqa: BLE001  # carried past the nursery
            failure = error
    if failure is not None:
        try:
            raise failure
        finally:
            del failure  # see Failed.unwrap


async def run_in_thread(fn: Callable[[], T], limiter: CapacityLimiter) -> T:
    """Run ``fn`` in a worker thread; however often the caller is cancelled, it is not left before the thread has ended.

    Raises:
        Exception: Whatever ``fn`` raised, as itself.
        DecoderCrashedError: ``fn`` raised something that is no `Exception`.
    """
    hop = Hop(fn, limiter)
    async with anyio.create_task_group() as nursery:
        Child(nursery, hop.run)
    return hop.take()


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

    Frames hold payloads, for as long as anybody holds the failure.
    """
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        one = pending.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            traceback.clear_frames(one.__traceback__)
            pending += [one.__cause__, one.__context__]


__all__ = [
    "STOPPED",
    "Child",
    "Failed",
    "Hop",
    "Outcome",
    "Stopped",
    "Value",
    "frees_when_cancelled",
    "in_hop",
    "open_nursery",
    "run_in_thread",
]
