"""Redirects: each hop is checked as if it were the first."""

from __future__ import annotations

import pytest

from lazymedia.errors import LazyMediaError, NotAllowedError, UpstreamError
from lazymedia.fetch.body_buffer import BodyBuffer
from lazymedia.testing.server import MediaServer, Request, Response
from tests.fetch.dialled import METADATA, PUBLIC, PUBLIC_TOO, Names, RecordingNetwork, open_downloader, rejected, web


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
        ("gopher://media.example/", UpstreamError),
        ("javascript:alert(1)", UpstreamError),
        ("http://user:pw@media.example/target", UpstreamError),
        ("http://127.0.0.1\\@media.example/target", UpstreamError),
        ("\\\\media.example\\target", UpstreamError),
        ("http://[::1", UpstreamError),
        ("http://2130706433/target", UpstreamError),
        ("http://xn--/target", UpstreamError),
        (f"http://media.example/{'a' * 9000}", UpstreamError),
        ("http://ü.ü" + "ü" * 80 + "/", UpstreamError),
        ("", UpstreamError),
        (None, UpstreamError),
    ],
)
async def test_no_redirect_leads_past_the_rules(location: str | None, error: type[LazyMediaError]) -> None:
    async def redirect(request: Request) -> bytes:
        named = b"" if location is None else b"Location: %b\r\n" % location.encode()
        return b"HTTP/1.1 302 Found\r\n%bContent-Length: 4\r\n\r\nthis" % named

    names = Names(media_example=[[PUBLIC]], inside_example=[["10.0.0.1"]], localhost=[["127.0.0.1"]])
    async with MediaServer({"/": redirect, "/target": b"secret", "/latest/meta-data/": b"secret"}) as server:
        network = RecordingNetwork(server.port)
        async with open_downloader(names, network) as downloader:
            await rejected(downloader, "http://media.example/", error)

        assert network.dials == [(PUBLIC, 80)]
        assert server.hits == {"/": 1}


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
@pytest.mark.parametrize("location", ["http://bücher.example/ü", "//BÜCHER.example/ü", "http://bücher.example:80/ü"])
async def test_a_redirect_to_an_international_name_is_followed(location: str, encoding: str) -> None:
    async def redirect(request: Request) -> bytes:
        return b"HTTP/1.1 302 Found\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n" % location.encode(encoding)

    names = Names(media_example=[[PUBLIC]])
    names._answers["xn--bcher-kva.example"] = [[PUBLIC_TOO]]
    target = "/%C3%BC" if encoding == "utf-8" else "/%FC"
    async with MediaServer({"/": redirect, target: b"payload"}) as server:
        network = RecordingNetwork(server.port)
        async with open_downloader(names, network) as downloader:
            assert (
                await downloader.download(web("http://media.example/"), BodyBuffer(1000))
            ).payload.data == b"payload"
        assert network.dials == [(PUBLIC, 80), (PUBLIC_TOO, 80)]
        assert server.requests[-1].headers["host"] == "xn--bcher-kva.example"


async def test_a_redirect_off_the_list_of_domains_is_refused() -> None:
    async def redirect(request: Request) -> Response:
        return Response(302, {"Location": "http://other.example/target"})

    names = Names(media_example=[[PUBLIC]], other_example=[[PUBLIC_TOO]])
    async with MediaServer({"/": redirect, "/target": b"payload"}) as server:
        network = RecordingNetwork(server.port)
        async with open_downloader(names, network, domains=["media.example"]) as downloader:
            await rejected(downloader, "http://media.example/")
        async with open_downloader(names, network, domains=["media.example", "other.example"]) as downloader:
            assert (
                await downloader.download(web("http://media.example/"), BodyBuffer(1000))
            ).payload.data == b"payload"


async def test_each_hop_of_a_redirect_is_resolved_afresh() -> None:
    async def redirect(request: Request) -> Response:
        return Response(302, {"Location": "/target", "Connection": "close"})

    names = Names(rebind_example=[[PUBLIC], [METADATA]])
    async with MediaServer({"/": redirect, "/target": b"secret"}) as server:
        network = RecordingNetwork(server.port)
        async with open_downloader(names, network) as downloader:
            await rejected(downloader, "http://rebind.example/")

        assert server.hits == {"/": 1}
