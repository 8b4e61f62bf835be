"""Embed in FastAPI: the renderer lives in the lifespan, requests share it, an item's fault is told as 422 with its
place.

The lifespan is entered and left by one task, as a renderer needs. A per-request dependency is not, and must not own
one.

Run it: uvicorn examples.fastapi_app:app   (or: hypercorn examples.fastapi_app:app)
"""

from __future__ import annotations

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


@app.post("/v1/tokenize")
async def tokenize(request: Request) -> dict[str, Any]:
    """How many tokens a chat request has, and which of its pictures were known."""
    try:
        body = await request.json()
    except ValueError as exc:
        raise lazymedia.BadRequestError("the body is not JSON") from exc
    renderer: lazymedia.Renderer = request.app.state.renderer
    messages: Any = body.get("messages") if isinstance(body, dict) else body
    result = await renderer.render_chat(messages)
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
