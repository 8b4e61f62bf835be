"""Items processed alone and put together equal one call of the Hugging Face processor on the whole request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from lazymedia.processing import ProcessedItem, ProcessingInfo
from lazymedia.testing.media import picture
from tests.infos import FAMILIES

GetInfo = Callable[..., ProcessingInfo]

WIDE, TALL, SMALL, LARGE = (300, 200), (120, 420), (31, 45), (1030, 610)
REQUESTS = [
    pytest.param([WIDE], id="one"),
    pytest.param([WIDE, TALL], id="two"),
    pytest.param([SMALL, WIDE, SMALL], id="three, the first repeated"),
    pytest.param([TALL, LARGE, TALL, WIDE], id="four"),
]
TEXTS = [
    "{0}Describe.\n\n",
    "Compare {0}{1}",
    " \n{0}\n\n {1}  and  {2}",
    "{0} {1}\n{2}\u00e9\U0001f600{3}",
]


def prompt_for(info: ProcessingInfo, count: int) -> str:
    return TEXTS[count - 1].format(*[info.placeholder("image")] * count)


def put_together(
    info: ProcessingInfo, prompt: str, media: Sequence[object], kwargs: Mapping[str, object]
) -> dict[str, Any]:
    prepared = info.prepare_kwargs(kwargs)
    known: dict[int, ProcessedItem] = {}
    for item in media:
        known.setdefault(id(item), info.process_item("image", item, prepared))
    items = [known[id(item)] for item in media]
    rendered = info.build_prompt(prompt, {"image": items}, prepared)
    return {**info.text_outputs(rendered), **info.merge("image", [item.features for item in items])}


def assert_same(got: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    assert set(got) == set(wanted)
    for name, array in wanted.items():
        assert type(got[name]) is type(array), name
        assert got[name].dtype == array.dtype, name
        assert tuple(got[name].shape) == tuple(array.shape), name
        assert np.array_equal(np.asarray(got[name]), np.asarray(array)), name


def check(info: ProcessingInfo, sizes: Sequence[tuple[int, int]], kwargs: Mapping[str, Any], **whole: Any) -> None:
    """Compare under a request's options; ``whole`` are those of the whole call where they are spelt otherwise there."""
    pictures = {size: picture(*size, seed=sum(size)) for size in sizes}
    media = [pictures[size] for size in sizes]
    prompt = prompt_for(info, len(media))
    wanted = info.hf_processor(text=prompt, images=media, return_tensors=info.return_tensors, **(whole or dict(kwargs)))
    assert_same(put_together(info, prompt, media, kwargs), wanted)


@pytest.mark.parametrize("sizes", REQUESTS)
@pytest.mark.parametrize("return_tensors", ["pt", "np"])
@pytest.mark.parametrize("family", FAMILIES)
def test_items_put_together_equal_one_call(
    get_info: GetInfo, family: str, return_tensors: str, sizes: list[tuple[int, int]]
) -> None:
    check(get_info(family, return_tensors), sizes, {})


@pytest.mark.parametrize("return_tensors", ["pt", "np"])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_same_holds_for_the_pillow_backend(get_info: GetInfo, family: str, return_tensors: str) -> None:
    info = get_info(family, return_tensors, "pil")

    assert info.hf_processor.image_processor.backend == "pil"
    check(info, [SMALL, WIDE, SMALL], {})


OPTIONS = [
    pytest.param("llava", {"size": {"shortest_edge": 224}, "do_normalize": False}, id="llava, smaller, not normalised"),
    pytest.param("llava", {"crop_size": {"height": 168, "width": 252}}, id="llava, cropped to other tokens"),
    pytest.param("llava", {"images_kwargs": {"do_rescale": False}}, id="llava, grouped options"),
    pytest.param("qwen2_vl", {"size": {"shortest_edge": 3136, "longest_edge": 20000}}, id="qwen2, less area"),
    pytest.param("qwen2_5_vl", {"size": {"shortest_edge": 90000, "longest_edge": 200000}}, id="qwen2.5, more area"),
    pytest.param("qwen3_vl", {"size": {"shortest_edge": 1024, "longest_edge": 40000}}, id="qwen3, less area"),
    pytest.param("idefics3", {"do_image_splitting": False}, id="idefics3, no tiles"),
    pytest.param("idefics3", {"size": {"longest_edge": 728}}, id="idefics3, fewer tiles"),
    pytest.param("idefics3", {"do_pad": False}, id="idefics3, no mask"),
]


@pytest.mark.parametrize("return_tensors", ["pt", "np"])
@pytest.mark.parametrize(("family", "kwargs"), OPTIONS)
def test_options_of_a_request_hold_for_every_item(
    get_info: GetInfo, family: str, kwargs: dict[str, Any], return_tensors: str
) -> None:
    check(get_info(family, return_tensors), [WIDE, TALL, WIDE], kwargs)


@pytest.mark.parametrize(
    ("kwargs", "size"),
    [
        ({"max_pixels": 20000}, {"shortest_edge": 56 * 56, "longest_edge": 20000}),
        ({"min_pixels": 90000}, {"shortest_edge": 90000, "longest_edge": 28 * 28 * 1280}),
        ({"min_pixels": 9000, "images_kwargs": {"max_pixels": 20000}}, {"shortest_edge": 9000, "longest_edge": 20000}),
    ],
)
def test_pixel_bounds_are_another_spelling_of_the_size(
    get_info: GetInfo, kwargs: dict[str, Any], size: dict[str, int]
) -> None:
    check(get_info("qwen2_vl"), [WIDE, TALL], kwargs, size=size)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_prompt_without_items_equals_a_call_with_text_alone(get_info: GetInfo, family: str) -> None:
    info = get_info(family)
    rendered = info.build_prompt("No picture\n here.", {"image": []})

    assert_same(info.text_outputs(rendered), info.hf_processor(text="No picture\n here.", return_tensors="pt"))
    assert info.merge("image", []) == {}


@pytest.mark.parametrize("return_tensors", ["pt", "np"])
def test_idefics3_tells_the_modality_of_each_token_when_its_operator_wants_it(
    get_info: GetInfo, return_tensors: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own rule marks all tokens that a picture became, others mark the embedded ones."""
    info = get_info("idefics3", return_tensors)
    monkeypatch.setattr(info.hf_processor, "return_mm_token_type_ids", True)

    check(info, [WIDE, SMALL], {})


@pytest.mark.parametrize("kwargs", [{}, {"do_image_splitting": False}])
@pytest.mark.parametrize("family", FAMILIES)
def test_ranges_are_where_the_processor_says_its_replacements_are(
    get_info: GetInfo, family: str, kwargs: dict[str, bool]
) -> None:
    if kwargs and family != "idefics3":
        kwargs = {}
    info = get_info(family)
    processor = info.hf_processor
    media = [picture(*WIDE), picture(*SMALL, seed=1), picture(*WIDE)]
    prompt = prompt_for(info, 3)
    rendered = info.build_prompt(prompt, {"image": [info.process_item("image", item, kwargs) for item in media]})
    whole = processor(text=prompt, images=media, return_text_replacement_offsets=True, **kwargs)
    (offsets,) = whole["text_replacement_offsets"]
    expanded = prompt
    for offset in reversed(offsets):
        start, end = offset["span"]
        expanded = expanded[:start] + offset["replacement"] + expanded[end:]
    encoded = processor.tokenizer(expanded)

    assert rendered.token_ids == encoded["input_ids"]
    assert len(offsets) == len(media)
    for found, offset in zip(rendered.placeholders["image"], offsets, strict=True):
        start, end = offset["new_span"]
        assert found.offset == encoded.char_to_token(start)
        assert found.offset + found.length - 1 == encoded.char_to_token(end - 1)
        ids = rendered.token_ids[found.offset : found.offset + found.length]
        assert found.is_embed.tolist() == [token == processor.image_token_id for token in ids]
        assert found.is_embed.sum() == offset["replacement"].count(info.placeholder("image"))
        assert not found.is_embed.flags.writeable


def test_every_embedded_token_has_a_row_of_features(get_info: GetInfo) -> None:
    """What a model checks first: as many image tokens as patches, four to one."""
    info = get_info("qwen2_vl")
    item = info.process_item("image", picture(*LARGE))
    rendered = info.build_prompt(f"a {info.placeholder('image')}", {"image": [item]})

    assert rendered.placeholders["image"][0].is_embed.sum() == item.features["pixel_values"].shape[0] // 4
