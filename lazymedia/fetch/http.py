"""The HTTP client: connections to judged addresses, and to no others.

Comes in: an `HttpUrl`. Goes out: a `Reply` whose body is streamed as it came over the wire. Never here: redirects,
statuses, or byte caps on bodies (`download` has them). This is the only file that knows an HTTP library.

The pool is httpcore2's. It has no cookies, proxies, redirects, credentials or content codings that would have to be
turned off, and it asks a network of ours for its sockets. (httpcore 1.0.9 loses slots of its pool for good when
requests are cancelled while connecting on trio; httpcore2 does not, and a test holds it to that.) Host header, SNI and
certificate check stay those of the URL, because the pool keeps connections by origin; only the socket goes to the
address.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager
from ipaddress import ip_address
from operator import attrgetter
from typing import Any, Final, final

import anyio
import httpcore2
from anyio.lowlevel import checkpoint

from lazymedia.errors import NotAllowedError
from lazymedia.fetch.address import Address
from lazymedia.fetch.owned import run_owned
from lazymedia.fetch.resolve import Resolver
from lazymedia.fetch.transport import BROKEN, Headers, Reply, Transport, lower_names, request_headers, translated
from lazymedia.fetch.url import HttpUrl
from lazymedia.limits import Limits

MAX_DIALS: Final = 4
"""Addresses of one host that are tried; a name can have thousands."""
MAX_HEAD_BYTES: Final = 64 * 1024
"""Bytes of a response before its body, interim responses included, which the library would read without end."""
MAX_INTERIM: Final = 8
"""Interim responses before the one that counts, which the library would step over without end."""
_INTERIM: Final = re.compile(rb"\nHTTP/1\.[0-9] 1[0-9][0-9]")
_INTERIM_BYTES: Final = 13
_HEAD_READ_BYTES: Final = 8 * 1024  # what is parsed between two looks at that sum
_MAX_IDLE_CONNECTIONS: Final = 32
_KEEPALIVE_SECONDS: Final = 5.0  # few servers keep theirs shorter, so that few requests meet one just closed
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
    pool = httpcore2.AsyncConnectionPool(
        ssl_context=ssl_context,
        max_connections=limits.max_connections,
        max_keepalive_connections=_MAX_IDLE_CONNECTIONS,
        keepalive_expiry=_KEEPALIVE_SECONDS,
        network_backend=_JudgedNetwork(resolver, network or httpcore2.AnyIOBackend(), limits.connect_timeout),
    )
    try:
        yield _PoolTransport(pool, limits.connect_timeout)
    finally:
        await run_owned(pool.aclose, shield=True)


@final
class _PoolTransport:
    def __init__(self, pool: httpcore2.AsyncConnectionPool, connect_timeout: float) -> None:
        self._pool = pool
        self._timeouts = {"connect": connect_timeout}

    @asynccontextmanager
    async def get(self, url: HttpUrl, extra: Headers = ()) -> AsyncIterator[Reply]:
        with translated(httpcore2.TimeoutException, (httpcore2.NetworkError,), (httpcore2.ProtocolError,)):
            response = await self._send(url, extra)
            stream = response.extensions["network_stream"]
            try:
                if isinstance(stream, _JudgedStream):  # a server that switches protocols leaves another
                    stream.head_is_over()
                async with aclosing(response.aiter_stream()) as body:
                    yield Reply(response.status, lower_names(response.headers), body)
            except httpcore2.RemoteProtocolError as exc:
                if isinstance(stream, _JudgedStream) and stream.has_ended:
                    raise httpcore2.ReadError("the body breaks off") from exc
                raise
            finally:
                with anyio.CancelScope(shield=True):
                    if not _is_drained(response):
                        await stream.aclose()
                    await response.aclose()

    async def _send(self, url: HttpUrl, extra: Headers) -> httpcore2.Response:
        """The response to a request. One that meets a connection which was closed while it was kept is sent anew."""
        for attempt in range(_MAX_STALE + 1):
            is_fresh = attempt == _MAX_STALE

            async def trace(event: str, _: object) -> None:
                nonlocal is_fresh
                is_fresh |= event == "connection.connect_tcp.started"

            request = httpcore2.Request(
                "GET",
                httpcore2.URL(scheme=url.scheme, host=url.host, port=url.port, target=url.target),
                headers=request_headers(url, extra),
                extensions={"timeout": self._timeouts, "trace": trace},
            )
            try:
                return await self._pool.handle_async_request(request)
            except (httpcore2.NetworkError, httpcore2.RemoteProtocolError):
                if is_fresh:
                    raise
        raise AssertionError("unreachable: the last attempt returns or raises")


def _is_drained(response: httpcore2.Response) -> bool:
    """Whether nothing follows the response. What does would be taken for the answer to the connection's next request.

    The library has no public word for that; a connection that is closed in doubt costs a handshake.
    """
    try:
        trailing, is_closed = attrgetter("stream._stream._connection._h11_state.trailing_data")(response)
    except AttributeError:
        return False
    return not trailing and not is_closed


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
    ) -> httpcore2.AsyncNetworkStream:
        deadline = anyio.current_time() + (self._timeout if timeout is None else timeout)
        with anyio.CancelScope(deadline=deadline):
            candidates = (await self._resolver.resolve(host, port))[:MAX_DIALS]
            for position, address in enumerate(candidates):
                # An address that swallows packets leaves its successors their share of the time.
                share = (deadline - anyio.current_time()) / (len(candidates) - position)
                with anyio.move_on_after(share):
                    stream = await self._dial(address, port)
                    if stream is not None:
                        return _JudgedStream(stream)
            await checkpoint()  # leaves with the scope where the time is up
            raise httpcore2.ConnectError("no address of the host could be reached")
        raise httpcore2.ConnectTimeout("the host could not be reached in time")

    async def _dial(self, address: Address, port: int) -> httpcore2.AsyncNetworkStream | None:
        try:
            stream = await self._network.connect_tcp(str(address), port)
        except (httpcore2.NetworkError, httpcore2.TimeoutException, *BROKEN):
            return None
        peer = stream.get_extra_info("server_addr")
        if not isinstance(peer, tuple) or int(ip_address(peer[0])) != int(address):
            with anyio.CancelScope(shield=True):
                await stream.aclose()
            raise NotAllowedError
        return stream

    async def connect_unix_socket(self, *_: object, **__: object) -> httpcore2.AsyncNetworkStream:
        raise NotAllowedError


@final
class _JudgedStream(httpcore2.AsyncNetworkStream):
    """A connection to a judged address, which bounds what a server may say before the body of a response."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream) -> None:
        self._stream = stream
        self._head_bytes: int | None = 0
        self._interim = 0
        self._tail = b"\n"
        self.has_ended = False

    def head_is_over(self) -> None:
        self._head_bytes = None

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109  # the library's
        self._head_bytes = self._interim = 0
        self._tail = b"\n"
        await self._stream.write(buffer, timeout)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109  # the library's
        if self._head_bytes is None:
            received = await self._stream.read(max_bytes, timeout)
            self.has_ended = not received
            return received
        if self._head_bytes > MAX_HEAD_BYTES:
            raise httpcore2.RemoteProtocolError("the response does not come to its body")
        received = await self._stream.read(min(max_bytes, _HEAD_READ_BYTES), timeout)
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
    ) -> httpcore2.AsyncNetworkStream:
        return _JudgedStream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    async def aclose(self) -> None:
        await self._stream.aclose()

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


__all__ = ["MAX_DIALS", "MAX_HEAD_BYTES", "MAX_INTERIM", "make_ssl_context", "open_pool"]
