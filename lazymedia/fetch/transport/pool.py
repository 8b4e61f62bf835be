"""Connections to servers, each for one request at a time, and kept open for a while after it.

A connection in use belongs to its user, who closes it or gives it back; the pool knows those that are idle and how many
there are in all. So a cancellation at any point leaves no connection that is neither. (The HTTP library's own pool
looks at all its connections, twice, for each request.)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, Generic, NamedTuple, TypeVar, final

import anyio
import httpcore2

S = TypeVar("S", bound=httpcore2.AsyncNetworkStream)

_MAX_IDLE: Final = 64
_KEEPALIVE_SECONDS: Final = 5.0  # few servers keep theirs shorter, so that few requests meet one just closed


class Origin(NamedTuple):
    """Where connections go: ``http`` or ``https``, a host, a port."""

    scheme: str
    host: str
    port: int


@final
@dataclass(slots=True, eq=False)
class Connection(Generic[S]):
    """Attributes:
    origin: Scheme, host and port of the URLs that it serves.
    stream: What it reads and writes.
    http: The protocol on it.
    is_kept: Whether it had been used before it was handed out.
    """

    origin: Origin
    stream: S
    http: httpcore2.AsyncHTTP11Connection
    is_kept: bool = False

    async def aclose(self) -> None:
        """Close it, whatever scope is cancelled."""
        with anyio.CancelScope(shield=True):
            await self.http.aclose()

    def is_drained(self) -> bool:
        """Whether nothing follows the response. What does would be taken for the answer to the next request.

        The library has no public word for that; a connection that is closed in doubt costs a handshake.
        """
        try:
            trailing, is_closed = attrgetter("_h11_state.trailing_data")(self.http)
        except AttributeError:
            return False
        return not trailing and not is_closed


@final
class Pool(Generic[S]):
    """Args:
    dial: Opens a connection to an origin, TLS included.
    max_open: Connections, idle ones included. Idle ones make room.
    """

    def __init__(self, dial: Callable[[Origin], Awaitable[S]], *, max_open: int) -> None:
        self._dial = dial
        self._max_open = max_open
        self._idle: dict[Connection[S], None] = {}  # oldest first
        self._in_use = 0
        self._is_closed = False

    async def take(self, origin: Origin, *, fresh: bool) -> Connection[S]:
        """An idle connection to an origin, the one used last, or a new one. To be given back in any case.

        Raises:
            Exception: Whatever dialling raised.
        """
        self._in_use += 1
        try:
            while not fresh and (kept := self._newest(origin)) is not None:
                del self._idle[kept]
                if not kept.http.has_expired():
                    kept.is_kept = True
                    return kept
                await kept.aclose()
            while self._idle and self._in_use + len(self._idle) > self._max_open:
                await self._close_oldest()
            stream = await self._dial(origin)
        except BaseException:
            self._in_use -= 1
            raise
        named = httpcore2.Origin(origin.scheme.encode(), origin.host.encode(), origin.port)
        http = httpcore2.AsyncHTTP11Connection(named, stream, keepalive_expiry=_KEEPALIVE_SECONDS)
        return Connection(origin, stream, http)

    async def give_back(self, connection: Connection[S]) -> None:
        """Keep a connection, if it can serve another request; otherwise close it."""
        self._in_use -= 1
        if self._is_closed or not connection.http.is_idle():
            await connection.aclose()
            return
        self._idle[connection] = None
        if len(self._idle) > _MAX_IDLE:
            await self._close_oldest()

    async def aclose(self) -> None:
        """Close those that are idle. What is given back later is closed as well."""
        self._is_closed = True
        while self._idle:
            await self._close_oldest()

    def _newest(self, origin: Origin) -> Connection[S] | None:
        return next((connection for connection in reversed(self._idle) if connection.origin == origin), None)

    async def _close_oldest(self) -> None:
        connection = next(iter(self._idle))
        del self._idle[connection]
        await connection.aclose()


__all__ = ["Connection", "Origin", "Pool"]
