"""`GuardedTransport`: connections to allowed addresses, and to no others, for httpx2 clients on trio and asyncio.

A name is resolved once, every answer is checked, an address that was checked is dialled, and the other end is compared
with it. Host header, SNI and certificate check stay those of the URL, because connections are kept by origin; only the
socket goes to the address. The HTTP protocol itself is httpcore2's.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from http.cookiejar import CookieJar, DefaultCookiePolicy
from ipaddress import ip_address
from typing import Any, Final, Self, final

import anyio
import httpcore2
import httpx2
from anyio import AsyncContextManagerMixin, CapacityLimiter
from anyio.lowlevel import checkpoint

from lazymedia.contexts import asynccontextmanager, contextmanager
from lazymedia.errors import NotAllowedError
from lazymedia.fetch.policy.address import Address, AddressPolicy
from lazymedia.fetch.transport.base import BROKEN, Transport
from lazymedia.fetch.transport.client import ADDRESS, ClientTransport
from lazymedia.fetch.transport.own_addresses import own_addresses
from lazymedia.fetch.transport.pool import Connection, Origin, Pool
from lazymedia.fetch.transport.resolve import Resolver
from lazymedia.limits import DEFAULT_LIMITS, Limits
from lazymedia.nursery import open_nursery, run_owned
from lazymedia.worker import run_in_thread

MAX_DIALS: Final = 4
"""Addresses of one host that are tried; a name can have thousands."""
MAX_HEAD_BYTES: Final = 64 * 1024
"""Bytes of a response before its body, interim responses included, which httpcore2 would read without end."""
MAX_INTERIM: Final = 8
"""Interim responses before the final one, which httpcore2 would skip without end."""
_INTERIM: Final = re.compile(rb"\nHTTP/1\.[0-9] 1[0-9][0-9]")
_INTERIM_BYTES: Final = 13
_MAX_READ_BYTES: Final = 512 * 1024  # of a body that comes faster than it is read; fewer reads for a long one
_MAX_STALE: Final = 2  # kept connections of one host that may turn out closed, one after the other
_REPEATABLE: Final = frozenset({"GET", "HEAD"})


def make_ssl_context() -> ssl.SSLContext:
    """Trusts this machine's authorities, or those of SSL_CERT_FILE or SSL_CERT_DIR. Reads files: for a thread."""
    return httpcore2.default_ssl_context()


@final
class GuardedTransport(AsyncContextManagerMixin, httpx2.AsyncBaseTransport):  # type: ignore[misc]  # __aexit__ has defaults there
    """A transport for an `httpx2.AsyncClient` of your own that connects to allowed addresses only::

        async with httpx2.AsyncClient(transport=GuardedTransport(), trust_env=False) as client: ...

    Addresses are checked when they are dialled, so that a name cannot change in between, and redirects that the client
    follows are checked like any URL. It speaks HTTP/1.1, directly: a client with a proxy does not use its transport.
    The client has to be entered (``async with``); its limits on connections are not used, those of `Limits` are.

    Args:
        allowed_networks: Otherwise rejected networks, as CIDR texts such as ``"10.1.0.0/16"``; see `MediaConnector`.
        allowed_ports: Ports of all other hosts.
        limits: `Limits.max_connections`, `Limits.connect_timeout` and the limits on name lookups are taken from here.

    Raises:
        ValueError: A malformed network or port.
    """

    def __init__(
        self,
        allowed_networks: Iterable[str] = (),
        allowed_ports: Iterable[int] = (80, 443),
        limits: Limits | None = None,
    ) -> None:
        self._policy = AddressPolicy.of(allowed_networks, allowed_ports)
        self._limits = DEFAULT_LIMITS if limits is None else limits
        self._opened: PoolTransport | None = None

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncIterator[Self]:
        threads = CapacityLimiter(1)
        ssl_context = await run_in_thread(make_ssl_context, threads)
        policy = replace(self._policy, own=await run_in_thread(own_addresses, threads))
        async with open_pool(Resolver(policy, limits=self._limits), self._limits, ssl_context) as opened:
            self._opened = opened
            try:
                yield self
            finally:
                self._opened = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request.

        Raises:
            NotAllowedError: The policy rejects the host, its port or one of its addresses.
            OverloadedError: Name lookups that hang take up all threads.
            UpstreamError: The name cannot be resolved.
            httpx2.TransportError: As of any transport of httpx2.
            RuntimeError: The client was not entered.
        """
        if self._opened is None:
            raise RuntimeError("GuardedTransport works inside the async with block of its client only")
        return await self._opened.handle_async_request(request)


@asynccontextmanager
async def open_transport(
    resolver: Resolver,
    limits: Limits,
    ssl_context: ssl.SSLContext,
    *,
    network: httpcore2.AsyncNetworkBackend | None = None,
) -> AsyncIterator[Transport]:
    """An httpx2 client of lazymedia's own over `open_pool`, without cookies and without settings of the environment."""
    no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=()))
    async with (
        open_pool(resolver, limits, ssl_context, network=network) as pool,
        httpx2.AsyncClient(transport=pool, trust_env=False, cookies=no_cookies) as client,
    ):
        yield ClientTransport(client, None, limits)


@asynccontextmanager
async def open_pool(
    resolver: Resolver,
    limits: Limits,
    ssl_context: ssl.SSLContext,
    *,
    network: httpcore2.AsyncNetworkBackend | None = None,
) -> AsyncIterator[PoolTransport]:
    """A transport over connections to checked addresses.

    Args:
        resolver: Has the policy. Its lookups run until the block is left.
        limits: On connections.
        ssl_context: For https.
        network: Opens the sockets. It is asked for numeric addresses only.
    """
    guarded = _GuardedNetwork(resolver, network or httpcore2.AnyIOBackend(), limits.connect_timeout)
    pool = Pool(partial(_dial, guarded, ssl_context, limits.connect_timeout), max_open=limits.max_connections)
    async with open_nursery() as lookups:
        resolver.open_in(lookups)
        try:
            yield PoolTransport(pool)
        finally:
            try:
                await run_owned(pool.aclose, shield=True)
            finally:
                lookups.cancel_scope.cancel()


@final
class PoolTransport(httpx2.AsyncBaseTransport):
    """Requests over the connections of a `Pool`. Who opened the pool closes it."""

    def __init__(self, pool: Pool[_GuardedStream]) -> None:
        self.pool = pool

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        with _as_httpx2():
            connection, response = await self._send(request)
        connection.stream.head_is_over()
        return httpx2.Response(
            response.status,
            headers=response.headers,
            stream=_Body(self.pool, connection, response),
            extensions={**response.extensions, ADDRESS: connection.stream.address},
        )

    async def _send(self, request: httpx2.Request) -> tuple[Connection[_GuardedStream], httpcore2.Response]:
        """The response to a request. One that meets a connection which was closed while it was kept is sent anew."""
        url = request.url
        origin = Origin(url.scheme, url.raw_host.decode("ascii"), url.port or (443 if url.scheme == "https" else 80))
        if origin.scheme not in {"http", "https"}:
            raise httpcore2.UnsupportedProtocol(f"unsupported protocol {origin.scheme!r}")
        sent = httpcore2.Request(
            request.method,
            httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        tries = _MAX_STALE if request.method in _REPEATABLE else 0
        for attempt in range(tries + 1):
            connection = await self.pool.take(origin, fresh=attempt == tries)
            try:
                return connection, await connection.http.handle_async_request(sent)
            except BaseException as error:
                with anyio.CancelScope(shield=True):
                    await self.pool.give_back(connection)
                is_stale = isinstance(error, (httpcore2.NetworkError, httpcore2.RemoteProtocolError))
                if not is_stale or not connection.is_kept:
                    raise
        raise AssertionError("unreachable: the last attempt returns or raises")


@final
class _Body(httpx2.AsyncByteStream):
    """The body of a response. Its connection goes back to the pool when it is closed."""

    def __init__(
        self, pool: Pool[_GuardedStream], connection: Connection[_GuardedStream], response: httpcore2.Response
    ) -> None:
        self._pool, self._connection, self._response = pool, connection, response
        self._is_closed = False

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        with _as_httpx2():
            try:
                async with aclosing(self._response.aiter_stream()) as pieces:
                    async for piece in pieces:
                        yield piece
            except httpcore2.RemoteProtocolError as exc:
                if self._connection.stream.has_ended:
                    raise httpcore2.ReadError("the body breaks off") from exc
                raise

    async def aclose(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        with anyio.CancelScope(shield=True):
            if self._connection.is_drained():
                await self._response.aclose()
            await self._pool.give_back(self._connection)


@contextmanager
def _as_httpx2() -> Iterator[None]:
    """Errors of httpcore2 become those of httpx2, which have the same names."""
    try:
        yield
    except (
        httpcore2.TimeoutException,
        httpcore2.NetworkError,
        httpcore2.ProtocolError,
        httpcore2.UnsupportedProtocol,
    ) as exc:
        raise getattr(httpx2, type(exc).__name__)(str(exc)) from exc


async def _dial(
    network: _GuardedNetwork, ssl_context: ssl.SSLContext, seconds: float, origin: Origin
) -> _GuardedStream:
    """A connection to a host; ``seconds`` for the socket to stand, and as many for TLS."""
    stream = await network.connect_tcp(origin.host, origin.port)
    if origin.scheme == "http":
        return stream
    try:
        ssl_context.set_alpn_protocols(["http/1.1"])
        return await stream.start_tls(ssl_context, origin.host, seconds)
    except BaseException:
        with anyio.CancelScope(shield=True):
            await stream.aclose()
        raise


@final
class _GuardedNetwork(httpcore2.AsyncNetworkBackend):
    """Resolves once, checks every answer, dials an answer that was checked, and compares the other end with it."""

    def __init__(self, resolver: Resolver, network: httpcore2.AsyncNetworkBackend, timeout: float) -> None:
        self._resolver = resolver
        self._network = network
        self._timeout = timeout

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  # the library's signature
        local_address: str | None = None,  # noqa: ARG002  # the same
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,  # noqa: ARG002  # the same
    ) -> _GuardedStream:
        deadline = anyio.current_time() + (self._timeout if timeout is None else timeout)
        with anyio.CancelScope(deadline=deadline):
            candidates = (await self._resolver.resolve(host, port))[:MAX_DIALS]
            for position, address in enumerate(candidates):
                # An address that swallows packets leaves its successors their share of the time.
                share = (deadline - anyio.current_time()) / (len(candidates) - position)
                with anyio.move_on_after(share):
                    stream = await self._dial(address, port)
                    if stream is not None:
                        return _GuardedStream(stream, address)
            await checkpoint()  # leaves with the scope where the time is up
            raise httpcore2.ConnectError("no address of the host could be reached")
        raise httpcore2.ConnectTimeout("the host could not be reached in time")

    async def _dial(self, address: Address, port: int) -> httpcore2.AsyncNetworkStream | None:
        try:
            stream = await self._network.connect_tcp(str(address), port)
        except (httpcore2.NetworkError, httpcore2.TimeoutException, *BROKEN):
            return None
        try:
            self._check(stream, address)
        except NotAllowedError:
            with anyio.CancelScope(shield=True):
                await stream.aclose()
            raise
        return stream

    def _check(self, stream: httpcore2.AsyncNetworkStream, address: Address) -> None:
        """Compare the two ends of a connection with what was dialled."""
        theirs, ours = stream.get_extra_info("server_addr"), stream.get_extra_info("client_addr")
        if not isinstance(theirs, tuple) or int(ip_address(theirs[0])) != int(address):
            raise NotAllowedError
        if isinstance(ours, tuple):
            self._resolver.check_ends(address, str(ours[0]))

    async def connect_unix_socket(self, *_: object, **__: object) -> httpcore2.AsyncNetworkStream:
        raise NotAllowedError


@final
class _GuardedStream(httpcore2.AsyncNetworkStream):
    """A connection to a checked address, with a bound on what a server may send before the body of a response."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream, address: Address) -> None:
        self._stream = stream
        self.address = address
        self._head_bytes: int | None = 0
        self._interim = 0
        self._tail = b"\n"
        self._read_bytes = MAX_HEAD_BYTES
        self.has_ended = False

    def head_is_over(self) -> None:
        self._head_bytes = None
        self._read_bytes = MAX_HEAD_BYTES

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109  # the library's
        self._head_bytes = self._interim = 0
        self._tail = b"\n"
        await self._stream.write(buffer, timeout)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109  # the library's
        if self._head_bytes is None:
            received = await self._stream.read(self._read_bytes, timeout)
            self.has_ended = not received
            if len(received) == self._read_bytes < _MAX_READ_BYTES:
                self._read_bytes *= 2
            return received
        if self._head_bytes > MAX_HEAD_BYTES:
            raise httpcore2.RemoteProtocolError("the response does not come to its body")
        received = await self._stream.read(min(max_bytes, MAX_HEAD_BYTES), timeout)
        if not received:
            raise httpcore2.ReadError("the connection was closed before there was a response")
        self._head_bytes += len(received)
        window = self._tail + received
        self._tail = window[1 - _INTERIM_BYTES :]
        self._interim += len(_INTERIM.findall(window))
        if self._interim > MAX_INTERIM:
            raise httpcore2.RemoteProtocolError("the response does not come to its end of interim ones")
        return received

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109  # the library's
    ) -> _GuardedStream:
        return _GuardedStream(await self._stream.start_tls(ssl_context, server_hostname, timeout), self.address)

    async def aclose(self) -> None:
        await self._stream.aclose()

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


__all__ = [
    "MAX_DIALS",
    "MAX_HEAD_BYTES",
    "MAX_INTERIM",
    "GuardedTransport",
    "PoolTransport",
    "make_ssl_context",
    "open_pool",
    "open_transport",
]
