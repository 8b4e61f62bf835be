"""The shipped loopback server, seen by a client that sends and reads bytes."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator

import anyio
import pytest
from anyio.abc import SocketStream

from lazymedia.testing.server import MediaServer, Request, Response


async def connect(server: MediaServer) -> SocketStream:
    return await anyio.connect_tcp("127.0.0.1", server.port)


async def read_all(stream: SocketStream) -> bytes:
    received = b""
    try:
        while True:
            received += await stream.receive()
    except anyio.EndOfStream:
        return received


async def ask(server: MediaServer, request: bytes) -> bytes:
    async with await connect(server) as stream:
        await stream.send(request)
        return await read_all(stream)


GET = b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n"
LAST = b"GET %b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


async def test_a_route_answers_with_its_bytes_and_is_counted() -> None:
    async with MediaServer({"/a.png": b"payload"}) as server:
        answer = await ask(server, LAST % b"/a.png?x=%2F")

        assert answer.startswith(b"HTTP/1.1 200 ")
        assert answer.endswith(b"Content-Length: 7\r\nConnection: close\r\n\r\npayload")
        assert server.hits["/a.png"] == 1
        assert server.url("/a.png") == f"http://127.0.0.1:{server.port}/a.png"
        request = server.requests[0]
        assert (request.method, request.target, request.path) == ("GET", "/a.png?x=%2F", "/a.png")
        assert request.headers["host"] == "x"


async def test_a_whole_target_is_looked_up_before_its_path() -> None:
    async with MediaServer({"/a": b"path", "/a?1": b"target"}) as server:
        assert (await ask(server, LAST % b"/a?1")).endswith(b"target")
        assert (await ask(server, LAST % b"/a?2")).endswith(b"path")
        assert (await ask(server, LAST % b"/b")).startswith(b"HTTP/1.1 404 ")
        assert server.hits == {"/a": 2, "/b": 1}


async def test_a_connection_serves_one_request_after_another() -> None:
    async with MediaServer({"/a": b"first", "/b": b"second"}) as server:
        answer = await ask(server, GET % b"/a" + LAST % b"/b")

        assert answer.count(b"HTTP/1.1 200 ") == 2
        assert answer.index(b"first") < answer.index(b"second")


async def test_a_head_request_gets_no_body() -> None:
    async with MediaServer({"/a": b"payload"}) as server:
        answer = await ask(server, b"HEAD /a HTTP/1.1\r\nHost: x\r\n\r\n" + LAST % b"/a")

        assert answer.count(b"payload") == 1


async def test_a_handler_chooses_status_headers_and_a_body_in_pieces() -> None:
    async def handler(request: Request) -> Response:
        async def pieces() -> AsyncIterator[bytes]:
            yield b"ab"
            yield b"cd"

        return Response(203, (("X-A", "1"), ("X-A", "2")), pieces())

    async with MediaServer({"/a": handler}) as server:
        answer = await ask(server, LAST % b"/a")

    assert answer.startswith(b"HTTP/1.1 203 ")
    assert answer.count(b"X-A: ") == 2
    assert answer.endswith(b"2\r\nab\r\n2\r\ncd\r\n0\r\n\r\n")


async def test_a_handler_may_answer_with_bytes_that_are_no_http() -> None:
    async def handler(request: Request) -> bytes:
        return b"SSH-2.0\r\n"

    async with MediaServer({"/a": handler}) as server:
        assert await ask(server, GET % b"/a") == b"SSH-2.0\r\n"


@pytest.mark.parametrize("reset_after", [0, 3])
async def test_a_reset_comes_after_so_many_bytes_of_the_body(reset_after: int) -> None:
    async with MediaServer({"/a": b"payload"}, reset_after=reset_after) as server, await connect(server) as stream:
        await stream.send(GET % b"/a")
        received = b""
        with pytest.raises(anyio.BrokenResourceError):  # until it comes
            while True:
                received += await stream.receive()

    assert received.partition(b"\r\n\r\n")[2] in {b"payload"[:reset_after], b""}  # a reset may overtake what it follows


async def test_a_client_that_goes_away_is_no_failure() -> None:
    async def endless(request: Request) -> Response:
        async def pieces() -> AsyncIterator[bytes]:
            while True:
                yield b"x" * 65536

        return Response(body=pieces())

    async with MediaServer({"/a": endless, "/b": b"payload"}) as server:
        for request in (b"", b"GE", GET % b"/a", b"nonsense\r\n\r\n"):
            stream = await connect(server)
            await stream.send(request)
            await stream.aclose()
        assert (await ask(server, LAST % b"/b")).endswith(b"payload")


async def test_a_failing_handler_fails_the_test_that_holds_the_server() -> None:
    async def broken(request: Request) -> Response:
        raise KeyError("a bug in a test")

    with pytest.raises(KeyError, match="a bug in a test"):
        async with MediaServer({"/a": broken}) as server:
            assert await ask(server, GET % b"/a") == b""


async def test_the_blocks_own_exception_passes_as_itself() -> None:
    async def hang(request: Request) -> Response:
        await anyio.sleep_forever()
        raise AssertionError

    with pytest.raises(ZeroDivisionError):  # the block is what is tested
        async with MediaServer({"/a": hang}) as server, await connect(server) as stream:
            await stream.send(GET % b"/a")
            await anyio.wait_all_tasks_blocked()
            raise ZeroDivisionError


async def test_leaving_it_frees_its_port() -> None:
    async with MediaServer({}) as server:
        pass
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", server.port))
