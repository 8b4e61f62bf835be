"""Single flight: one download for all fetches that want the same URL at the same time.

A download runs in its owner's nursery and belongs to none of its waiters. Each waiter has its own deadline and its own
checks of the header, and may leave at any time without effect on the others. The last one to leave stops the download
and waits for its end. Who comes while a download runs joins it, so that a payload is as old as its download at most.
Fetches with another cap do not join: one cap must not fail another's fetch.
"""

from __future__ import annotations

import copy
import math
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, final

import anyio
from anyio import CapacityLimiter

from lazymedia.contexts import asynccontextmanager
from lazymedia.fetch.body_buffer import BodyBuffer, ByteBudget
from lazymedia.fetch.download import Downloaded
from lazymedia.fetch.policy.url import HttpUrl
from lazymedia.fetch.transport.sharing import Sharers, current_sharers, on_behalf_of
from lazymedia.media import MediaIO
from lazymedia.nursery import Child, run_owned
from lazymedia.outcome import STOPPED, Failed, Outcome, Value
from lazymedia.owners import shutting_down
from lazymedia.worker import run_in_thread

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

_Key: TypeAlias = tuple[HttpUrl, int]
_WORTH_CHECKING: Final = 64 << 10
"""Bytes; a shorter payload is whole about as soon, and is checked then."""


class Downloads(Protocol):
    """What downloads: `Downloader`, or `CachedDownloads` before it."""

    async def download(self, url: HttpUrl, buffer: BodyBuffer, *, time_left: Callable[[], float]) -> Downloaded:
        """Download a URL into a buffer. ``time_left`` gives the seconds until the last waiter's deadline."""
        ...


@final
class SingleFlight:
    """The downloads of one owner.

    Args:
        nursery: Where they run. Its owner ends all waiters before it ends the downloads.
        downloads: What downloads.
        budget: Bytes that all downloads hold together.
        threads: For checks of headers.
    """

    def __init__(self, nursery: TaskGroup, downloads: Downloads, budget: ByteBudget, threads: CapacityLimiter) -> None:
        self._nursery = nursery
        self._downloads = downloads
        self._budget = budget
        self._threads = threads
        self._running: dict[_Key, _Flight] = {}

    def __len__(self) -> int:
        return len(self._running)

    async def fetch(self, url: HttpUrl, max_bytes: int, decoders: Sequence[MediaIO[Any]] = ()) -> Downloaded:
        """What a URL is answered with, by the download that runs or by one that begins now.

        The time for it is that of the scopes around this call.

        Args:
            url: A parsed URL.
            max_bytes: Encoded bytes at most.
            decoders: Their `MediaIO.check_header` may reject the payload for this caller, during the download.

        Raises:
            Exception: Whatever the download or a decoder raised. Each waiter of a failed download gets an exception of
                its own.
            OverloadedError: The owner is being left.
        """
        key = (url, max_bytes)
        flight = self._running.get(key)
        if flight is None:
            flight = self._running[key] = _Flight(key, self._running, self._budget)
            flight.start(self._nursery, self._downloads)
        async with flight.join():
            await flight.wait(decoders, self._threads)
            return flight.result()


@final
class _Flight:
    def __init__(self, key: _Key, running: dict[_Key, _Flight], budget: ByteBudget) -> None:
        self._key = key
        self._running = running
        self._buffer = BodyBuffer(key[1], budget=budget, on_prefix=self._wake)
        self._child: Child | None = None
        self._ended = anyio.Event()
        self._changed = anyio.Event()
        self._deadlines: dict[Sharers, float] = {}
        self._sharers = Sharers(frozenset())
        self._outcome: Outcome[Downloaded] = STOPPED
        self._was_raised = False

    def _time_left(self) -> float:
        return max(self._deadlines.values(), default=-math.inf) - anyio.current_time()

    def start(self, nursery: TaskGroup, downloads: Downloads) -> None:
        """Download, in the owner's nursery."""
        self._child = Child(nursery, self._run, downloads)

    async def _run(self, downloads: Downloads) -> None:
        """Raises nothing but a cancellation."""
        try:
            with on_behalf_of(self._sharers):
                self._outcome = Value(await downloads.download(self._key[0], self._buffer, time_left=self._time_left))
        except Exception as error:  # noqa: BLE001  # carried to the waiters
            self._outcome = Failed(error)
        finally:
            self._buffer.close()
            self._remove()
            self._ended.set()
            self._wake()

    @asynccontextmanager
    async def join(self) -> AsyncIterator[None]:
        """As long as the block lasts, a fetch waits for the download. The last one to leave ends it."""
        waiter = Sharers(current_sharers().requests)
        self._deadlines[waiter] = anyio.current_effective_deadline()
        self._update_sharers()
        try:
            yield
        finally:
            del self._deadlines[waiter]
            self._update_sharers()
            if not self._deadlines:
                await self._end()

    def _update_sharers(self) -> None:
        self._sharers.requests = frozenset(request for waiter in self._deadlines for request in waiter.requests)

    async def _end(self) -> None:
        if self._child is not None and not self._ended.is_set():
            self._remove()  # a fetch that comes now begins anew
            self._child.cancel()
            await run_owned(self._ended.wait, shield=True)  # a native cancellation does not end this wait
        self._outcome = STOPPED  # a failure's frames lead back here

    async def wait(self, decoders: Sequence[MediaIO[Any]], threads: CapacityLimiter) -> None:
        """Wait for the end, and let decoders check the header meanwhile."""
        pending = [decoder for decoder in decoders if type(decoder).check_header is not MediaIO.check_header]
        checked = 0
        buffer = self._buffer
        while not self._ended.is_set():
            is_worth_it = buffer.declared is None or buffer.declared > _WORTH_CHECKING
            if not pending or checked == buffer.prefixes or not is_worth_it:
                await self._changed.wait()
                continue
            checked = buffer.prefixes
            pending = await run_in_thread(partial(_undecided, pending, buffer.prefix(), buffer.declared), threads)

    def result(self) -> Downloaded:
        """What was downloaded, or the failure: to each waiter one of its own, since an exception that is raised in two
        tasks has the tracebacks of both.
        """
        outcome = self._outcome
        try:
            if outcome is STOPPED:
                raise shutting_down("connector")
            if isinstance(outcome, Failed) and self._was_raised:
                outcome = Failed(_copy(outcome.error))
            self._was_raised = True
            return outcome.unwrap()
        finally:
            del self, outcome  # see Failed.unwrap

    def _wake(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    def _remove(self) -> None:
        if self._running.get(self._key) is self:
            del self._running[self._key]


def _undecided(decoders: Sequence[MediaIO[Any]], prefix: bytes, declared: int | None) -> list[MediaIO[Any]]:
    """The decoders that a longer prefix could show more."""
    return [decoder for decoder in decoders if not decoder.check_header(prefix, declared)]


def _copy(error: Exception) -> Exception:
    try:
        copied = copy.copy(error)
    except Exception:  # noqa: BLE001  # an exception of a caller's own that cannot be copied
        copied = RuntimeError(f"the download failed ({type(error).__name__})")
        copied.__cause__ = error
        return copied
    copied.__cause__ = error.__cause__
    return copied


__all__ = ["Downloads", "SingleFlight"]
