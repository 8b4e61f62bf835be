"""What tests of cancelled requests share: requests in tasks of their own, and the moments at which they stand still."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.lowlevel import checkpoint

from lazymedia.testing.decoders import GatedMediaIO
from lazymedia.testing.quiet import native_cancel
from tests.pipeline.support import GatedCache, WatchedInfo, hf_processor, picture


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
