"""The HTTP client: connections to judged addresses, and to no others.

Comes in: an `HttpUrl`. Goes out: a `Reply` whose body is streamed as it came over the wire. Never here: redirects,
statuses, or byte caps on bodies (`download` has them). With `pool` and `sockets` this is all that knows an HTTP
library.

The protocol is httpcore2's. It has no cookies, proxies, redirects, credentials or content codings that would have to be
turned off, and it is given sockets of ours. Host header, SNI and certificate check stay those of the URL, because the
pool keeps connections by origin; only the socket goes to the address.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager
from functools import partial
from ipaddress import ip_address
from typing import Any, Final, final

import anyio
import httpcore2
from anyio.lowlevel import checkpoint

from lazymedia.errors import NotAllowedError
from lazymedia.fetch.address import Address
from lazymedia.fetch.library_logs import short_records
from lazymedia.fetch.owned import run_owned
from lazymedia.fetch.pool import Connection, Pool
from lazymedia.fetch.resolve import Resolver
from lazymedia.fetch.sockets import SocketNetwork
from lazymedia.fetch.transport import BROKEN, Headers, Reply, Transport, lower_names, request_headers, translated
from lazymedia.fetch.url import HttpUrl
from lazymedia.hops import open_nursery
from lazymedia.limits import Limits

MAX_DIALS: Final = 4
"""Addresses of one host that are tried; a name can have thousands."""
MAX_HEAD_BYTES: Final = 64 * 1024
"""Bytes of a response before its body, interim responses included, which the library would read without end."""
MAX_INTERIM: Final = 8
"""Interim responses before the one that counts, which the library would step over without end."""
_INTERIM: Final = re.compile(rb"\nHTTP/1\.[0-9] 1[0-9][0-9]")
_INTERIM_BYTES: Final = 13
_MAX_READ_BYTES: Final = 512 * 1024  # of a body that comes faster than it is read; fewer reads for a long one
_MAX_STALE: Final = 2  # kept connections of one host that may turn out closed, one after the other


def make_ssl_context() -> ssl.SSLContext:
    """Trusts this machine's authorities, or those of SSL_CERT_FILE or SSL_CERT_DIR. Reads files: for a thread."""
    return httpcore2.default_ssl_context()


@asynccontextmanager
async def open_pool(
    resolver: Resolver,
    limits: Limits,
    ssl_context: ssl.SSLContext,
    *,
    network: httpcore2.AsyncNetworkBackend | None = None,
) -> AsyncIterator[Transport]:
    """Connections of lazymedia's own. ``network`` opens the sockets and is asked for numeric addresses only."""
    judged = _JudgedNetwork(resolver, network or SocketNetwork(), limits.connect_timeout)
    pool = Pool(partial(_dial, judged, ssl_context, limits.connect_timeout), max_open=limits.max_connections)
    async with open_nursery() as lookups:
        resolver.open_in(lookups)
        try:
            yield _PoolTransport(pool)
        finally:
            try:
                await run_owned(pool.aclose, shield=True)
            finally:
                lookups.cancel_scope.cancel()


@final
class _PoolTransport:
    def __init__(self, pool: Pool[_JudgedStream]) -> None:
        self._pool = pool

    @asynccontextmanager
    async def get(self, url: HttpUrl, extra: Headers = ()) -> AsyncIterator[Reply]:
        dropped, garbled = (httpcore2.NetworkError,), (httpcore2.ProtocolError,)
        with short_records(), translated(httpcore2.TimeoutException, dropped, garbled):
            connection, response = await self._send(url, extra)
            try:
                connection.stream.head_is_over()
                async with aclosing(response.aiter_stream()) as body:
                    yield Reply(response.status, lower_names(response.headers), body, connection.stream.address)
            except httpcore2.RemoteProtocolError as exc:
                if connection.stream.has_ended:
                    raise httpcore2.ReadError("the body breaks off") from exc
                raise
            finally:
                with anyio.CancelScope(shield=True):
                    if connection.is_drained():
                        await response.aclose()
                    await self._pool.give_back(connection)

    async def _send(self, url: HttpUrl, extra: Headers) -> tuple[Connection[_JudgedStream], httpcore2.Response]:
        """The response to a request. One that meets a connection which was closed while it was kept is sent anew."""
        request = httpcore2.Request(
            "GET",
            httpcore2.URL(scheme=url.scheme, host=url.host, port=url.port, target=url.target),
            headers=request_headers(url, extra),
        )
        for attempt in range(_MAX_STALE + 1):
            connection = await self._pool.take(url, fresh=attempt == _MAX_STALE)
            try:
                return connection, await connection.http.handle_async_request(request)
            except BaseException as error:
                with anyio.CancelScope(shield=True):
                    await self._pool.give_back(connection)
                is_stale = isinstance(error, (httpcore2.NetworkError, httpcore2.RemoteProtocolError))
                if not is_stale or not connection.is_kept:
                    raise
        raise AssertionError("unreachable: the last attempt returns or raises")


async def _dial(network: _JudgedNetwork, ssl_context: ssl.SSLContext, seconds: float, url: HttpUrl) -> _JudgedStream:
    """A connection to a URL's host; ``seconds`` for the socket to stand, and as many for TLS."""
    stream = await network.connect_tcp(url.host, url.port)
    if url.scheme == "http":
        return stream
    try:
        ssl_context.set_alpn_protocols(["http/1.1"])
        return await stream.start_tls(ssl_context, url.host, seconds)
    except BaseException:
        with anyio.CancelScope(shield=True):
            await stream.aclose()
        raise


@final
class _JudgedNetwork(httpcore2.AsyncNetworkBackend):
    """Resolves once, judges every answer, dials an answer that was judged, and looks who picked up."""

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
    ) -> _JudgedStream:
        deadline = anyio.current_time() + (self._timeout if timeout is None else timeout)
        with anyio.CancelScope(deadline=deadline):
            candidates = (await self._resolver.resolve(host, port))[:MAX_DIALS]
            for position, address in enumerate(candidates):
                # An address that swallows packets leaves its successors their share of the time.
                share = (deadline - anyio.current_time()) / (len(candidates) - position)
                with anyio.move_on_after(share):
                    stream = await self._dial(address, port)
                    if stream is not None:
                        return _JudgedStream(stream, address)
            await checkpoint()  # leaves with the scope where the time is up
            raise httpcore2.ConnectError("no address of the host could be reached")
        raise httpcore2.ConnectTimeout("the host could not be reached in time")

    async def _dial(self, address: Address, port: int) -> httpcore2.AsyncNetworkStream | None:
        try:
            stream = await self._network.connect_tcp(str(address), port)
        except (httpcore2.NetworkError, httpcore2.TimeoutException, *BROKEN):
            return None
        try:
            self._judge(stream, address)
        except NotAllowedError:
            with anyio.CancelScope(shield=True):
                await stream.aclose()
            raise
        return stream

    def _judge(self, stream: httpcore2.AsyncNetworkStream, address: Address) -> None:
        """Look who picked up."""
        theirs, ours = stream.get_extra_info("server_addr"), stream.get_extra_info("client_addr")
        if not isinstance(theirs, tuple) or int(ip_address(theirs[0])) != int(address):
            raise NotAllowedError
        if isinstance(ours, tuple):
            self._resolver.admit_ends(address, str(ours[0]))

    async def connect_unix_socket(self, *_: object, **__: object) -> httpcore2.AsyncNetworkStream:
        raise NotAllowedError


@final
class _JudgedStream(httpcore2.AsyncNetworkStream):
    """A connection to a judged address, which bounds what a server may say before the body of a response."""

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
    ) -> _JudgedStream:
        return _JudgedStream(await self._stream.start_tls(ssl_context, server_hostname, timeout), self.address)

    async def aclose(self) -> None:
        await self._stream.aclose()

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


__all__ = ["MAX_DIALS", "MAX_HEAD_BYTES", "MAX_INTERIM", "make_ssl_context", "open_pool"]
