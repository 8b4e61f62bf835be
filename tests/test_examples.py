"""Every example runs: the plain ones as programs, the servers under a real Hypercorn on loopback."""

from __future__ import annotations

import base64
import os
import runpy
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import hypercorn.asyncio
import pytest
from httpx2 import AsyncClient
from hypercorn.config import Config

from lazymedia.testing import make_image
from tests.programs import Programs

ROOT = Path(__file__).parents[1]
PROGRAMS = {
    "trio_program.py": ["tokens, cached: [False]", "tokens, cached: [True]"],
    "asyncio_program.py": ["cold [False, False, False, False]", "hot [True, True, True, True]", "0 open requests"],
    "s3_store.py": ["cat.png: ", " tokens", "dog.png: refused with 422: image at index 0"],
    "sync_worker.py": ["of 12 from the cache", "refused with 422: image at index 0"],
}
SERVERS = {"fastapi_app.py", "quart_trio_app.py"}


def test_every_example_is_tested() -> None:
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == {*PROGRAMS, *SERVERS}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_runs_and_says_what_it_should(name: str, programs: Programs) -> None:
    done = programs.run(str(ROOT / "examples" / name))

    assert done.returncode == 0, done.stderr
    assert all(said in done.stdout for said in PROGRAMS[name]), done.stdout
    assert not done.stderr


def question(payload: bytes) -> dict[str, Any]:
    url = f"data:image/png;base64,{base64.b64encode(payload).decode()}"
    content = [{"type": "text", "text": "?"}, {"type": "image_url", "image_url": {"url": url}}]
    return {"messages": [{"role": "user", "content": content}]}


def talking(content: bytes, rest: bytes = b"") -> bytes:
    return b'{"messages": [{"role": "user", "content": ' + content + b"}]" + rest + b"}"


NONSENSE = {
    # No JSON
    b"",
    b"{",
    b"\xff\xfe{}",
    b'{"messages": "\xff"}',
    b"\x00",
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"[" * 100_000 + b"]" * 100_000,
    talking(b"[" * 100_000 + b"]" * 100_000),
    talking(b"1" * 5_000),
    # JSON of another form
    b"[1]",
    b"{}",
    b"null",
    b'"messages"',
    b'{"messages": 3}',
    b'{"messages": {}}',
    b'{"messages": "hello"}',
    b'{"messages": []}',
    b'{"messages": [null]}',
    b'{"messages": [[]]}',
    b'{"messages": [{"role": 1, "content": "a"}]}',
    b'{"messages": [' + b'{"role": "user", "content": "a"},' * 5_000 + b'{"role": "user", "content": "a"}]}',
    talking(b"1e999"),
    talking(b"NaN"),
    talking(b"true"),
    talking(b"{}"),
    talking(b"[[]]"),
    talking(b"[null]"),
    talking(b"[" * 500 + b"]" * 500),
    talking(b'[{"type": "\\ud800"}]'),
    talking(b'"\\ud800"'),
    talking(b'[{"type": "text", "text": ' + b"[" * 500 + b"]" * 500 + b"}]"),
    talking(b'[{"type": "image_url", "image_url": {"url": 1e400}}]'),
    talking(b'[{"type": "image_url", "image_url": {"url": ""}}]'),
    talking(b'[{"type": "image_url", "image_url": {"url": "\\ud800"}}]'),
    talking(b'[{"type": "image_url", "image_url": "data:image/png;base64,\\ud800"}]'),
    talking(b'[{"type": "image", "image": [[[0, 0, 0]]]}]'),
    # Options of another form
    talking(b'"a"', b', "tools": "look"'),
    talking(b'"a"', b', "tools": [1]'),
    talking(b'"a"', b', "tools": {}'),
    talking(b'"a"', b', "chat_template_kwargs": [1]'),
    talking(b'"a"', b', "chat_template_kwargs": {"messages": []}'),
    talking(b'"a"', b', "add_generation_prompt": 1e999'),
    talking(b'"a"', b', "continue_final_message": "content"'),
}
"""Bodies that are the client's fault, whatever they make a server do on the way."""


@asynccontextmanager
async def client(port: int) -> AsyncIterator[AsyncClient]:
    """A client that waits until the server answers."""
    async with AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30, trust_env=False) as connected:
        yield connected


async def talk(port: int) -> None:
    """The conversation that every server is held to."""
    async with client(port) as http:
        answers = [await http.post("/v1/tokenize", json=question(make_image(40, 30))) for _ in range(2)]

        assert [answer.status_code for answer in answers] == [200, 200]
        assert [answer.json()["cached"]["image"] for answer in answers] == [[False], [True]]
        assert answers[0].json()["tokens"] > 576

        broken = await http.post("/v1/tokenize", json=question(make_image(40, 30)[:60]))
        assert broken.status_code == 422
        assert (broken.json()["modality"], broken.json()["index"]) == ("image", 0)

        for nonsense in NONSENSE:
            headers = {"Content-Type": "application/json", "Authorization": "Bearer key of Ada"}
            refused = await http.post("/v1/tokenize", content=nonsense, headers=headers)
            assert refused.status_code == 400, (nonsense[:80], refused.text)
            assert refused.json()["error"]

        named = question(make_image(40, 30))
        named["messages"][0]["content"][1]["uuid"] = "cat"
        only_uuid = question(b"")
        only_uuid["messages"][0]["content"][1] = {"type": "image_url", "uuid": "cat"}
        ada, bob = ({"Authorization": f"Bearer {key}"} for key in ("key of Ada", "key of Bob"))
        for headers in ({}, {"Authorization": ""}, {"Authorization": "Bearer"}, {"Authorization": "Basic cat"}):
            anonymous = await http.post("/v1/tokenize", json=named, headers=headers)
            assert (anonymous.status_code, anonymous.json()["index"]) == (400, 0)
            assert "UUID" in anonymous.json()["error"]
        assert (await http.post("/v1/tokenize", json=named, headers=ada)).status_code == 200
        again = await http.post("/v1/tokenize", json=only_uuid, headers=ada)
        assert again.json()["cached"]["image"] == [True]
        assert (await http.post("/v1/tokenize", json=only_uuid, headers=bob)).status_code == 503

        forbidden = question(b"")
        forbidden["messages"][0]["content"][1]["image_url"]["url"] = "http://127.0.0.1/x.png"
        answer = await http.post("/v1/tokenize", json=forbidden)
        assert answer.status_code == 403
        assert "127" not in answer.text.replace("127.0.0.1:", "")


def listening() -> socket.socket:
    """A socket on a free port of loopback, listening before any server runs, so that no client comes too early."""
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    bound.listen()
    return bound


@pytest.mark.parametrize("anyio_backend", [("asyncio", {})], ids=["asyncio"])
async def test_the_fastapi_app(anyio_backend: object) -> None:
    app = runpy.run_path(str(ROOT / "examples" / "fastapi_app.py"))["app"]
    with listening() as bound:
        config = Config()
        config.bind = [f"fd://{os.dup(bound.fileno())}"]
        config.accesslog = config.errorlog = None
        stop = anyio.Event()
        async with anyio.create_task_group() as nursery:

            async def serve() -> None:
                await hypercorn.asyncio.serve(app, config, shutdown_trigger=stop.wait)

            nursery.start_soon(serve)
            await talk(bound.getsockname()[1])
            stop.set()


@pytest.mark.parametrize("anyio_backend", [("trio", {})], ids=["trio"])
async def test_the_quart_trio_app(anyio_backend: object) -> None:
    example = runpy.run_path(str(ROOT / "examples" / "quart_trio_app.py"))
    with listening() as bound:
        stop = anyio.Event()
        async with anyio.create_task_group() as nursery:

            async def serve() -> None:
                await example["main"](f"fd://{os.dup(bound.fileno())}", stop)

            nursery.start_soon(serve)
            await talk(bound.getsockname()[1])
            stop.set()
