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

FAMILIES: Final = ("qwen2_5_vl", "qwen3_vl", "llava", "idefics3")
PICTURES: Final = 4


def chat(arguments: Namespace, number: int) -> list[dict[str, Any]]:
    """A request of four pictures, of sizes that no other number has."""
    width, height = (400, 300) if arguments.quick else (4000, 3000)
    widths = [width + number * PICTURES + index for index in range(PICTURES)]
    payloads = [make_image(width, height, format="JPEG", quality=90) for width in widths]
    urls = [f"data:image/jpeg;base64,{b64encode(payload).decode()}" for payload in payloads]
    parts: list[dict[str, Any]] = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    return [{"role": "user", "content": [*parts, {"type": "text", "text": "Compare these."}]}]


async def one(arguments: Namespace, family: str, chats: list[Any]) -> tuple[object, ...]:
    """One row."""
    async with open_renderer(processing_info(make_processor(family)), warm_up="await") as renderer:
        cache, unseen = renderer.processor.cache, iter(chats)
        assert cache is not None

        async def plan() -> None:
            cache.clear()
            await renderer.plan_chat(next(unseen))

        async def cold() -> None:
            cache.clear()
            await renderer.render_chat(chats[0])

        async def hot() -> None:
            await renderer.render_chat(chats[0])

        # The first plan, in the round that is not counted, verifies the processor.
        rounds = await in_rounds({"plan": plan, "cold": cold, "hot": hot}, len(chats) - 1)
    seconds = {name: median(row[name] for row in rounds) for name in ("plan", "cold", "hot")}
    share = median(row["plan"] / row["cold"] for row in rounds)
    arguments.targets.at_most(f"plan against cold render, {family}", share, 0.10)
    return (family, *(milliseconds(seconds[name]) for name in ("plan", "cold", "hot")), f"{share:.1%}")


async def run(arguments: Namespace) -> None:
    """The table."""
    chats = [chat(arguments, number) for number in range(1 + min(arguments.rounds, 5))]
    rows = [await one(arguments, family, chats) for family in FAMILIES]
    print(table([("four JPEGs", "plan of new sizes", "cold render", "hot render", "plan / cold"), *rows]), end="\n\n")
