"""A server that breaks off, resets, stalls, drips and lies at every byte of a small response."""

from __future__ import annotations

import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from lazymedia.errors import FetchTimeoutError, LazyMediaError, UpstreamError
from lazymedia.fetch import MediaConnector
from lazymedia.limits import Limits
from lazymedia.media.raw import RawBytesMediaIO
from tests.fetch.descriptors import open_sockets

BODY = b"payload!"
LENGTH = b'HTTP/1.1 200 OK\r\nContent-Length: 8\r\nETag: "x"\r\n\r\n' + BODY
CHUNKS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\npay\r\n5\r\nload!\r\n0\r\n\r\n"
UNFRAMED = b"HTTP/1.0 200 OK\r\n\r\n" + BODY
RESET = struct.pack("ii", 1, 0)
IMAGE = RawBytesMediaIO("image")
LIMITS = Limits(max_retries=0)


class FaultServer:
    """Sends the first bytes of a response, at once or one by one, and then goes, breaks, or falls silent."""

    def __init__(self) -> None:
        self.answer = b""
        self.end = "close"
        self.drips = False
        self.connections = 0
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    @asynccontextmanager
    async def open(self) -> AsyncIterator[FaultServer]:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setblocking(False)
            self.port = listener.getsockname()[1]
            async with anyio.create_task_group() as nursery:
                nursery.start_soon(self._accept, listener, nursery)
                yield self
                nursery.cancel_scope.cancel()

    async def _accept(self, listener: socket.socket, nursery: TaskGroup) -> None:
        while True:
            await anyio.wait_readable(listener)
            connection, _ = listener.accept()
            self.connections += 1
            nursery.start_soon(self._serve, connection)

    async def _serve(self, connection: socket.socket) -> None:
        with connection:
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                await anyio.wait_readable(connection)
                connection.recv(65536)
                for piece in (
                    [self.answer[at : at + 1] for at in range(len(self.answer))] if self.drips else [self.answer]
                ):
                    connection.send(piece)
                    await checkpoint()
                match self.end:
                    case "reset":
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                    case "stall":
                        await anyio.wait_readable(connection)
            except OSError:
                pass  # the client went first


async def outcome(media: MediaConnector, server: FaultServer, seconds: float) -> bytes | LazyMediaError:
    try:
        return (await media.load_from_url(server.url, IMAGE, fetch_timeout=seconds)).data
    except LazyMediaError as error:
        return error


class Quiet:
    """What was there before the first fault, for a look at what is there after one."""

    def __init__(self, media: MediaConnector) -> None:
        self._media = media
        self._sockets = open_sockets()
        self._tasks = len(anyio.get_running_tasks())

    async def check(self) -> None:
        """No task, socket, token or byte is left. The server's own end closes when it next looks."""
        owned = self._media._owned
        slots = owned.downloader.connection_limits
        assert (len(owned.flights), owned.budget.held, slots.in_use, slots.known_hosts) == (0, 0, 0, 0)
        assert owned.keys.borrowed_tokens == owned.files.borrowed_tokens == 0
        with anyio.fail_after(5):
            while open_sockets() > self._sockets or len(anyio.get_running_tasks()) > self._tasks:
                await checkpoint()


@asynccontextmanager
async def faults(limits: Limits = LIMITS) -> AsyncIterator[tuple[FaultServer, MediaConnector, Quiet]]:
    async with (
        FaultServer().open() as server,
        MediaConnector(allowed_networks=["127.0.0.0/8"], limits=limits) as media,
    ):
        await anyio.wait_all_tasks_blocked()
        yield server, media, Quiet(media)


responses = pytest.mark.parametrize("answer", [LENGTH, CHUNKS], ids=["length", "chunks"])


@responses
@pytest.mark.parametrize("end", ["close", "reset"])
async def test_a_response_that_breaks_off_anywhere_is_an_upstream_failure(answer: bytes, end: str) -> None:
    async with faults() as (server, media, quiet):
        server.end = end
        for cut in range(len(answer)):
            server.answer = answer[:cut]
            got = await outcome(media, server, 10)
            assert isinstance(got, UpstreamError), (cut, got)
            assert got.transient, cut
            await quiet.check()
        assert server.connections == len(answer), "no further tries were allowed"
        server.end, server.answer = "close", answer
        assert await outcome(media, server, 10) == BODY


@responses
async def test_a_response_that_stalls_anywhere_ends_with_the_deadline(answer: bytes) -> None:
    async with faults() as (server, media, quiet):
        server.end = "stall"
        for cut in range(len(answer)):
            server.answer = answer[:cut]
            got = await outcome(media, server, 0.02)
            assert isinstance(got, FetchTimeoutError), (cut, got)
            await quiet.check()


@pytest.mark.parametrize("answer", [LENGTH, CHUNKS, UNFRAMED], ids=["length", "chunks", "unframed"])
async def test_a_response_that_drips_is_put_together(answer: bytes) -> None:
    async with faults() as (server, media, _):
        server.answer, server.drips = answer, True
        for _ in range(3):
            assert await outcome(media, server, 10) == BODY


async def test_a_body_without_a_length_may_be_cut_unseen_but_its_head_may_not() -> None:
    head = UNFRAMED.index(BODY)
    async with faults() as (server, media, quiet):
        for cut in range(len(UNFRAMED)):
            server.answer = UNFRAMED[:cut]
            got = await outcome(media, server, 10)
            if cut <= head:
                assert isinstance(got, LazyMediaError), cut
            else:
                assert got == BODY[: cut - head]
            await quiet.check()


LIES: dict[str, tuple[Callable[[bytes], bytes], type[Exception] | bytes]] = {
    "one more": (lambda answer: answer.replace(b": 8", b": 9"), UpstreamError),
    "one fewer": (lambda answer: answer.replace(b": 8", b": 7"), BODY[:7]),
    "none": (lambda answer: answer.replace(b": 8", b": 0"), LazyMediaError),
    "far more": (lambda answer: answer.replace(b": 8", b": 99999999999999"), LazyMediaError),
    "no number": (lambda answer: answer.replace(b": 8", b": eight"), UpstreamError),
    "another beside it": (lambda answer: answer.replace(b"ETag", b"Content-Length: 7\r\nETag"), UpstreamError),
    "a coding": (lambda answer: answer.replace(b"ETag", b"Content-Encoding: gzip\r\nETag"), UpstreamError),
    "chunks beside it": (lambda answer: answer.replace(b"ETag", b"Transfer-Encoding: chunked\r\nETag"), UpstreamError),
    "chunk sizes too large": (lambda _: CHUNKS.replace(b"5\r\n", b"6\r\n"), UpstreamError),
    "chunk sizes too small": (lambda _: CHUNKS.replace(b"5\r\n", b"4\r\n"), UpstreamError),
    "two bodies": (lambda answer: answer + answer, BODY),
}


@pytest.mark.parametrize("name", LIES)
async def test_a_lie_about_the_body_is_found_or_does_no_harm(name: str) -> None:
    """And the next fetch has a connection of its own, and its own body."""
    lie, expected = LIES[name]
    async with faults() as (server, media, quiet):
        server.answer = lie(LENGTH)
        got = await outcome(media, server, 10)
        assert got == expected if isinstance(expected, bytes) else isinstance(got, expected), got
        await quiet.check()
        server.answer = LENGTH.replace(BODY, b"its own!")
        assert await outcome(media, server, 10) == b"its own!"


@pytest.mark.parametrize(("count", "is_taken"), [(8, True), (9, False), (100_000, False)])
@pytest.mark.parametrize("drips", [False, True])
async def test_so_many_interim_responses_and_no_more(count: int, is_taken: bool, drips: bool) -> None:
    """A flood of them would otherwise last until the deadline."""
    if drips and count > 100:
        pytest.skip("the same as nine")
    async with faults() as (server, media, quiet):
        server.answer = b"HTTP/1.1 100 Continue\r\n\r\n" * count + LENGTH
        server.drips = drips
        got = await outcome(media, server, 10)
        assert got == BODY if is_taken else isinstance(got, UpstreamError)
        if not is_taken:
            assert not got.transient  # type: ignore[union-attr]  # an UpstreamError, as just seen
            await quiet.check()


async def test_a_server_that_breaks_off_everywhere_but_once_is_got_through_to() -> None:
    """With further tries allowed, at each byte: the first connection breaks, and the next one serves."""
    async with faults(Limits(max_retries=1, retry_backoff=0)) as (server, media, _):
        answers: list[bytes] = []
        serve = server._serve

        async def next_one(connection: socket.socket) -> None:
            server.answer = answers.pop(0)
            await serve(connection)

        server._serve = next_one  # type: ignore[method-assign]  # of this one server
        for cut in range(len(LENGTH)):
            asks_for_rest = cut > LENGTH.index(BODY)
            start = cut - LENGTH.index(BODY)
            rest = b'HTTP/1.1 206 X\r\nETag: "x"\r\nContent-Range: bytes %d-7/8\r\n\r\n%b' % (
                start,
                BODY[max(0, start) :],
            )
            answers[:] = [LENGTH[:cut], rest if asks_for_rest else LENGTH]
            assert await outcome(media, server, 10) == BODY, cut
