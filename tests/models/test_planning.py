"""A plan equals the render of the same request, for every family that can be planned, and decodes nothing."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from lazymedia import MediaRef, MultiModalInputs, MultiModalProcessor, NotPlannableError, ProcessorCache, RequestPlan
from lazymedia.extend import ProcessingInfo
from lazymedia.testing import CountingMediaIO, assert_quiet, make_audio, make_image, make_video
from tests.models.test_families import PAIRS, info_of, text_for

pytest.importorskip("torchvision")

NOT_PLANNED: Final = {
    ("video_llama_3", "video"): "drops patches that hardly differ from those of the frame before",
    ("chameleon", "image"): "is not cached",
    ("clap", "audio"): "is not cached",
}
"""What is not known before a decode."""

PLANNED: Final = [pair for pair in PAIRS if pair not in NOT_PLANNED]


def assert_planned(plan: RequestPlan, render: MultiModalInputs) -> None:
    assert plan.prompt == render.prompt
    assert plan.prompt_token_ids == render.prompt_token_ids
    assert plan.mm_hashes == render.mm_hashes
    assert plan.mm_placeholders == render.mm_placeholders
    assert plan.cached == render.cached


def payload_of(modality: str, draw: random.Random) -> bytes:
    """Media of a random shape."""
    seed = draw.randrange(1 << 20)
    if modality == "image":
        width, height = draw.randint(20, 1400), draw.randint(20, 1400)
        return make_image(width, height, format=draw.choice(["JPEG", "PNG", "WEBP"]), seed=seed)
    if modality == "video":
        return make_video(draw.randint(1, 40), width=draw.randrange(32, 300, 2), height=draw.randrange(32, 300, 2))
    return make_audio(draw.uniform(0.3, 35.0), rate=draw.choice([8_000, 16_000, 22_050, 48_000]))


def request_of(
    info: ProcessingInfo, modality: str, draw: random.Random
) -> tuple[str, Mapping[str, list[Any]], CountingMediaIO[Any]]:
    """A prompt, references of which some are equal, and their decoder."""
    media_io = CountingMediaIO(info.get_media_io(modality))
    payloads = [payload_of(modality, draw) for _ in range(draw.randint(1, 3))]
    payloads += draw.sample(payloads, draw.randint(0, 1))
    return (
        text_for(info, modality, len(payloads)),
        {modality: [media_io.load_bytes_ref(data) for data in payloads]},
        media_io,
    )


ROUNDS = 10 if os.environ.get("LAZYMEDIA_LONG_TESTS") else 1


@pytest.mark.parametrize(("family", "modality"), PLANNED, ids=str)
async def test_a_plan_equals_the_render(family: str, modality: str) -> None:
    info = info_of(family)
    draw = random.Random(f"{family} {modality}")  # no secret
    cache: ProcessorCache[Any] = ProcessorCache(1 << 30)
    async with MultiModalProcessor(info, cache=cache) as processor:
        for _ in range(ROUNDS):
            text, media, media_io = request_of(info, modality, draw)
            inputs = processor.make_inputs(text, media)
            held = cache.stats()
            plan = await processor.plan(inputs)

            assert (cache.stats().nbytes, len(cache)) == (held.nbytes, held.entries)
            assert media_io.calls == 0
            cold = await processor.apply(inputs)
            assert_planned(plan, cold)
            hot = processor.make_inputs(text, {modality: [unprobed(ref) for ref in media[modality]]})
            planned_hot = await processor.plan(hot)
            assert planned_hot.cached == {modality: [True] * len(media[modality])}
            assert_planned(planned_hot, await processor.apply(hot))
        assert_quiet(processor)


def unprobed(ref: MediaRef[Any]) -> MediaRef[Any]:
    """The same identity, of which nothing but the cache can tell a plan anything."""

    def fail() -> Any:
        raise AssertionError("nothing of an item that the cache holds is decoded")

    return MediaRef(fail, b"", ref.spec, key=ref.key)


@pytest.mark.parametrize(("family", "modality"), NOT_PLANNED, ids=str)
async def test_what_cannot_be_planned_is_refused_by_name(family: str, modality: str) -> None:
    info = info_of(family)
    async with MultiModalProcessor(info, cache=ProcessorCache(1 << 30)) as processor:
        text, media, media_io = request_of(info, modality, random.Random(5))  # no secret
        with pytest.raises(NotPlannableError, match=f"{modality} at index 0 cannot be planned: .*Processor") as caught:
            await processor.plan(processor.make_inputs(text, media))
        assert (caught.value.modality, caught.value.index) == (modality, 0)
        assert media_io.calls == 0
        assert_quiet(processor)


def not_planned() -> str:
    """The table of ``docs/planning.md``."""
    rows = ["| family | modality | why |", "| --- | --- | --- |"]
    rows += [f"| `{family}` | {modality} | {why} |" for (family, modality), why in NOT_PLANNED.items()]
    return "\n".join(rows)


def test_the_documentation_has_the_table() -> None:
    """``python -c 'from tests.models.test_planning import *; print(not_planned())'`` prints it."""
    assert not_planned() in (Path(__file__).parents[2] / "docs" / "planning.md").read_text("utf-8")
