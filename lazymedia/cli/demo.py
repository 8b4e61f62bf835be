"""``lazymedia demo``: the main job, shown: three requests for each modality, cold, hot and mixed.

Nothing is faked: generated media are served by a real server on loopback, and the processors are real ones from
transformers. Pictures and audio need no torch; a video is shown where torchvision is installed.
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
    from lazymedia.processing import ProcessingInfo
    from lazymedia.renderer import Renderer
    from lazymedia.testing.server import MediaServer

T = TypeVar("T")

PICTURES = (("harbour.jpg", "JPEG"), ("meadow.png", "PNG"), ("street.webp", "WEBP"), ("night.jpg", "JPEG"))
SIDES = (2000, 1500)
CLIPS = (("song.flac", "FLAC"), ("talk.mp3", "MP3"), ("bell.wav", "WAV"), ("rain.ogg", "OGG"))
SECONDS = 20.0
VIDEOS = ("walk.mp4", "train.mp4")
FRAMES = 250

OTHERS = (("audio", "qwen2_audio", CLIPS), ("video", "qwen2_vl", VIDEOS))
"""What is shown beside pictures: modality, family, and what is made. Videos need torchvision."""


@dataclass(frozen=True)
class Round:
    """What became of one request. Times in seconds; counts of items."""

    name: str
    modality: str
    items: int
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
    rounds = []
    async with _sources(arguments) as (urls, connector):
        rounds += await _rounds(arguments, "image", processor(arguments), urls, connector)
    if not arguments.sources and getattr(arguments, "processor", None) is None:
        for modality, family, made in OTHERS:
            info = _made(family)
            if info is None:
                continue
            async with _served(modality) as server:
                connector = open_connector(arguments, networks=["127.0.0.0/8"], kind=_Counting)
                urls = [server.url(f"/{name if isinstance(name, str) else name[0]}") for name in made]
                rounds += await _rounds(arguments, modality, info, urls, connector)
    if arguments.json:
        print(json.dumps([asdict(round_) for round_ in rounds]))


async def _rounds(
    arguments: Namespace, modality: str, info: ProcessingInfo, urls: list[str], connector: _Counting
) -> list[Round]:
    """Three requests for media of one modality, and a table of them."""
    from lazymedia.renderer import open_renderer

    if not arguments.json:
        print(f"{len(urls)} {_PLURAL[modality]}, {type(info.hf_processor).__name__}, {arguments.backend}\n")
    async with open_renderer(info, warm_up="await", connector=connector) as renderer:
        first, last = urls[:-1] or urls, urls[-1:]
        show = partial(_round, modality=modality, renderer=renderer, connector=connector)
        rounds = [
            await show("cold", "nothing is known", urls=first),
            await show("hot", "the same again", urls=first),
        ]
        if len(urls) > 1:
            rounds.append(await show("mixed", "one new among the known", urls=[*last, *first]))
    if not arguments.json:
        print(table([_HEADING, *(_row(round_) for round_ in rounds)]))
        cold, hot = rounds[0], rounds[1]
        print(
            f"\nThe hot request fetched {size(hot.fetched_bytes)} and took their digests. It decoded {hot.decoded} "
            f"{_PLURAL[modality]}, called the processor\non {hot.processed}, and was "
            f"{cold.total / hot.total:.0f} times as fast as the cold one.\n"
        )
    return rounds


_PLURAL = {"image": "pictures", "video": "videos", "audio": "clips"}


def _made(family: str) -> ProcessingInfo | None:
    """A family that is built in; None where its processor needs a library that is not installed."""
    from lazymedia.models import processing_info
    from lazymedia.testing.processors import make_processor, plain_chat_template

    try:
        hf_processor = make_processor(family)
    except ImportError:
        return None
    hf_processor.chat_template = hf_processor.chat_template or plain_chat_template(hf_processor)
    return processing_info(hf_processor)


class _Counting(MediaConnector):
    """A connector that counts the bytes of what it fetched."""

    fetched_bytes = 0

    async def load_from_url(self, url: str, media_io: MediaIO[T], fetch_timeout: float | None = None) -> MediaRef[T]:
        ref = await super().load_from_url(url, media_io, fetch_timeout)
        self.fetched_bytes += len(ref.data)
        return ref


_HEADING = ("request", "items", "fetched", "hits", "decoded", "processed", "fetch", "decode", "process", "in all")


def _row(round_: Round) -> tuple[object, ...]:
    return (
        round_.name,
        round_.items,
        size(round_.fetched_bytes),
        round_.hits,
        round_.decoded,
        round_.processed,
        milliseconds(round_.fetch),
        milliseconds(round_.decode),
        milliseconds(round_.process),
        milliseconds(round_.total),
    )


async def _round(
    name: str, note: str, modality: str, renderer: Renderer, connector: _Counting, urls: Sequence[str]
) -> Round:
    fetched, decoded = connector.fetched_bytes, renderer.processor.statistics().decoded
    start = time.perf_counter()
    result = await renderer.render_chat(_messages(modality, urls))
    total = time.perf_counter() - start
    verdicts = list(zip(result.mm_hashes[modality], result.cached[modality]))
    return Round(
        name=f"{name} ({note})",
        modality=modality,
        items=len(urls),
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


def _messages(modality: str, urls: Sequence[str]) -> list[dict[str, Any]]:
    kind = f"{modality}_url"
    items = [{"type": kind, kind: {"url": url}} for url in urls]
    return [{"role": "user", "content": [*items, {"type": "text", "text": "What do these have in common?"}]}]


@asynccontextmanager
async def _sources(arguments: Namespace) -> AsyncIterator[tuple[list[str], _Counting]]:
    """URLs to ask for, and a connector that may fetch them."""
    if arguments.sources:
        urls, root = urls_of(arguments.sources)
        yield urls, open_connector(arguments, root, kind=_Counting)
        return
    async with _served("image") as server:
        connector = open_connector(arguments, networks=["127.0.0.0/8"], kind=_Counting)
        yield [server.url(f"/{name}") for name, _ in PICTURES], connector


def _served(modality: str) -> MediaServer:
    from lazymedia.testing.audio import make_audio
    from lazymedia.testing.media import make_image
    from lazymedia.testing.server import MediaServer
    from lazymedia.testing.video import make_video

    match modality:
        case "audio":
            made = {
                f"/{name}": make_audio(SECONDS, 16_000, format=format_, seed=seed)
                for seed, (name, format_) in enumerate(CLIPS)
            }
        case "video":
            made = {
                f"/{name}": make_video(FRAMES, width=640, height=360, seed=seed) for seed, name in enumerate(VIDEOS)
            }
        case _:
            made = {
                f"/{name}": make_image(*SIDES, format=format_, seed=seed)
                for seed, (name, format_) in enumerate(PICTURES)
            }
    return MediaServer(made)


__all__ = ["Round", "run"]
