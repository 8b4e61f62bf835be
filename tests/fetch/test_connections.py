"""Connections: to the peer that was dialled, used again only while they are good for it, given up where it talks on."""

from __future__ import annotations

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from lazymedia.errors import UpstreamError
from lazymedia.fetch.body_buffer import BodyBuffer
from lazymedia.testing.server import MediaServer, Request
from tests.fetch.dialled import PUBLIC, Names, RecordingNetwork, open_downloader, rejected, web


async def test_a_connection_that_was_judged_may_be_used_again() -> None:
    names = Names(rebind_example=[[PUBLIC], ["127.0.0.1"]])
    async with MediaServer({"/a": b"payload"}) as server:
        network = RecordingNetwork(server.port)
        async with open_downloader(names, network) as downloader:
            for _ in range(3):
                assert (
                    await downloader.download(web("http://rebind.example/a"), BodyBuffer(1000))
                ).payload.data == b"payload"

        assert names.asked == ["rebind.example"]
        assert network.dials == [(PUBLIC, 80)]


async def test_a_connection_on_which_more_came_than_the_response_is_not_used_again() -> None:
    """The surplus would be read as the answer to the next request, whoever sends it."""
    surplus = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"
    answers = iter([b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" + surplus, b"HTTP/1.1 200 OK\r\n\r\nown"])

    async def serve(stream: SocketStream) -> None:
        async with stream:
            await stream.receive()
            answer = next(answers)
            await stream.send(answer)
            if answer.endswith(b"poison"):
                await anyio.sleep_forever()  # the connection stays open, as if it were good for more

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        network = RecordingNetwork(listener.extra(SocketAttribute.local_port))
        async with (
            anyio.create_task_group() as nursery,
            open_downloader(Names(media_example=[[PUBLIC]]), network) as downloader,
        ):
            nursery.start_soon(listener.serve, serve)
            assert (await downloader.download(web("http://media.example/a"), BodyBuffer(1000))).payload.data == b"ok"
            assert (await downloader.download(web("http://media.example/a"), BodyBuffer(1000))).payload.data == b"own"
            nursery.cancel_scope.cancel()

    assert len(network.dials) == 2


async def test_a_kept_connection_that_was_closed_meanwhile_costs_no_request() -> None:
    """Servers end idle connections without a word, often at the very moment when the next request goes out."""

    async def unannounced(request: Request) -> bytes:
        return b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

    async with MediaServer({"/a": unannounced}) as server:
        network = RecordingNetwork(server.port)
        network.deaf = True
        async with open_downloader(Names(media_example=[[PUBLIC]]), network) as downloader:
            for _ in range(3):
                assert (
                    await downloader.download(web("http://media.example/a"), BodyBuffer(1000))
                ).payload.data == b"ok"

        assert len(network.dials) == server.hits["/a"] == 3


async def test_a_fresh_connection_that_fails_is_not_tried_again() -> None:
    async def hang_up(request: Request) -> bytes:
        return b""

    async with MediaServer({"/a": hang_up}) as server:
        network = RecordingNetwork(server.port)
        async with open_downloader(Names(media_example=[[PUBLIC]]), network) as downloader:
            await rejected(downloader, "http://media.example/a", UpstreamError)

        assert server.hits["/a"] == 1


async def test_another_peer_than_the_one_dialled_is_hung_up_on() -> None:
    async with MediaServer({"/a": b"payload"}) as server:
        network = RecordingNetwork(server.port)
        network.impostor = "127.0.0.1"
        async with open_downloader(Names(media_example=[[PUBLIC]]), network) as downloader:
            await rejected(downloader, "http://media.example/a")

        assert network.closed == 1
        assert server.hits["/a"] == 0


@pytest.mark.parametrize("networks", [(), (f"{PUBLIC}/32",)])
async def test_a_machine_that_dialled_itself_hangs_up_unless_it_may(networks: tuple[str, ...]) -> None:
    """Its public address is in no table; both ends of such a connection have it."""
    async with MediaServer({"/a": b"payload"}) as server:
        network = RecordingNetwork(server.port)
        network.own_end = PUBLIC
        async with open_downloader(Names(media_example=[[PUBLIC]]), network, networks=networks) as downloader:
            if networks:
                assert (
                    await downloader.download(web("http://media.example/a"), BodyBuffer(1000))
                ).payload.data == b"payload"
            else:
                await rejected(downloader, "http://media.example/a")
        assert server.hits["/a"] == len(networks)


async def test_a_server_may_not_talk_without_end_before_its_body() -> None:
    """Interim responses have no bound in HTTP; some thousand fit into the bytes allowed, and no deadline is needed."""

    async def chatter(request: Request) -> bytes:
        return b"HTTP/1.1 100 Continue\r\n\r\n" * 20_000 + b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

    async with MediaServer({"/a": chatter}) as server:
        network = RecordingNetwork(server.port)
        async with open_downloader(Names(media_example=[[PUBLIC]]), network) as downloader:
            await rejected(downloader, "http://media.example/a", UpstreamError)
