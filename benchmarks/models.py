"""What a request of four items costs with none, two and all of them cached, against one plain call of the processor.

Media are decoded before, so that only processing, look-ups and prompts are compared; `merged` is timed apart. The last
column is what it takes to find out how outputs merge, once for each processor, and to read it back.
"""

from __future__ import annotations

import os
import tempfile
import time
from argparse import Namespace
from collections.abc import Awaitable, Callable
from functools import partial
from importlib.util import find_spec
from statistics import median
from typing import Any, Final
from unittest import mock

import numpy as np

from benchmarks.timing import in_rounds
from lazymedia.cache import ProcessorCache
from lazymedia.cli.show import milliseconds, table
from lazymedia.media import MediaRef
from lazymedia.models import processing_info
from lazymedia.pipeline import MultiModalProcessor
from lazymedia.processing.hooks import call_whole
from lazymedia.testing import make_processor

FAMILIES: Final = (
    ("llava", "image"),
    ("qwen2_5_vl", "image"),
    ("idefics3", "image"),
    ("gemma3", "image"),
    ("qwen2_vl", "video"),
    ("qwen2_audio", "audio"),
)
HITS: Final = (0, 2, 4)


def items(modality: str, count: int, *, quick: bool) -> list[Any]:
    """Decoded media, each of other content."""
    draw = np.random.default_rng(0)
    if modality == "audio":
        return [(draw.standard_normal(16_000 * (2 if quick else 15)) * 0.1).astype(np.float32) for _ in range(count)]
    picture, video = ((120, 160, 3), (4, 64, 64, 3)) if quick else ((900, 1200, 3), (16, 360, 640, 3))
    shape = picture if modality == "image" else video
    return [draw.integers(0, 256, shape, dtype=np.uint8) for _ in range(count)]


def _itself(item: Any) -> Any:
    return item


def _calibrated(family: str, modality: str) -> float:
    """Seconds to learn how outputs merge, without what the family's class declares."""
    kind = type(processing_info(make_processor(family)))
    info = type(kind.__name__, (kind,), {"layouts": {}})(make_processor(family))
    assert info.fingerprint
    info.process_items(modality, [info.prepare_item(modality, info.dummy_item(modality))], info.prepare_kwargs(None))
    start = time.perf_counter()
    info.layouts_of(modality)
    return time.perf_counter() - start


async def row(arguments: Namespace, family: str, modality: str) -> tuple[object, ...]:
    """One family."""
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, LAZYMEDIA_CACHE_DIR=folder):
        found_out, read_back = (_calibrated(family, modality) for _ in range(2))
    info = processing_info(make_processor(family), return_tensors="pt")
    media = items(modality, 4, quick=arguments.quick)
    text = " and ".join([info.placeholder(modality)] * len(media))
    prepared = [info.prepare_item(modality, item) for item in media]
    # As references: what came decoded is identified by its pixels, which takes longer than a look-up.
    decoded = [(item, info.audio_rate) if modality == "audio" else item for item in media]
    refs = [MediaRef(partial(_itself, item), str(number).encode()) for number, item in enumerate(decoded)]
    for ref in refs:
        ref.decode()
    cache: ProcessorCache[Any] = ProcessorCache(4 << 30)

    async with MultiModalProcessor(info, cache=cache) as processor:
        inputs = processor.make_inputs(text, {modality: refs})
        result = await processor.apply(inputs)
        hashes = result.mm_hashes[modality]

        async def whole() -> None:
            call_whole(info.hf_processor, {modality: prepared}, text, {}, 1, "pt")

        async def merged() -> None:
            result.merged()

        def with_hits(count: int) -> Callable[[], Awaitable[None]]:
            async def request() -> None:
                for mm_hash in hashes[count:]:
                    cache.invalidate(mm_hash)
                await processor.apply(inputs)

            return request

        rows = {"whole": whole, "merged": merged} | {f"{count} hits": with_hits(count) for count in reversed(HITS)}
        rounds = await in_rounds(rows, arguments.rounds, warm_up=1)

    def of(name: str) -> float:
        return median(seconds[name] / seconds["whole"] for seconds in rounds)

    return (
        family,
        modality,
        milliseconds(median(seconds["whole"] for seconds in rounds)),
        *(f"{of(f'{count} hits'):.3f}" for count in HITS),
        f"{of('merged'):.3f}",
        f"{found_out:.2f} s, then {milliseconds(read_back)}",
    )


async def run(arguments: Namespace) -> None:
    """The table."""
    if find_spec("torchvision") is None:
        print("models: torchvision is not installed\n")
        return
    heading = (
        "family",
        "items",
        "one plain call",
        *(f"{count} of 4 hit" for count in HITS),
        "merged()",
        "found out in",
    )
    print(table([heading, *[await row(arguments, *pair) for pair in FAMILIES]]), end="\n\n")
    print("ratios to the plain call: up to 1.05 without hits and 0.05 with four are the targets, 0.15 for merged()\n")
