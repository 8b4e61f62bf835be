"""Several results as one batch equal one padded call of the processor on all prompts."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

from lazymedia import MultiModalInputs, collate
from lazymedia.models import processing_info
from lazymedia.pipeline import MultiModalProcessor
from lazymedia.processing.fields import same
from lazymedia.processing.hooks import HOOKS
from lazymedia.testing.processors import make_processor

pytest.importorskip("torchvision")

Side = Literal["left", "right"]


def picture(height: int, width: int) -> Any:
    return np.random.default_rng(height).integers(0, 256, (height, width, 3), dtype=np.uint8)


def video(frames: int, height: int, width: int) -> Any:
    return np.random.default_rng(height).integers(0, 256, (frames, height, width, 3), dtype=np.uint8)


def clip(seconds: float) -> Any:
    return (np.random.default_rng(3).standard_normal(int(seconds * 16_000)) * 0.1).astype(np.float32)


ITEMS = {
    "image": [picture(90, 120), picture(200, 64), picture(300, 310)],
    "video": [video(4, 60, 90), video(4, 120, 80), video(4, 64, 64)],
    "audio": [clip(1), clip(2.5), clip(0.6)],
}

FAMILIES = [
    ("llava", "image"),
    ("llava_next", "image"),
    ("qwen2_vl", "image"),
    ("qwen2_vl", "video"),
    ("qwen3_vl", "image"),
    ("idefics3", "image"),
    ("gemma3", "image"),
    ("pixtral", "image"),
    ("internvl", "image"),
    ("clip", "image"),
    ("qwen2_audio", "audio"),
    ("qwen2_5_omni", "audio"),
]


async def results_of(info: Any, modality: str, counts: list[int]) -> tuple[list[str], list[MultiModalInputs]]:
    try:
        placeholder = info.placeholder(modality)
    except NotImplementedError:
        placeholder = ""
    prompts = [" and ".join(["Look " * number, *[placeholder] * count, "."]) for number, count in enumerate(counts, 1)]
    found, start = [], 0
    async with MultiModalProcessor(info) as processor:
        for prompt, count in zip(prompts, counts):
            media = ITEMS[modality][start : start + count]
            found.append(await processor.apply(processor.make_inputs(prompt, {modality: media} if media else None)))
            start += count
    return prompts, found


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(("family", "modality"), FAMILIES, ids=str)
async def test_a_batch_equals_one_padded_call(family: str, modality: str, side: Side) -> None:
    hf_processor = make_processor(family)
    info = processing_info(hf_processor)
    prompts, results = await results_of(info, modality, [1, 2])
    batch = collate(results, pad_token_id=hf_processor.tokenizer.pad_token_id, padding_side=side)

    media = [info.prepare_item(modality, item) for item in ITEMS[modality]]
    nested = family in {"idefics3", "gemma3"}
    items: Any = [item.media for item in media]
    hooks = HOOKS[modality]
    options = {**media[0].options, **{name: [item.per_item[name] for item in media] for name in media[0].per_item}}
    whole = hf_processor(
        text=prompts,
        **{hooks.argument: [items[:1], items[1:]] if nested else items, hooks.group: options},
        text_kwargs={"padding": True, "padding_side": side},
        return_tensors="pt",
    )

    assert set(batch) == set(whole)
    assert [name for name in whole if not same(batch[name], whole[name])] == []


async def test_requests_without_items_stand_beside_others() -> None:
    info = processing_info(make_processor("llava"))
    _, results = await results_of(info, "image", [0, 1, 0])
    batch = collate(results, pad_token_id=0)

    assert batch["pixel_values"].shape == (1, 3, 336, 336)
    assert batch["input_ids"].shape == (3, max(len(result.prompt_token_ids) for result in results))
    assert same(collate(results[1:2], pad_token_id=0), results[1].merged())


async def test_what_cannot_be_put_together_is_an_error() -> None:
    info = processing_info(make_processor("llava"))
    _, results = await results_of(info, "image", [1])
    _, others = await results_of(processing_info(make_processor("llava"), return_tensors="np"), "image", [1])
    _, qwen = await results_of(processing_info(make_processor("qwen2_vl")), "image", [1])
    _, mllama = await results_of(processing_info(make_processor("mllama")), "image", [1])

    with pytest.raises(ValueError, match="no results"):
        collate([], pad_token_id=0)
    for wrong in (others, qwen):
        with pytest.raises(ValueError, match="different processors"):
            collate([*results, *wrong], pad_token_id=0)
    with pytest.raises(NotImplementedError, match="cross_attention_mask"):
        collate(mllama, pad_token_id=0)
    wrong_side: Any = "middle"
    with pytest.raises(ValueError, match="padding_side"):
        collate(results, pad_token_id=0, padding_side=wrong_side)
