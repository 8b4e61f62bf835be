"""What `apply` costs beside decoding and the Hugging Face processor: for a request, and for each item beyond the first.

Items are references that are decoded already and known to the cache, so that nothing is left but hashing of keys,
look-up, hand-over, prompt and the calls into threads of the two phases.
"""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.timing import medians, micro
from lazymedia.cache import ProcessorCache
from lazymedia.cli.show import table
from lazymedia.media.ref import MediaRef
from lazymedia.models import processing_info
from lazymedia.pipeline import MultiModalProcessor
from lazymedia.testing import make_processor

COUNTS = (1, 16, 32, 48, 64)


async def run(arguments: Namespace) -> None:
    """The table."""
    refs = [MediaRef(lambda: Image.new("RGB", (8, 8)), number.to_bytes(8)) for number in range(COUNTS[-1])]
    info = processing_info(make_processor("llava"), return_tensors=arguments.tensors)
    async with MultiModalProcessor(info, cache=ProcessorCache(1 << 30)) as processor:

        async def apply(count: int) -> None:
            data = {"image": refs[:count]} if count else {}
            await processor.apply(processor.make_inputs("<image>" * count, data))

        await apply(COUNTS[-1])
        rows: dict[str, Any] = {str(count): (lambda count=count: apply(count)) for count in (0, *COUNTS)}
        seconds = await medians(rows, arguments.rounds * 5, warm_up=5)
    slope, fixed = np.polyfit(COUNTS, [seconds[str(count)] for count in COUNTS], 1)
    print(
        table(
            [
                ("apply, beside decoding and Hugging Face", "time"),
                ("a request without items", micro(seconds["0"])),
                ("a request, by the slope's intercept", micro(float(fixed))),
                ("each item", micro(float(slope))),
                ("a request of 64 items", micro(seconds["64"])),
            ]
        ),
        end="\n\n",
    )
