"""Names, addresses and sockets: what is dialled is what was checked. No packet leaves the loopback interface."""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence
from dataclasses import replace
from ipaddress import ip_address, ip_network

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from lazymedia.errors import FetchTimeoutError, NotAllowedError, UpstreamError
from lazymedia.fetch import MediaConnector
from lazymedia.fetch.body_buffer import BodyBuffer
from lazymedia.fetch.policy.address import AddressClass, AddressPolicy
from lazymedia.fetch.transport.guarded import MAX_DIALS, _GuardedNetwork
from lazymedia.fetch.transport.own_addresses import own_addresses
from lazymedia.fetch.transport.resolve import Resolver
from lazymedia.limits import Limits
from lazymedia.media.raw import RawBytesMediaIO
from lazymedia.testing.server import MediaServer, Request, Response
from tests.fetch.dialled import METADATA, PUBLIC, PUBLIC_TOO, Names, RecordingNetwork, open_downloader, rejected, web

IMAGE = RawBytesMediaIO("image")


async def test_a_name_is_resolved_once_and_its_address_is_dialled() -> None:
    """The Host header stays the name: many names live on one address."""
    names = Names(media_example=[[PUBLIC]])
    async with MediaServer({"/a": b"payload"}) as server:
        network = RecordingNetwork(server.port)
        async with open_downloader(names, network) as downloader:
            assert (
                await downloader.download(web("http://media.example/a"), BodyBuffer(1000))
            ).payload.data == b"payload"

        assert names.asked == ["media.example"]
        assert network.dials == [(PUBLIC, 80)]
        assert server.requests[0].headers["host"] == "media.example"


async def test_a_numeric_host_is_dialled_without_a_lookup() -> None:
    names = Names()
    async with MediaServer({"/a": b"payload"}) as server:
        network = RecordingNetwork(server.port)
        async with open_downloader(names, network) as downloader:
            assert (await downloader.download(web(f"http://{PUBLIC}/a"), BodyBuffer(1000))).payload.data == b"payload"
            assert (
                await downloader.download(web("http://[2606:4700::1]/a"), BodyBuffer(1000))
            ).payload.data == b"payload"

        assert names.asked == []
        assert network.dials == [(PUBLIC, 80), ("2606:4700::1", 80)]
        assert [request.headers["host"] for request in server.requests] == [PUBLIC, "[2606:4700::1]"]


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "0.0.0.0", "10.0.0.1", METADATA, "168.63.129.16", "[::]", "[::1]", "[::ffff:127.0.0.1]"),
        *("[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[2001:0:7f00:1::]"),
        *("[fd00:ec2::254]", "localhost", "intranet", "metadata"),
    ],
)
async def test_a_forbidden_host_is_not_dialled(host: str) -> None:
    network = RecordingNetwork()
    async with open_downloader(Names(localhost=[["127.0.0.1"]], intranet=[[PUBLIC]]), network) as downloader:
        await rejected(downloader, f"http://{host}/")

    assert network.dials == []


@pytest.mark.parametrize(
    "answers",
    [
        [METADATA],
        ["127.0.0.1"],
        ["fd00:ec2::254"],
        [PUBLIC, "10.0.0.1"],
        ["10.0.0.1", PUBLIC],
        [PUBLIC, "::1"],
        ["2606:4700::1", "192.168.0.1"],
        [PUBLIC] * 5000 + ["127.0.0.1"],
        [*(f"8.8.{high}.{low}" for high in range(16) for low in range(256)), "127.0.0.1"],
    ],
    ids=lambda answers: f"{answers[0]} of {len(answers)}",
)
async def test_one_forbidden_answer_refuses_the_whole_set(answers: list[str]) -> None:
    network = RecordingNetwork()
    async with open_downloader(Names(rebind_example=[answers]), network) as downloader:
        await rejected(downloader, "http://rebind.example/")

    assert network.dials == []


async def test_a_name_that_turns_private_is_refused_at_the_next_connection() -> None:
    """Rebinding: the first lookup is public, every later one is not."""
    names = Names(rebind_example=[[PUBLIC], ["127.0.0.1"]])
    async with MediaServer({"/a": b"payload"}) as server:

        async def close(request: Request) -> Response:
            return Response(headers={"Connection": "close"}, body=b"payload")

        server._routes = {"/a": close}
        network = RecordingNetwork(server.port)
        async with open_downloader(names, network) as downloader:
            assert (
                await downloader.download(web("http://rebind.example/a"), BodyBuffer(1000))
            ).payload.data == b"payload"
            await rejected(downloader, "http://rebind.example/a")

        assert network.dials == [(PUBLIC, 80)]
        assert server.hits["/a"] == 1


def test_a_machines_own_addresses_are_refused_before_they_are_dialled() -> None:
    policy = replace(AddressPolicy.of((), (80, 443)), own=frozenset({ip_address(PUBLIC)}))

    assert policy.classify(ip_address(PUBLIC)) is AddressClass.REJECTED
    assert policy.classify(ip_address(f"64:ff9b::{PUBLIC}")) is AddressClass.REJECTED
    assert policy.classify(ip_address(PUBLIC_TOO)) is AddressClass.PUBLIC
    assert replace(policy, networks=(ip_network(PUBLIC),)).classify(ip_address(PUBLIC)) is AddressClass.OPTED_IN


async def test_a_machine_does_not_reach_itself_by_an_address_of_its_own() -> None:
    """A service bound to all interfaces is as near as one on 127.0.0.1. Naming the address itself opens it."""
    own = next((address for address in own_addresses() if address.version == 4), None)
    if own is None:
        pytest.skip("this machine has no address but those of loopback")
    network = ip_network(f"{own}/24", strict=False)
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\npayload"
    served = 0

    async def serve(stream: SocketStream) -> None:
        nonlocal served
        served += 1
        async with stream:
            await stream.receive()
            await stream.send(answer)

    async with await anyio.create_tcp_listener(local_host=str(own)) as listener, anyio.create_task_group() as nursery:
        nursery.start_soon(listener.serve, serve)
        url = f"http://{own}:{listener.extra(SocketAttribute.local_port)}/a"
        for networks in ([], [str(network)], ["0.0.0.0/0", "::/0"]):
            async with MediaConnector(allowed_networks=networks) as media:
                with pytest.raises(NotAllowedError):
                    await media.fetch_image(url, IMAGE)
        assert served == 0
        async with MediaConnector(allowed_networks=[str(own)]) as media:
            assert (await media.fetch_image(url, IMAGE)).data == b"payload"
        nursery.cancel_scope.cancel()


def test_a_machine_can_bind_to_each_of_its_own_addresses() -> None:
    """On a machine without a way out there is none to be found."""
    for address in own_addresses():
        with socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6) as bound:
            bound.bind((str(address), 0))


@pytest.mark.parametrize(
    ("names", "text"),
    [(Names(), "http://nowhere.example/"), (Names(empty_example=[[]]), "http://empty.example/")],
)
async def test_a_name_without_an_address_is_an_upstream_failure(names: Names, text: str) -> None:
    network = RecordingNetwork()
    async with open_downloader(names, network) as downloader:
        await rejected(downloader, text, UpstreamError)


@pytest.mark.parametrize(
    "answer",
    [
        ValueError("said by a resolver"),
        UnicodeError("label too long"),
        UnicodeEncodeError("idna", "x", 0, 1, "said by a codec"),
        OverflowError("said by a resolver"),
        TypeError("said by a resolver"),
        StopIteration(),
        socket.herror(1, "said by a resolver"),
        OSError(errno.EMFILE, "said by the system"),
        TimeoutError(),
        ["not an address"],
        [""],
        [PUBLIC, "300.1.1.1"],
        ["93.184.216.34/32"],
        [None],
        None,
        42,
    ],
    ids=repr,
)
async def test_a_lookup_that_fails_in_any_way_is_an_upstream_failure(answer: object) -> None:
    def lookup(host: str) -> Sequence[str]:
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[return-value]  # as a resolver of another sort could

    network = RecordingNetwork()
    async with open_downloader(lookup, network) as downloader:
        with pytest.raises(UpstreamError) as caught:
            await downloader.download(web("http://media.example/a"), BodyBuffer(1000))
        assert str(caught.value) == "the name of the server cannot be resolved"
        assert caught.value.__cause__ is not None

    assert network.dials == []


async def test_few_of_many_addresses_are_tried() -> None:
    answers = [f"8.8.{high}.{low}" for high in range(16) for low in range(250)]
    network = RecordingNetwork()
    async with open_downloader(Names(many_example=[answers]), network) as downloader:
        await rejected(downloader, "http://many.example/", UpstreamError)

    assert [host for host, _ in network.dials] == answers[:MAX_DIALS]


@pytest.mark.parametrize("fault", ["unreachable", "silent"])
async def test_an_address_that_fails_leaves_room_for_the_next(fault: str) -> None:
    async with MediaServer({"/a": b"payload"}) as server:
        network = RecordingNetwork(server.port)
        getattr(network, fault).add(PUBLIC)
        limits = Limits(connect_timeout=1)
        names = Names(media_example=[[PUBLIC, PUBLIC_TOO]])
        async with open_downloader(names, network, limits=limits) as downloader:
            assert (
                await downloader.download(web("http://media.example/a"), BodyBuffer(1000))
            ).payload.data == b"payload"

        assert network.dials == [(PUBLIC, 80), (PUBLIC_TOO, 80)]


async def test_addresses_that_all_stay_silent_are_given_up_in_time() -> None:
    network = RecordingNetwork()
    network.silent |= {PUBLIC, PUBLIC_TOO}
    limits = Limits(connect_timeout=0.1)
    names = Names(media_example=[[PUBLIC, PUBLIC_TOO]])
    async with open_downloader(names, network, limits=limits) as downloader:
        await rejected(downloader, "http://media.example/a", FetchTimeoutError)

    assert len(network.dials) == 2


@pytest.mark.parametrize(
    ("networks", "ports", "text", "dialled"),
    [
        ((), (80, 443), "http://media.example:8080/a", False),
        ((), (80, 8080), "http://media.example:8080/a", True),
        (("10.0.0.0/8",), (80, 443), "http://media.example:8080/a", False),
        (("10.0.0.0/8",), (80, 443), "http://inside.example:8080/a", True),
        (("10.0.0.0/8",), (80, 443), "http://inside:8080/a", True),
        (("10.0.0.0/8",), (80, 443), "http://outside/a", False),
        ((f"{METADATA}/32",), (80, 443), f"http://{METADATA}/a", True),
        (("169.254.0.0/16",), (80, 443), f"http://{METADATA}/a", False),
    ],
)
async def test_ports_and_plain_names_are_for_networks_opted_into(
    networks: tuple[str, ...], ports: tuple[int, ...], text: str, dialled: bool
) -> None:
    names = Names(media_example=[[PUBLIC]], inside_example=[["10.0.0.1"]], inside=[["10.0.0.1"]], outside=[[PUBLIC]])
    async with MediaServer({"/a": b"payload"}) as server:
        network = RecordingNetwork(server.port)
        async with open_downloader(names, network, networks=networks, ports=ports) as downloader:
            if dialled:
                assert (await downloader.download(web(text), BodyBuffer(1000))).payload.data == b"payload"
            else:
                await rejected(downloader, text)

        assert bool(network.dials) is dialled


async def test_a_host_that_is_not_on_the_list_is_not_even_looked_up() -> None:
    names, network = Names(media_example=[[PUBLIC]]), RecordingNetwork()
    async with open_downloader(names, network, domains=["other.example"]) as downloader:
        await rejected(downloader, "http://media.example/")

    assert names.asked == []
    assert network.dials == []


async def test_unix_sockets_are_not_dialled() -> None:
    resolver = Resolver(AddressPolicy.of((), (80,)), Names())
    with pytest.raises(NotAllowedError):
        await _GuardedNetwork(resolver, RecordingNetwork(), 1).connect_unix_socket("/run/docker.sock")
