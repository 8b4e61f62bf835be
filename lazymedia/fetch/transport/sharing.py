"""Which request a fetch belongs to. What all fetches of a connector share is divided between requests.

All fetches of one chat request belong together, however many URLs it names. A fetch outside any request is a request of
its own. A download that several requests wait for belongs to all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import final

from lazymedia.contexts import contextmanager


@final
@dataclass(eq=False, slots=True)
class Request:
    """One request, and what it has had of a connector's slots (see `lazymedia.fetch.transport.connection_limits`).

    Attributes:
        turn: The number of its last slot, counted over all requests; 0 before the first.
        revoked: How many of its slots were revoked.
    """

    turn: int = 0
    revoked: int = 0


@final
@dataclass(eq=False, slots=True)
class Sharers:
    """The requests that something is done for. They change while a download is joined and left."""

    requests: frozenset[Request]


_sharers: ContextVar[Sharers | None] = ContextVar("lazymedia_fetch_sharers", default=None)


def current_sharers() -> Sharers:
    """Those that the calling task fetches for; a new request where it is inside none."""
    return _sharers.get() or Sharers(frozenset({Request()}))


@contextmanager
def on_behalf_of(sharers: Sharers) -> Iterator[None]:
    """What is done inside the block is done for these."""
    before = _sharers.get()
    _sharers.set(sharers)
    try:
        yield
    finally:
        _sharers.set(before)


@contextmanager
def one_request() -> Iterator[None]:
    """Fetches begun inside the block, also in tasks that it starts, belong to one request.

    A connector divides its connections and its threads for name lookups between requests. Fetches without such a block
    are a request each, so that a client with many URLs would get as many shares. A block inside another adds nothing.
    """
    with on_behalf_of(current_sharers()):
        yield


def held_by(holders: Iterable[Sharers]) -> Counter[Request]:
    """How many of the holders each request has."""
    return Counter(request for holder in holders for request in holder.requests)


def fewest(held: Counter[Request], sharers: Sharers) -> int:
    """What the request among the sharers holds that holds the least."""
    return min(map(held.__getitem__, sharers.requests), default=0)


__all__ = ["Request", "Sharers", "current_sharers", "fewest", "held_by", "on_behalf_of", "one_request"]
