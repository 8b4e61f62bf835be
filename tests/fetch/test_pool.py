"""Connections that are kept: for whom, how many, and when they make room."""

from __future__ import annotations

from contextlib import AsyncExitStack

import anyio
import pytest
from anyio.lowlevel import checkpoint

from lazymedia.fetch import MediaConnector
from lazymedia.fetch.transport import pool
from lazymedia.fetch.transport.client import ClientTransport
from lazymedia.fetch.transport.guarded import PoolTransport, _GuardedStream
from lazymedia.fetch.transport.pool import Pool
from lazymedia.limits import Limits
from lazymedia.media.raw import RawBytesMediaIO
from lazymedia.testing.server import MediaServer, Request, Response

IMAGE = RawBytesMediaIO("image")


def pool_of(media: MediaConnector) -> Pool[_GuardedStream]:
    transport = media._owned.downloader._transport
    assert isinstance(transport, ClientTransport)
    assert isinstance(transport._client._transport, PoolTransport)
    return transport._client._transport.pool


def origins(media: MediaConnector) -> list[int]:
    """Ports of the idle connections, the oldest first."""
    assert pool_of(media)._in_use == 0
    return [connection.origin[2] for connection in pool_of(media)._idle]


async def fetch(media: MediaConnector, *servers: MediaServer) -> None:
    for server in servers:
        assert (await media.fetch_image(server.url("/a"), IMAGE)).data == b"payload"


async def test_idle_connections_make_room_the_oldest_first() -> None:
    async with AsyncExitStack() as stack:
        one, two, three = [await stack.enter_async_context(MediaServer({"/a": b"payload"})) for _ in range(3)]
        media = await stack.enter_async_context(
            MediaConnector(allowed_networks=["127.0.0.0/8"], limits=Limits(max_connections=2))
        )
        await fetch(media, one, two)
        assert origins(media) == [one.port, two.port]
        await fetch(media, one)
        assert origins(media) == [two.port, one.port], "the one used last is the youngest"
        await fetch(media, three)
        assert origins(media) == [one.port, three.port]


async def test_a_connection_serves_one_request_after_another() -> None:
    async with MediaServer({"/a": b"payload"}) as server, MediaConnector(allowed_networks=["127.0.0.0/8"]) as media:
        await fetch(media, server)
        (first,) = pool_of(media)._idle
        for _ in range(5):
            await fetch(media, server)
        assert list(pool_of(media)._idle) == [first]


async def test_only_so_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_MAX_IDLE", 2)
    ready, gate = 0, anyio.Event()

    async def together(request: Request) -> Response:
        nonlocal ready
        ready += 1
        await gate.wait()
        return Response(body=b"payload")

    async with MediaServer({"/a": together}) as server, MediaConnector(allowed_networks=["127.0.0.0/8"]) as media:
        async with anyio.create_task_group() as nursery:
            for number in range(5):
                nursery.start_soon(media.fetch_image, server.url(f"/a?{number}"), IMAGE)
            while ready < 5:
                await checkpoint()
            gate.set()
        assert len(origins(media)) == 2


async def test_a_connection_that_cannot_serve_another_request_is_not_kept() -> None:
    answers = {
        "/close": b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 7\r\n\r\npayload",
        "/old": b"HTTP/1.0 200 OK\r\n\r\npayload",
        "/surplus": b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\npayloadHTTP/1.1 200 OK\r\n\r\nanother",
    }

    async def answer(request: Request) -> bytes:
        return answers[request.path]

    async with (
        MediaServer(dict.fromkeys(answers, answer)) as server,
        MediaConnector(allowed_networks=["127.0.0.0/8"]) as media,
    ):
        for path in answers:
            assert (await media.fetch_image(server.url(path), IMAGE)).data == b"payload"
            assert origins(media) == []
