"""What one connector may have under way at once: connections per host and in all, waiting downloads, bytes.

Comes in: a URL about to be requested, or bytes about to be held. Goes out: a place for it, or a refusal that says when
to come again. Never here: connections themselves; the pool of `http` or a caller's client has those.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, final

import anyio
from anyio import CapacityLimiter

from lazymedia.errors import OverloadedError
from lazymedia.fetch.url import HttpUrl
from lazymedia.limits import Limits

RETRY_AFTER: Final = 1.0
"""Seconds; a download takes about as long, and each that ends makes room."""


@final
@dataclass(slots=True)
class _Host:
    limiter: CapacityLimiter
    users: int = 0


@final
class Slots:
    """Places at hosts, first come, first served. Made inside the owner's entering, as its limiters are."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._total = CapacityLimiter(max(1, limits.max_connections))
        self._hosts: dict[tuple[str, str, int], _Host] = {}
        self._waiting = 0

    @property
    def in_use(self) -> int:
        """Requests that have a place."""
        return int(self._total.borrowed_tokens)

    @property
    def known_hosts(self) -> int:
        """Hosts that somebody uses or waits for; others are forgotten."""
        return len(self._hosts)

    @asynccontextmanager
    async def hold(self, url: HttpUrl) -> AsyncIterator[None]:
        """A place at the URL's host, then one of all.

        In this order, so that those who wait for a slow host keep nobody from another.

        Raises:
            OverloadedError: Too many wait already.
        """
        key = (url.scheme, url.host, url.port)
        host = self._hosts.get(key)
        if host is None:
            host = self._hosts[key] = _Host(CapacityLimiter(max(1, self._limits.max_connections_per_host)))
        borrower = object()  # not the task, which may hold another connector's place
        host.users += 1
        try:
            await self._take(host.limiter, borrower)
            try:
                await self._take(self._total, borrower)
                try:
                    yield
                finally:
                    self._total.release_on_behalf_of(borrower)
            finally:
                host.limiter.release_on_behalf_of(borrower)
        finally:
            host.users -= 1
            if not host.users:
                del self._hosts[key]

    async def _take(self, limiter: CapacityLimiter, borrower: object) -> None:
        try:
            limiter.acquire_on_behalf_of_nowait(borrower)
        except anyio.WouldBlock:
            pass
        else:
            return
        if self._waiting >= self._limits.max_waiting_fetches:
            raise OverloadedError("too many downloads wait for a connection", retry_after=RETRY_AFTER)
        self._waiting += 1
        try:
            await limiter.acquire_on_behalf_of(borrower)
        finally:
            self._waiting -= 1


@final
class ByteBudget:
    """Bytes that all downloads under way hold together.

    Counted as they come and not as they are declared: a server that declares much and sends nothing would take other
    servers' room. Where there is too little, the download that asks is refused and its bytes serve the others, since
    waiting for room with bytes in hand is how all come to wait for each other.
    """

    def __init__(self, cap: int | None = None) -> None:
        self._cap = cap
        self.held = 0

    def admit(self, size: int) -> None:
        """Refuse what could not be taken even now.

        Raises:
            OverloadedError: No room for so many.
        """
        if self._cap is not None and self.held + size > self._cap:
            raise OverloadedError("the downloads under way hold too many bytes", retry_after=RETRY_AFTER)

    def take(self, size: int) -> None:
        """Count bytes that have come. They are counted also where this raises, since they are held."""
        self.held += size
        self.admit(0)

    def give_back(self, size: int) -> None:
        self.held -= size


__all__ = ["RETRY_AFTER", "ByteBudget", "Slots"]
