"""Names, addresses and sockets: what is dialled is what was judged. No packet leaves the loopback interface."""

from __future__ import annotations

import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from ipaddress import ip_address, ip_network
from typing import Any

import anyio
import httpcore2
import pytest
from anyio.abc import SocketAttribute, SocketStream
from anyio.lowlevel import checkpoint

from lazymedia.errors import (
    BadUrlError,
    FetchTimeoutError,
    LazyMediaError,
    NotAllowedError,
    OverloadedError,
    UpstreamError,
)
from lazymedia.fetch.address import AddressPolicy, Verdict
from lazymedia.fetch.domains import DomainRules
from lazymedia.fetch.download import Downloader
from lazymedia.fetch.http import MAX_DIALS, _JudgedNetwork, make_ssl_context, open_pool
from lazymedia.fetch.own_addresses import own_addresses
from lazymedia.fetch.resolve import MAX_LOOKUPS, Resolver
from lazymedia.fetch.url import HttpUrl, parse_url
from lazymedia.limits import Limits
from lazymedia.testing.server import MediaServer, Request, Response

PUBLIC = "93.184.216.34"
PUBLIC_TOO = "8.8.8.8"
METADATA = "169.254.169.254"
SSL_CONTEXT = make_ssl_context()


class RecordingNetwork(httpcore2.AsyncNetworkBackend):
    """Logs every dial, and connects each to one loopback port in truth; the connection claims the address dialled."""

    def __init__(self, port: int = 0) -> None:
        self._port = port
        self._network = httpcore2.AnyIOBackend()
        self.dials: list[tuple[str, int]] = []
        self.unreachable: set[str] = set()
        self.silent: set[str] = set()
        self.impostor: str | None = None
        self.own_end: str | None = None
        self.closed = 0
        self.deaf = False

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  # the library's signature
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        self.dials.append((host, port))
        if host in self.silent:
            await anyio.sleep_forever()
        if host in self.unreachable or not self._port:
            raise httpcore2.ConnectError
        stream = await self._network.connect_tcp("127.0.0.1", self._port)
        return ClaimingStream(self, stream, (self.impostor or host, port))


class ClaimingStream(httpcore2.AsyncNetworkStream):
    def __init__(
        self, network: RecordingNetwork, stream: httpcore2.AsyncNetworkStream, address: tuple[str, int]
    ) -> None:
        self._network = network
        self._stream = stream
        self._address = address

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109  # the library's
        return await self._stream.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109  # the library's
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        self._network.closed += 1
        await self._stream.aclose()

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable" and self._network.deaf:
            return False  # as if the other end hung up just after one looked
        if info == "client_addr" and self._network.own_end is not None:
            return self._network.own_end, 40_000
        return self._address if info == "server_addr" else self._stream.get_extra_info(info)


class Names:
    """A scripted resolver: for each name the answers of its first lookup, of its second, and so on."""

    def __init__(self, **answers: Sequence[Sequence[str]]) -> None:
        self._answers = {name.replace("_", "."): list(rounds) for name, rounds in answers.items()}
        self.asked: list[str] = []

    def __call__(self, host: str) -> Sequence[str]:
        self.asked.append(host)
        rounds = self._answers.get(host)
        if rounds is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return rounds.pop(0) if len(rounds) > 1 else rounds[0]


@asynccontextmanager
async def open_downloader(
    names: Callable[[str], Sequence[str]],
    network: RecordingNetwork,
    *,
    networks: Sequence[str] = (),
    ports: Sequence[int] = (80, 443),
    domains: Sequence[str] | None = None,
    limits: Limits | None = None,
) -> AsyncIterator[Downloader]:
    limits = limits or Limits(max_retries=0)
    policy = AddressPolicy.of(networks, ports)
    async with open_pool(Resolver(policy, names), limits, SSL_CONTEXT, network=network) as transport:
        yield Downloader(transport, DomainRules.of(domains), limits)
    # Of every test of this file: nothing outside the policy was ever dialled.
    assert all(policy.judge(ip_address(host)) is not Verdict.REFUSED for host, _ in network.dials)


def web(text: str) -> HttpUrl:
    url = parse_url(text, max_length=1000)
    assert isinstance(url, HttpUrl)
    return url


async def refused(downloader: Downloader, text: str, error: type[LazyMediaError] = NotAllowedError) -> None:
    with pytest.raises(error) as caught:
        await downloader.download(web(text), 1000)
    if error is NotAllowedError:
        assert str(caught.value) == str(NotAllowedError())
    assert "example" not in str(caught.value)


async def test_a_name_is_resolved_once_and_its_address_is_dialled() -> None:
    """The Host header stays the name: many names live on one address."""
    names = Names(media_example=[[PUBLIC]])
    async with MediaServer({"/a": b"payload"}) as server:
        network = RecordingNetwork(server.port)
        async with open_downloader(names, network) as downloader:
            assert (await downloader.download(web("http://media.example/a"), 1000)).data == b"payload"

        assert names.asked == ["media.example"]
        assert network.dials == [(PUBLIC, 80)]
        assert server.requests[0].headers["host"] == "media.example"


async def test_a_numeric_host_is_dialled_without_a_lookup() -> None:
    names = Names()
    async with MediaServer({"/a": b"payload"}) as server:
        network = RecordingNetwork(server.port)
        async with open_downloader(names, network) as downloader:
            assert (await downloader.download(web(f"http://{PUBLIC}/a"), 1000)).data == b"payload"
            assert (await downloader.download(web("http://[2606:4700::1]/a"), 1000)).data == b"payload"

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
        await refused(downloader, f"http://{host}/")

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
        await refused(downloader, "http://rebind.example/")

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
            assert (await downloader.download(web("http://rebind.example/a"), 1000)).data == b"payload"
            await refused(downloader, "http://rebind.example/a")

        assert network.dials == [(PUBLIC, 80)]
        assert server.hits["/a"] == 1


async def test_a_connection_that_was_judged_may_be_used_again() -> None:
    names = Names(rebind_example=[[PUBLIC], ["127.0.0.1"]])
    async with MediaServer({"/a": b"payload"}) as server:
        network = RecordingNetwork(server.port)
        async with open_downloader(names, network) as downloader:
            for _ in range(3):
                assert (await downloader.download(web("http://rebind.example/a"), 1000)).data == b"payload"

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
            assert (await downloader.download(web("http://media.example/a"), 1000)).data == b"ok"
            assert (await downloader.download(web("http://media.example/a"), 1000)).data == b"own"
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
                assert (await downloader.download(web("http://media.example/a"), 1000)).data == b"ok"

        assert len(network.dials) == server.hits["/a"] == 3


async def test_a_fresh_connection_that_fails_is_not_tried_again() -> None:
    async def hang_up(request: Request) -> bytes:
        return b""

    async with MediaServer({"/a": hang_up}) as server:
        network = RecordingNetwork(server.port)
        async with open_downloader(Names(media_example=[[PUBLIC]]), network) as downloader:
            await refused(downloader, "http://media.example/a", UpstreamError)

        assert server.hits["/a"] == 1


async def test_another_peer_than_the_one_dialled_is_hung_up_on() -> None:
    async with MediaServer({"/a": b"payload"}) as server:
        network = RecordingNetwork(server.port)
        network.impostor = "127.0.0.1"
        async with open_downloader(Names(media_example=[[PUBLIC]]), network) as downloader:
            await refused(downloader, "http://media.example/a")

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
                assert (await downloader.download(web("http://media.example/a"), 1000)).data == b"payload"
            else:
                await refused(downloader, "http://media.example/a")
        assert server.hits["/a"] == len(networks)


def test_a_machines_own_addresses_are_refused_before_they_are_dialled() -> None:
    policy = replace(AddressPolicy.of((), (80, 443)), own=frozenset({ip_address(PUBLIC)}))

    assert policy.judge(ip_address(PUBLIC)) is Verdict.REFUSED
    assert policy.judge(ip_address(f"64:ff9b::{PUBLIC}")) is Verdict.REFUSED
    assert policy.judge(ip_address(PUBLIC_TOO)) is Verdict.PUBLIC
    assert replace(policy, networks=(ip_network(PUBLIC),)).judge(ip_address(PUBLIC)) is Verdict.OPTED_IN


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
        await refused(downloader, text, UpstreamError)


async def test_few_of_many_addresses_are_tried() -> None:
    answers = [f"8.8.{high}.{low}" for high in range(16) for low in range(250)]
    network = RecordingNetwork()
    async with open_downloader(Names(many_example=[answers]), network) as downloader:
        await refused(downloader, "http://many.example/", UpstreamError)

    assert [host for host, _ in network.dials] == answers[:MAX_DIALS]


@pytest.mark.parametrize("fault", ["unreachable", "silent"])
async def test_an_address_that_fails_leaves_room_for_the_next(fault: str) -> None:
    async with MediaServer({"/a": b"payload"}) as server:
        network = RecordingNetwork(server.port)
        getattr(network, fault).add(PUBLIC)
        limits = Limits(connect_timeout=1)
        names = Names(media_example=[[PUBLIC, PUBLIC_TOO]])
        async with open_downloader(names, network, limits=limits) as downloader:
            assert (await downloader.download(web("http://media.example/a"), 1000)).data == b"payload"

        assert network.dials == [(PUBLIC, 80), (PUBLIC_TOO, 80)]


async def test_addresses_that_all_stay_silent_are_given_up_in_time() -> None:
    network = RecordingNetwork()
    network.silent |= {PUBLIC, PUBLIC_TOO}
    limits = Limits(connect_timeout=0.1)
    names = Names(media_example=[[PUBLIC, PUBLIC_TOO]])
    async with open_downloader(names, network, limits=limits) as downloader:
        await refused(downloader, "http://media.example/a", FetchTimeoutError)

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
                assert (await downloader.download(web(text), 1000)).data == b"payload"
            else:
                await refused(downloader, text)

        assert bool(network.dials) is dialled


async def test_a_host_that_is_not_on_the_list_is_not_even_looked_up() -> None:
    names, network = Names(media_example=[[PUBLIC]]), RecordingNetwork()
    async with open_downloader(names, network, domains=["other.example"]) as downloader:
        await refused(downloader, "http://media.example/")

    assert names.asked == []
    assert network.dials == []


@pytest.mark.parametrize(
    ("location", "error"),
    [
        ("http://127.0.0.1/target", NotAllowedError),
        ("http://localhost/target", NotAllowedError),
        ("http://[::1]/target", NotAllowedError),
        (f"http://{METADATA}/latest/meta-data/", NotAllowedError),
        ("http://inside.example/target", NotAllowedError),
        ("//inside.example/target", NotAllowedError),
        ("http://media.example:22/target", NotAllowedError),
        ("file:///etc/passwd", NotAllowedError),
        ("data:,payload", NotAllowedError),
        ("gopher://media.example/", BadUrlError),
        ("javascript:alert(1)", BadUrlError),
        ("http://user:pw@media.example/target", BadUrlError),
        ("http://127.0.0.1\\@media.example/target", BadUrlError),
        ("\\\\media.example\\target", BadUrlError),
        ("http://[::1", BadUrlError),
        ("http://2130706433/target", BadUrlError),
        ("", UpstreamError),
        (None, UpstreamError),
    ],
)
async def test_no_redirect_leads_past_the_rules(location: str | None, error: type[LazyMediaError]) -> None:
    async def redirect(request: Request) -> Response:
        return Response(302, {} if location is None else {"Location": location}, b"look over there")

    names = Names(media_example=[[PUBLIC]], inside_example=[["10.0.0.1"]], localhost=[["127.0.0.1"]])
    async with MediaServer({"/": redirect, "/target": b"secret", "/latest/meta-data/": b"secret"}) as server:
        network = RecordingNetwork(server.port)
        async with open_downloader(names, network) as downloader:
            await refused(downloader, "http://media.example/", error)

        assert network.dials == [(PUBLIC, 80)]
        assert server.hits == {"/": 1}


async def test_a_redirect_off_the_list_of_domains_is_refused() -> None:
    async def redirect(request: Request) -> Response:
        return Response(302, {"Location": "http://other.example/target"})

    names = Names(media_example=[[PUBLIC]], other_example=[[PUBLIC_TOO]])
    async with MediaServer({"/": redirect, "/target": b"payload"}) as server:
        network = RecordingNetwork(server.port)
        async with open_downloader(names, network, domains=["media.example"]) as downloader:
            await refused(downloader, "http://media.example/")
        async with open_downloader(names, network, domains=["media.example", "other.example"]) as downloader:
            assert (await downloader.download(web("http://media.example/"), 1000)).data == b"payload"


async def test_each_hop_of_a_redirect_is_resolved_afresh() -> None:
    async def redirect(request: Request) -> Response:
        return Response(302, {"Location": "/target", "Connection": "close"})

    names = Names(rebind_example=[[PUBLIC], [METADATA]])
    async with MediaServer({"/": redirect, "/target": b"secret"}) as server:
        network = RecordingNetwork(server.port)
        async with open_downloader(names, network) as downloader:
            await refused(downloader, "http://rebind.example/")

        assert server.hits == {"/": 1}


async def test_lookups_that_hang_are_bounded_and_hurt_nobody_else(anyio_backend_name: str) -> None:
    """Their threads cannot be stopped. No more than the cap exist, and a numeric host needs none of them."""
    gate, started = threading.Event(), []

    def hang(host: str) -> Sequence[str]:
        started.append(host)
        gate.wait(10)
        return [PUBLIC]

    async with MediaServer({"/a": b"payload"}) as server:
        network = RecordingNetwork(server.port)
        async with open_downloader(hang, network) as downloader:
            async with anyio.create_task_group() as nursery:
                for number in range(MAX_LOOKUPS):
                    nursery.start_soon(downloader.download, web(f"http://n{number}.example/a"), 1000)
                while len(started) < MAX_LOOKUPS:
                    await checkpoint()
                nursery.cancel_scope.cancel()  # which leaves the threads behind

            assert (await downloader.download(web(f"http://{PUBLIC}/a"), 1000)).data == b"payload"
            if (
                anyio_backend_name == "asyncio"
            ):  # where the limiter's tokens are free again, the count in the threads speaks
                for _ in range(3):
                    await refused(downloader, "http://late.example/a", OverloadedError)
            async with anyio.create_task_group() as nursery:
                late = nursery.start_soon(eventually, downloader, "http://late.example/a")
                if anyio_backend_name == "trio":
                    await anyio.wait_all_tasks_blocked()
                assert len(started) == MAX_LOOKUPS
                gate.set()
            assert late.return_value == b"payload"


async def eventually(downloader: Downloader, text: str) -> bytes:
    """The payload, as soon as a lookup is possible again."""
    while True:
        try:
            return (await downloader.download(web(text), 1000)).data
        except OverloadedError:
            await checkpoint()


async def test_a_server_may_not_talk_without_end_before_its_body() -> None:
    """Interim responses have no bound in HTTP; some thousand fit into the bytes allowed, and no deadline is needed."""

    async def chatter(request: Request) -> bytes:
        return b"HTTP/1.1 100 Continue\r\n\r\n" * 20_000 + b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

    async with MediaServer({"/a": chatter}) as server:
        network = RecordingNetwork(server.port)
        async with open_downloader(Names(media_example=[[PUBLIC]]), network) as downloader:
            await refused(downloader, "http://media.example/a", UpstreamError)


async def test_unix_sockets_are_not_dialled() -> None:
    resolver = Resolver(AddressPolicy.of((), (80,)), Names())
    with pytest.raises(NotAllowedError):
        await _JudgedNetwork(resolver, RecordingNetwork(), 1).connect_unix_socket("/run/docker.sock")
