"""Requests from beginning to end: what is decoded, processed, cached and handed over; misuse, and overriding."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lazymedia.cache import ProcessorCache
from lazymedia.media.image import ImageMediaIO
from lazymedia.media.ref import MediaRef
from lazymedia.models import processing_info
from lazymedia.pipeline import MultiModalProcessor
from lazymedia.processing import MultiModalInputs, ProcessorInputs
from lazymedia.testing.decoders import CountingMediaIO
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


async def test_a_second_request_with_the_same_pictures_decodes_and_processes_nothing() -> None:
    decoder = CountingMediaIO(ImageMediaIO())
    payloads = [make_image(40, 30, seed=seed) for seed in range(3)]
    async with caching() as processor:
        cold = await processor.apply(request(processor, [decoder.load_bytes_ref(payload) for payload in payloads]))
        counts = decoder.calls, processor.info.processed
        hot = await processor.apply(request(processor, [decoder.load_bytes_ref(payload) for payload in payloads]))

        assert counts == (3, 3)
        assert (decoder.calls, processor.info.processed) == (3, 3)
        assert (cold.cached, hot.cached) == ({"image": [False] * 3}, {"image": [True] * 3})
        assert all(np.array_equal(a, b) for a, b in zip(pixels(cold), pixels(hot)))
        assert (cold.prompt_token_ids, cold.mm_hashes) == (hot.prompt_token_ids, hot.mm_hashes)


@pytest.mark.parametrize("tensors", ["np", "pt"])
async def test_hits_and_misses_together_equal_one_call_of_the_processor(tensors: Any) -> None:
    payloads = [make_image(40 + seed, 30, seed=seed) for seed in range(4)]
    decoder = ImageMediaIO()
    info = processing_info(hf_processor(), return_tensors=tensors)
    async with caching(info=info) as processor:
        await processor.apply(request(processor, [decoder.load_bytes_ref(payloads[n]) for n in (1, 3)]))
        mixed = await processor.apply(request(processor, [decoder.load_bytes_ref(payloads[n]) for n in (0, 1, 2, 1)]))
        whole = hf_processor()(
            text=prompt(4), images=[decoder.load_bytes(payloads[n]) for n in (0, 1, 2, 1)], return_tensors=tensors
        )

    merged = mixed.merged()
    assert mixed.cached == {"image": [False, True, False, True]}
    assert merged.keys() == whole.keys()
    assert all(np.array_equal(np.asarray(merged[name]), np.asarray(whole[name])) for name in whole)
    assert mixed.prompt_token_ids == whole["input_ids"][0].tolist()


@pytest.mark.parametrize("how", ["no cache", "skip_mm_cache"])
async def test_without_a_cache_everything_is_processed_and_nothing_kept(how: str) -> None:
    cache: Cache | None = None if how == "no cache" else ProcessorCache(1 << 30)
    async with opened(cache=cache) as processor:
        decoder = open_gated()
        for _ in range(2):
            result = await processor.apply(request(processor, refs(decoder, 2), skip_mm_cache=True))

        assert (decoder.calls, processor.info.processed) == (4, 4)
        assert result.cached == {"image": [False, False]}
        assert all(len(mm_hash) == 64 for mm_hash in result.mm_hashes["image"])
        assert cache is None or len(cache) == 0


async def test_an_item_larger_than_the_cache_is_served_uncached() -> None:
    cache: Cache = ProcessorCache(1000)
    async with opened(cache=cache) as processor:
        decoder = open_gated()
        for _ in range(2):
            result = await processor.apply(request(processor, refs(decoder, 1)))

        assert pixels(result)[0].shape == (1, 3, 336, 336)
        assert (decoder.calls, len(cache)) == (2, 0)


async def test_a_request_without_media() -> None:
    async with caching() as processor:
        result = await processor.apply(processor.make_inputs("USER: hello", {}))

        assert result.prompt_token_ids == hf_processor().tokenizer("USER: hello")["input_ids"]
        assert (result.mm_kwargs, result.mm_hashes, result.mm_placeholders) == ({}, {}, {})


async def test_media_that_came_decoded_are_hashed_by_what_they_hold() -> None:
    async with caching() as processor:
        first = await processor.apply(request(processor, [picture(1), np.asarray(picture(2))]))
        second = await processor.apply(request(processor, [picture(1), np.asarray(picture(2)), picture(3)]))

        assert second.cached == {"image": [True, True, False]}
        assert all(np.array_equal(a, b) for a, b in zip(pixels(first), pixels(second)))


async def test_payloads_are_released_and_the_callers_references_are_not() -> None:
    decoder = open_gated()
    async with caching() as processor:
        mine = refs(decoder, 3)
        async with processor.open_apply(request(processor, mine)) as state:
            forks = state.inputs.mm_data_items["image"].get_all_raw()
            await state.phase1()
            await state.wait_decodes()
            await state.phase2()

            assert all(isinstance(fork, MediaRef) and fork.data for fork in forks)
        assert all(isinstance(fork, MediaRef) and not fork.data for fork in forks)
        assert all(ref.data and ref.decode() for ref in mine)


async def test_placeholders_say_where_each_items_tokens_stand() -> None:
    async with opened() as processor:
        result = await processor.apply(request(processor, [picture(1), picture(2)]))
        image_token = hf_processor().image_token_id

        assert [place.length for place in result.mm_placeholders["image"]] == [576, 576]
        for place in result.mm_placeholders["image"]:
            assert set(result.prompt_token_ids[place.offset : place.offset + place.length]) == {image_token}


async def test_timings_name_the_stages() -> None:
    async with caching() as processor:
        result = await processor.apply(request(processor, refs(open_gated(), 1)))

        stages = {
            "get_mm_hashes",
            "get_cache_missing_items",
            "decode_mm_items",
            "apply_hf_processor",
            "merge_mm_kwargs",
        }
        assert stages <= result.timings.keys()
        assert all(seconds >= 0 for seconds in result.timings.values())


async def test_nothing_that_was_handed_out_can_be_written_to() -> None:
    async with caching() as processor:
        result = await processor.apply(request(processor, [picture(1)]))
        held = (result.mm_placeholders["image"][0].is_embed, pixels(result)[0])
        for array in held:
            for part in (array, array.base):
                assert part is not None
                with pytest.raises((ValueError, AttributeError)):
                    part.flags.writeable = True

        again = await processor.apply(request(processor, [picture(1)]))
        assert again.mm_placeholders["image"][0].is_embed.all()


async def test_results_are_handed_over_in_the_order_of_the_commits() -> None:
    outbox: list[MultiModalInputs] = []
    async with caching(on_commit=outbox.append) as processor:
        results = [await processor.apply(request(processor, [picture(n)])) for n in range(3)]

    assert [handed.mm_hashes for handed in outbox] == [result.mm_hashes for result in results]


async def test_when_the_receiver_fails_nothing_of_the_request_stays_in_the_cache() -> None:
    cache: Cache = ProcessorCache(1 << 30)
    fail = False

    def receive(_: MultiModalInputs) -> None:
        if fail:
            raise RuntimeError("full")

    async with opened(cache=cache, on_commit=receive) as processor:
        await processor.apply(request(processor, [picture(1)]))
        fail = True
        with pytest.raises(RuntimeError, match="full"):
            await processor.apply(request(processor, [picture(1), picture(2)]))

        assert len(cache) == 0


# --- misuse, and overriding -------------------------------------------------------------------------------------------


async def test_another_processors_inputs_are_refused() -> None:
    async with caching() as mine, caching() as other:
        with pytest.raises(ValueError, match="another processor"):
            await mine.apply(request(other, [picture(1)]))


async def test_steps_out_of_order_are_refused() -> None:
    async with opened() as processor:
        with pytest.raises(RuntimeError, match="after phase1"):
            async with processor.open_apply(request(processor, [picture(1)])) as state:
                await state.phase2()
        with pytest.raises(RuntimeError, match="already"):
            async with processor.open_apply(request(processor, [picture(1)])) as state:
                await state.phase1()
                await state.phase1()
        with pytest.raises(RuntimeError, match="already finished"):
            async with processor.open_apply(request(processor, [picture(1)])) as state:
                await state.phase1()
                await state.phase2()
                await state.phase2()


async def test_a_processor_is_entered_once_and_used_inside() -> None:
    processor = MultiModalProcessor(WatchedInfo(hf_processor()))
    inputs = processor.make_inputs("hello", {})
    for use in (processor.apply(inputs), processor.warm_up()):
        with pytest.raises(RuntimeError, match="enter the processor"):
            await use
    async with processor:
        await processor.apply(inputs)
    with pytest.raises(RuntimeError, match="entered once"):
        await processor.__aenter__()


class OverridesApply(MultiModalProcessor):
    async def apply(self, inputs: ProcessorInputs) -> MultiModalInputs:
        return await super().apply(inputs)


class OverridesCached(MultiModalProcessor):
    def _cached_apply_hf_processor(self, inputs: ProcessorInputs) -> MultiModalInputs:
        assert all(raw.is_decoded for raw in inputs.mm_data_items["image"].get_all_raw() if isinstance(raw, MediaRef))
        return super()._cached_apply_hf_processor(inputs)


class OverridesPlain(MultiModalProcessor):
    calls = 0

    def _apply_hf_processor(self, inputs: ProcessorInputs) -> MultiModalInputs:
        type(self).calls += 1
        return super()._apply_hf_processor(inputs)


def overridden_on_the_instance(*args: Any, **kwargs: Any) -> MultiModalProcessor:
    processor = MultiModalProcessor(*args, **kwargs)
    processor._apply_hf_processor = processor._apply_hf_processor  # type: ignore[method-assign]
    return processor


@pytest.mark.parametrize(
    ("make", "method"),
    [
        (OverridesApply, "apply"),
        (OverridesCached, "_cached_apply_hf_processor"),
        (OverridesPlain, "_apply_hf_processor"),
        (overridden_on_the_instance, "_apply_hf_processor"),
    ],
)
async def test_an_overridden_method_takes_the_request_out_of_the_two_phases(
    make: Callable[..., MultiModalProcessor], method: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "lazymedia.pipeline")
    decoder = open_gated()
    async with MultiModalProcessor(WatchedInfo(hf_processor())) as plain:
        expected = await plain.apply(request(plain, refs(decoder, 2)))
    async with make(WatchedInfo(hf_processor()), cache=ProcessorCache(1 << 30)) as processor:
        results = [await processor.apply(request(processor, refs(decoder, 2))) for _ in range(2)]

        assert plain.supports_two_phase_apply
        assert not processor.supports_two_phase_apply
        assert all(result.prompt_token_ids == expected.prompt_token_ids for result in results)
        assert all(np.array_equal(a, b) for a, b in zip(pixels(results[1]), pixels(expected)))
        lines = [record.getMessage() for record in caplog.records if "overrides" in record.getMessage()]
        assert len(lines) == 1
        assert method in lines[0]


async def test_an_override_of_processing_is_asked_for_every_request() -> None:
    OverridesPlain.calls = 0
    async with OverridesPlain(WatchedInfo(hf_processor()), cache=ProcessorCache(1 << 30)) as processor:
        for _ in range(2):
            await processor.apply(request(processor, refs(open_gated(), 1)))

    assert OverridesPlain.calls == 2
