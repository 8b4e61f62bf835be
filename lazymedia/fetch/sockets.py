"""Sockets as the HTTP library wants them, without what is not needed here: timeouts of single reads.

Comes in: a numeric address. Goes out: a stream. Never here: names, or a judgement; `http` has both.

The library's own streams open a scope for each read and write, and look up a socket's addresses to see whether a kept
connection still stands. At a thousand small files a second that is a fifth of the time.
"""

from __future__ import annotations

import select
import ssl
from collections.abc import Iterable
from typing import Any, final

import anyio
import httpcore2
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSStream


@final
class SocketNetwork(httpcore2.AsyncNetworkBackend):
    """Opens TCP connections."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  # the library's signature
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,  # noqa: ARG002  # the same
    ) -> httpcore2.AsyncNetworkStream:
        try:
            with anyio.fail_after(timeout):
                return SocketStream(await anyio.connect_tcp(host, port, local_host=local_address))
        except TimeoutError as exc:
            raise httpcore2.ConnectTimeout from exc
        except (OSError, anyio.BrokenResourceError) as exc:
            raise httpcore2.ConnectError(str(exc)) from exc


@final
class SocketStream(httpcore2.AsyncNetworkStream):
    """One connection, with or without TLS."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._socket = stream.extra(SocketAttribute.raw_socket)  # noqa: S610  # no Django here
        self._poll = select.poll() if hasattr(select, "poll") else None
        if self._poll is not None:
            self._poll.register(self._socket.fileno(), select.POLLIN)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109, ARG002  # the library's
        try:
            return await self._stream.receive(max_bytes)
        except anyio.EndOfStream:
            return b""
        except (anyio.BrokenResourceError, anyio.ClosedResourceError) as exc:
            raise httpcore2.ReadError(str(exc)) from exc

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109, ARG002  # the library's
        if not buffer:
            return
        try:
            await self._stream.send(buffer)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream) as exc:
            raise httpcore2.WriteError(str(exc)) from exc

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109  # the library's signature
    ) -> httpcore2.AsyncNetworkStream:
        try:
            with anyio.fail_after(timeout):
                stream = await TLSStream.wrap(
                    self._stream,
                    hostname=server_hostname,
                    ssl_context=ssl_context,
                    standard_compatible=False,
                    server_side=False,
                )
        except TimeoutError as exc:
            raise httpcore2.ConnectTimeout from exc
        except (anyio.BrokenResourceError, anyio.EndOfStream, ssl.SSLError) as exc:
            raise httpcore2.ConnectError(str(exc)) from exc
        return SocketStream(stream)

    async def aclose(self) -> None:
        await self._stream.aclose()

    def _is_readable(self) -> bool:
        if self._socket.fileno() < 0:
            return True
        if self._poll is None:  # Windows
            return bool(select.select([self._socket], [], [], 0)[0])
        return bool(self._poll.poll(0))

    def get_extra_info(self, info: str) -> Any:
        match info:
            case "is_readable":  # there are bytes, or the other end has hung up
                return self._is_readable()
            case "server_addr":
                return self._stream.extra(SocketAttribute.remote_address, None)  # noqa: S610  # the same
            case "client_addr":
                return self._stream.extra(SocketAttribute.local_address, None)  # noqa: S610  # the same
            case "socket":
                return self._socket
            case _:
                return None


__all__ = ["SocketNetwork", "SocketStream"]
