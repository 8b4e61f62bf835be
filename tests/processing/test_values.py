"""What leaves processing is a value: it pickles, copies, compares by content and has a short repr."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lazymedia.cache import CacheStats
from lazymedia.errors import (
    BadRequestError,
    CacheMissError,
    LazyMediaError,
    NotAllowedError,
    OverloadedError,
    PayloadTooLargeError,
    UnprocessableMediaError,
    UpstreamError,
)
from lazymedia.identity import MultiModalHasher
from lazymedia.limits import Limits
from lazymedia.media.image import probe
from lazymedia.media.spec import DecodeSpec
from lazymedia.media.video import VideoMetadata
from lazymedia.models import processing_info
from lazymedia.parse import MultiModalDataParser
from lazymedia.processing import Batched, Flat, Hidden, MultiModalInputs, PlaceholderRange, ProcessorInputs
from lazymedia.processing.phases import NeedDecodes, finish, look
from lazymedia.testing.media import make_image, picture
from lazymedia.testing.processors import make_processor
from tests.infos import FAMILIES

COPIES: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "old pickle": lambda value: pickle.loads(pickle.dumps(value, protocol=2)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


def processed(family: str, return_tensors: Any = "np", count: int = 2, **processor: Any) -> MultiModalInputs:
    """A request of ``count`` pictures, through both phases."""
    info = processing_info(make_processor(family, **processor), return_tensors=return_tensors)
    pictures = [picture(60 + 10 * seed, 40, seed=seed) for seed in range(count)]
    items = MultiModalDataParser().parse_mm_data({"image": pictures})
    inputs = ProcessorInputs("A prompt: " + info.placeholder("image") * count + " and more", items)
    answer = finish(inputs, look(inputs, info, "m", "sha256", Limits()), info, "m", "sha256", Limits())
    assert not isinstance(answer, NeedDecodes)
    return answer


def assert_same_arrays(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one.keys() == other.keys()
    for name, array in one.items():
        assert type(array) is type(other[name])
        assert (array.dtype, array.shape) == (other[name].dtype, other[name].shape)
        assert np.array_equal(np.asarray(array), np.asarray(other[name]))


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("return_tensors", ["np", "pt"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_result_is_copied_as_a_value(family: str, return_tensors: str, how: str) -> None:
    result = processed(family, return_tensors)
    copied = COPIES[how](result)

    assert copied is not result
    assert copied == result
    assert repr(copied) == repr(result)
    assert_same_arrays(copied.merged(), result.merged())


@pytest.mark.parametrize("return_tensors", ["np", "pt"])
def test_results_are_compared_by_content(return_tensors: str) -> None:
    result = processed("llava", return_tensors)
    item = dict(result.mm_kwargs["image"][0] or {})
    array = item["pixel_values"]
    changed = array.clone() if return_tensors == "pt" else array.copy()
    changed[0, 0, 0, 0] += 1
    others: dict[str, Any] = {
        "prompt": "another",
        "prompt_token_ids": [*result.prompt_token_ids, 1],
        "mm_kwargs": {"image": [{"pixel_values": changed}, *result.mm_kwargs["image"][1:]]},
        "mm_hashes": {"image": ["a", "b"]},
        "mm_placeholders": {"image": result.mm_placeholders["image"][::-1]},
        "layouts": {"image": {"pixel_values": Flat()}},
        "text_columns": {},
        "request_outputs": {"cross_attention_mask": changed},
        "return_tensors": "other",
    }

    assert result == processed("llava", return_tensors)
    assert result == replace(result, timings={"x": 1.0}, cached={"image": [True, True]})
    for name, value in others.items():
        assert result != replace(result, **{name: value}), name
    assert {*others, "timings", "cached"} == {field.name for field in fields(result)}
    assert result != "text"
    for wrong in (
        {"pixel_values": array[:, :2]},
        {"pixel_values": np.asarray(array) if return_tensors == "pt" else torch.tensor(array)},
        {"pixel_values": array.astype("f8") if return_tensors == "np" else array.double()},
        {},
        None,
    ):
        assert result != replace(result, mm_kwargs={"image": [wrong, result.mm_kwargs["image"][1]]})
    with pytest.raises(TypeError, match="unhashable"):
        hash(result)


@pytest.mark.parametrize("return_tensors", ["np", "pt"])
@pytest.mark.parametrize("count", [0, 1, 30])
def test_a_repr_is_short_and_shows_no_data(return_tensors: str, count: int) -> None:
    result = processed("llava", return_tensors, count)
    secret = replace(result, prompt="secret " * 10_000, mm_kwargs={f"{n} modality": [] for n in range(1000)})

    for value in (result, secret):
        assert len(repr(value)) < 500
        assert "secret" not in repr(value)
        assert "prompt:" not in repr(value)
    if count:
        assert "the first pixel_values (1, 3, 336, 336)" in repr(result)
        assert len(repr(result.mm_placeholders["image"][0])) < 100


def test_the_reprs_beside_it_are_short() -> None:
    info = processing_info(make_processor("llava"), return_tensors="np")
    item = info.process_item("image", picture(30, 20))
    inputs = ProcessorInputs("secret " * 10_000, MultiModalDataParser().parse_mm_data({"image": [picture(9, 9)] * 99}))
    rendered = info.build_prompt("<image>" * 3, {"image": [item] * 3})

    for value in (item, item.replacement, inputs, rendered, info, inputs.mm_data_items):
        assert len(repr(value)) < 500
        assert "secret" not in repr(value)


def test_a_result_holds_rows_of_data_alone() -> None:
    """Nothing of the process that made it: another process, of another machine, can use it."""
    result = processed("qwen3_vl")
    plain = (str, int, float, bool, type(None), np.ndarray, Batched, Flat, Hidden, PlaceholderRange)

    def check(value: Any) -> None:
        if isinstance(value, dict):
            value = [*value.keys(), *value.values()]
        if isinstance(value, list | tuple):
            for element in value:
                check(element)
        else:
            assert isinstance(value, plain), type(value)

    check([getattr(result, field.name) for field in fields(result)])


ELSEWHERE = """
import pickle, sys
for name in ("transformers", "tokenizers", "torch", "torchvision", "PIL"):
    sys.modules[name] = None  # as if it were not installed
with open(sys.argv[1], "rb") as file:
    result = pickle.load(file)
merged = result.merged()
print({name: [str(array.dtype), array.shape, float(array.sum())] for name, array in merged.items()})
"""


@pytest.mark.parametrize("family", FAMILIES)
def test_a_result_is_merged_in_a_process_without_transformers(family: str, tmp_path: Path) -> None:
    result = processed(family)
    (tmp_path / "result").write_bytes(pickle.dumps(result))
    found = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(tmp_path / "result")], capture_output=True, text=True, check=False
    )
    wanted = {name: [str(array.dtype), array.shape, float(array.sum())] for name, array in result.merged().items()}

    assert found.stdout.strip() == str(wanted), found.stderr


def test_a_result_without_arrays_cannot_be_merged() -> None:
    result = processed("llava")
    with pytest.raises(RuntimeError, match="identities without arrays"):
        replace(result, mm_kwargs={"image": [None, result.mm_kwargs["image"][1]]}).merged()


METADATA = VideoMetadata(900, 30.0, 30.0, list(range(768)), [0.0333] * 768, 640, 480, "pyav", do_sample_frames=False)
VALUES = [
    DecodeSpec({"mode": "RGB", "colour": [1, 2, 3]}),
    Limits(max_image_side=5),
    PlaceholderRange(3, 2, np.array([True, False])),
    Batched(pad=0.0),
    Flat(dim=1),
    Hidden(),
    METADATA,
    probe(make_image(30, 20, format="JPEG")),
    CacheStats(1, 2, 3, 4, 5, 6, 7),
]


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_what_results_are_made_of_are_values_too(value: Any, how: str) -> None:
    copied = COPIES[how](value)

    assert copied == value
    assert repr(copied) == repr(value)
    assert type(copied) is type(value)


def test_an_item_of_a_cache_is_a_value() -> None:
    for return_tensors in ("np", "pt"):
        info = processing_info(make_processor("idefics3"), return_tensors=return_tensors)
        item, other = (info.process_item("image", picture(30, 20, seed=seed)) for seed in range(2))
        for make in COPIES.values():
            copied = make(item)
            assert copied == item
            assert copied != other
            assert (copied.nbytes, copied.replacement, copied.hidden) == (item.nbytes, item.replacement, item.hidden)


ERRORS: list[LazyMediaError] = [
    UnprocessableMediaError("broken", modality="image", index=3),
    BadRequestError("wrong").at("video", 1),
    PayloadTooLargeError("large", modality="audio", index=0),
    NotAllowedError(),
    CacheMissError(["a", "b"], modality="image", index=2),
    OverloadedError(retry_after=2.5),
    UpstreamError("down", transient=True, retry_after=1.0),
]


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_keep_what_they_say_when_copied(error: LazyMediaError, how: str) -> None:
    copied = COPIES[how](error)

    assert type(copied) is type(error)
    assert str(copied) == str(error)
    for name in ("status_hint", "retryable", "modality", "index", "retry_after", "transient", "hashes"):
        assert getattr(copied, name, None) == getattr(error, name, None), name


def test_a_hit_equals_its_miss_and_identities_are_text() -> None:
    one, other = processed("llava"), processed("llava")

    assert one == other
    assert one.mm_hashes["image"][0] != MultiModalHasher.hash_kwargs("sha256")
