"""Limits on the connections of one connector: per host and in all, divided between requests."""

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

GRACE: Final = 1.0
"""Seconds for which a transfer that brings nothing keeps its slot while others wait. An answer that is not computed
first begins within that time; a download whose slot is revoked waits for another, and then keeps it for twice as
long."""
_LOOK: Final = 1.0  # seconds between two looks for a slot to revoke
_LEAST_LOOK: Final = 0.01

_Host: TypeAlias = tuple[str, str, int]


class SlotRevokedError(Exception):
    """A slot was given to another request. The download may go on once it has another."""


def _nothing() -> int:
    return 0


@final
@dataclass(eq=False, slots=True)
class _Slot:
    """A slot at a host, or the wait for one.

    Attributes:
        host: Where.
        sharers: Whose it is.
        grace: Seconds for which it is not revoked.
        received: Counts the bytes of the transfer.
        since: When it was given.
        had: Bytes of the transfer at that time.
        scope: Around the use of it.
        given: Set when the wait ends.
        is_rejected: Whether it ended without a slot.
        revoked: What was revoked for it.
    """

    host: _Host
    sharers: Sharers
    grace: float
    received: Callable[[], int]
    since: float = 0.0
    had: int = 0
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    given: anyio.Event = field(default_factory=anyio.Event)
    is_rejected: bool = False
    revoked: _Slot | None = None


@final
class ConnectionLimits:
    """Connections, divided between requests. Made inside the owner's entering.

    A free slot goes to the request that holds the fewest. Among equals, it goes to one none of whose slots had to be
    revoked, then to one that never had any, then to the one whose turn was longest ago (as RFC 8290 has it for new
    and old flows).

    Where none is free, one is revoked for a request that holds clearly fewer: from a transfer that has had its slot
    for a while and brings fewer bytes than `Limits.min_download_rate`. So however many requests hold slots at servers
    that say nothing, another request waits for about `GRACE`; and a transfer that makes progress is not disturbed.
    """

    def __init__(self, limits: Limits) -> None:
        self._max_open = max(1, limits.max_connections)
        self._max_at_host = max(1, limits.max_connections_per_host)
        self._max_waiting = limits.max_waiting_fetches
        self._min_rate = limits.min_download_rate
        self._held: dict[_Slot, None] = {}
        self._waiting: dict[_Slot, None] = {}
        self._at_host: Counter[_Host] = Counter()
        self._turn = 0

    @property
    def in_use(self) -> int:
        """Requests that have a slot."""
        return len(self._held)

    @property
    def known_hosts(self) -> int:
        """Hosts where a slot is held or waited for."""
        return len({slot.host for slot in (*self._held, *self._waiting)})

    @asynccontextmanager
    async def hold(
        self, url: HttpUrl, *, received: Callable[[], int] = _nothing, grace: float = GRACE
    ) -> AsyncIterator[None]:
        """A slot at the URL's host, one of all.

        Args:
            url: Where.
            received: Counts the bytes that have come for it.
            grace: Seconds for which the slot is not revoked.

        Raises:
            OverloadedError: Too many wait already.
            SlotRevokedError: The slot was revoked; the block was cancelled.
        """
        slot = _Slot((url.scheme, url.host, url.port), current_sharers(), grace, received)
        if self._has_room(slot.host):
            self._give(slot)
        else:
            await self._wait(slot)
        try:
            with slot.scope:
                yield
        finally:
            self._release(slot)
        if slot.scope.cancelled_caught:
            raise SlotRevokedError

    def _has_room(self, host: _Host) -> bool:
        return len(self._held) < self._max_open and self._at_host[host] < self._max_at_host

    def _give(self, slot: _Slot) -> None:
        slot.since, slot.had = anyio.current_time(), slot.received()
        self._held[slot] = None
        self._at_host[slot.host] += 1
        self._turn += 1
        for request in slot.sharers.requests:
            request.turn = self._turn

    def _release(self, slot: _Slot) -> None:
        del self._held[slot]
        self._at_host[slot.host] -= 1
        if not self._at_host[slot.host]:
            del self._at_host[slot.host]
        while self._waiting and len(self._held) < self._max_open:
            ready = [waiting for waiting in self._waiting if self._at_host[waiting.host] < self._max_at_host]
            if not ready:
                return
            first = min(ready, key=self._ranks())
            del self._waiting[first]
            self._give(first)
            first.given.set()

    def _ranks(self) -> Callable[[_Slot], tuple[int, int, int]]:
        """What orders those who wait; the smallest is next."""
        held = held_by(holder.sharers for holder in self._held)
        requests = {request for waiting in self._waiting for request in waiting.sharers.requests}
        ranks = {request: (held[request], request.revoked, request.turn) for request in requests}
        return lambda waiting: min(map(ranks.__getitem__, waiting.sharers.requests), default=(0, 0, 0))

    async def _wait(self, slot: _Slot) -> None:
        self._make_room_to_wait(slot)
        self._waiting[slot] = None
        try:
            while not slot.given.is_set():
                with anyio.move_on_after(self._revoke_for(slot)):
                    await slot.given.wait()
        except BaseException:
            if slot in self._held:
                self._release(slot)
            raise
        finally:
            self._waiting.pop(slot, None)
        if slot.is_rejected:
            raise OverloadedError("too many downloads wait for a connection", retry_after=RETRY_AFTER)

    def _make_room_to_wait(self, slot: _Slot) -> None:
        """Where too many wait already, reject one of the request that has the most, which may be the new one."""
        if len(self._waiting) < self._max_waiting:
            return
        waiting = held_by(other.sharers for other in self._waiting)
        last = max(reversed(self._waiting), key=lambda other: fewest(waiting, other.sharers), default=slot)
        if fewest(waiting, last.sharers) <= fewest(waiting, slot.sharers) + 1:
            last = slot
        last.is_rejected = True
        self._waiting.pop(last, None)
        last.given.set()

    def _revoke_for(self, slot: _Slot) -> float:
        """Revoke a slot that another request should have. Returns the seconds until the next look."""
        if slot.revoked in self._held or slot.given.is_set():
            return _LOOK
        full_host = self._at_host[slot.host] >= self._max_at_host
        holders = [holder for holder in self._held if not full_host or holder.host == slot.host]
        held = held_by(holder.sharers for holder in holders)
        own = fewest(held, slot.sharers)
        now = anyio.current_time()
        soonest, most = now + _LOOK, own + (1 if own else 0)  # taking back one from a request with one more is no gain
        chosen: _Slot | None = None
        for holder in holders:
            theirs = fewest(held, holder.sharers)
            if theirs <= most or holder.scope.cancel_called:
                continue
            if now < holder.since + holder.grace:
                soonest = min(soonest, holder.since + holder.grace)
            elif holder.received() - holder.had <= self._min_rate * (now - holder.since):
                chosen, most = holder, theirs
        if chosen is not None:
            slot.revoked = chosen
            chosen.scope.cancel()
            for request in chosen.sharers.requests:
                request.revoked += 1
        return max(soonest - now, _LEAST_LOOK)


__all__ = ["GRACE", "ConnectionLimits", "SlotRevokedError"]
