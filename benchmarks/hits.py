"""What a hit costs: marginal cost of one more, against digesting its payload; and against decoding eagerly.

The first table: payloads in memory become keys, references, items, hashes, look-ups and a result in which hits and
misses are merged, in requests of 16 to 64 pictures that the cache holds. The difference, by the number
of pictures, is the cost of one more. Beside it stands one bare ``hashlib.sha256`` of such a payload.

The second: a picture that the cache holds, through a whole request, against decoding it to RGB and hashing its
pixels, which is what a cache that is keyed by pixels pays before it can look.
"""

from __future__ import annotations

import hashlib
import io
from argparse import Namespace
from importlib.util import find_spec
from statistics import median

import numpy as np
from PIL import Image

from benchmarks.timing import in_rounds, medians, micro
from lazymedia.cache import ProcessorCache
from lazymedia.cli.show import table
from lazymedia.media.image import ImageMediaIO
from lazymedia.models import processing_info
from lazymedia.pipeline import MultiModalProcessor
from lazymedia.processing.info import ReturnTensors
from lazymedia.testing import make_image, make_processor

FEW, MANY = 16, 64


def payload_of(size: int) -> bytes:
    """A JPEG of about ``size`` bytes: noise, which hardly compresses."""
    side = int((size * 0.79) ** 0.5)
    pixels = np.random.default_rng(0).integers(0, 256, (side, side, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG", quality=75, subsampling=0)
    return out.getvalue()


def variants(payload: bytes, count: int) -> list[bytes]:
    """Payloads that differ in a few bytes behind the picture's end, and hence in identity."""
    return [payload + number.to_bytes(8) for number in range(count)]


KINDS: dict[str, tuple[ReturnTensors, bool]] = {
    "NumPy views": ("np", False),
    "torch clones": ("pt", False),
    "torch, shared": ("pt", True),
}
"""What a hit hands out: the processor's tensors, and whether the cache shares them."""


def kinds() -> list[str]:
    """Those that are installed."""
    return [name for name, (tensors, _) in KINDS.items() if tensors == "np" or find_spec("torch") is not None]


async def marginal(arguments: Namespace, size: int, kind: str) -> tuple[object, ...]:
    """One row of the first table."""
    tensors, share = KINDS[kind]
    decoder = ImageMediaIO()
    payloads = variants(payload_of(size), MANY)
    info = processing_info(make_processor("llava"), return_tensors=tensors)
    async with MultiModalProcessor(info, cache=ProcessorCache(1 << 30, share_tensors=share)) as processor:

        async def hits(count: int) -> None:
            refs = [decoder.load_bytes_ref(payload) for payload in payloads[:count]]
            result = await processor.apply(processor.make_inputs("<image>" * count, {"image": refs}))
            assert warm or all(result.cached["image"])

        warm = True
        await hits(MANY)
        warm = False

        async def digest() -> None:
            for payload in payloads[FEW:]:
                hashlib.sha256(payload).digest()

        rows = {"few": lambda: hits(FEW), "many": lambda: hits(MANY), "digest": digest}
        rounds = await in_rounds(rows, 3 * arguments.rounds)
    more = MANY - FEW
    bare = median(seconds["digest"] / more for seconds in rounds)
    # Pair by pair, so that a machine that slows down slows both sides of each ratio.
    ratio = median((seconds["many"] - seconds["few"]) / seconds["digest"] for seconds in rounds)
    return (
        f"{len(payloads[0]) / (1 << 20):.1f} MiB",
        kind,
        micro(bare),
        micro(bare * ratio),
        micro(bare * (ratio - 1)),
        f"{ratio:.2f}",
    )


async def eager(arguments: Namespace) -> list[tuple[object, ...]]:
    """The second table."""
    width, height = (400, 300) if arguments.quick else (4000, 3000)
    payload = make_image(width, height, format="JPEG", seed=1, quality=90)
    decoder = ImageMediaIO()
    info = processing_info(make_processor("llava"), return_tensors=arguments.tensors)
    async with MultiModalProcessor(info, cache=ProcessorCache(1 << 30)) as processor:

        async def hit() -> None:
            ref = decoder.load_bytes_ref(payload)
            await processor.apply(processor.make_inputs("<image>", {"image": [ref]}))

        async def decode_and_hash() -> None:
            with Image.open(io.BytesIO(payload)) as opened:
                pixels = np.asarray(opened.convert("RGB"))
            hashlib.sha256(pixels.data).digest()

        await hit()
        seconds = await medians({"hit": hit, "eager": decode_and_hash}, arguments.rounds)
    return [
        (f"JPEG of {width} x {height}", "time", "against a hit"),
        (f"hit, whole request, {len(payload) / (1 << 20):.1f} MiB", micro(seconds["hit"]), "1.0"),
        ("decode and hash pixels", micro(seconds["eager"]), f"{seconds['eager'] / seconds['hit']:.1f}"),
    ]


async def run(arguments: Namespace) -> None:
    """Both tables."""
    heading = ("payload", "handed out", "sha256", "one more hit", "beyond sha256", "ratio")
    sizes = (1 << 14,) if arguments.quick else (1 << 20, 10 << 20)
    rows = [await marginal(arguments, size, kind) for size in sizes for kind in kinds()]
    print(table([heading, *rows]), end="\n\n")
    print(table(await eager(arguments)), end="\n\n")
