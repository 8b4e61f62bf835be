"""Embed in a plain trio program: many requests at once, one renderer, a deadline for each.

Run it: python examples/trio_program.py
"""

from __future__ import annotations

from typing import Any

import trio

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


async def ask(renderer: lazymedia.Renderer, url: str) -> None:
    """One request. When its deadline passes, its decodes are drained and its bytes released before this returns."""
    with trio.move_on_after(10) as deadline:
        result = await renderer.render_chat(question(url))
        print(f"{len(result.prompt_token_ids)} tokens, cached: {result.cached['image']}")
    if deadline.cancelled_caught:
        print("gave up")


async def main() -> None:
    """Eight requests for two pictures, side by side."""
    pictures = {f"/{name}.jpg": make_image(640, 480, format="JPEG", seed=seed) for seed, name in enumerate("ab")}
    async with (
        MediaServer(pictures) as server,
        lazymedia.open_renderer(make_processor("llava"), allowed_networks=["127.0.0.0/8"]) as renderer,
        trio.open_nursery() as nursery,
    ):
        for number in range(8):
            nursery.start_soon(ask, renderer, server.url(f"/{'ab'[number % 2]}.jpg"))


if __name__ == "__main__":
    trio.run(main)
