"""A loopback HTTP server for tests: answers from a table, misbehaves on request, and counts what it was asked."""

from __future__ import annotations

import socket
import struct
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, Self, final

import anyio
import h11
from anyio import AsyncContextManagerMixin
from anyio.abc import TaskGroup

from lazymedia.contexts import asynccontextmanager

_RESET: Final = struct.pack("ii", 1, 0)  # linger for no time: closing sends RST
_READ_BYTES: Final = 64 * 1024


@final
@dataclass(frozen=True, slots=True)
class Request:
    """The head of a request.

    Attributes:
        method: Such as ``"GET"``.
        target: As in the request line, nothing decoded.
        headers: Names in lower case; values of a repeated one joined by commas.
    """

    method: str
    target: str
    headers: Mapping[str, str]

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]


@final
@dataclass(frozen=True, slots=True)
class Response:
    """An answer.

    Attributes:
        status: Such as 200.
        headers: Content-Length is added where the body is bytes and no framing is named. A body in pieces without a
            length goes out chunked.
        body: Bytes, or pieces of them in time.
    """

    status: int = 200
    headers: Mapping[str, str] | tuple[tuple[str, str], ...] = ()
    body: bytes | AsyncIterator[bytes] = b""


Handler = Callable[[Request], Awaitable[Response | bytes]]
"""Answers a request. Bytes are sent as they are, then the connection is closed: for answers no server should give."""


@final
class MediaServer(AsyncContextManagerMixin):
    """``async with MediaServer({"/a.png": data}) as server: ... server.url("/a.png")``

    Args:
        routes: From a path, or a whole target with its query, to bytes or a `Handler`. All else is answered by 404.
        delay: Seconds before each answer.
        reset_after: Bytes of each body after which the connection is reset.

    Attributes:
        port: The port on 127.0.0.1, while entered.
        requests: Every request, in order of arrival.
        hits: Requests by path.

    Leaving it raises the first exception of a handler, unless the block itself failed.
    """

    def __init__(
        self, routes: Mapping[str, bytes | Handler], *, delay: float = 0, reset_after: int | None = None
    ) -> None:
        self._routes = routes
        self._delay = delay
        self._reset_after = reset_after
        self._failure: Exception | None = None
        self.port = 0
        self.requests: list[Request] = []
        self.hits: Counter[str] = Counter()

    def url(self, target: str) -> str:
        """The URL of a path with or without a query."""
        return f"http://127.0.0.1:{self.port}{target}"

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncIterator[Self]:
        with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
            listener.setblocking(False)
            self.port = listener.getsockname()[1]
            async with _background() as nursery:
                nursery.start_soon(self._accept, listener, nursery)
                yield self
        if self._failure is not None:
            raise self._failure

    async def _accept(self, listener: socket.socket, nursery: TaskGroup) -> None:
        while True:
            await anyio.wait_readable(listener)
            try:
                connection, _ = listener.accept()
            except OSError:  # gone again before it was picked up
                continue
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            nursery.start_soon(self._serve, connection)

    async def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                await _Conversation(connection, self._answer, self._reset_after).hold()
            except (OSError, h11.ProtocolError):
                pass  # the client went away, or does not speak HTTP
            except Exception as exc:  # noqa: BLE001  # a handler's; raised where the test can see it
                self._failure = self._failure or exc

    async def _answer(self, request: Request) -> Response | bytes:
        self.requests.append(request)
        self.hits[request.path] += 1
        await anyio.sleep(self._delay)
        route = self._routes.get(request.target, self._routes.get(request.path))
        if route is None:
            return Response(404)
        return Response(body=route) if isinstance(route, bytes) else await route(request)


@final
class _Conversation:
    """The requests and answers of one connection."""

    def __init__(self, connection: socket.socket, answer: Handler, reset_after: int | None) -> None:
        self._connection = connection
        self._answer = answer
        self._reset_after = reset_after
        self._http = h11.Connection(h11.SERVER)

    async def hold(self) -> None:
        while (request := await self._receive()) is not None:
            response = await self._answer(request)
            if isinstance(response, bytes):
                await _send(self._connection, response)
                return
            await self._respond(request, response)
            if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
                return
            self._http.start_next_cycle()

    async def _receive(self) -> Request | None:
        request: Request | None = None
        while True:
            match self._http.next_event():
                case h11.NEED_DATA:
                    self._http.receive_data(await _receive(self._connection))
                case h11.Request() as head:
                    request = _request(head)
                case h11.EndOfMessage():
                    return request
                case h11.Data():
                    pass
                case _:
                    return None

    async def _respond(self, request: Request, response: Response) -> None:
        await self._send(h11.Response(status_code=response.status, headers=_headers(response)))
        if request.method != "HEAD":
            await self._send_body(response.body)
        await self._send(h11.EndOfMessage())

    async def _send_body(self, body: bytes | AsyncIterator[bytes]) -> None:
        left = self._reset_after
        async with aclosing(_pieces(body)) as pieces:
            async for piece in pieces:
                if left is not None and len(piece) >= left:
                    await self._send(h11.Data(piece[:left]))
                    self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                    raise ConnectionResetError
                left = None if left is None else left - len(piece)
                await self._send(h11.Data(piece))

    async def _send(self, event: h11.Response | h11.Data | h11.EndOfMessage) -> None:
        await _send(self._connection, self._http.send(event) or b"")


@asynccontextmanager
async def _background() -> AsyncIterator[TaskGroup]:
    """A nursery that ends with the block, and lets the block's own exception out as itself."""
    failure: BaseException | None = None
    async with anyio.create_task_group() as nursery:
        try:
            yield nursery
        except anyio.get_cancelled_exc_class():
            raise
        except BaseException as exc:  # noqa: BLE001  # raised below, where no group forms around it
            failure = exc
        finally:
            nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _pieces(body: bytes | AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    if isinstance(body, bytes):
        yield body
        return
    try:
        async for piece in body:
            yield piece
    finally:
        if isinstance(body, AsyncGenerator):  # trio complains of one that is dropped half-way
            await body.aclose()


def _request(head: h11.Request) -> Request:
    headers: dict[str, str] = {}
    for name, value in head.headers:
        text = value.decode("latin-1")
        key = name.decode("ascii")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return Request(head.method.decode("ascii"), head.target.decode("ascii"), headers)


def _headers(response: Response) -> list[tuple[str, str]]:
    given = response.headers
    headers = list(given.items() if isinstance(given, Mapping) else given)
    is_framed = any(name.lower() in {"content-length", "transfer-encoding"} for name, _ in headers)
    if isinstance(response.body, bytes) and not is_framed:
        headers.append(("Content-Length", str(len(response.body))))
    return headers


async def _receive(connection: socket.socket) -> bytes:
    while True:
        await anyio.wait_readable(connection)
        try:
            return connection.recv(_READ_BYTES)
        except BlockingIOError:
            continue


async def _send(connection: socket.socket, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[connection.send(rest) :]
        except BlockingIOError:
            await anyio.wait_writable(connection)
    await anyio.lowlevel.checkpoint()


__all__ = ["Handler", "MediaServer", "Request", "Response"]
