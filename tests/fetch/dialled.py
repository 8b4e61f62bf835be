"""What tests of dialling share: scripted names, a network that logs every dial, a downloader over both."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_address
from typing import Any

import anyio
import httpcore2
import pytest

from lazymedia.errors import LazyMediaError, NotAllowedError
from lazymedia.fetch.body_buffer import BodyBuffer
from lazymedia.fetch.download import Downloader
from lazymedia.fetch.policy.address import AddressClass, AddressPolicy
from lazymedia.fetch.policy.domains import DomainRules
from lazymedia.fetch.policy.url import HttpUrl, parse_url
from lazymedia.fetch.transport.guarded import make_ssl_context, open_transport
from lazymedia.fetch.transport.resolve import Resolver
from lazymedia.limits import Limits

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
    async with open_transport(Resolver(policy, names, limits), limits, SSL_CONTEXT, network=network) as transport:
        yield Downloader(transport, DomainRules.of(domains), limits)
    # Whatever the test: nothing outside the policy was ever dialled.
    assert all(policy.classify(ip_address(host)) is not AddressClass.REJECTED for host, _ in network.dials)


def web(text: str) -> HttpUrl:
    url = parse_url(text, max_length=1000)
    assert isinstance(url, HttpUrl)
    return url


async def rejected(downloader: Downloader, text: str, error: type[LazyMediaError] = NotAllowedError) -> None:
    with pytest.raises(error) as caught:
        await downloader.download(web(text), BodyBuffer(1000))
    if error is NotAllowedError:
        assert str(caught.value) == str(NotAllowedError())
    assert "example" not in str(caught.value)
