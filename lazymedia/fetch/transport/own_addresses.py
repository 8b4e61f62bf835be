"""The addresses of this machine other than loopback ones.

A service that is bound to all interfaces, or that trusts callers from its own address, can be reached by a machine's
public address as well as by 127.0.0.1. Private addresses are rejected anyway; what is left is a public one.
"""

from __future__ import annotations

import socket
from ipaddress import ip_address
from typing import Final

from lazymedia.fetch.policy.address import Address, unwrapped

_SOMEWHERE: Final = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
"""Addresses of documentation (RFC 5737, RFC 3849), to which a machine routes as to any other of the internet."""
_DISCARD: Final = 9


def own_addresses() -> frozenset[Address]:
    """The addresses from which this machine would send, loopback ones excepted. A further one shows when it is dialled:
    both ends of the connection are one address.
    """
    found: set[Address] = set()
    for family, address in _SOMEWHERE:
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as route:
                route.connect((address, _DISCARD))  # of a datagram socket: a look at the routes, nothing is sent
                found.add(unwrapped(ip_address(route.getsockname()[0])))
        except OSError:
            continue  # no route, or no such protocol
    return frozenset(address for address in found if not address.is_loopback)


__all__ = ["own_addresses"]
