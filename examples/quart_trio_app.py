"""Embed in a server on trio: Quart-Trio under Hypercorn, the renderer opened around the server.

Run it: python examples/quart_trio_app.py
"""

from __future__ import annotations

import os
from typing import Any

import trio
from hypercorn.config import Config
from hypercorn.trio import serve
from quart import request
from quart_trio import QuartTrio

import lazymedia
from lazymedia.testing import make_processor


def make_app(renderer: lazymedia.Renderer) -> QuartTrio:
    """An app whose requests share a renderer that somebody else owns."""
    app = QuartTrio(__name__)

    @app.post("/v1/tokenize")  # type: ignore[untyped-decorator]  # quart-trio carries no types
    async def tokenize() -> dict[str, Any]:
        body = await request.get_json(force=True, silent=True)
        messages: Any = body.get("messages") if isinstance(body, dict) else body
        result = await renderer.render_chat(messages)
        return {"tokens": len(result.prompt_token_ids), "cached": result.cached}

    @app.errorhandler(lazymedia.LazyMediaError)  # type: ignore[untyped-decorator]  # the same
    async def refuse(exc: lazymedia.LazyMediaError) -> tuple[dict[str, Any], int]:
        return {"error": str(exc), "modality": exc.modality, "index": exc.index}, exc.status_hint or 500

    return app


async def main(bind: str = "127.0.0.1:8000", shutdown: trio.Event | None = None) -> None:
    """Serve until told to stop; then open requests are ended, drained, and answered with 503."""
    config = Config()
    config.bind = [bind]
    networks = os.environ.get("ALLOWED_NETWORKS", "")
    async with lazymedia.open_renderer(
        make_processor("llava"), allowed_networks=networks.split(",") if networks else ()
    ) as renderer:
        await serve(make_app(renderer), config, shutdown_trigger=None if shutdown is None else shutdown.wait)


if __name__ == "__main__":
    trio.run(main)
