"""What every way to a server has in common: one request, one reply, and one set of errors.

Comes in: an `HttpUrl`. Goes out: the head of a reply, and its body chunk by chunk. Never here: an HTTP library; `http`
has lazymedia's own, `client` a caller's.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final, Protocol

import anyio

from lazymedia.errors import FetchTimeoutError, LazyMediaError, UpstreamError
from lazymedia.fetch.address import Address
from lazymedia.fetch.url import HttpUrl

BROKEN: Final = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, ssl.SSLError, OSError)
"""What a broken connection raises where a library lets it through."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The head of a response, and its body.

    Attributes:
        status: As in the status line.
        headers: Names in lower case, in order, repeated ones repeated.
        body: Chunks as received: framing undone, content codings not.
    """

    status: int
    headers: Sequence[tuple[bytes, bytes]]
    body: AsyncIterator[bytes]

    def values(self, name: bytes) -> list[bytes]:
        """All values of a header."""
        return [value.strip() for key, value in self.headers if key == name]


class Transport(Protocol):
    """Where requests go."""

    def get(self, url: HttpUrl) -> AbstractAsyncContextManager[Reply]:
        """One GET, answered by one response that ends with the block.

        Raises:
            NotAllowedError: The policy refuses the host, its port or one of its addresses.
            OverloadedError: Lookups that hang take up all threads.
            UpstreamError: The server is broken or cannot be reached.
            FetchTimeoutError: It cannot be reached within the time for connecting.
        """
        ...


def request_headers(url: HttpUrl) -> list[tuple[bytes, bytes]]:
    """All headers that are ever sent."""
    return [
        (b"Host", url.netloc.encode("ascii")),
        (b"User-Agent", b"lazymedia"),  # some servers refuse requests without one
        (b"Accept", b"*/*"),
        (b"Accept-Encoding", b"identity"),
    ]


def lower_names(headers: Iterable[tuple[bytes, bytes]]) -> Sequence[tuple[bytes, bytes]]:
    return [(name.lower(), value) for name, value in headers]


def literal_address(host: str) -> Address | None:
    """The address that a URL's host is, where it is no name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


@contextmanager
def translated(slow: type[Exception], *broken: type[Exception]) -> Iterator[None]:
    """Errors of a library become ours, whose texts name no host and no address."""
    try:
        yield
    except LazyMediaError:
        raise  # many of ours are an OSError too
    except slow as exc:
        raise FetchTimeoutError("the server could not be reached in time") from exc
    except broken + BROKEN as exc:
        raise UpstreamError(f"the server cannot be reached or breaks the protocol ({type(exc).__name__})") from exc


__all__ = ["BROKEN", "Reply", "Transport", "literal_address", "lower_names", "request_headers", "translated"]
