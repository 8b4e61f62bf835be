"""Under what a request's items are kept and found: UUIDs, and what changes the identity."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from lazymedia.cache import ProcessorCache
from lazymedia.errors import BadRequestError, CacheMissError
from lazymedia.media.image import ImageMediaIO
from lazymedia.parse import MultiModalDataItems
from lazymedia.testing.media import make_image
from tests.pipeline.support import (
    Cache,
    WatchedInfo,
    caching,
    hf_processor,
    open_gated,
    opened,
    picture,
    pixels,
    prompt,
    refs,
    request,
)

# --- UUIDs ------------------------------------------------------------------------------------------------------------


async def test_an_item_named_by_uuid_alone_is_taken_from_the_cache() -> None:
    decoder = open_gated()
    async with caching() as processor:
        first = await processor.apply(request(processor, refs(decoder, 1), mm_uuids={"image": ["cat"]}))
        second = await processor.apply(request(processor, [None], mm_uuids={"image": ["cat"]}))

        assert decoder.calls == 1
        assert np.array_equal(pixels(first)[0], pixels(second)[0])


@pytest.mark.parametrize(
    "change",
    [
        {"mm_uuids": {"image": ["dog"]}},
        {"cache_scope": "another tenant"},
        {"media_io_kwargs": {"image": {"image_mode": "L"}}},
        {"mm_processor_kwargs": {"do_normalize": False}},
    ],
)
async def test_a_uuid_is_scoped_by_everything_that_changes_the_output(change: dict[str, Any]) -> None:
    options: dict[str, Any] = {"mm_uuids": {"image": ["cat"]}, "cache_scope": "tenant"}
    async with caching() as processor:
        first = await processor.apply(request(processor, refs(open_gated(), 1), **options))
        with pytest.raises(CacheMissError) as caught:
            await processor.apply(request(processor, [None], **{**options, **change}))

        assert caught.value.hashes != tuple(first.mm_hashes["image"])
        assert (caught.value.modality, caught.value.index) == ("image", 0)


async def test_every_missing_hash_is_told_at_once() -> None:
    async with caching() as processor:
        with pytest.raises(CacheMissError) as caught:
            await processor.apply(request(processor, [None, picture(1), None], mm_uuids={"image": ["a", None, "b"]}))

        assert len(caught.value.hashes) == 2


async def test_an_item_without_media_is_stood_for_by_its_equal_that_has_some() -> None:
    decoder = open_gated()
    async with caching() as processor:
        result = await processor.apply(
            request(processor, [None, *refs(decoder, 1)], mm_uuids={"image": ["same", "same"]})
        )

        assert (decoder.calls, len(pixels(result))) == (1, 2)


async def test_a_uuid_never_meets_a_content_key() -> None:
    decoder = open_gated()
    async with caching() as processor:
        ref = refs(decoder, 1)[0]
        content = await processor.apply(request(processor, [ref]))
        for uuid in (content.mm_hashes["image"][0], ref.key.hex()):
            named = await processor.apply(request(processor, [picture(5)], mm_uuids={"image": [uuid]}))

            assert named.cached == {"image": [False]}


@pytest.mark.parametrize(
    "uuids",
    [
        {"image": ["a"]},
        {"image": ["a", "b", "c"]},
        {"image": [None, None], "video": ["x"]},
        {"image": "ab"},
        {"image": ["a", 5]},
        {"image": [None, {}]},
        {"image": 5},
        {"image": {"a": "b"}},
        {"image": b"ab"},
        {"image": iter(["a", "b"])},
        {5: ["a"]},
        ["a", "b"],
        "ab",
        5,
    ],
    ids=str,
)
async def test_uuids_that_do_not_match_the_items_are_refused(uuids: Any) -> None:
    for cache in (ProcessorCache[Any](1 << 30), None):
        async with opened(cache=cache) as processor:
            with pytest.raises(BadRequestError, match="UUIDs"):
                await processor.apply(request(processor, [picture(1), picture(2)], mm_uuids=uuids))


@pytest.mark.parametrize(
    "uuids",
    [
        None,
        {},
        {"image": None},
        {"video": None},
        {"image": None, "video": []},
        {"image": [None, None]},
        {"smell": None},
    ],
    ids=str,
)
async def test_none_means_no_uuids(uuids: Any) -> None:
    async with caching() as processor:
        plain = await processor.apply(request(processor, [picture(1), picture(2)]))
        result = await processor.apply(request(processor, [picture(1), picture(2)], mm_uuids=uuids))

        assert result.mm_hashes == plain.mm_hashes


async def test_none_means_no_options_either() -> None:
    options = {"media_io_kwargs": {"image": None}, "mm_processor_kwargs": {"images_kwargs": None}}
    uuids = {"mm_uuids": {"image": ["cat"]}}
    async with caching() as processor:
        plain = await processor.apply(request(processor, [picture(1)], **uuids))
        result = await processor.apply(request(processor, [picture(1)], **uuids, media_io_kwargs={"image": None}))
        await processor.apply(request(processor, [picture(1)], **options))

        assert result.cached == {"image": [True]}
        assert result == plain


@pytest.mark.parametrize("selected", [[2], [0, 2], [1, 2], [2, 2]])
async def test_a_gap_in_a_selection_is_reported_where_it_was_in_the_request(selected: list[int]) -> None:
    async with caching() as processor:
        whole = request(processor, [picture(1), picture(2), None], mm_uuids={"image": [None, None, "gone"]})
        items = MultiModalDataItems({"image": whole.mm_data_items["image"].select(selected)})
        text = prompt(len(selected))
        chosen = replace(whole, prompt=text, mm_data_items=items, mm_uuid_items=None)
        with pytest.raises(BadRequestError, match="index 2 has neither") as refused:
            await processor.apply(chosen)
        named = {"image": [["a", "b", "gone"][index] for index in selected]}
        with pytest.raises(CacheMissError, match="index 2") as missing:
            await processor.apply(replace(chosen, mm_uuid_items=named))

    for error in (refused.value, missing.value):
        assert (error.modality, error.index) == ("image", 2)


async def test_an_item_with_neither_media_nor_uuid_is_refused() -> None:
    async with caching() as processor:
        with pytest.raises(BadRequestError, match="index 1 has neither"):
            await processor.apply(request(processor, [picture(1), None]))


# --- what changes the identity ----------------------------------------------------------------------------------------


async def test_options_of_the_processor_separate_entries_and_those_of_other_modalities_do_not() -> None:
    async with caching() as processor:
        plain = request(processor, [picture(1)])
        hashes = [
            inputs.get_mm_hashes(processor.model_id)["image"][0]
            for inputs in (
                plain,
                request(processor, [picture(1)], mm_processor_kwargs={"do_normalize": False}),
                request(processor, [picture(1)], mm_processor_kwargs={"images_kwargs": {"do_normalize": False}}),
                replace(plain, hf_processor_mm_kwargs={"videos_kwargs": {"fps": 1}}),
                request(processor, [picture(1)], media_io_kwargs={"video": {"num_frames": 3}}),
            )
        ]

        assert hashes[0] == hashes[3] == hashes[4]
        assert hashes[1] == hashes[2] != hashes[0]
        assert plain.get_mm_hashes("another model")["image"][0] not in hashes


async def test_decode_options_are_counted_once_for_references_and_beside_content_that_is_none() -> None:
    async with caching() as processor:
        options = {"image": {"image_mode": "L"}}
        ref = ImageMediaIO().load_bytes_ref(make_image())

        def hash_of(item: object, **kwargs: Any) -> str:
            return request(processor, [item], **kwargs).get_mm_hashes("m")["image"][0]

        assert hash_of(ref) == hash_of(ref, media_io_kwargs=options)
        assert hash_of(picture(1)) != hash_of(picture(1), media_io_kwargs=options)


async def test_the_operators_decoder_options_are_part_of_the_identity() -> None:
    cache: Cache = ProcessorCache(1 << 30)
    see_through = Image.new("RGBA", (32, 32), (0, 0, 0, 0))
    results = []
    for colour in ([255, 255, 255], [0, 0, 0]):
        options = {"image": {"rgba_background_color": colour}}
        info = WatchedInfo(hf_processor(), return_tensors="np", media_io_kwargs=options)
        async with opened(cache=cache, info=info) as processor:
            results.append(await processor.apply(request(processor, [see_through])))

    assert results[1].cached == {"image": [False]}
    assert not np.array_equal(pixels(results[0])[0], pixels(results[1])[0])
