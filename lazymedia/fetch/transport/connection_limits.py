"""What one connector may have under way at once: connections per host and in all, waiting downloads, bytes.

Comes in: a URL about to be requested, or bytes about to be held. Goes out: a place for it, or a refusal that says when
to come again. Never here: connections themselves; the pool of `http` or a caller's client has those.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias, final

import anyio

from lazymedia.contexts import asynccontextmanager
from lazymedia.errors import OverloadedError
from lazymedia.fetch.body_buffer import RETRY_AFTER
from lazymedia.fetch.policy.url import HttpUrl
from lazymedia.fetch.transport.sharing import Sharers, current_sharers, fewest, held_by
from lazymedia.limits import Limits

PATIENCE: Final = 1.0
"""Seconds for which a transfer that brings nothing keeps its place while others wait. An answer that is not computed
first begins within that time; a download whose place is taken back waits for another, and then keeps it for twice as
long."""
_LOOK: Final = 1.0  # seconds between two looks for a place to take back
_LEAST_LOOK: Final = 0.01

_Host: TypeAlias = tuple[str, str, int]


class TakenBackError(Exception):
    """A place was given to another request. The download may go on once it has another."""


def _nothing() -> int:
    return 0


@final
@dataclass(eq=False, slots=True)
class _Place:
    """A place at a host, or the wait for one.

    Attributes:
        host: Where.
        sharers: Whose it is.
        patience: Seconds for which it is not taken back.
        received: Counts the bytes of the transfer.
        since: When it was given.
        had: Bytes of the transfer at that time.
        scope: Around the use of it.
        given: Set when the wait ends.
        is_refused: Whether it ended without a place.
        taken_back: What was taken back for it.
    """

    host: _Host
    sharers: Sharers
    patience: float
    received: Callable[[], int]
    since: float = 0.0
    had: int = 0
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    given: anyio.Event = field(default_factory=anyio.Event)
    is_refused: bool = False
    taken_back: _Place | None = None


@final
class Slots:
    """Places at hosts, divided between requests. Made inside the owner's entering.

    A free place goes to the request that holds the fewest. Among equals, it goes to one none of whose places had to be
    taken back, then to one that never had any, then to the one whose turn was longest ago (as RFC 8290 has it for new
    and old flows).

    Where none is free, one is taken back for a request that holds clearly fewer: from a transfer that has had its place
    for a while and brings fewer bytes than `Limits.min_download_rate`. So however many requests hold places at servers
    that say nothing, another request waits for about `PATIENCE`; and a transfer that makes progress is not disturbed.
    """

    def __init__(self, limits: Limits) -> None:
        self._max_open = max(1, limits.max_connections)
        self._max_at_host = max(1, limits.max_connections_per_host)
        self._max_waiting = limits.max_waiting_fetches
        self._min_rate = limits.min_download_rate
        self._held: dict[_Place, None] = {}
        self._waiting: dict[_Place, None] = {}
        self._at_host: Counter[_Host] = Counter()
        self._turn = 0

    @property
    def in_use(self) -> int:
        """Requests that have a place."""
        return len(self._held)

    @property
    def known_hosts(self) -> int:
        """Hosts where somebody has a place or waits for one."""
        return len({place.host for place in (*self._held, *self._waiting)})

    @asynccontextmanager
    async def hold(
        self, url: HttpUrl, *, received: Callable[[], int] = _nothing, patience: float = PATIENCE
    ) -> AsyncIterator[None]:
        """A place at the URL's host, one of all.

        Args:
            url: Where.
            received: Counts the bytes that have come for it.
            patience: Seconds for which the place is not taken back.

        Raises:
            OverloadedError: Too many wait already.
            TakenBackError: The place was taken back; the block was cancelled.
        """
        place = _Place((url.scheme, url.host, url.port), current_sharers(), patience, received)
        if self._has_room(place.host):
            self._give(place)
        else:
            await self._wait(place)
        try:
            with place.scope:
                yield
        finally:
            self._release(place)
        if place.scope.cancelled_caught:
            raise TakenBackError

    def _has_room(self, host: _Host) -> bool:
        return len(self._held) < self._max_open and self._at_host[host] < self._max_at_host

    def _give(self, place: _Place) -> None:
        place.since, place.had = anyio.current_time(), place.received()
        self._held[place] = None
        self._at_host[place.host] += 1
        self._turn += 1
        for request in place.sharers.requests:
            request.turn = self._turn

    def _release(self, place: _Place) -> None:
        del self._held[place]
        self._at_host[place.host] -= 1
        if not self._at_host[place.host]:
            del self._at_host[place.host]
        while self._waiting and len(self._held) < self._max_open:
            ready = [waiting for waiting in self._waiting if self._at_host[waiting.host] < self._max_at_host]
            if not ready:
                return
            first = min(ready, key=self._ranks())
            del self._waiting[first]
            self._give(first)
            first.given.set()

    def _ranks(self) -> Callable[[_Place], tuple[int, int, int]]:
        """What orders those who wait; the smallest is next."""
        held = held_by(holder.sharers for holder in self._held)
        requests = {request for waiting in self._waiting for request in waiting.sharers.requests}
        ranks = {request: (held[request], request.taken_back, request.turn) for request in requests}
        return lambda waiting: min(map(ranks.__getitem__, waiting.sharers.requests), default=(0, 0, 0))

    async def _wait(self, place: _Place) -> None:
        self._make_room_to_wait(place)
        self._waiting[place] = None
        try:
            while not place.given.is_set():
                with anyio.move_on_after(self._take_back_for(place)):
                    await place.given.wait()
        except BaseException:
            if place in self._held:
                self._release(place)
            raise
        finally:
            self._waiting.pop(place, None)
        if place.is_refused:
            raise OverloadedError("too many downloads wait for a connection", retry_after=RETRY_AFTER)

    def _make_room_to_wait(self, place: _Place) -> None:
        """Where too many wait already, refuse one of the request that has the most, which may be the new one."""
        if len(self._waiting) < self._max_waiting:
            return
        waiting = held_by(other.sharers for other in self._waiting)
        last = max(reversed(self._waiting), key=lambda other: fewest(waiting, other.sharers), default=place)
        if fewest(waiting, last.sharers) <= fewest(waiting, place.sharers) + 1:
            last = place
        last.is_refused = True
        self._waiting.pop(last, None)
        last.given.set()

    def _take_back_for(self, place: _Place) -> float:
        """Take back a place that is better given to another. Returns the seconds until the next look."""
        if place.taken_back in self._held or place.given.is_set():
            return _LOOK
        full_host = self._at_host[place.host] >= self._max_at_host
        holders = [holder for holder in self._held if not full_host or holder.host == place.host]
        held = held_by(holder.sharers for holder in holders)
        own = fewest(held, place.sharers)
        now = anyio.current_time()
        soonest, most = now + _LOOK, own + (1 if own else 0)  # taking back one from a request with one more is no gain
        chosen: _Place | None = None
        for holder in holders:
            theirs = fewest(held, holder.sharers)
            if theirs <= most or holder.scope.cancel_called:
                continue
            if now < holder.since + holder.patience:
                soonest = min(soonest, holder.since + holder.patience)
            elif holder.received() - holder.had <= self._min_rate * (now - holder.since):
                chosen, most = holder, theirs
        if chosen is not None:
            place.taken_back = chosen
            chosen.scope.cancel()
            for request in chosen.sharers.requests:
                request.taken_back += 1
        return max(soonest - now, _LEAST_LOOK)


__all__ = ["PATIENCE", "Slots", "TakenBackError"]
