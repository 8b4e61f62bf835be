"""Bounds on a request's options: size, depth, values, before anything is merged, hashed or decoded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import Limits
from lazymedia.models import processing_info
from lazymedia.processing import ProcessingInfo
from lazymedia.processing.options import check_options
from lazymedia.testing.media import picture
from lazymedia.testing.processors import make_processor
from tests.cpu import cpu_seconds_below
from tests.infos import FAMILIES

GetInfo = Callable[..., ProcessingInfo]


def nested(depth: int) -> Any:
    value: Any = 1
    for number in range(depth):
        value = [value] if number % 2 else {"a": value}
    return value


MANY = 1_000_000
OUT_OF_BOUNDS = [
    pytest.param({"image_mean": [0.5] * MANY}, "image_mean: 1000000 entries", id="a million means"),
    pytest.param(
        {"images_kwargs": {"image_mean": (0.5,) * MANY}}, "images_kwargs: image_mean: 1000000 entries", id="in a group"
    ),
    pytest.param({f"option {n}": 1 for n in range(MANY)}, "options.*: 1000000 entries", id="a million names"),
    pytest.param({"size": {f"edge {n}": 1 for n in range(MANY)}}, "size: 1000000 entries", id="a million keys"),
    pytest.param({"size": "x" * MANY}, "size: .* 16384 characters", id="a long text"),
    pytest.param({"x" * MANY: 1}, "16384 characters", id="a long name"),
    pytest.param({"size": {"x" * MANY: 1}}, "size: .* 16384 characters", id="a long key"),
    pytest.param({"size": [[0] * 64] * 64}, "size: .* 16384 characters", id="lists of lists"),
    pytest.param({"size": nested(9)}, "size.* is too deeply nested", id="nine levels"),
    pytest.param({"size": nested(100_000)}, "size.* is too deeply nested", id="a hundred thousand levels"),
    pytest.param({"rescale_factor": 1e308}, "rescale_factor must be finite", id="a factor"),
    pytest.param({"rescale_factor": -1e10}, "rescale_factor must be finite", id="a negative factor"),
    pytest.param({"rescale_factor": float("nan")}, "rescale_factor must be finite", id="NaN"),
    pytest.param({"image_std": [1.0, float("-inf"), 1.0]}, "image_std must be finite", id="infinity"),
    pytest.param({"size": {"height": 10**5000, "width": 1}}, "size: height must be finite", id="five thousand digits"),
    pytest.param(
        {"size": {"height": np.float32("inf"), "width": 1}}, "size: height must be finite", id="a NumPy scalar"
    ),
    pytest.param({"size": {1: 2}}, "size: an option's name is text, not int", id="a key that is no text"),
    pytest.param({1: 2}, "name is text, not int", id="a name that is no text"),
    pytest.param({"image_mean": np.zeros(3)}, "image_mean must be .* not ndarray", id="an array"),
    pytest.param({"image_mean": {0.5}}, "image_mean must be .* not set", id="a set"),
    pytest.param({"size": b"large"}, "size must be .* not bytes", id="bytes"),
    pytest.param({"size": 1j}, "size must be .* not complex", id="a complex number"),
]


@pytest.mark.parametrize(("options", "text"), OUT_OF_BOUNDS)
@pytest.mark.parametrize("kind", ["processor", "decoder"])
def test_options_out_of_bounds_are_refused_by_name_at_once(
    get_info: GetInfo, options: dict[Any, Any], text: str, kind: str
) -> None:
    info = get_info("llava")
    with cpu_seconds_below(0.1), pytest.raises(UnprocessableMediaError, match=text) as caught:
        if kind == "processor":
            info.check_options(None, options)
        else:
            info.check_options({"image": options}, None)

    assert len(str(caught.value)) <= 300


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"do_resize": False, "images_kwargs": None},
        {"size": {"shortest_edge": 1, "longest_edge": 10**9}},
        {"image_mean": [0.5] * 64, "resample": 3, "rescale_factor": 1 / 255},
        {"size": nested(7)},
        {"size": np.int64(4), "image_mean": np.float32(0.5)},
    ],
    ids=str,
)
def test_options_within_bounds_pass(options: dict[str, Any]) -> None:
    check_options(options, "processor options", Limits())


def test_the_bounds_are_the_operators() -> None:
    limits = Limits(max_option_size=20, max_option_length=2, max_option_number=3)
    for options in ({"a": [1, 2, 3]}, {"a": 4}, {"a" * 13: 1}):
        with pytest.raises(UnprocessableMediaError):
            check_options(options, "processor options", limits)
    check_options({"a" * 12: 3}, "processor options", limits)


def test_a_group_of_options_that_is_none_has_none(get_info: GetInfo) -> None:
    info = get_info("llava")

    assert (
        info.prepare_kwargs({"images_kwargs": None, "videos_kwargs": None}).settings == info.prepare_kwargs({}).settings
    )


NOT_FINITE = [
    {"image_std": [1e-45] * 3},
    {"image_std": 1e-300},
    {"image_mean": [-1e9] * 3, "image_std": [1e-38] * 3},
]


@pytest.mark.parametrize("options", NOT_FINITE, ids=str)
@pytest.mark.parametrize("return_tensors", ["np", "pt"])
@pytest.mark.parametrize("backend", ["torchvision", "pil"])
@pytest.mark.parametrize("family", FAMILIES)
def test_values_that_are_not_finite_are_an_error(
    family: str, backend: str, return_tensors: Any, options: dict[str, Any]
) -> None:
    info = processing_info(make_processor(family, backend=backend), return_tensors=return_tensors)  # type: ignore[arg-type]  # one of two names

    with pytest.raises(ValueError, match="pixel_values holds values that are not finite"):
        info.process_item("image", picture(30, 20), options)
    assert info.works("image")
