"""Pictures of odd shapes, as PIL images and as arrays: processed like any other, or refused by themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import Limits
from lazymedia.processing import ProcessedItem, ProcessingInfo
from lazymedia.testing.media import picture
from tests.infos import FAMILIES

GetInfo = Callable[..., ProcessingInfo]

ODD = [(1, 1), (1, 3), (3, 1), (2, 2), (3, 3), (60, 1), (1, 60), (60, 3), (3, 60), (4, 30), (30, 4), (313, 1)]
BACKENDS = ["torchvision", "pil"]


def assert_equal(one: ProcessedItem, other: ProcessedItem) -> None:
    assert one.features.keys() == other.features.keys()
    for name, array in one.features.items():
        assert array.dtype == other.features[name].dtype
        assert np.array_equal(np.asarray(array), np.asarray(other.features[name])), name
    assert one.replacement.text == other.replacement.text


def outcome(info: ProcessingInfo, media: object) -> ProcessedItem | str:
    """The item, or what the processor says against it."""
    try:
        return info.process_item("image", media)
    except ValueError as exc:
        return str(exc)


@pytest.mark.parametrize("size", ODD, ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_an_array_gives_what_the_picture_of_its_pixels_gives(
    get_info: GetInfo, family: str, backend: str, size: tuple[int, int]
) -> None:
    """Also where Hugging Face would take the first axis for channels: one, three or four pixels high."""
    info = get_info(family, "pt", backend)
    pil = picture(*size, seed=7)
    array = np.asarray(pil)
    wanted = outcome(info, pil)

    for media in (array, array.copy(), np.asfortranarray(array), torch.from_numpy(array.transpose(2, 0, 1).copy())):
        got = outcome(info, media)
        if isinstance(wanted, str):
            assert got == wanted
        else:
            assert isinstance(got, ProcessedItem)
            assert_equal(got, wanted)


@pytest.mark.parametrize("mode", ["L", "LA", "RGBA"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_grey_and_transparent_arrays_give_what_their_pictures_give(
    get_info: GetInfo, family: str, backend: str, mode: str
) -> None:
    info = get_info(family, "pt", backend)
    pil = picture(40, 30, seed=3, mode=mode)
    array = np.asarray(pil)
    tensor = torch.from_numpy(array.copy())
    wanted = info.process_item("image", pil)

    assert_equal(info.process_item("image", array), wanted)
    if mode == "RGBA":
        assert_equal(info.process_item("image", tensor.permute(2, 0, 1)), wanted)
    if mode == "L":
        assert_equal(info.process_item("image", tensor), wanted)
        assert_equal(info.process_item("image", array[..., None]), wanted)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_thin_picture_is_refused_by_itself(get_info: GetInfo, family: str) -> None:
    """200 times as long as wide is the most, also for processors that have no such bound of their own."""
    info = get_info(family)
    beside = info.process_item("image", picture(60, 50))

    assert "201 x 1 is too long" in str(outcome(info, picture(201, 1)))
    assert "1 x 201 is too long" in str(outcome(info, picture(1, 201)))
    assert isinstance(outcome(info, picture(200, 1)), ProcessedItem)
    assert_equal(info.process_item("image", picture(60, 50)), beside)


def test_a_strip_that_would_grow_beyond_the_limits_is_refused_before_it_does(get_info: GetInfo) -> None:
    """Brought to 336 pixels, the shorter side of 1 makes 336 x 5.5 million out of 1 x 16,384."""
    made = get_info("llava")
    info = type(made)(made.hf_processor, limits=Limits(max_image_aspect=20_000))

    with pytest.raises(UnprocessableMediaError, match="1849688064 pixels out of a picture of 16384 x 1"):
        info.process_item("image", np.zeros((1, 16384, 3), np.uint8))


REFUSED = [
    pytest.param("/etc/passwd", id="a path"),
    pytest.param("https://example.com/a.png", id="a URL"),
    pytest.param(b"bytes", id="bytes"),
    pytest.param([picture(4, 4)], id="a list"),
    pytest.param(None, id="nothing"),
    pytest.param(np.zeros((5, 7, 6), np.uint8), id="six channels"),
    pytest.param(np.zeros((0, 7, 3), np.uint8), id="no rows"),
    pytest.param(np.zeros((2, 5, 7, 3), np.uint8), id="four axes"),
    pytest.param(torch.zeros(7), id="one axis"),
]


@pytest.mark.parametrize("media", REFUSED)
def test_what_is_no_picture_is_refused(get_info: GetInfo, media: Any) -> None:
    """A text above all: Hugging Face would read the file or fetch the URL."""
    with pytest.raises(UnprocessableMediaError):
        get_info("llava").process_item("image", media)


def test_an_array_with_channels_first_is_read_as_such_where_nothing_else_is_possible(get_info: GetInfo) -> None:
    info = get_info("llava")
    array = np.asarray(picture(40, 30))

    assert_equal(info.process_item("image", array.transpose(2, 0, 1)), info.process_item("image", array))


def test_shapes_that_torch_cannot_work_with_are_value_errors(get_info: GetInfo) -> None:
    """They come as a bare RuntimeError from torch, which nobody could tell from a bug."""
    with pytest.raises(ValueError, match="invalid for input"):
        get_info("qwen2_vl").process_item("image", picture(37, 41), {"do_resize": False})


@pytest.mark.parametrize(
    ("family", "kwargs", "text"),
    [
        ("llava", {"size": {"shortest_edge": 200_000}}, "are allowed"),
        ("llava", {"crop_size": {"height": 100_000, "width": 100_000}}, "are allowed"),
        ("llava", {"do_pad": True, "pad_size": {"height": 100_000, "width": 100_000}}, "are allowed"),
        ("qwen2_vl", {"size": {"shortest_edge": 10**9, "longest_edge": 10**9}}, "are allowed"),
        ("qwen2_vl", {"min_pixels": 10**9, "max_pixels": 10**9}, "are allowed"),
        ("idefics3", {"size": {"longest_edge": 4096}}, "tiles"),
    ],
)
def test_a_request_cannot_ask_for_more_pixels_than_the_operator_allows(
    get_info: GetInfo, family: str, kwargs: dict[str, Any], text: str
) -> None:
    with pytest.raises(UnprocessableMediaError, match=text):
        get_info(family).process_item("image", picture(40, 30), kwargs)
