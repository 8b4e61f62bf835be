"""`GuardedTransport` in clients of users' own."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import httpx2
import pytest

import lazymedia
from lazymedia import GuardedTransport, Limits, NotAllowedError
from lazymedia.testing.server import MediaServer, Request, Response

LOOPBACK = ["127.0.0.0/8"]


async def echo(request: Request) -> Response:
    return Response(headers={"X-Method": request.method}, body=request.target.encode())


async def to_metadata(request: Request) -> Response:
    return Response(302, headers={"Location": "http://169.254.169.254/latest"})


@pytest.fixture
async def server() -> AsyncIterator[MediaServer]:
    async with MediaServer({"/a": b"payload", "/echo": echo, "/away": to_metadata, "/gone": b"HTTP/1.1 "}) as opened:
        yield opened


@asynccontextmanager
async def client(*networks: str, limits: Limits | None = None) -> AsyncIterator[httpx2.AsyncClient]:
    transport = GuardedTransport(networks, limits=limits)
    async with httpx2.AsyncClient(transport=transport, trust_env=False, follow_redirects=True) as opened:
        yield opened


async def test_allowed_addresses_are_reached(server: MediaServer) -> None:
    async with client(*LOOPBACK) as http:
        for _ in range(3):
            answer = await http.get(server.url("/a"))
            assert (answer.status_code, answer.content) == (200, b"payload")
        answer = await http.post(server.url("/echo?x=%2F"))
    assert (answer.headers["x-method"], answer.content) == ("POST", b"/echo?x=%2F")


@pytest.mark.parametrize(
    "url",
    [
        lambda server: server.url("/a"),
        lambda server: server.url("/a").replace("127.0.0.1", "localhost"),
        lambda server: server.url("/a").replace("127.0.0.1", "[::ffff:127.0.0.1]"),
        lambda _: "http://169.254.169.254/latest",
        lambda _: "http://10.0.0.1/",
        lambda _: "https://93.184.216.34:8443/",
    ],
)
async def test_other_addresses_are_not_dialled(
    url: Callable[[MediaServer], str], server: MediaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def dial(*_: object, **__: object) -> None:
        raise AssertionError("dialled")

    monkeypatch.setattr("httpcore2.AnyIOBackend.connect_tcp", dial)
    async with client() as http:
        with pytest.raises(NotAllowedError):
            await http.get(url(server))


async def test_a_redirect_that_the_client_follows_is_checked(server: MediaServer) -> None:
    async with client(*LOOPBACK) as http:
        with pytest.raises(NotAllowedError):
            await http.get(server.url("/away"))
    assert server.hits["/away"] == 1


async def test_errors_of_the_network_are_those_of_httpx2() -> None:
    async with client(*LOOPBACK) as http:
        with socket.create_server(("127.0.0.1", 0)) as bound:
            port = bound.getsockname()[1]
        with pytest.raises(httpx2.ConnectError):
            await http.get(f"http://127.0.0.1:{port}/")
        with pytest.raises(httpx2.UnsupportedProtocol):
            await http.get("ftp://127.0.0.1/")


async def test_a_response_that_breaks_off_is_a_read_error() -> None:
    async def cut(request: Request) -> bytes:
        return b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart"

    async with MediaServer({"/cut": cut}) as server, client(*LOOPBACK) as http:
        with pytest.raises(httpx2.ReadError):
            await http.get(server.url("/cut"))


async def test_a_client_that_was_not_entered_is_a_clear_error() -> None:
    http = httpx2.AsyncClient(transport=GuardedTransport(), trust_env=False)
    with pytest.raises(RuntimeError, match="async with"):
        await http.get("http://example.com/")


async def test_it_can_be_entered_again(server: MediaServer) -> None:
    transport = GuardedTransport(LOOPBACK)
    for _ in range(2):
        async with httpx2.AsyncClient(transport=transport, trust_env=False) as http:
            assert (await http.get(server.url("/a"))).content == b"payload"


async def test_cancelled_requests_lose_no_connection(server: MediaServer) -> None:
    gate = anyio.Event()

    async def wait(request: Request) -> Response:
        await gate.wait()
        return Response(body=b"late")

    async with MediaServer({"/wait": wait, "/a": b"payload"}) as slow, client(*LOOPBACK) as http:
        for _ in range(5):
            async with anyio.create_task_group() as nursery:
                for _ in range(8):
                    nursery.start_soon(http.get, slow.url("/wait"))
                while slow.hits["/wait"] % 8 or not slow.hits["/wait"]:
                    await anyio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()
        transport = http._transport
        assert isinstance(transport, GuardedTransport)
        assert transport._opened is not None
        assert transport._opened.pool._in_use == 0
        gate.set()
        assert (await http.get(slow.url("/a"))).content == b"payload"


@pytest.mark.parametrize("wrong", [{"allowed_networks": ["nonsense"]}, {"allowed_ports": [0]}])
def test_wrong_settings_are_refused_at_once(wrong: dict[str, list[str]]) -> None:
    with pytest.raises(ValueError, match=r"nonsense|port"):
        GuardedTransport(**wrong)  # type: ignore[arg-type]  # that is the point


def test_it_is_an_httpx2_transport() -> None:
    assert issubclass(lazymedia.GuardedTransport, httpx2.AsyncBaseTransport)
