"""Embed where there is no event loop: worker threads that share one synchronous renderer.

Run it: python examples/sync_worker.py
"""

from __future__ import annotations

import base64
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import lazymedia
from lazymedia.testing import make_image, make_processor


def question(payload: bytes) -> list[dict[str, Any]]:
    """A chat request with one picture inside."""
    url = f"data:image/png;base64,{base64.b64encode(payload).decode()}"
    return [
        {
            "role": "user",
            "content": [
                {"type": "image_url", "image_url": {"url": url}},
                {"type": "text", "text": "What is this?"},
            ],
        }
    ]


def main() -> None:
    """Four threads, twelve requests, three pictures; a broken one is told by its place."""
    pictures = [make_image(320, 240, seed=seed) for seed in range(3)]
    with lazymedia.SyncRenderer(make_processor("llava")) as renderer, ThreadPoolExecutor(4) as pool:
        results = list(pool.map(renderer.render_chat, [question(pictures[number % 3]) for number in range(12)]))
        print(sum(result.cached["image"][0] for result in results), "of", len(results), "from the cache")

        try:
            renderer.render_chat(question(pictures[0][:200]))
        except lazymedia.UnprocessableMediaError as exc:
            print(f"refused with {exc.status_hint}: {exc}")


if __name__ == "__main__":
    main()
