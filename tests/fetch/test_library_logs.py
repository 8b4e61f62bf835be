"""Signed URLs stay out of the log, at every level and whoever writes it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest

from lazymedia import DownloadCache
from lazymedia.errors import LazyMediaError
from lazymedia.fetch import MediaConnector
from lazymedia.limits import Limits
from lazymedia.media.raw import RawBytesMediaIO
from lazymedia.testing.server import MediaServer, Request, Response

LOOPBACK = ("127.0.0.0/8",)
IMAGE = RawBytesMediaIO("image")
SECRETS = ("s3cret", "s3same", "pr1vate", "c00kie")


async def lead_on(request: Request) -> Response:
    headers = (
        ("Location", "/b/pr1vate?X-Amz-Signature=s3cret&t=s3same"),
        ("Set-Cookie", "sid=c00kie"),
    )
    return Response(302, headers)


async def astray(request: Request) -> Response:
    return Response(302, {"Location": "http://nowhere.invalid/pr1vate?sig=s3cret"})


async def nowhere(request: Request) -> Response:
    return Response(302, {"Location": "http://user:s3cret@127.0.0.1/?sig=s3same"})


@asynccontextmanager
async def own() -> AsyncIterator[dict[str, Any]]:
    yield {}


@asynccontextmanager
async def theirs(client: Any) -> AsyncIterator[dict[str, Any]]:
    async with client:
        yield {"client": client, "trust_client": True}


CLIENTS: dict[str, Callable[[], Any]] = {
    "none": own,
    "httpx2": lambda: theirs(httpx2.AsyncClient()),
    "httpx": lambda: theirs(httpx.AsyncClient()),
}


@pytest.mark.parametrize("kind", CLIENTS)
async def test_no_signed_url_is_logged(kind: str, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    caplog.set_level(logging.DEBUG)
    payload = Response(headers={"Set-Cookie": "sid=c00kie", "Cache-Control": "max-age=60"}, body=b"payload")

    async def there(request: Request) -> Response:
        return payload

    async with AsyncExitStack() as stack:
        routes = {"/a": lead_on, "/b/pr1vate": there, "/astray": astray, "/nowhere": nowhere}
        server = await stack.enter_async_context(MediaServer(routes))
        client = await stack.enter_async_context(CLIENTS[kind]())
        media = await stack.enter_async_context(
            MediaConnector(
                allowed_networks=LOOPBACK,
                limits=Limits(max_retries=0),
                download_cache=DownloadCache(tmp_path),
                **client,
            )
        )
        for _ in range(2):
            assert (await media.fetch_image(server.url("/a?token=s3cret"), IMAGE)).data == b"payload"
        for path in ("/astray", "/nowhere", "/b/missing?sig=s3cret"):
            with pytest.raises(LazyMediaError) as caught:
                await media.fetch_image(server.url(path), IMAGE)
            assert not [secret for secret in SECRETS if secret in str(caught.value)]
    libraries = [record for record in caplog.records if record.name.startswith(("httpx", "httpcore"))]
    assert libraries, "that requests are made may be logged"
    for record in caplog.records:
        assert not [secret for secret in SECRETS if secret in record.getMessage()], record


async def test_requests_of_others_are_logged_as_ever(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with MediaServer({"/a": b"payload"}) as server, httpx2.AsyncClient() as client:
        async with MediaConnector(allowed_networks=LOOPBACK) as media:
            await media.fetch_image(server.url("/a?mine"), IMAGE)
        await client.get(server.url("/a?theirs"))
    assert server.url("/a?theirs") in caplog.text
    assert "receive_response_headers.complete return_value=" in caplog.text
    assert "?mine" not in caplog.text
