"""A coroutine that a nursery owns, so that a native cancellation from outside cannot interrupt its clean-up.

On asyncio, every `Task.cancel` interrupts the very await it finds, clean-up under a shield included: two of them while
a pool puts a connection back, and the connection is lost for good. A nursery's child is cancelled through its scope
instead, and shields hold.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar, final

import anyio
from anyio.lowlevel import checkpoint

from lazymedia.contexts import contextmanager
from lazymedia.hops import STOPPED, Child, Failed, Outcome, Value

T = TypeVar("T")


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
        """Leave the block when the time is up, or when the owner ends; `has_come` tells which it was."""
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


__all__ = ["Ending", "run_owned"]
