"""From the cancellation of a request that decodes a long video to the moment in which it has drained.

The requests go through a processor, as a server's do; their video is never processed, since they are cancelled before.
"""

from __future__ import annotations

import time
from argparse import Namespace
from functools import partial
from statistics import median

import anyio

from lazymedia.cli.show import milliseconds, table
from lazymedia.media.video import VideoMediaIO
from lazymedia.models import processing_info
from lazymedia.pipeline import MultiModalProcessor
from lazymedia.processing import ProcessorInputs
from lazymedia.testing import make_processor

FRAMES = 32
_EARLIEST = 0.02
"""Of the time that the decode takes: where the first round cancels; the last cancels near its end."""
_LATEST = 0.8


async def _drains(data: bytes, threads: int, rounds: int) -> list[float]:
    """Seconds of each round that cancelled a running decode."""
    decoder = VideoMediaIO(num_frames=FRAMES, decoder_threads=threads)
    start = time.perf_counter()
    await anyio.to_thread.run_sync(decoder.load_bytes, data)
    whole = time.perf_counter() - start
    info = processing_info(make_processor("llava"), return_tensors="np")
    found = []
    async with MultiModalProcessor(info) as processor:
        for number in range(rounds):
            # A reference is opaque until it is decoded, so that this model's only modality does.
            inputs = processor.make_inputs("<image>", {"image": [decoder.load_bytes_ref(data)]})
            wait = whole * (_EARLIEST + (_LATEST - _EARLIEST) * number / max(rounds - 1, 1))
            async with anyio.create_task_group() as group:
                group.start_soon(_request, processor, inputs)
                await anyio.sleep(wait)
                running = processor.statistics().running_decodes
                cancelled = time.perf_counter()
                group.cancel_scope.cancel()
            if running:
                found.append(time.perf_counter() - cancelled)
    return found


async def _request(processor: MultiModalProcessor, inputs: ProcessorInputs) -> None:
    async with processor.open_apply(inputs) as state:
        await state.phase1()
        await state.wait_decodes()


def run(arguments: Namespace) -> None:
    """The table."""
    data = arguments.media.film().read_bytes()
    rows, worst = [], []
    for backend in ("trio", "asyncio"):
        for threads in (1, 2):
            drains = anyio.run(partial(_drains, data, threads, max(arguments.rounds, 3)), backend=backend)
            where = f"{backend}, {threads} decoder thread{'s' if threads > 1 else ''}"
            if drains:
                rows.append((where, milliseconds(median(drains)), milliseconds(max(drains)), len(drains)))
                worst.append(max(drains) * 1000)
    print(table([("cancelled in the middle of the long video", "median", "worst", "rounds"), *rows]), end="\n\n")
    arguments.targets.at_most("cancelled request drained, the worst round", max(worst, default=None), 100, " ms")
