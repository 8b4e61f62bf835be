"""Embed in FastAPI: the renderer lives in the lifespan, requests share it, and errors name the item that failed.

The lifespan is entered and left by one task, as a renderer needs. A per-request dependency is not, and must not own
one.

UUIDs of media count within the scope of one client, which the client's API key identifies. An application that
authenticates its clients takes the client's name instead. Requests without a key have no scope, so their UUIDs are
rejected.

Run it: uvicorn examples.fastapi_app:app   (or: hypercorn examples.fastapi_app:app)
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

import lazymedia
from lazymedia.testing import make_processor


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Open the renderer for as long as the server runs."""
    networks = os.environ.get("ALLOWED_NETWORKS", "")
    async with lazymedia.open_renderer(
        make_processor("llava"), allowed_networks=networks.split(",") if networks else ()
    ) as renderer:
        app.state.renderer = renderer
        yield


app = FastAPI(lifespan=lifespan)


def read_json(body: bytes | str) -> dict[str, Any]:
    """The object in a request's body. Python's reader raises RecursionError where arrays are nested too deeply."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as exc:
        raise lazymedia.BadRequestError("the body is not JSON, or is nested too deeply") from exc
    if not isinstance(found, dict):
        raise lazymedia.BadRequestError("the body must be a JSON object")
    return found


def scope_of(request: Request) -> str | None:
    """One scope for each API key; a digest, so that the key itself is kept nowhere."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return hashlib.sha256(key.encode()).hexdigest() if scheme.lower() == "bearer" and key else None


@app.post("/v1/tokenize")
async def tokenize(request: Request) -> dict[str, Any]:
    """How many tokens a chat request has, and which of its pictures were known."""
    body = read_json(await request.body())
    renderer: lazymedia.Renderer = request.app.state.renderer
    # The body's chat_template, if it has one, is left out: a template is a program.
    result = await renderer.render_chat(
        body.get("messages", ()),
        tools=body.get("tools"),
        chat_template_kwargs=body.get("chat_template_kwargs"),
        add_generation_prompt=body.get("add_generation_prompt", True),
        continue_final_message=body.get("continue_final_message", False),
        cache_scope=scope_of(request),
    )
    return {"tokens": len(result.prompt_token_ids), "cached": result.cached}


@app.exception_handler(lazymedia.LazyMediaError)
async def refuse(request: Request, exc: lazymedia.LazyMediaError) -> JSONResponse:
    """Every error says what a server needs: a status, whether to try again, and which item it was."""
    del request
    seconds = exc.retry_after if isinstance(exc, lazymedia.OverloadedError | lazymedia.UpstreamError) else None
    retry = {"Retry-After": f"{seconds:.0f}"} if seconds else None
    return JSONResponse(
        {"error": str(exc), "modality": exc.modality, "index": exc.index},
        status_code=exc.status_hint or 500,
        headers=retry,
    )
