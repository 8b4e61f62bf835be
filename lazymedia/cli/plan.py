"""``lazymedia plan``: the prompt of a chat request in a file, laid out without a decode."""

from __future__ import annotations

import json
import time
from argparse import Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import anyio

from lazymedia.cli.options import open_connector
from lazymedia.cli.render import chat_options, processor, read_body
from lazymedia.cli.show import milliseconds, table

if TYPE_CHECKING:
    from lazymedia.processing import RequestPlan


def run(arguments: Namespace) -> int:
    """Plan the request once or more, and show each plan."""
    anyio.run(_plan, arguments, read_body(arguments.request), backend=arguments.backend)
    return 0


async def _plan(arguments: Namespace, body: dict[str, Any]) -> None:
    from lazymedia.renderer import open_renderer

    info = processor(arguments)
    async with open_renderer(info, warm_up="await", connector=open_connector(arguments), trust_uuids=True) as renderer:
        for _ in range(arguments.repeat):
            start = time.perf_counter()
            plan = await renderer.plan_chat(body["messages"], **chat_options(body))
            seconds = time.perf_counter() - start
            if arguments.json:
                print(json.dumps(as_dict(plan)))
            else:
                print(table(list(_rows(plan))))
                print(f"{len(plan.prompt_token_ids)} tokens in {milliseconds(seconds)}\n")


def _rows(plan: RequestPlan) -> Iterator[tuple[object, ...]]:
    yield "item", "tokens", "hash"
    for modality, items in as_dict(plan)["items"].items():
        for index, item in enumerate(items):
            yield f"{modality} {index}", f"{item['length']} at {item['offset']}", item["hash"][:12]


def as_dict(plan: RequestPlan) -> dict[str, Any]:
    """A plan for programs; its keys are those of ``lazymedia render --json``."""
    return {
        "prompt": plan.prompt,
        "prompt_token_ids": plan.prompt_token_ids,
        "items": {
            modality: [
                {"hash": mm_hash, "cached": cached, "offset": place.offset, "length": place.length}
                for mm_hash, cached, place in zip(hashes, plan.cached[modality], plan.mm_placeholders[modality])
            ]
            for modality, hashes in plan.mm_hashes.items()
        },
    }


__all__ = ["as_dict", "run"]
