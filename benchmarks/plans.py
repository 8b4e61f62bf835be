"""What a plan costs: four JPEGs of 12 megapixels, planned, rendered cold and rendered hot."""

from __future__ import annotations

from argparse import Namespace
from base64 import b64encode
from statistics import median
from typing import Any, Final

from benchmarks.timing import in_rounds
from lazymedia import open_renderer, processing_info
from lazymedia.cli.show import milliseconds, table
from lazymedia.testing import make_image, make_processor

FAMILIES: Final = ("qwen2_5_vl", "llava", "llava_onevision", "idefics3")
PICTURES: Final = 4


def chat(arguments: Namespace, seed: int) -> list[dict[str, Any]]:
    """A request of four pictures of different sizes."""
    width, height = (400, 300) if arguments.quick else (4000, 3000)
    payloads = [
        make_image(width + 8 * number, height, format="JPEG", quality=90, seed=seed + number)
        for number in range(PICTURES)
    ]
    urls = [f"data:image/jpeg;base64,{b64encode(payload).decode()}" for payload in payloads]
    parts: list[dict[str, Any]] = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    return [{"role": "user", "content": [*parts, {"type": "text", "text": "Compare these."}]}]


async def one(arguments: Namespace, family: str) -> tuple[object, ...]:
    """One row."""
    info = processing_info(make_processor(family))
    messages = chat(arguments, 0)
    async with open_renderer(info, warm_up="await") as renderer:
        # The first plan verifies the processor, once.
        await renderer.plan_chat(messages)
        cache, sizes = renderer.processor.cache, count(1)
        assert cache is not None

        async def plan() -> None:
            cache.clear()
            await renderer.plan_chat(unseen.pop())

        async def cold() -> None:
            cache.clear()
            await renderer.render_chat(messages)

        async def hot() -> None:
            await renderer.render_chat(messages)

        rounds = await in_rounds({"plan": plan, "cold": cold, "hot": hot}, arguments.rounds)
    seconds = {name: median(row[name] for row in rounds) for name in ("plan", "cold", "hot")}
    share = median(row["plan"] / row["cold"] for row in rounds)
    arguments.targets.at_most(f"plan against cold render, {family}", share, 0.10)
    return (family, *(milliseconds(seconds[name]) for name in ("plan", "cold", "hot")), f"{share:.1%}")


async def run(arguments: Namespace) -> None:
    """The table."""
    rows = [await one(arguments, family) for family in FAMILIES]
    print(table([("four JPEGs", "plan, sizes not seen before", "cold render", "hot render", "plan / cold"), *rows]))
    print()
