"""Name lookups: a name becomes addresses, once, each of them checked before any is dialled.

A resolver can hang for as long as its own timeouts are, and the call cannot be stopped: its thread is lost until it
returns. So no request may take more threads than its share, the last half of them go to requests that have none, a name
is looked up by one thread at a time, and a name whose lookup hung is not looked up again for a while. A lookup belongs
to the pool's nursery and not to the fetch that began it; the fetch leaves in time, and the thread stays counted.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, final

import anyio
from anyio import CapacityLimiter, to_thread

from lazymedia.errors import OverloadedError, UpstreamError
from lazymedia.fetch.policy.address import Address, AddressPolicy, literal_address, unwrapped
from lazymedia.fetch.transport.sharing import Sharers, current_sharers, fewest, held_by
from lazymedia.limits import DEFAULT_LIMITS, Limits
from lazymedia.outcome import STOPPED, Failed, Outcome, Value

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

HUNG_FOR: Final = 30.0
"""Seconds for which a name whose lookup hung is not looked up again."""
_MAX_HUNG: Final = 1024
"""Names of that kind that are remembered."""

Lookup = Callable[[str], Sequence[str]]
"""A blocking lookup: from a name to the addresses of it, as text. Raises OSError."""


def lookup_addresses(host: str) -> Sequence[str]:
    """What the operating system says."""
    return [str(answer[4][0]) for answer in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]


@final
class Resolver:
    """Checked addresses of hosts. Made by its owner on entering, which opens it in a nursery.

    Args:
        policy: What may be dialled.
        lookup: Asks for the addresses of a name, in a thread.
        limits: Threads, in all and for one request, and when a lookup hangs.
    """

    def __init__(
        self, policy: AddressPolicy, lookup: Lookup = lookup_addresses, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self._policy = policy
        self._lookup = lookup
        self._max_threads = max(1, limits.max_lookups)
        self._share = max(1, limits.max_lookups_per_request)
        self._hangs_after = limits.connect_timeout
        self._max_wait = limits.connect_timeout / 2  # for a thread, so that the reason is known before the time is up
        self._threads = CapacityLimiter(self._max_threads)
        self._nursery: TaskGroup | None = None
        self._lookups: dict[
            str, _Lookup
        ] = {}  # in the order of asking, those that wait for a thread and those that run
        self._running: set[_Lookup] = set()
        self._hung: dict[str, float] = {}

    def open_in(self, nursery: TaskGroup) -> None:
        """Run lookups in a nursery. Cancelling it leaves the threads of those that hang."""
        self._nursery = nursery

    async def resolve(self, host: str, port: int) -> Sequence[Address]:
        """The addresses of ``host``, in the resolver's order; all of them may be dialled.

        Raises:
            NotAllowedError: Any of them may not.
            OverloadedError: Lookups that hang take up all threads.
            UpstreamError: The name has no address, cannot be looked up, or its lookup hangs.
        """
        addresses = await self._find(host, port)
        self._policy.check(host, port, addresses)
        return addresses

    def check_ends(self, theirs: Address, ours: str) -> None:
        """Do nothing where a connection with these two ends may be used.

        Raises:
            NotAllowedError: They are one address, so that this machine dialled itself, and no operator allowed that.
        """
        own = literal_address(ours)
        if own is not None and unwrapped(own) == unwrapped(theirs):
            self._policy.check_own(theirs)

    async def _find(self, host: str, port: int) -> Sequence[Address]:
        literal = literal_address(host)
        if literal is not None:
            return [literal]
        self._policy.check_lookup(host, port)
        lookup = self._join(host)
        try:
            with anyio.move_on_after(self._max_wait):
                await lookup.begun.wait()
            if lookup.began is None:
                raise OverloadedError("too many name lookups hang", retry_after=self._max_wait)
            await lookup.ended.wait()
        finally:
            lookup.waiters -= 1
            if not lookup.waiters and lookup.began is None:
                del self._lookups[host]
        return lookup.addresses()

    def _join(self, host: str) -> _Lookup:
        """The lookup of a name that is under way, or a new one."""
        now = anyio.current_time()
        lookup = self._lookups.get(host)
        if self._hung.get(host, now) > now or (lookup is not None and lookup.hangs(now, self._hangs_after)):
            raise UpstreamError("the lookup of the server's name hangs")
        if lookup is None:
            lookup = self._lookups[host] = _Lookup(host)
        lookup.sharers.requests |= current_sharers().requests
        lookup.waiters += 1
        self._start()
        return lookup

    def _start(self) -> None:
        """Give free threads to lookups that wait: the request that holds the fewest comes first."""
        assert self._nursery is not None
        while len(self._running) < self._max_threads:
            held = held_by(lookup.sharers for lookup in self._running)
            waiting = [lookup for lookup in self._lookups.values() if lookup.began is None]
            first = min(waiting, key=lambda lookup: fewest(held, lookup.sharers), default=None)
            share = self._share if len(self._running) < self._max_threads // 2 else 1
            if first is None or fewest(held, first.sharers) >= share:
                return
            first.began = anyio.current_time()
            first.begun.set()
            self._running.add(first)
            self._nursery.start_soon(self._run, first)

    async def _run(self, lookup: _Lookup) -> None:
        try:
            lookup.outcome = await to_thread.run_sync(
                self._ask, lookup.host, limiter=self._threads, abandon_on_cancel=True
            )
        except Exception as error:  # noqa: BLE001  # not the lookup's, which are an outcome: no thread could be started
            lookup.outcome = Failed(error)
        finally:
            self._end(lookup)

    def _ask(self, host: str) -> Outcome[Sequence[Address]]:
        """In a thread. Whatever is raised, also for a malformed answer, is the resolver's failure."""
        try:
            return Value([ip_address(answer) for answer in dict.fromkeys(self._lookup(host))])
        except Exception as error:  # noqa: BLE001
            failure = UpstreamError("the name of the server cannot be resolved")
            failure.__cause__ = error
            return Failed(failure)

    def _end(self, lookup: _Lookup) -> None:
        now = anyio.current_time()
        self._running.discard(lookup)
        del self._lookups[lookup.host]
        if isinstance(lookup.outcome, Failed) and lookup.hangs(now, self._hangs_after):
            self._hung.pop(lookup.host, None)
            self._hung[lookup.host] = now + HUNG_FOR
            while len(self._hung) > _MAX_HUNG or next(iter(self._hung.values())) <= now:
                del self._hung[next(iter(self._hung))]
        lookup.ended.set()
        if lookup.outcome is not STOPPED:
            self._start()


@final
@dataclass(eq=False, slots=True)
class _Lookup:
    """One name, looked up for all who ask for it meanwhile.

    Attributes:
        sharers: The requests of all who ever waited for it.
        waiters: Those who wait.
        began: When its thread began; None before.
    """

    host: str
    sharers: Sharers = field(default_factory=lambda: Sharers(frozenset()))
    waiters: int = 0
    began: float | None = None
    begun: anyio.Event = field(default_factory=anyio.Event)
    ended: anyio.Event = field(default_factory=anyio.Event)
    outcome: Outcome[Sequence[Address]] = STOPPED

    def hangs(self, now: float, after: float) -> bool:
        return self.began is not None and now - self.began > after

    def addresses(self) -> Sequence[Address]:
        """What was found, or an exception for this caller alone."""
        match self.outcome:
            case Value([]):
                raise UpstreamError("the name of the server has no address")
            case Value(addresses):
                return addresses
            case Failed(UpstreamError() as failure):
                raise UpstreamError(str(failure)) from failure.__cause__
            case Failed(error):
                raise OverloadedError("this process can start no more threads", retry_after=1.0) from error
            case _:
                raise OverloadedError("the connector is closing")


__all__ = ["HUNG_FOR", "Lookup", "Resolver", "lookup_addresses"]
