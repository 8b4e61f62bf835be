"""``lazymedia demo``: the main job, shown: three requests, cold, hot and mixed.

Comes in: nothing, or URLs and files of the user's own. Goes out: for each request, what was fetched, hit, decoded and
processed, with times. Never here: anything faked; generated pictures are served by a real server on loopback, and the
processor is a real one from transformers.
"""

from __future__ import annotations

import json
import time
from argparse import Namespace
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from lazymedia.cli.options import open_connector
from lazymedia.cli.render import processor
from lazymedia.cli.show import milliseconds, size, table
from lazymedia.cli.sources import urls_of
from lazymedia.contexts import asynccontextmanager
from lazymedia.fetch import MediaConnector

if TYPE_CHECKING:
    from lazymedia.media.io import MediaIO
    from lazymedia.media.ref import MediaRef
    from lazymedia.renderer import Renderer
    from lazymedia.testing.server import MediaServer

T = TypeVar("T")

PICTURES = (("harbour.jpg", "JPEG"), ("meadow.png", "PNG"), ("street.webp", "WEBP"), ("night.jpg", "JPEG"))
SIDES = (2000, 1500)


@dataclass(frozen=True)
class Round:
    """What became of one request. Times in seconds; counts of pictures."""

    name: str
    pictures: int
    fetched_bytes: int
    hits: int
    decoded: int
    processed: int
    fetch: float
    decode: float
    process: float
    total: float
    tokens: int


def run(arguments: Namespace) -> int:
    """Show three requests."""
    anyio.run(_demo, arguments, backend=arguments.backend)
    return 0


async def _demo(arguments: Namespace) -> None:
    async with _sources(arguments) as (urls, connector):
        from lazymedia.renderer import open_renderer

        info = processor(arguments)
        if not arguments.json:
            print(f"{len(urls)} pictures, {type(info.hf_processor).__name__}, {arguments.backend}\n")
        async with open_renderer(info, warm_up="await", connector=connector) as renderer:
            first, last = urls[:-1] or urls, urls[-1:]
            show = partial(_round, renderer=renderer, connector=connector)
            rounds = [
                await show("cold", "nothing is known", urls=first),
                await show("hot", "the same again", urls=first),
            ]
            if len(urls) > 1:
                rounds.append(await show("mixed", "one new among the known", urls=[*last, *first]))
    if arguments.json:
        print(json.dumps([asdict(round_) for round_ in rounds]))
        return
    print(table([_HEADING, *(_row(round_) for round_ in rounds)]))
    cold, hot = rounds[0], rounds[1]
    print(
        f"\nThe hot request fetched {size(hot.fetched_bytes)} and took their digests. It decoded {hot.decoded} "
        f"pictures, called the processor\non {hot.processed}, and was {cold.total / hot.total:.0f} times as fast "
        "as the cold one."
    )


class _Counting(MediaConnector):
    """A connector that counts the bytes of what it fetched."""

    fetched_bytes = 0

    async def load_from_url(self, url: str, media_io: MediaIO[T], fetch_timeout: float | None = None) -> MediaRef[T]:
        ref = await super().load_from_url(url, media_io, fetch_timeout)
        self.fetched_bytes += len(ref.data)
        return ref


_HEADING = ("request", "pictures", "fetched", "hits", "decoded", "processed", "fetch", "decode", "process", "in all")


def _row(round_: Round) -> tuple[object, ...]:
    return (
        round_.name,
        round_.pictures,
        size(round_.fetched_bytes),
        round_.hits,
        round_.decoded,
        round_.processed,
        milliseconds(round_.fetch),
        milliseconds(round_.decode),
        milliseconds(round_.process),
        milliseconds(round_.total),
    )


async def _round(name: str, note: str, renderer: Renderer, connector: _Counting, urls: Sequence[str]) -> Round:
    fetched, decoded = connector.fetched_bytes, renderer.processor.statistics().decoded
    start = time.perf_counter()
    result = await renderer.render_chat(_messages(urls))
    total = time.perf_counter() - start
    verdicts = list(zip(result.mm_hashes["image"], result.cached["image"]))
    return Round(
        name=f"{name} ({note})",
        pictures=len(urls),
        fetched_bytes=connector.fetched_bytes - fetched,
        hits=sum(cached for _, cached in verdicts),
        decoded=renderer.processor.statistics().decoded - decoded,
        processed=len({mm_hash for mm_hash, cached in verdicts if not cached}),
        fetch=result.timings["fetch"],
        decode=result.timings["decode_mm_items"],
        process=result.timings["apply_hf_processor"],
        total=total,
        tokens=len(result.prompt_token_ids),
    )


def _messages(urls: Sequence[str]) -> list[dict[str, Any]]:
    pictures = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    return [{"role": "user", "content": [*pictures, {"type": "text", "text": "What do these have in common?"}]}]


@asynccontextmanager
async def _sources(arguments: Namespace) -> AsyncIterator[tuple[list[str], _Counting]]:
    """URLs to ask for, and a connector that may fetch them."""
    if arguments.sources:
        urls, root = urls_of(arguments.sources)
        yield urls, open_connector(arguments, root, kind=_Counting)
        return
    async with _served() as server:
        connector = open_connector(arguments, networks=["127.0.0.0/8"], kind=_Counting)
        yield [server.url(f"/{name}") for name, _ in PICTURES], connector


def _served() -> MediaServer:
    from lazymedia.testing.media import make_image
    from lazymedia.testing.server import MediaServer

    return MediaServer(
        {f"/{name}": make_image(*SIDES, format=format_, seed=seed) for seed, (name, format_) in enumerate(PICTURES)}
    )


__all__ = ["Round", "run"]
