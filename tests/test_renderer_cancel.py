"""A chat request cancelled while its media are under way: nothing is left of it, and the next one works."""

from __future__ import annotations

import base64
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from lazymedia import Renderer, open_renderer
from lazymedia.testing import MediaServer, Request, Response, assert_quiet, make_image
from tests.pipeline.cancelling import running, ways
from tests.pipeline.support import hf_processor

pytestmark = pytest.mark.every_loop

LOOPBACK = ["127.0.0.0/8"]


def ask(*urls: str) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    return [{"role": "user", "content": [*parts, {"type": "text", "text": "?"}]}]


@pytest.mark.parametrize("times", [1, 5])
async def test_a_request_cancelled_while_it_fetches_ends_at_once_and_leaves_nothing(
    times: int, anyio_backend: tuple[str, object]
) -> None:
    for native in ways(anyio_backend):
        asked = anyio.Event()

        async def silent(request: Request, asked: anyio.Event = asked) -> Response:
            asked.set()
            await anyio.sleep_forever()
            raise AssertionError

        payload = make_image(40, 30)
        routes: dict[str, Any] = {"/silent.png": silent, "/a.png": payload}
        async with (
            MediaServer(routes) as server,
            open_renderer(hf_processor(), warm_up="off", allowed_networks=LOOPBACK) as renderer,
        ):
            inline = f"data:image/png;base64,{base64.b64encode(payload).decode()}"
            messages = ask(server.url("/a.png"), server.url("/silent.png"), inline)

            async def render(renderer: Renderer = renderer, messages: Any = messages) -> Any:
                return await renderer.render_chat(messages)

            async with running(render, native) as request_:
                await asked.wait()
                for _ in range(times):
                    request_.cancel()
                    for _ in range(5):
                        await checkpoint()
                with anyio.fail_after(10):
                    await request_.ended.wait()

            assert request_.was_cancelled
            assert_quiet(renderer)
            result = await renderer.render_chat(ask(server.url("/a.png")))
            assert result.cached == {"image": [False]}


async def test_a_storm_of_requests_cancelled_anywhere_leaves_nothing(anyio_backend: tuple[str, object]) -> None:
    payloads = {f"/{number}.png": make_image(40, 30, seed=number) for number in range(4)}
    async with (
        MediaServer(payloads) as server,
        open_renderer(hf_processor(), warm_up="off", allowed_networks=LOOPBACK) as renderer,
    ):

        async def one(number: int, native: bool) -> None:
            urls = [server.url(f"/{(number + n) % 4}.png") for n in range(3)]
            async with running(lambda: renderer.render_chat(ask(*urls)), native) as request_:
                for _ in range(number * 13 % 200):
                    await checkpoint()
                for _ in range(1 + number % 3):
                    if not request_.ended.is_set():
                        request_.cancel()
                    await checkpoint()
            assert request_.was_cancelled or request_.outcome is None or hasattr(request_.outcome, "mm_kwargs")

        for native in ways(anyio_backend):
            for _ in range(3):
                async with anyio.create_task_group() as nursery:
                    for number in range(15):
                        nursery.start_soon(one, number, native)
                assert_quiet(renderer)
        assert len((await renderer.render_chat(ask(*map(server.url, payloads)))).mm_hashes["image"]) == 4
