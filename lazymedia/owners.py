"""What owners share: where they were entered, what they raise once left, and calls from threads without a loop.

An owner is what is entered and left: connector, processor, renderer, and their synchronous twins.
"""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, final

from anyio import NoEventLoopError, RunFinishedError, from_thread
from anyio.lowlevel import EventLoopToken, current_token

from lazymedia.contexts import asynccontextmanager
from lazymedia.errors import OverloadedError
from lazymedia.nursery import Child, open_nursery
from lazymedia.outcome import STOPPED, Failed, Outcome, Value
from lazymedia.worker import in_thread_call

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

T = TypeVar("T")

RETRY_AFTER: Final = 1.0
"""Seconds that a client is asked to wait when an owner shuts down: about what it takes to start another."""

_POLL: Final = 0.02
"""Seconds between two checks whether a blocking call is still wanted."""


def shutting_down(owner: str) -> OverloadedError:
    """What calls raise while their owner is being left, and afterwards: try again, elsewhere or once it is back."""
    return OverloadedError(f"the {owner} is shutting down", retry_after=RETRY_AFTER)


@final
@dataclass(frozen=True, slots=True)
class Home:
    """The process, thread and event loop in which an owner was entered, and in which alone it can be used."""

    process: int
    thread: int
    loop: EventLoopToken

    @classmethod
    def here(cls) -> Home:
        """Those of this call, which must come from a running loop."""
        return cls(os.getpid(), threading.get_ident(), current_token())

    def check_process(self, owner: str) -> None:
        """Do nothing in the owner's process.

        Raises:
            RuntimeError: The process has forked since; the owner's loop and threads exist in the parent only. The
                caller's fault.
        """
        if os.getpid() != self.process:
            raise RuntimeError(
                f"this {owner} was entered before the process forked, and its threads exist in the parent only; "
                "enter another one here, or start processes by 'spawn'"
            )

    def check(self, owner: str) -> None:
        """Do nothing in the owner's loop.

        Raises:
            RuntimeError: This is another process, thread or loop. The caller's fault.
        """
        self.check_process(owner)
        if threading.get_ident() != self.thread or current_token() != self.loop:
            raise RuntimeError(f"this {owner} was entered in another event loop or thread; enter one in each loop")


@final
class BlockingCalls:
    """Asynchronous calls on behalf of threads that wait for them; from `open_blocking_calls`, or for an owner's own
    nursery.

    Args:
        nursery: Where the calls run, as children. Its owner sets `gone` when it has ended.
        owner: Named in errors.

    Attributes:
        home: The loop that runs them.
        gone: Whether the nursery has ended.
    """

    def __init__(self, nursery: TaskGroup, owner: str) -> None:
        self.home = Home.here()
        self.gone = False
        self._nursery = nursery
        self._owner = owner

    def run(self, call: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Run ``call`` in the loop and wait for it here.

        In a worker thread of anyio's, the end of a deadline or a cancellation around the thread cancels the call, which
        is then waited for. In any thread, an exception such as KeyboardInterrupt cancels it and leaves at once.

        Raises:
            RuntimeError: This is the loop's own thread, a thread that the loop waits for, or a forked process. The
                caller's fault.
            OverloadedError: The owner or its loop is shutting down. No class of that loop leaves this call.
            Exception: Whatever ``call`` raised; in a cancelled worker thread its own loop's cancellation.
        """
        self.home.check_process(self._owner)
        if threading.get_ident() == self.home.thread or in_thread_call(self.home.loop):
            raise RuntimeError("a blocking call would wait for itself here; await the asynchronous one instead")
        asked = _Call(partial(call, *args))
        try:
            self._in_loop(asked.start, self._nursery)
            while not asked.ended.wait(_POLL) and not self.gone:
                if not asked.is_cancelled and _is_cancelled():
                    self._in_loop(asked.cancel)
        except BaseException:
            with suppress(OverloadedError):  # gone, and the call with it
                self._in_loop(asked.cancel)
            raise
        outcome, asked.outcome = asked.outcome, STOPPED
        try:
            if outcome is STOPPED:
                if asked.is_cancelled:
                    from_thread.check_cancelled()
                raise shutting_down(self._owner)
            return outcome.unwrap()
        finally:
            del outcome  # see Failed.unwrap

    def _in_loop(self, fn: Callable[..., None], *args: object) -> None:
        try:
            apart(partial(from_thread.run_sync, fn, *args, token=self.home.loop))
        except RuntimeError as error:
            if self.gone or isinstance(error, RunFinishedError):
                raise shutting_down(self._owner) from error
            raise


def apart(fn: Callable[[], T]) -> T:
    """Call ``fn`` in a thread that runs no loop: this one, or a new one. trio lets none of its own wait for another."""
    try:
        current_token()
    except NoEventLoopError:
        return fn()
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(fn).result()


@final
class _Call(Generic[T]):
    """One call, seen by two threads."""

    def __init__(self, fn: Callable[[], Awaitable[T]]) -> None:
        self.ended = threading.Event()
        self.is_cancelled = False
        self.outcome: Outcome[T] = STOPPED
        self._fn = fn
        self._child: Child | None = None

    def start(self, nursery: TaskGroup) -> None:
        if self.is_cancelled:  # the thread was interrupted meanwhile
            return
        try:
            self._child = Child(nursery, self._run, name="blocking call")
        except RuntimeError:  # the nursery has ended
            self.ended.set()

    def cancel(self) -> None:
        self.is_cancelled = True
        if self._child is not None:
            self._child.cancel()

    async def _run(self) -> None:
        try:
            self.outcome = Value(await self._fn())
        except Exception as error:  # noqa: BLE001  # carried to the thread that waits
            self.outcome = Failed(error)
        finally:
            self.ended.set()


def _is_cancelled() -> bool:
    """Whether this is a worker thread whose task was cancelled."""
    try:
        from_thread.check_cancelled()
    except NoEventLoopError:
        return False
    except BaseException:  # noqa: BLE001  # the cancellation class of whichever loop started this thread
        return True
    return False


@asynccontextmanager
async def open_blocking_calls(owner: str) -> AsyncIterator[BlockingCalls]:
    """Calls in a nursery of their own. Leaving waits for them; end them first."""
    calls: BlockingCalls | None = None
    try:
        async with open_nursery() as nursery:
            calls = BlockingCalls(nursery, owner)
            yield calls
    finally:
        if calls is not None:
            calls.gone = True


__all__ = ["BlockingCalls", "Home", "apart", "open_blocking_calls", "shutting_down"]
