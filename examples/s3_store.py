"""Media from a store of your own: ``s3://bucket/key``, signed for its server, beside all that lazymedia fetches anyway.

The store here is a loopback server that wants a signature. With a real one, sign as its documentation says, or let its
own client library fetch the bytes.

Run it: python examples/s3_store.py
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self, TypeVar
from urllib.parse import quote

import anyio
import httpx2

import lazymedia
from lazymedia.extend import MediaConnector, MediaIO, MediaRef, register_connector
from lazymedia.testing import MediaServer, Request, Response, make_image, make_processor

T = TypeVar("T")
SECRET = b"known to the store and to this program"


def signature(target: str) -> str:
    """What proves that a request comes from somebody who may read."""
    return hmac.new(SECRET, target.encode(), hashlib.sha256).hexdigest()


@register_connector("s3")
class S3Connector(MediaConnector):
    """Serves ``s3://`` itself and leaves every other scheme as it is. All fetches go through `load_from_url`.

    Args:
        store: Where the store listens. The operator names it, so that no rule about addresses is needed for it.
        **options: See `MediaConnector`.
    """

    def __init__(self, *, store: str = "http://127.0.0.1:9000", **options: Any) -> None:
        super().__init__(**options)
        self._store = store

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncIterator[Self]:
        async with (
            httpx2.AsyncClient(base_url=self._store, trust_env=False) as self._http,
            super().__asynccontextmanager__(),
        ):
            yield self

    async def load_from_url(self, url: str, media_io: MediaIO[T], fetch_timeout: float | None = None) -> MediaRef[T]:
        """See `MediaConnector.load_from_url`. The decoder is the caller's; bytes and an error are all that is ours."""
        scheme, _, rest = url.partition("://")
        if scheme.lower() != "s3":
            return await super().load_from_url(url, media_io, fetch_timeout)
        target = f"/{quote(rest)}"
        body, cap = bytearray(), media_io.get_max_bytes() or 64 << 20
        with anyio.fail_after(30 if fetch_timeout is None else fetch_timeout):
            async with self._http.stream("GET", target, headers={"x-signature": signature(target)}) as response:
                if response.status_code != 200:
                    raise lazymedia.UnprocessableMediaError(f"the store answers with status {response.status_code}")
                async for piece in response.aiter_raw():
                    body += piece
                    if len(body) > cap:
                        raise lazymedia.PayloadTooLargeError(f"the object has more than the {cap} bytes allowed")
        return await self.build_ref(bytes(body), media_io)


async def main() -> None:
    """One chat request with a picture of the store, and one for an object that is not there."""

    async def stored(request: Request) -> Response:
        allowed = request.headers.get("x-signature") == signature(request.target)
        return Response(body=make_image(320, 240)) if allowed else Response(status=403)

    async with MediaServer({"/pictures/cat.png": stored}) as server:
        connector = S3Connector(store=server.url(""))
        async with lazymedia.open_renderer(make_processor("llava"), connector=connector) as renderer:
            for key in ("cat.png", "dog.png"):
                part = {"type": "image_url", "image_url": {"url": f"s3://pictures/{key}"}}
                try:
                    result = await renderer.render_chat([{"role": "user", "content": [part]}])
                    print(f"{key}: {len(result.prompt_token_ids)} tokens")
                except lazymedia.LazyMediaError as error:
                    print(f"{key}: refused with {error.status_hint}: {error}")


if __name__ == "__main__":
    anyio.run(main, backend="trio")
