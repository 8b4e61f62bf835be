"""What pipeline tests share: a real LLaVA processor, payloads, and gates inside the phases."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from typing import Any

import anyio
import numpy as np
from PIL import Image

from lazymedia.cache import Pin, ProcessorCache
from lazymedia.media.io import MediaIO
from lazymedia.media.ref import MediaRef
from lazymedia.models import processing_info
from lazymedia.pipeline import MultiModalProcessor
from lazymedia.processing import MultiModalInputs, ProcessedItem, ProcessingInfo, ProcessorInputs
from lazymedia.testing.decoders import GatedMediaIO
from lazymedia.testing.processors import make_processor
from lazymedia.testing.quiet import assert_quiet

WAIT = 20.0
"""Seconds after which a gate that should have opened fails a test."""

Cache = ProcessorCache[ProcessedItem]


@cache
def hf_processor() -> Any:
    return make_processor("llava")


def picture(seed: int = 0) -> Image.Image:
    return Image.new("RGB", (32, 24), (seed * 40 % 256, seed * 70 % 256, 90))


def prompt(count: int) -> str:
    return "USER: " + "<image>\n" * count + "What is this? ASSISTANT:"


class Gate:
    """A place where a worker thread waits to be let go, once armed."""

    def __init__(self) -> None:
        self.armed = False
        self.reached = threading.Event()
        self.opened = threading.Event()

    def arm(self) -> None:
        self.armed = True
        self.reached.clear()
        self.opened.clear()

    def open(self) -> None:
        self.armed = False
        self.opened.set()

    def pass_through(self) -> None:
        if self.armed:
            self.reached.set()
            assert self.opened.wait(WAIT)


async def reached(event: threading.Event) -> None:
    """Wait until a worker thread has come to a gate."""
    assert await anyio.to_thread.run_sync(event.wait, WAIT)


class GatedCache(Cache):
    """Its first look-up of a phase, and its commits, pass a gate."""

    def __init__(self, capacity_bytes: int = 1 << 30) -> None:
        super().__init__(capacity_bytes)
        self.gate = Gate()

    def pin(self, mm_hash: str) -> Pin[ProcessedItem] | None:
        self.gate.pass_through()
        return super().pin(mm_hash)


class WatchedInfo(type(processing_info(make_processor("llava")))):  # type: ignore[misc]  # the family's own class
    """A real processor whose every item passes a gate and is counted."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.gate = Gate()
        self.processed = 0
        self.fail: Callable[[Any], None] = lambda _: None

    def process_item(self, modality: str, media: Any, mm_processor_kwargs: Any = None) -> ProcessedItem:
        self.gate.pass_through()
        self.processed += 1
        self.fail(media)
        item: ProcessedItem = super().process_item(modality, media, mm_processor_kwargs)
        return item


class Watched(MultiModalProcessor):
    """A processor of a watched info; what it overrides is for the type checker only."""

    info: WatchedInfo


@asynccontextmanager
async def opened(
    *, cache: Cache | None = None, info: ProcessingInfo | None = None, **options: Any
) -> AsyncIterator[Watched]:
    """A processor, entered; quiet again before it is left."""
    async with Watched(info or WatchedInfo(hf_processor(), return_tensors="np"), cache=cache, **options) as processor:
        yield processor
        assert_quiet(processor)


def caching(**options: Any) -> AbstractAsyncContextManager[Watched]:
    """The same, with a cache of its own that has room for everything."""
    return opened(cache=ProcessorCache(1 << 30), **options)


def refs(io: MediaIO[Any], count: int, first: int = 0) -> list[MediaRef[Any]]:
    """References to payloads that differ."""
    return [io.load_bytes_ref(f"payload {first + number}".encode()) for number in range(count)]


def request(processor: MultiModalProcessor, items: Sequence[object], **options: Any) -> ProcessorInputs:
    return processor.make_inputs(prompt(len(items)), {"image": list(items)}, **options)


def pixels(result: MultiModalInputs) -> list[Any]:
    return [np.asarray(item["pixel_values"]) for item in result.mm_kwargs["image"] if item is not None]


def open_gated(count: int = 1, **options: Any) -> GatedMediaIO[Any]:
    """A decoder whose gate is open."""
    io: GatedMediaIO[Any] = GatedMediaIO(picture(count), **options)
    io.release()
    return io
