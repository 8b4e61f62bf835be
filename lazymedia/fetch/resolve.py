"""A name becomes addresses, once, each of them judged before any is dialled.

Comes in: a host and a port. Goes out: addresses that the policy admits. Never here: sockets to those addresses.

A resolver can hang for as long as its own timeouts are, and the call cannot be stopped. So a lookup is the one call
whose thread a cancelled fetch leaves behind: it touches nothing of ours, and its answer is dropped. The number of such
threads is counted in the threads themselves, because on asyncio a limiter's token is free again as soon as the waiting
task is gone.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from threading import BoundedSemaphore
from typing import Final, final

from anyio import CapacityLimiter, to_thread

from lazymedia.errors import NotAllowedError, OverloadedError, UpstreamError
from lazymedia.fetch.address import Address, AddressPolicy, Verdict
from lazymedia.fetch.transport import literal_address

MAX_LOOKUPS: Final = 16
"""Lookups of one connector that run at once, those included that nobody waits for any more."""

Lookup = Callable[[str], Sequence[str]]
"""A blocking lookup: from a name to the addresses of it, as text. Raises OSError."""


def lookup_addresses(host: str) -> Sequence[str]:
    """What the operating system says."""
    return [str(answer[4][0]) for answer in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]


@final
class Resolver:
    """Judged addresses of hosts. Made by its owner on entering, as the limiter is."""

    def __init__(self, policy: AddressPolicy, lookup: Lookup = lookup_addresses) -> None:
        self._policy = policy
        self._lookup = lookup
        self._limiter = CapacityLimiter(MAX_LOOKUPS)
        self._threads = BoundedSemaphore(MAX_LOOKUPS)

    async def resolve(self, host: str, port: int) -> Sequence[Address]:
        """The addresses of ``host``, in the resolver's order; all of them may be dialled.

        Raises:
            NotAllowedError: Any of them may not.
            OverloadedError: Lookups that hang take up all threads.
            UpstreamError: The name has no address, or cannot be looked up.
        """
        addresses = await self._find(host, port)
        self._policy.admit(host, port, addresses)
        return addresses

    def admit_ends(self, theirs: Address, ours: str) -> None:
        """Let a connection be used, given both of its ends.

        Raises:
            NotAllowedError: They are one address, so that this machine dialled itself, and no operator allowed that.
        """
        own = literal_address(ours.partition("%")[0])
        if own is not None and int(own) == int(theirs) and self._policy.judge(theirs) is not Verdict.OPTED_IN:
            raise NotAllowedError

    async def _find(self, host: str, port: int) -> Sequence[Address]:
        literal = literal_address(host)
        if literal is not None:
            return [literal]
        self._policy.admit_lookup(host, port)
        try:
            answers = await to_thread.run_sync(self._run, host, limiter=self._limiter, abandon_on_cancel=True)
        except (OSError, UnicodeError) as exc:
            raise UpstreamError("the name of the server cannot be resolved") from exc
        if not answers:
            raise UpstreamError("the name of the server has no address")
        return [ip_address(answer) for answer in dict.fromkeys(answers)]

    def _run(self, host: str) -> Sequence[str]:
        if not self._threads.acquire(blocking=False):
            raise OverloadedError("too many name lookups are stuck")
        try:
            return self._lookup(host)
        finally:
            self._threads.release()


__all__ = ["MAX_LOOKUPS", "Lookup", "Resolver", "lookup_addresses"]
