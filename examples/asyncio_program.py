"""Embed in a plain asyncio program: a TaskGroup of requests, one renderer, native cancellation.

Run it: python examples/asyncio_program.py
"""

from __future__ import annotations

import asyncio
from typing import Any

import lazymedia
from lazymedia.testing import MediaServer, make_image, make_processor


def question(url: str) -> list[dict[str, Any]]:
    """A chat request with one picture."""
    return [
        {
            "role": "user",
            "content": [
                {"type": "image_url", "image_url": {"url": url}},
                {"type": "text", "text": "What is this?"},
            ],
        }
    ]


async def ask(renderer: lazymedia.Renderer, url: str) -> lazymedia.MultiModalInputs:
    """One request under a deadline. `asyncio.timeout` and `Task.cancel` wait for its decodes before they go on."""
    async with asyncio.timeout(10):
        return await renderer.render_chat(question(url))


async def main() -> None:
    """Two rounds of four requests; the second finds everything in the cache. A fifth request is cancelled."""
    pictures = {f"/{name}.png": make_image(320, 240, seed=seed) for seed, name in enumerate("abcd")}
    async with (
        MediaServer(pictures) as server,
        lazymedia.open_renderer(make_processor("llava"), allowed_networks=["127.0.0.0/8"]) as renderer,
    ):
        for name in ("cold", "hot"):
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(ask(renderer, server.url(path))) for path in pictures]
            print(name, [task.result().cached["image"][0] for task in tasks])

        left = asyncio.create_task(ask(renderer, server.url("/a.png")))
        await asyncio.sleep(0)
        left.cancel()
        try:
            await left
        except asyncio.CancelledError:
            print("cancelled, and nothing is left:", renderer.processor.statistics().open_requests, "open requests")


if __name__ == "__main__":
    asyncio.run(main())
