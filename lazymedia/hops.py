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

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, NoReturn, TypeVar, final

import anyio
from anyio import CapacityLimiter, from_thread, to_thread

from lazymedia.errors import DecoderCrashedError
from lazymedia.media.stopping import DecodeStopped, stopping_when

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

T = TypeVar("T")


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
        raise self.error


@final
@dataclass(frozen=True, slots=True)
class Stopped:
    """The function was given up: it never started, or it stopped at a checkpoint. Never yields a value."""

    def unwrap(self) -> NoReturn:
        raise RuntimeError("this call was given up; its result is nobody's")


STOPPED: Final = Stopped()
Outcome = Value[T] | Failed | Stopped

in_hop: ContextVar[bool] = ContextVar("lazymedia_in_hop", default=False)
"""True inside a worker thread that runs a hop, where waiting for the loop could wait for itself."""


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
        self.outcome = await to_thread.run_sync(_settle, self._fn, cancelled, limiter=self._limiter)
        if self.outcome is STOPPED:
            await anyio.lowlevel.checkpoint()


@asynccontextmanager
async def open_nursery() -> AsyncIterator[TaskGroup]:
    """A task group whose block's own exception leaves as itself, after the children have ended.

    A bare one would wrap it in a group, also a KeyboardInterrupt. Children are ours and record what they raise; one
    that raises all the same is a bug, and leaves as a group.
    """
    failure: BaseException | None = None
    cancelled = anyio.get_cancelled_exc_class()
    async with anyio.create_task_group() as nursery:
        try:
            yield nursery
        except (cancelled, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001  # carried past the nursery
            failure = error
    if failure is not None:
        raise failure


async def run_in_thread(fn: Callable[[], T], limiter: CapacityLimiter) -> T:
    """Run ``fn`` in a worker thread; however often the caller is cancelled, it is not left before the thread has ended.

    Raises:
        Exception: Whatever ``fn`` raised, as itself.
        DecoderCrashedError: ``fn`` raised something that is no `Exception`.
    """
    hop = Hop(fn, limiter)
    async with anyio.create_task_group() as nursery:
        nursery.start_soon(hop.run)
    return hop.outcome.unwrap()


def _settle(fn: Callable[[], T], cancelled: type[BaseException]) -> Outcome[T]:
    """Runs in the worker thread, in a copy of the caller's context."""

    def stop() -> None:
        try:
            from_thread.check_cancelled()
        except cancelled:
            raise DecodeStopped from None

    in_hop.set(True)
    try:
        with stopping_when(stop):
            return Value(fn())
    except DecodeStopped:
        return STOPPED
    except Exception as error:  # noqa: BLE001  # any failure is an outcome here
        return Failed(error)
    except BaseException as error:  # noqa: BLE001  # so is what is no failure anywhere else
        # A decoder that asked anyio itself whether it is cancelled, and was told yes, has stopped; others have crashed.
        try:
            stop()
        except DecodeStopped:
            return STOPPED
        crash = DecoderCrashedError(f"a decoder raised {type(error).__name__}")
        crash.__cause__ = error
        return Failed(crash)


__all__ = ["STOPPED", "Failed", "Hop", "Outcome", "Stopped", "Value", "in_hop", "open_nursery", "run_in_thread"]
