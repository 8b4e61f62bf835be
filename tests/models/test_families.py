"""Every family and modality: items processed alone and put together equal one call of the processor, or the difference
is named here and in the documentation.
"""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from lazymedia.extend import ProcessingInfo
from lazymedia.models import processing_info
from lazymedia.processing.fields import same
from lazymedia.processing.hooks import call_whole
from lazymedia.processing.outputs import MultiModalInputs
from lazymedia.testing.processors import families, family_modalities, make_processor

pytest.importorskip("torchvision")

PAIRS = [(family, modality) for family in families() for modality in family_modalities(family)]

UNCACHED: Final = {
    ("chameleon", "image"): "writes a token behind the prompt of every call",
    ("clap", "audio"): "cuts a random part out of a long clip",
}
"""What is processed by one call of the processor on the whole request."""

DIFFERENT: Final = {
    ("smolvlm", "video"): ("input_ids", "attention_mask"),
    ("phi4_multimodal", "audio"): ("audio_input_features", "audio_attention_mask"),
    ("qwen3_omni", "audio"): ("input_features",),
    ("gemma3n", "audio"): ("input_features", "input_features_mask"),
}
"""Outputs that Hugging Face's call on several items makes otherwise than its calls on each."""

EMBEDDED: Final = {
    "llama4": "<|patch|>",
    "ovis2": "<IMG_ATOM>",
    "gemma3": "<image_soft_token>",
    "internvl": "<IMG_CONTEXT>",
    "pixtral": "[IMG]",
    "smolvlm": "<image>",
    "idefics3": "<image>",
}
"""Which token the model puts embeddings at, where the placeholder is not alone in what an item becomes."""

ONE_FOR_EACH_TEXT: Final = {"audioflamingo3", "musicflamingo", "glmasr"}
"""Their call takes one clip for each text, so that there is no whole call on several."""

SAME_LENGTH: Final = {
    ("llava_onevision", "video"),
    ("llava_next_video", "video"),
    ("video_llava", "video"),
    ("internvl", "video"),
    ("perception_lm", "video"),
    ("perception_lm", "image"),
}
"""Their call takes only items of one shape together."""


@cache
def info_of(family: str) -> ProcessingInfo:
    return processing_info(make_processor(family))


def pool(info: ProcessingInfo, family: str, modality: str) -> list[Any]:
    """Items of other shapes than those that layouts were found out from."""
    draw = np.random.default_rng(7)
    if modality == "audio":
        rate = info.audio_rate or 16_000
        return [(draw.standard_normal(int(seconds * rate)) * 0.1).astype(np.float32) for seconds in (0.7, 3.1, 31.5)]
    alike = (family, modality) in SAME_LENGTH
    shapes = [(300, 200), (120, 420), (31, 45), (1030, 610)] if modality == "image" else [(60, 90), (120, 80), (64, 64)]
    if alike and modality == "image":
        shapes = [(300, 200)] * 2
    frames = {"image": (), "video": (4,)}[modality]
    made = [draw.integers(0, 256, (*frames, *shape, 3), dtype=np.uint8) for shape in shapes]
    return made if alike or modality == "image" else [*made, draw.integers(0, 256, (8, 50, 70, 3), dtype=np.uint8)]


def text_for(info: ProcessingInfo, modality: str, count: int) -> str:
    try:
        return "Look: " + " and\n\n".join([info.placeholder(modality)] * count) + " Done."
    except NotImplementedError:
        return "Look."


def put_together(info: ProcessingInfo, modality: str, text: str, media: list[Any]) -> dict[str, Any]:
    kwargs = info.prepare_kwargs(None)
    items = {modality: [info.process_item(modality, item, kwargs) for item in media]}
    rendered = info.build_prompt(text, items, kwargs)
    return MultiModalInputs(
        prompt=text,
        prompt_token_ids=rendered.token_ids,
        mm_kwargs={modality: [item.features for item in items[modality]]},
        mm_hashes={modality: [str(index) for index in range(len(media))]},
        mm_placeholders=rendered.placeholders,
        timings={},
        layouts={modality: info.layouts_of(modality)},
        text_columns=info.text_columns(rendered),
        request_outputs=info.request_outputs(rendered, items),
        return_tensors=info.return_tensors,
    ).merged()


def test_there_are_many_families_and_few_pairs_that_are_not_cached() -> None:
    assert len(families()) >= 40
    assert len(UNCACHED) <= 3
    assert {pair for pair in PAIRS if info_of(pair[0]).calibration_of(pair[1]).route == "whole"} == set(UNCACHED)


@pytest.mark.parametrize(("family", "modality"), [pair for pair in PAIRS if pair not in UNCACHED], ids=str)
def test_items_processed_alone_equal_one_call(family: str, modality: str) -> None:
    info = info_of(family)
    items = pool(info, family, modality)
    draw = random.Random(3)  # no secret
    for count in (1, 2, 3):
        media = [draw.choice(items) for _ in range(count)]
        text = text_for(info, modality, count)
        got = put_together(info, modality, text, media)
        if count > 1 and family in ONE_FOR_EACH_TEXT:
            assert all(np.isfinite(np.asarray(got[name])).all() for name in got)
            continue
        prepared = {modality: [info.prepare_item(modality, item) for item in media]}
        whole = call_whole(info.hf_processor, prepared, text, {}, 1, info.return_tensors)
        others = DIFFERENT.get((family, modality), ())

        assert {name for name in {*got, *whole} - {*others} if name not in got or name not in whole} == set()
        assert [name for name in whole if name not in others and not same(got[name], whole[name])] == []


@pytest.mark.parametrize(("family", "modality"), [pair for pair in PAIRS if pair not in UNCACHED], ids=str)
def test_every_item_has_its_place_in_the_prompt(family: str, modality: str) -> None:
    info = info_of(family)
    kwargs = info.prepare_kwargs(None)
    items = [info.process_item(modality, item, kwargs) for item in pool(info, family, modality)[:2]]
    text = text_for(info, modality, 2)
    rendered = info.build_prompt(text, {modality: items}, kwargs)
    if modality not in rendered.placeholders:
        assert "Look." in text
        return
    found = rendered.placeholders[modality]

    assert len(found) == 2
    assert found[0].offset + found[0].length <= found[1].offset
    for place in found:
        ids = rendered.token_ids[place.offset : place.offset + place.length]
        embedded = {token for token, embeds in zip(ids, place.is_embed, strict=True) if embeds}
        assert len(embedded) == 1
        if embed_token := EMBEDDED.get(family):
            assert embedded == {info.hf_processor.tokenizer.convert_tokens_to_ids(embed_token)}
        assert place.is_embed.sum() == ids.count(*embedded)
        between = rendered.token_ids[found[0].offset + found[0].length : found[1].offset]
        assert not embedded & set(between)


def how(info: ProcessingInfo, modality: str) -> str:
    """In the words of the documentation."""
    route = info.calibration_of(modality).route
    if route == "steps":
        return "declared" if modality in info.layouts else "found out"
    return "not cached" if route == "whole" else "found out, by whole calls for each item"


def table() -> str:
    """The table of families in ``docs/models.md``."""
    rows = ["| family | processor | how items merge |", "| --- | --- | --- |"]
    for family in families():
        info = info_of(family)
        ways = "; ".join(f"{modality}: {how(info, modality)}" for modality in info.modalities)
        rows.append(f"| `{family}` | {type(info.hf_processor).__name__} | {ways} |")
    return "\n".join(rows)


def differences() -> str:
    """The table of differences in ``docs/models.md``."""
    rows = ["| family | modality | outputs |", "| --- | --- | --- |"]
    rows += [f"| `{family}` | {modality} | {', '.join(names)} |" for (family, modality), names in DIFFERENT.items()]
    return "\n".join(rows)


def test_the_documentation_has_the_tables() -> None:
    """``python -c 'from tests.models.test_families import *; print(table()); print(differences())'`` prints them."""
    page = (Path(__file__).parents[2] / "docs" / "models.md").read_text("utf-8")

    assert table() in page
    assert differences() in page
    for reason in UNCACHED.values():
        assert reason in page
