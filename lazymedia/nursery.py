"""Nurseries (anyio's task groups): children that are cancelled and waited for one by one, and coroutines that no native
cancellation interrupts.

On asyncio, every `Task.cancel` interrupts the very await it finds, clean-up under a shield included: two of them while
a pool puts a connection back, and the connection is lost for good. A nursery's child is cancelled through its scope
instead, and shields hold. So what holds connections or threads runs in a child, and the task that an outsider can
cancel waits for it.
"""

from __future__ import annotations

import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, final

import anyio
from anyio.lowlevel import checkpoint

from lazymedia.contexts import asynccontextmanager, contextmanager
from lazymedia.outcome import STOPPED, Failed, Outcome, Value

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

T = TypeVar("T")
P = ParamSpec("P")


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


async def run_owned(fn: Callable[[], Awaitable[T]], *, shield: bool = False) -> T:
    """Run ``fn`` to its end in a nursery's child; the caller leaves no earlier, however often it is cancelled.

    Args:
        fn: Called once.
        shield: Whether ``fn`` is spared the caller's cancellation. For closing things.

    Raises:
        Exception: Whatever ``fn`` raised, as itself.
    """
    outcome: Outcome[T] = STOPPED

    async def child() -> None:
        nonlocal outcome
        with anyio.CancelScope(shield=shield):
            try:
                outcome = Value(await fn())
            except Exception as error:  # noqa: BLE001  # carried to the caller: a child that raises makes a group
                outcome = Failed(error)

    async with anyio.create_task_group() as nursery:
        Child(nursery, child)
    settled, outcome = outcome, STOPPED
    try:
        return settled.unwrap()
    finally:
        del settled  # see Failed.unwrap


@final
class Ending:
    """Lets an owner end everything that runs on what it is about to close."""

    def __init__(self) -> None:
        self._scopes: set[anyio.CancelScope] = set()
        self._is_empty = anyio.Event()
        self.has_come = False

    @contextmanager
    def move_on_after(self, seconds: float) -> Iterator[None]:
        """Leave the block when the time is up, or when the owner ends; `has_come` says which it was."""
        with anyio.move_on_after(seconds) as scope:
            self._scopes.add(scope)
            if self.has_come:
                scope.cancel()
            try:
                yield
            finally:
                self._scopes.discard(scope)
                if self.has_come and not self._scopes:
                    self._is_empty.set()

    async def come(self) -> None:
        """Cancel every such block, and wait until the last is left."""
        self.has_come = True
        for scope in self._scopes:
            scope.cancel()
        if self._scopes:
            await self._is_empty.wait()
        await checkpoint()


__all__ = ["Child", "Ending", "frees_when_cancelled", "open_nursery", "run_owned"]
