"""A caller's own HTTP client, of either library."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx
import httpx2
import pytest

from lazymedia.errors import (
    FetchTimeoutError,
    LazyMediaError,
    NotAllowedError,
    PayloadTooLargeError,
    UnprocessableMediaError,
    UpstreamError,
)
from lazymedia.fetch import MediaConnector
from lazymedia.limits import Limits
from lazymedia.media.raw import RawBytesMediaIO
from lazymedia.testing.server import MediaServer, Request, Response

LOOPBACK = ("127.0.0.0/8",)
AT_ONCE = Limits(retry_backoff=0)
IMAGE = RawBytesMediaIO("image", limits=Limits(max_image_bytes=1000))

both = pytest.mark.parametrize("library", [httpx2, httpx], ids=["httpx2", "httpx"])


@both
async def test_a_client_is_refused_without_a_word_of_trust(library: Any) -> None:
    async with library.AsyncClient() as client:
        with pytest.raises(ValueError, match="trust_client=True"):
            MediaConnector(client=client)


@pytest.mark.parametrize("client", [object(), httpx2.Client(), "client"], ids=lambda client: type(client).__name__)
def test_what_is_no_such_client_is_refused(client: object) -> None:
    with pytest.raises(TypeError, match=type(client).__name__):
        MediaConnector(client=client, trust_client=True)


def test_a_client_of_a_library_that_is_not_loaded_is_none_of_its(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is imported to find that out."""
    client = httpx.AsyncClient()
    monkeypatch.delitem(sys.modules, "httpx")
    with pytest.raises(TypeError):
        MediaConnector(client=client, trust_client=True)
    assert "httpx" not in sys.modules


@both
async def test_a_client_fetches_and_stays_open(library: Any) -> None:
    async with MediaServer({"/a%2Fb/../c": b"payload"}) as server, library.AsyncClient(trust_env=False) as client:
        async with MediaConnector(client=client, trust_client=True, allowed_networks=LOOPBACK) as media:
            ref = await media.fetch_image(server.url("/a%2Fb/../c?x|'"), IMAGE)

        assert ref.data == b"payload"
        assert server.requests[0].target == "/a%2Fb/../c?x|'"
        assert not client.is_closed
        assert (await client.get(server.url("/a"))).status_code == 404


@both
async def test_nothing_of_the_clients_own_is_sent(library: Any) -> None:
    """The URL is a stranger's choice: whatever the client carries would go to any host that a stranger names."""

    async def answer(request: Request) -> Response:
        return Response(headers={"Set-Cookie": "tenant=1; Path=/"}, body=b"payload")

    client = library.AsyncClient(
        trust_env=False, headers={"X-Api-Key": "k"}, cookies={"a": "b"}, auth=("user", "pw"), params={"q": "1"}
    )
    async with MediaServer({"/a": answer}) as server, client:
        async with MediaConnector(client=client, trust_client=True, allowed_networks=LOOPBACK) as media:
            for _ in range(2):
                await media.fetch_image(server.url("/a"), IMAGE)

        for request in server.requests:
            assert set(request.headers) == {"host", "user-agent", "accept", "accept-encoding"}
            assert request.target == "/a"


@both
@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/missing", UnprocessableMediaError),
        ("/500", UpstreamError),
        ("/short", UpstreamError),
        ("/reset", UpstreamError),
        ("/gzip", UpstreamError),
        ("/big", PayloadTooLargeError),
        ("/away", NotAllowedError),
        ("/loop", UpstreamError),
        ("/silent", FetchTimeoutError),
    ],
)
async def test_errors_of_either_library_become_ours(library: Any, path: str, error: type[LazyMediaError]) -> None:
    async def answer(request: Request) -> Response | bytes:
        if request.path == "/silent":
            await anyio.sleep_forever()
        return answers[request.path]

    answers: dict[str, Response | bytes] = {
        "/500": Response(500),
        "/short": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
        "/reset": b"",
        "/gzip": Response(headers={"Content-Encoding": "gzip"}, body=b"\x1f\x8b"),
        "/big": Response(body=b"x" * 1001),
        "/away": Response(302, {"Location": "http://169.254.169.254/latest/meta-data/"}),
        "/loop": Response(302, {"Location": "/loop"}),
    }
    routes = dict.fromkeys((*answers, "/silent"), answer)
    async with (
        MediaServer(routes) as server,
        library.AsyncClient(trust_env=False) as client,
        MediaConnector(
            client=client, trust_client=True, allowed_networks=LOOPBACK, limits=Limits(image_timeout=1, max_retries=0)
        ) as media,
    ):
        with pytest.raises(error) as caught:
            await media.load_from_url(server.url(path), IMAGE, fetch_timeout=0.1 if path == "/silent" else 5)

        assert "127.0.0.1" not in str(caught.value)
        assert "169.254" not in str(caught.value)


@both
async def test_a_server_that_is_gone_is_an_upstream_failure(library: Any) -> None:
    async with MediaServer({}) as server:
        pass
    async with (
        library.AsyncClient(trust_env=False) as client,
        MediaConnector(client=client, trust_client=True, allowed_networks=LOOPBACK, limits=AT_ONCE) as media,
    ):
        with pytest.raises(UpstreamError):
            await media.fetch_image(server.url("/a"), IMAGE)


@both
@pytest.mark.parametrize(
    "url",
    [
        *(
            "http://127.0.0.1/",
            "http://[::1]/",
            "http://169.254.169.254/",
            "http://8.8.8.8:22/",
            "http://media.example:22/",
        ),
        *("http://intranet/", "http://off-the-list.example/", "file:///etc/passwd"),
    ],
)
async def test_rules_about_urls_hold_for_a_client(library: Any, url: str) -> None:
    """Its connections are its own business, but what the URL alone shows never gets that far."""
    asked: list[str] = []

    def answer(request: Any) -> Any:
        asked.append(str(request.url))
        return library.Response(200, content=b"payload")

    client = library.AsyncClient(transport=library.MockTransport(answer))
    domains = ["127.0.0.1", "[::1]", "169.254.169.254", "8.8.8.8", "media.example", "intranet"]
    async with MediaConnector(client=client, trust_client=True, allowed_media_domains=domains) as media:
        with pytest.raises(NotAllowedError):
            await media.fetch_image(url, IMAGE)
        assert asked == []
        assert (await media.fetch_image("http://media.example/a", IMAGE)).data == b"payload"


@both
async def test_a_client_that_reads_another_host_is_not_asked(library: Any) -> None:
    """The last line of defence: should the two parsers ever disagree, nothing is sent."""
    asked: list[str] = []

    class Misreading(library.URL):  # type: ignore[misc]  # a class of a library chosen at run time
        @property
        def raw_host(self) -> bytes:
            return b"evil.example"

    def answer(request: Any) -> Any:
        asked.append(str(request.url))
        return library.Response(200, content=b"payload")

    client = library.AsyncClient(transport=library.MockTransport(answer))
    connector = MediaConnector(client=client, trust_client=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "URL", Misreading)
        async with connector as media:
            with pytest.raises(ValueError, match="another host"):
                await media.fetch_image("http://media.example/a", IMAGE)

    assert asked == []


@both
async def test_a_length_that_a_mock_gets_wrong_is_noticed(library: Any) -> None:
    """A transport of the caller's may not check what HTTP libraries check."""

    class Short(library.AsyncByteStream):  # type: ignore[misc]  # a class of a library chosen at run time
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b"short"

    def answer(request: Any) -> Any:
        return library.Response(200, headers={"Content-Length": "100"}, stream=Short())

    client = library.AsyncClient(transport=library.MockTransport(answer))
    async with MediaConnector(client=client, trust_client=True, limits=AT_ONCE) as media:
        with pytest.raises(UpstreamError, match="not as long"):
            await media.fetch_image("http://media.example/a", IMAGE)
