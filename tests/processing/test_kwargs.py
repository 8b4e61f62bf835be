"""Which processor options a request may choose, and how they are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lazymedia.errors import UnprocessableMediaError
from lazymedia.processing import ProcessingInfo
from lazymedia.processing.sizes import resized, working_pixels
from lazymedia.testing.media import picture
from tests.infos import FAMILIES

GetInfo = Callable[..., ProcessingInfo]

OPERATORS = [
    *({name: value} for name, value in [("return_tensors", "np"), ("device", "cuda:0"), ("padding", True)]),
    *({name: value} for name, value in [("truncation", True), ("max_length", 5), ("return_row_col_info", False)]),
    *({name: value} for name, value in [("return_mm_token_type_ids", True), ("return_anything", 1)]),
    *({name: value} for name, value in [("input_data_format", "channels_first"), ("data_format", "channels_last")]),
    *({name: value} for name, value in [("fps", 1), ("do_sample_frames", True), ("sampling_rate", 8000)]),
    *({name: value} for name, value in [("images", []), ("text", "x"), ("common_kwargs", {}), ("verbose", True)]),
    {"text_kwargs": {"padding": True}},
    {"images_kwargs": {"device": "cpu"}},
    {"images_kwargs": {"return_tensors": "np"}},
]
WRONG = [
    pytest.param({"do_resise": True}, "no option do_resise", id="misspelt"),
    pytest.param({"images_kwargs": {"do_resise": True}}, "no option do_resise", id="misspelt in a group"),
    pytest.param({"images_kwargs": True}, "images_kwargs must be options of image", id="a group that is none"),
    pytest.param({"videos_kwargs": {"fps": 1}}, "videos_kwargs must be options of image", id="another modality"),
    pytest.param({"return_row": 1}, "return_row cannot be chosen", id="the operator's"),
    pytest.param({"do_resize": 1}, "do_resize: .*expected bool", id="a number for a boolean"),
    pytest.param({"size": "large"}, "size: .*match", id="text for a size"),
    pytest.param({"size": {"edge": 4}}, "size must have one of", id="a key that sizes do not have"),
    pytest.param({"size": {"shortest_edge": -5}}, "shortest_edge must be a positive whole number", id="negative"),
    pytest.param({"crop_size": {"height": 0, "width": 5}}, "height must be a positive whole number", id="zero"),
    pytest.param({"rescale_factor": float("nan")}, "must be finite", id="NaN"),
    pytest.param({"image_mean": [0.5, float("inf"), 0.5]}, "must be finite", id="infinity within"),
    pytest.param({"size": [[[[[[[[[[5]]]]]]]]]]}, "deeply nested", id="nested"),
    pytest.param({"do_resize": True, "images_kwargs": {"do_resize": True}}, "given twice", id="twice"),
    pytest.param({5: 1}, "name is text, not int", id="a name that is none"),
    pytest.param({"x" * 1000: 1}, "no option <data>[.]{3}$", id="a long name"),
]


@pytest.mark.parametrize("kwargs", OPERATORS, ids=str)
def test_what_is_the_operators_is_refused_by_name(get_info: GetInfo, kwargs: dict[str, Any]) -> None:
    name = next(iter(kwargs))
    name = next(iter(kwargs[name])) if name == "images_kwargs" else name

    with pytest.raises(UnprocessableMediaError, match=f"{name} cannot be chosen by a request"):
        get_info("llava").prepare_kwargs(kwargs)


@pytest.mark.parametrize(("kwargs", "text"), WRONG)
def test_what_cannot_be_used_is_refused(get_info: GetInfo, kwargs: dict[Any, Any], text: str) -> None:
    with pytest.raises(UnprocessableMediaError, match=text) as caught:
        get_info("llava").prepare_kwargs(kwargs)

    assert len(str(caught.value)) <= 300


@pytest.mark.parametrize(
    ("family", "name"),
    [
        ("qwen2_vl", "patch_size"),
        ("qwen3_vl", "merge_size"),
        ("qwen2_5_vl", "temporal_patch_size"),
        ("idefics3", "max_image_size"),
    ],
)
def test_the_shapes_that_a_model_was_built_for_are_the_operators(get_info: GetInfo, family: str, name: str) -> None:
    with pytest.raises(UnprocessableMediaError, match=f"{name} cannot be chosen"):
        get_info(family).prepare_kwargs({name: 1})


@pytest.mark.parametrize("family", FAMILIES)
def test_flat_and_grouped_options_mean_the_same(get_info: GetInfo, family: str) -> None:
    info = get_info(family)
    flat, grouped = (
        info.prepare_kwargs(kwargs)
        for kwargs in (
            {"do_rescale": False},
            {"images_kwargs": {"do_rescale": False}}
            | ({"videos_kwargs": {"do_rescale": False}} if "video" in info.modalities else {}),
        )
    )

    assert flat.by_modality == grouped.by_modality
    assert flat.by_modality["image"]["do_rescale"] is False
    assert flat.settings["image"]["do_rescale"] is False


def test_prepared_options_pass_through(get_info: GetInfo) -> None:
    info = get_info("llava")
    prepared = info.prepare_kwargs({"do_rescale": False})

    assert info.prepare_kwargs(prepared) is prepared


def test_none_and_empty_options_are_the_processors_own(get_info: GetInfo) -> None:
    info = get_info("qwen3_vl")

    assert info.prepare_kwargs(None).by_modality == info.prepare_kwargs({}).by_modality
    assert info.prepare_kwargs({}).text == {"return_token_type_ids": False}
    assert info.prepare_kwargs({}).mm_token_type_ids


def test_what_a_processor_says_against_an_option_at_work_is_a_value_error(get_info: GetInfo) -> None:
    """So that whoever runs the processor can tell it from a bug: two means for three channels."""
    with pytest.raises(ValueError, match=r"must match|broadcast|channels|mean"):
        get_info("llava").process_item("image", picture(30, 20), {"image_mean": [0.5, 0.5]})


SIZES = [
    ({"shortest_edge": 100}, (100, 400)),
    ({"shortest_edge": 100, "longest_edge": 200}, (50, 200)),
    ({"longest_edge": 80}, (20, 80)),
    ({"max_height": 5, "max_width": 80}, (5, 20)),
    ({"height": 7, "width": 9}, (7, 9)),
    ({"max_pixels": 400}, (10, 40)),
    ({}, (50, 200)),
]


@pytest.mark.parametrize(("size", "wanted"), SIZES, ids=str)
def test_a_size_in_every_form_tells_what_a_picture_becomes(size: dict[str, int], wanted: tuple[int, int]) -> None:
    assert resized(50, 200, size) == wanted


def test_the_largest_picture_on_the_way_counts() -> None:
    settings = {
        "do_resize": True,
        "size": {"shortest_edge": 100},
        "do_center_crop": True,
        "crop_size": {"height": 10, "width": 10},
    }

    assert working_pixels(50, 200, settings) == 100 * 400
    assert working_pixels(50, 200, {**settings, "do_resize": False}) == 50 * 200
    assert working_pixels(50, 200, {**settings, "crop_size": {"height": 500, "width": 500}}) == 500 * 500


ESTIMATED: list[tuple[str, dict[str, Any]]] = [
    *((family, {}) for family in FAMILIES),
    ("llava", {"size": {"height": 700, "width": 3}}),
    ("llava", {"size": {"shortest_edge": 200, "longest_edge": 900}}),
    ("qwen2_vl", {"size": {"shortest_edge": 10**6, "longest_edge": 150}}),
    ("qwen3_vl", {"min_pixels": 500_000, "max_pixels": 600_000}),
    ("idefics3", {"size": {"height": 700, "width": 9}}),
    ("idefics3", {"do_image_splitting": False}),
    ("idefics3", {"size": {"longest_edge": 2000}}),
]


@pytest.mark.parametrize("size", [(64, 48), (200, 1), (1, 13), (900, 700), (7, 1400)])
@pytest.mark.parametrize(("family", "options"), ESTIMATED, ids=str)
def test_the_estimate_is_not_below_what_the_processor_makes(
    get_info: GetInfo, family: str, options: dict[str, Any], size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen at its resizing, where all of its pixels exist; a rounding by two pixels aside."""
    info = get_info(family, "np", "pil")
    image_processor: Any = type(info.hf_processor.image_processor).__mro__[1]
    seen = [0]
    resize = image_processor.resize

    def watched(self: Any, image: Any, *args: Any, **kwargs: Any) -> Any:
        made = resize(self, image, *args, **kwargs)
        seen.append(int(np.prod(made.shape[-2:])))
        return made

    monkeypatch.setattr(image_processor, "resize", watched)
    info.process_item("image", picture(*size), options)
    estimate = info.working_pixels(size[1], size[0], info.prepare_kwargs(options).settings["image"])
    assert estimate is not None
    rounding = 0 if family.startswith("qwen") else 2 * 2000

    assert 0 < max(seen) <= estimate + rounding
