"""What a processed item holds: its own memory, nothing of its neighbours, and a size that counts everything."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch

from lazymedia.models import processing_info
from lazymedia.processing import ProcessingInfo
from lazymedia.testing.media import picture
from lazymedia.testing.processors import make_processor
from tests.infos import FAMILIES

GetInfo = Callable[..., ProcessingInfo]

UNTOUCHED = {"do_resize": False, "do_center_crop": False, "do_rescale": False, "do_normalize": False}
"""Options under which LLaVA's processor hands pixels through."""


@pytest.mark.parametrize("return_tensors", ["pt", "np"])
@pytest.mark.parametrize("family", FAMILIES)
def test_stored_arrays_own_their_memory(get_info: GetInfo, family: str, return_tensors: str) -> None:
    item = get_info(family, return_tensors).process_item("image", picture(70, 50))

    for array in item.features.values():
        if return_tensors == "pt":
            assert array.untyped_storage().nbytes() == array.nbytes
        else:
            assert not array.flags.writeable
            base = array.base.untyped_storage() if isinstance(array.base, torch.Tensor) else array.base
            assert base is None or (base.nbytes() if callable(base.nbytes) else base.nbytes) == array.nbytes


@pytest.mark.parametrize("return_tensors", ["pt", "np"])
@pytest.mark.parametrize("backend", ["torchvision", "pil"])
@pytest.mark.parametrize("kind", ["array", "tensor"])
def test_an_entry_shares_nothing_with_the_media_it_was_made_from(
    get_info: GetInfo, backend: str, kind: str, return_tensors: str
) -> None:
    info = get_info("llava", return_tensors, backend)
    media: Any = np.full((3, 336, 336), 9, np.uint8)
    media = torch.from_numpy(media) if kind == "tensor" else media
    item = info.process_item("image", media, {**UNTOUCHED, "disable_grouping": True})
    media[:] = 0

    assert int(item.features["pixel_values"].max()) == int(item.features["pixel_values"].min()) == 9


def test_options_that_a_processor_changes_stay_what_they_were_for_the_next_item() -> None:
    """An entry would depend on its neighbours otherwise."""
    processor = make_processor("llava")
    image_processor = type(processor.image_processor)

    class Careless(image_processor):  # type: ignore[misc, valid-type]  # the class depends on what is installed
        def preprocess(self, images: Any, **kwargs: Any) -> Any:
            made = super().preprocess(images, **kwargs)
            kwargs["size"]["shortest_edge"] = 1000
            return made

    processor.image_processor = Careless(**processor.image_processor.to_dict())
    info = processing_info(processor)
    prepared = info.prepare_kwargs({"size": {"shortest_edge": 400}})
    first, second = (info.process_item("image", picture(80, 60), prepared) for _ in range(2))

    assert torch.equal(first.features["pixel_values"], second.features["pixel_values"])


def test_the_size_of_an_entry_counts_arrays_text_and_tokens(get_info: GetInfo) -> None:
    item = get_info("idefics3").process_item("image", picture(300, 200))
    arrays = sum(array.nbytes for array in item.features.values())
    assert item.replacement.token_ids is not None
    assert item.replacement.is_embed is not None
    rest = sys.getsizeof(item.replacement.text) + 8 * len(item.replacement.token_ids) + item.replacement.is_embed.nbytes

    assert {name: value.tolist() for name, value in item.hidden.items()} == {"rows": [[3]], "cols": [[4]]}
    assert arrays + rest < item.nbytes < arrays + rest + 4096


@pytest.mark.parametrize("family", FAMILIES)
def test_several_threads_get_what_one_gets(get_info: GetInfo, family: str) -> None:
    info = get_info(family)
    media = [picture(40 + 11 * index, 90 - 7 * index, seed=index) for index in range(6)]
    alone = [info.process_item("image", item) for item in media]
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(lambda item: info.process_item("image", item), media * 3))

    for one, other in zip(alone * 3, together, strict=True):
        assert all(torch.equal(array, other.features[name]) for name, array in one.features.items())
        assert one.replacement.token_ids == other.replacement.token_ids


@pytest.mark.parametrize("return_tensors", ["pt", "np"])
def test_what_leaves_without_sharing_cannot_change_the_entry(get_info: GetInfo, return_tensors: str) -> None:
    item = get_info("llava", return_tensors).process_item("image", picture(30, 20))
    before = np.asarray(item.features["pixel_values"]).copy()
    handed = item.handed_out(share_tensors=False)
    if return_tensors == "pt":
        handed.features["pixel_values"].zero_()
    else:
        with pytest.raises(ValueError, match="read-only"):
            handed.features["pixel_values"][:] = 0

    assert np.array_equal(np.asarray(item.features["pixel_values"]), before)
    assert handed.nbytes == item.nbytes
    assert handed.replacement is item.replacement


@pytest.mark.parametrize("return_tensors", ["pt", "np"])
@pytest.mark.parametrize("family", FAMILIES)
def test_merging_one_item_copies_nothing(get_info: GetInfo, family: str, return_tensors: str) -> None:
    info = get_info(family, return_tensors)
    item = info.process_item("image", picture(70, 50))
    merged = info.merge("image", [item.features])

    assert all(merged[name] is array for name, array in item.features.items())


@pytest.mark.parametrize("family", FAMILIES)
def test_the_dummy_item_can_be_processed(get_info: GetInfo, family: str) -> None:
    info = get_info(family)

    assert info.process_item("image", info.dummy_item("image")).features


def test_a_modality_that_the_model_does_not_take_is_the_requests_fault(get_info: GetInfo) -> None:
    info = get_info("llava")

    for call in (
        lambda: info.process_item("audio", np.zeros(8, np.float32)),
        lambda: info.get_media_io("audio"),
        lambda: info.placeholder("audio"),
        lambda: info.dummy_item("audio"),
    ):
        with pytest.raises(ValueError, match="this model takes image, not audio"):
            call()


def test_items_that_cannot_be_joined_are_the_requests_fault(get_info: GetInfo) -> None:
    info = get_info("llava")
    items = [info.process_item("image", picture(*size), UNTOUCHED) for size in [(30, 20), (20, 30)]]

    with pytest.raises(ValueError, match="cannot be put into one pixel_values"):
        info.merge("image", [item.features for item in items])
