"""What a nursery owns is cancelled through its scope, once, and its clean-up is left in peace."""

from __future__ import annotations

import asyncio
from functools import partial

import anyio
import pytest
from anyio.lowlevel import checkpoint

from lazymedia.nursery import Ending, run_owned

asyncio_only = pytest.mark.parametrize("anyio_backend", [("asyncio", {"debug": True})], ids=["asyncio"])


class Careful:
    """Holds something whose giving back takes several steps."""

    def __init__(self) -> None:
        self.started = anyio.Event()
        self.given_back = False

    async def hold(self) -> None:
        try:
            self.started.set()
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                for _ in range(10):
                    await checkpoint()
                self.given_back = True


@asyncio_only
async def test_native_cancels_do_not_interrupt_a_clean_up() -> None:
    """A bare await is interrupted by the second one, shield or no shield."""
    careful = Careful()
    task = asyncio.ensure_future(run_owned(careful.hold))
    await careful.started.wait()
    while not task.done():
        task.cancel()
        await asyncio.sleep(0)

    assert task.cancelled()
    assert careful.given_back


@asyncio_only
async def test_native_cancels_do_not_reach_what_is_shielded() -> None:
    gate, ended = anyio.Event(), []

    async def close() -> None:
        await gate.wait()
        ended.append(True)

    task = asyncio.ensure_future(run_owned(close, shield=True))
    for _ in range(5):
        await asyncio.sleep(0)
        task.cancel()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert ended


async def test_a_result_and_an_error_pass_as_they_are() -> None:
    async def answer(value: int) -> int:
        await checkpoint()
        return 84 // value

    assert await run_owned(partial(answer, 2)) == 42
    with pytest.raises(ZeroDivisionError):
        await run_owned(partial(answer, 0))


async def test_an_owners_end_is_told_from_time_that_is_up() -> None:
    ending = Ending()
    with ending.move_on_after(0.01):
        await anyio.sleep_forever()
    assert not ending.has_come

    careful = Careful()

    async def work() -> None:
        with ending.move_on_after(60):
            await careful.hold()

    async with anyio.create_task_group() as nursery:
        nursery.start_soon(work)
        await careful.started.wait()
        await ending.come()
        assert careful.given_back

    with ending.move_on_after(60):
        await anyio.sleep_forever()  # which comes too late to begin
