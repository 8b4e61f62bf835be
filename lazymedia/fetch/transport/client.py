"""Requests through an AsyncClient of httpx2 or httpx: lazymedia's own, or one that a caller passes.

Neither library is imported here; a caller who passes a client has imported its library.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from types import ModuleType
from typing import Any, Final, final

import anyio

from lazymedia.contexts import asynccontextmanager
from lazymedia.errors import BadUrlError
from lazymedia.fetch.http_rules.messages import Headers, Reply, lower_names, request_headers
from lazymedia.fetch.policy.address import AddressPolicy, literal_address
from lazymedia.fetch.policy.url import DEFAULT_PORTS, HttpUrl
from lazymedia.fetch.transport.base import translated
from lazymedia.fetch.transport.http_logs import short_records
from lazymedia.limits import Limits

ADDRESS: Final = "lazymedia_address"
"""The extension of a response that has the address it came from, where lazymedia dialled it."""


@final
class ClientTransport:
    """Of a client its transport is used: proxies, certificates, pool.

    Its default headers, cookies and credentials are not sent, because they would go to any host that a URL names, and
    it follows no redirects.

    Args:
        client: Stays open.
        policy: For a caller's client, which resolves names out of sight: what the URL alone shows is checked here. None
            for a client whose transport checks every address itself.
        limits: On the time for connecting.

    Raises:
        TypeError: No AsyncClient of either library.
    """

    def __init__(self, client: object, policy: AddressPolicy | None, limits: Limits) -> None:
        self._library = _library_of(client)
        self._client: Any = client
        self._policy = policy
        self._timeouts = {"connect": limits.connect_timeout}

    @asynccontextmanager
    async def get(self, url: HttpUrl, extra: Headers = ()) -> AsyncIterator[Reply]:
        if self._policy is not None:
            address = literal_address(url.host)
            self._policy.check(url.host, url.port, [] if address is None else [address])
        lib = self._library
        # Which of the two a closed connection is, differs between transports.
        dropped = (lib.NetworkError,) if self._policy is None else (lib.NetworkError, lib.RemoteProtocolError)
        garbled = (lib.HTTPError, lib.InvalidURL, lib.StreamError)
        with short_records(), translated(lib.TimeoutException, dropped, garbled):
            request = lib.Request(
                "GET",
                _as_the_client_reads_it(lib, url),
                headers=request_headers(url, extra),
                extensions={"target": url.target.encode("ascii"), "timeout": self._timeouts},
            )
            response = await self._client.send(request, stream=True, auth=None, follow_redirects=False)
            try:
                async with aclosing(_body(response)) as body:
                    yield Reply(
                        response.status_code, lower_names(response.headers.raw), body, response.extensions.get(ADDRESS)
                    )
            finally:
                with anyio.CancelScope(shield=True):
                    await response.aclose()


def _body(response: Any) -> AsyncGenerator[bytes]:
    # A mock's response, or one that a hook of the client has looked into, is there already.
    return _once(response.content) if response.is_stream_consumed else response.aiter_raw()


async def _once(body: bytes) -> AsyncGenerator[bytes]:
    yield body


def _library_of(client: object) -> ModuleType:
    for name in ("httpx2", "httpx"):
        library = sys.modules.get(name)
        if library is not None and isinstance(client, library.AsyncClient):
            return library
    raise TypeError(f"client must be an AsyncClient of httpx2 or httpx, not {type(client).__name__}")


def _as_the_client_reads_it(library: ModuleType, url: HttpUrl) -> Any:
    theirs = library.URL(url.text)
    port = theirs.port or DEFAULT_PORTS[url.scheme]
    if (theirs.scheme, theirs.raw_host, port, theirs.userinfo) != (url.scheme, url.host.encode(), url.port, b""):
        raise BadUrlError("the HTTP client reads another host out of the URL")
    return theirs


__all__ = ["ADDRESS", "ClientTransport"]
