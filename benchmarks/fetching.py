"""What a fetch costs beyond the bare transfer: many small files at once, one large file, and a long data URL.

The first table: a thousand files of 20 kB with 64 in flight, and one file of 200 MB, over the loopback interface from
another process. Bare httpx2 streams each body into memory and does nothing else; lazymedia also judges, counts, and
takes a SHA-256 of each payload. aiohttp stands beside them on asyncio, where it is installed.

The second: by how much the peak of resident memory rises for the large file, and how long the loop is kept from other
tasks while 30 MB of base64 become a reference, in the best of three, since other processes keep it too.
"""

from __future__ import annotations

import base64
import io
import sys
import time
from argparse import Namespace
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import anyio
import httpx2

from benchmarks.measure import optional
from benchmarks.media_host import media_host
from benchmarks.timing import in_rounds
from lazymedia.cli.show import table
from lazymedia.fetch import MediaConnector
from lazymedia.limits import Limits
from lazymedia.media.raw import RawBytesMediaIO

IN_FLIGHT = 64
SMALL_BYTES = 20_000
LARGE_BYTES = 200_000_000
DATA_BYTES = 30_000_000
LIMITS = Limits(max_image_bytes=LARGE_BYTES)

BARE, OURS = "httpx2, streamed", "lazymedia"

Get = Callable[[str], Awaitable[int]]
"""Fetches a URL and gives the number of its bytes."""


@asynccontextmanager
async def _lazymedia() -> AsyncIterator[Get]:
    decoder = RawBytesMediaIO("image", limits=LIMITS)
    async with MediaConnector(allowed_networks=["127.0.0.0/8"], limits=LIMITS) as media:

        async def get(url: str) -> int:
            return len((await media.fetch_image(url, decoder)).data)

        yield get


@asynccontextmanager
async def _httpx2() -> AsyncIterator[Get]:
    async with httpx2.AsyncClient(trust_env=False, limits=httpx2.Limits(max_connections=IN_FLIGHT)) as client:

        async def get(url: str) -> int:
            body = io.BytesIO()
            async with client.stream("GET", url) as response:
                async for piece in response.aiter_raw():
                    body.write(piece)
            return len(body.getvalue())

        yield get


@asynccontextmanager
async def _aiohttp() -> AsyncIterator[Get]:
    import aiohttp  # type: ignore[import-not-found,unused-ignore]  # of the group "bench", and none of lazymedia's

    connections = aiohttp.TCPConnector(limit=IN_FLIGHT)
    async with aiohttp.ClientSession(connector=connections, auto_decompress=False) as session:

        async def get(url: str) -> int:
            body = io.BytesIO()
            async with session.get(url) as response:
                async for piece in response.content.iter_any():
                    body.write(piece)
            return len(body.getvalue())

        yield get


async def _all(get: Get, urls: list[str], size: int) -> None:
    async def worker() -> None:
        while left:
            assert await get(left.pop()) == size

    left = list(urls)
    async with anyio.create_task_group() as nursery:
        for _ in range(min(IN_FLIGHT, len(urls))):
            nursery.start_soon(worker)


def _clients(backend: str) -> dict[str, Callable[[], Any]]:
    clients: dict[str, Callable[[], Any]] = {BARE: _httpx2, OURS: _lazymedia}
    if backend == "asyncio" and optional("aiohttp") is not None:
        clients["aiohttp, streamed"] = _aiohttp
    return clients


async def transfers(arguments: Namespace, backend: str, host: str, large_bytes: int) -> list[tuple[object, ...]]:
    """The rows of the first table for one loop. Ratios are medians of those of single rounds."""
    small = [f"{host}/{SMALL_BYTES}/{number}" for number in range(20 if arguments.quick else 1000)]
    large = [f"{host}/{large_bytes}"]
    rows: list[tuple[object, ...]] = []
    async with AsyncExitStack() as stack:
        gets = {name: await stack.enter_async_context(client()) for name, client in _clients(backend).items()}
        for what, urls, size in (
            (f"{len(small):,} x 20 kB", small, SMALL_BYTES),
            (_megabytes(large_bytes), large, large_bytes),
        ):
            runs = {name: partial(_all, get, urls, size) for name, get in gets.items()}
            rounds = await in_rounds(runs, min(arguments.rounds, 9))
            for name in runs:
                seconds = median(each[name] for each in rounds)
                ratio = median(each[name] / each[BARE] for each in rounds)
                rows.append((what, backend, name, f"{1e3 * seconds:,.0f} ms", f"{ratio:.2f}"))
                if name == OURS:
                    arguments.targets.at_most(f"fetching {what} on {backend}, of bare httpx2", ratio, 1.15)
    return rows


async def peak_growth(host: str, large_bytes: int) -> float:
    """MiB by which the peak of resident memory rises for the large file, beyond the file."""
    async with _lazymedia() as get:
        await get(f"{host}/{SMALL_BYTES}")
        Path("/proc/self/clear_refs").write_text("5")  # the peak is now what is resident  # noqa: ASYNC240
        before = _resident("VmHWM")
        await get(f"{host}/{large_bytes}")
        return (_resident("VmHWM") - before - large_bytes) / (1 << 20)


def _megabytes(count: int) -> str:
    return f"{count // 1_000_000} MB"


def _resident(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) << 10
    raise LookupError(name)


async def stall(data_bytes: int) -> float:
    """Seconds for which the loop is kept longest while a long data URL becomes a reference."""
    longest = 0.0

    async def tick() -> None:
        nonlocal longest
        while True:
            start = time.perf_counter()
            await anyio.sleep(0.001)
            longest = max(longest, time.perf_counter() - start - 0.001)

    url = "data:image/png;base64," + base64.b64encode(bytes(data_bytes)).decode()
    async with _lazymedia() as get, anyio.create_task_group() as nursery:
        nursery.start_soon(tick)
        await anyio.sleep(0.05)
        longest = 0.0
        await get(url)
        nursery.cancel_scope.cancel()
    return longest


def run(arguments: Namespace) -> None:
    """Print both tables."""
    rows: list[tuple[object, ...]] = []
    large, data = (2_000_000, 1_000_000) if arguments.quick else (LARGE_BYTES, DATA_BYTES)
    with media_host() as host:
        growth = anyio.run(peak_growth, host, large, backend=arguments.backend) if sys.platform == "linux" else None
        kept = 1e3 * min(anyio.run(stall, data, backend=arguments.backend) for _ in range(3))
        for backend in ("trio", "asyncio"):
            rows += anyio.run(transfers, arguments, backend, host, large, backend=backend)
    print(table([("files", "loop", "client", "time", "of httpx2"), *rows]), end="\n\n")
    memory = "not measured here" if growth is None else f"{growth:.1f} MiB"
    beside = [
        (f"peak memory beyond {_megabytes(large)}", memory),
        (f"loop kept by {_megabytes(data)} of base64", f"{kept:.1f} ms"),
    ]
    print(table([("beside the transfer", ""), *beside]), end="\n\n")
    arguments.targets.at_most(f"peak memory of a fetch beyond its {_megabytes(large)}", growth, 8, " MiB")
    arguments.targets.at_most(f"loop kept by a data URL of {_megabytes(data)}", kept, 20, " ms")
