"""TLS to a pinned address: the certificate is that of the name."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio
import httpcore2
import pytest
import trustme
from anyio.abc import ByteStream
from anyio.streams.tls import TLSListener

from lazymedia.errors import LazyMediaError, NotAllowedError, UpstreamError
from lazymedia.fetch.body_buffer import BodyBuffer
from lazymedia.fetch.download import Downloader
from lazymedia.fetch.policy.address import AddressPolicy
from lazymedia.fetch.policy.domains import DomainRules
from lazymedia.fetch.policy.url import HttpUrl, parse_url
from lazymedia.fetch.transport.guarded import make_ssl_context, open_transport
from lazymedia.fetch.transport.resolve import Resolver
from lazymedia.limits import Limits

AUTHORITY = trustme.CA()


class TlsServer:
    """Answers every request of a TLS connection alike, and notes the name that the client asked for."""

    def __init__(self, certificate: trustme.LeafCert, answer: bytes) -> None:
        self._answer = answer
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate.configure_cert(self.context)
        self.context.set_servername_callback(self._note)
        self.names: list[str | None] = []

    def _note(self, _: object, name: str | None, __: object) -> None:
        self.names.append(name)

    async def serve(self, stream: ByteStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(self._answer)


@asynccontextmanager
async def serving(server: TlsServer, trust: trustme.CA = AUTHORITY) -> AsyncIterator[Downloader]:
    """A downloader whose every name resolves to the server, on a port of its own."""

    def lookup(host: str) -> Sequence[str]:
        return ["127.0.0.1"]

    context = make_ssl_context()
    trust.configure_trust(context)
    tcp = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = tcp.listeners[0].extra(anyio.abc.SocketAttribute.local_port)
    listener = TLSListener(tcp, ssl_context=server.context, standard_compatible=False)
    resolver = Resolver(AddressPolicy.of(("127.0.0.0/8",), (443,)), lookup)
    network = ToPort(port)
    async with listener, anyio.create_task_group() as nursery:
        nursery.start_soon(listener.serve, server.serve)
        async with open_transport(resolver, Limits(), context, network=network) as transport:
            yield Downloader(transport, DomainRules.of(None), Limits(max_retries=0))
        nursery.cancel_scope.cancel()


class ToPort(httpcore2.AnyIOBackend):
    """Dials the asked address at the server's port instead of 443."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def connect_tcp(self, host: str, port: int, *args: object, **kwargs: object) -> httpcore2.AsyncNetworkStream:
        return await super().connect_tcp(host, self._port)


def web(text: str) -> HttpUrl:
    url = parse_url(text, max_length=1000)
    assert isinstance(url, HttpUrl)
    return url


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\npayload"


async def test_the_name_is_asked_for_and_verified() -> None:
    server = TlsServer(AUTHORITY.issue_cert("media.example"), OK)
    async with serving(server) as downloader:
        assert (await downloader.download(web("https://media.example/a"), BodyBuffer(100))).payload.data == b"payload"
        assert (await downloader.download(web("https://MEDIA.example./a"), BodyBuffer(100))).payload.data == b"payload"

    assert server.names == ["media.example"] * 2


async def outcome(server: TlsServer, text: str, trust: trustme.CA = AUTHORITY) -> LazyMediaError:
    async with serving(server, trust) as downloader:
        try:
            await downloader.download(web(text), BodyBuffer(100))
        except LazyMediaError as exc:
            return exc
    raise AssertionError("the download went through")


@pytest.mark.parametrize("host", ["other.example", "127.0.0.1"])
async def test_a_certificate_for_another_name_is_an_upstream_failure(host: str) -> None:
    server = TlsServer(AUTHORITY.issue_cert("media.example"), OK)
    error = await outcome(server, f"https://{host}/a")

    assert type(error) is UpstreamError
    assert host not in str(error)


async def test_a_certificate_of_an_unknown_authority_is_an_upstream_failure() -> None:
    server = TlsServer(trustme.CA().issue_cert("media.example"), OK)

    assert type(await outcome(server, "https://media.example/a")) is UpstreamError


async def test_a_redirect_from_https_to_http_is_refused() -> None:
    answer = b"HTTP/1.1 302 Found\r\nLocation: http://media.example/a\r\nContent-Length: 0\r\n\r\n"
    server = TlsServer(AUTHORITY.issue_cert("media.example"), answer)

    assert type(await outcome(server, "https://media.example/a")) is NotAllowedError


async def test_the_machines_authorities_are_those_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """How an operator makes a company's own authority known."""
    file = tmp_path_factory.mktemp("tls") / "ca.pem"
    AUTHORITY.cert_pem.write_to_path(file)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))

    assert len(make_ssl_context().get_ca_certs()) == 1
