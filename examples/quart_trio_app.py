"""Embed in a server on trio: Quart-Trio under Hypercorn, the renderer opened around the server.

UUIDs of media count within the scope of one client; see fastapi_app.py.

Run it: python examples/quart_trio_app.py
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

import trio
from hypercorn.config import Config
from hypercorn.trio import serve
from quart import request
from quart_trio import QuartTrio

import lazymedia
from lazymedia.testing import make_processor


def read_json(body: bytes | str) -> dict[str, Any]:
    """The object in a request's body. Python's reader raises RecursionError where arrays are nested too deeply."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as exc:
        raise lazymedia.BadRequestError("the body is not JSON, or is nested too deeply") from exc
    if not isinstance(found, dict):
        raise lazymedia.BadRequestError("the body must be a JSON object")
    return found


def scope_of(authorization: str) -> str | None:
    """One scope for each API key; a digest, so that the key itself is kept nowhere."""
    scheme, _, key = authorization.partition(" ")
    return hashlib.sha256(key.encode()).hexdigest() if scheme.lower() == "bearer" and key else None


def make_app(renderer: lazymedia.Renderer) -> QuartTrio:
    """An app whose requests share a renderer that somebody else owns."""
    app = QuartTrio(__name__)

    @app.post("/v1/tokenize")  # type: ignore[untyped-decorator]  # quart-trio carries no types
    async def tokenize() -> dict[str, Any]:
        body = read_json(await request.get_data(as_text=False))
        # The body's chat_template, if it has one, is left out: a template is a program.
        result = await renderer.render_chat(
            body.get("messages", ()),
            tools=body.get("tools"),
            chat_template_kwargs=body.get("chat_template_kwargs"),
            add_generation_prompt=body.get("add_generation_prompt", True),
            continue_final_message=body.get("continue_final_message", False),
            cache_scope=scope_of(request.headers.get("authorization", "")),
        )
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
