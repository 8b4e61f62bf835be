"""One download for all who want the same URL at the same time.

Comes in: a URL and a cap, from any number of fetches. Goes out: one payload to all of them, or to each a failure of its
own. Never here: how a download goes, or anything that is remembered after it.

A flight runs in its owner's nursery and belongs to none of its waiters. Each of those has its own deadline and its own
judge of the payload's beginning, and may leave at any time; the others notice nothing. The last one to leave stops the
download and sees it end. Who comes while a flight is in the air joins it, whoever began it; a payload is as
old as the flight at most. Waiters with other caps make other flights, because one cap must not fail another's fetch.
"""

from __future__ import annotations

import copy
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias, final

import anyio
from anyio import CapacityLimiter

from lazymedia.contexts import asynccontextmanager
from lazymedia.fetch.arriving import ArrivingPayload
from lazymedia.fetch.download import Downloaded
from lazymedia.fetch.sharing import Sharers, current_sharers, on_behalf_of
from lazymedia.fetch.slots import ByteBudget
from lazymedia.fetch.url import HttpUrl
from lazymedia.hops import STOPPED, Child, Failed, Outcome, Value, run_in_thread
from lazymedia.owners import shutting_down

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

Judge: TypeAlias = Callable[[bytes, int | None], bool]
"""See `lazymedia.media.MediaIO.judge_head`."""
Download: TypeAlias = Callable[[HttpUrl, ArrivingPayload, Callable[[], float]], Awaitable[Downloaded]]
"""Downloads a URL into a payload. The last argument tells for how many seconds anybody still waits."""

_Key: TypeAlias = tuple[HttpUrl, int]
_WORTH_JUDGING: Final = 64 << 10
"""Bytes; a shorter payload is judged when it is whole, which is about as soon."""


@final
class Flights:
    """The flights of one owner.

    Args:
        nursery: Where they run. Its owner ends all waiters before it ends the flights.
        download: What a flight does.
        budget: Bytes that all flights hold together.
        threads: For judges, which may be anybody's.
    """

    def __init__(self, nursery: TaskGroup, download: Download, budget: ByteBudget, threads: CapacityLimiter) -> None:
        self._nursery = nursery
        self._download = download
        self._budget = budget
        self._threads = threads
        self._flying: dict[_Key, _Flight] = {}

    def __len__(self) -> int:
        return len(self._flying)

    async def fetch(self, url: HttpUrl, max_bytes: int, judge: Judge | None = None) -> Downloaded:
        """The payload at a URL, from the flight that is in the air or from one that begins now.

        The time for it is that of the scopes around this call.

        Args:
            url: A parsed URL.
            max_bytes: Encoded bytes at most.
            judge: Refuses a payload by its beginning, for this caller alone. Called in a worker thread.

        Raises:
            Exception: Whatever the download or ``judge`` raised. Waiters of one failed flight get exceptions of their
                own.
            OverloadedError: The owner is being left.
        """
        key = (url, max_bytes)
        flight = self._flying.get(key)
        if flight is None:
            flight = self._flying[key] = _Flight(key, self._flying, self._budget)
            flight.start(self._nursery, partial(self._download, url, flight.arriving, flight.time_left))
        async with flight.aboard():
            await flight.land(judge, self._threads)
            return flight.take()


@final
class _Flight:
    def __init__(self, key: _Key, flying: dict[_Key, _Flight], budget: ByteBudget) -> None:
        self.arriving = ArrivingPayload(key[1], budget=budget, on_head=self._tell)
        self._key = key
        self._flying = flying
        self._child: Child | None = None
        self._ended = anyio.Event()
        self._news = anyio.Event()
        self._deadlines: dict[Sharers, float] = {}
        self._sharers = Sharers(frozenset())
        self._outcome: Outcome[Downloaded] = STOPPED
        self._is_told = False

    def time_left(self) -> float:
        """Seconds until the last waiter's deadline."""
        return max(self._deadlines.values(), default=-math.inf) - anyio.current_time()

    def start(self, nursery: TaskGroup, download: Callable[[], Awaitable[Downloaded]]) -> None:
        """Download, in the owner's nursery."""
        self._child = Child(nursery, self._run, download)

    async def _run(self, download: Callable[[], Awaitable[Downloaded]]) -> None:
        """Raises nothing but a cancellation."""
        try:
            with on_behalf_of(self._sharers):
                self._outcome = Value(await download())
        except Exception as error:  # noqa: BLE001  # carried to the waiters
            self._outcome = Failed(error)
        finally:
            self.arriving.close()
            self._forget()
            self._ended.set()
            self._tell()

    @asynccontextmanager
    async def aboard(self) -> AsyncIterator[None]:
        """As long as the block lasts, somebody waits for the flight. The last one to leave sees it end."""
        waiter = Sharers(current_sharers().requests)
        self._deadlines[waiter] = anyio.current_effective_deadline()
        self._count_sharers()
        try:
            yield
        finally:
            del self._deadlines[waiter]
            self._count_sharers()
            if not self._deadlines:
                await self._end()

    def _count_sharers(self) -> None:
        self._sharers.requests = frozenset(request for waiter in self._deadlines for request in waiter.requests)

    async def _end(self) -> None:
        if self._child is not None and not self._ended.is_set():
            self._forget()  # whoever comes now begins anew
            self._child.cancel()
            with anyio.CancelScope(shield=True):
                await self._ended.wait()
        self._outcome = STOPPED  # a failure's frames lead back here

    async def land(self, judge: Judge | None, threads: CapacityLimiter) -> None:
        """Wait for the end, and judge the payload's beginning on the way."""
        looks = 0
        while not self._ended.is_set():
            if judge is None or looks == self.arriving.looks or not self._is_worth_judging():
                await self._news.wait()
                continue
            looks = self.arriving.looks
            if await run_in_thread(partial(judge, self.arriving.head(), self.arriving.declared), threads):
                judge = None

    def take(self) -> Downloaded:
        """What became of it. To each a failure of its own: an exception raised in two tasks has both their tracks."""
        outcome = self._outcome
        try:
            if outcome is STOPPED:
                raise shutting_down("connector")
            if isinstance(outcome, Failed) and self._is_told:
                outcome = Failed(_twin(outcome.error))
            self._is_told = True
            return outcome.unwrap()
        finally:
            del self, outcome  # see Failed.unwrap

    def _is_worth_judging(self) -> bool:
        return self.arriving.declared is None or self.arriving.declared > _WORTH_JUDGING

    def _tell(self) -> None:
        news, self._news = self._news, anyio.Event()
        news.set()

    def _forget(self) -> None:
        if self._flying.get(self._key) is self:
            del self._flying[self._key]


def _twin(error: Exception) -> Exception:
    try:
        twin = copy.copy(error)
    except Exception:  # noqa: BLE001  # an exception of somebody's own that cannot be copied
        twin = RuntimeError(f"the download failed ({type(error).__name__})")
        twin.__cause__ = error
        return twin
    twin.__cause__ = error.__cause__
    return twin


__all__ = ["Download", "Flights", "Judge"]
