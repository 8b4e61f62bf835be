"""Overridden methods and the phases: what is decoded, what is handed over, and what phases by hand may not bypass.

Also equal items of one request, and what a hit shares with its cache.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from lazymedia.cache import ProcessorCache
from lazymedia.pipeline import MultiModalProcessor
from lazymedia.processing import MultiModalInputs, ProcessorInputs
from lazymedia.testing.quiet import assert_quiet
from tests.pipeline.support import (
    Cache,
    WatchedInfo,
    caching,
    hf_processor,
    open_gated,
    opened,
    picture,
    pixels,
    refs,
    request,
)
from tests.pipeline.test_apply import OverridesApply, OverridesCached, OverridesPlain, overridden_on_the_instance


@pytest.mark.parametrize("cached", [True, False], ids=["with a cache", "without"])
async def test_where_apply_alone_is_overridden_only_misses_are_decoded(cached: bool) -> None:
    decoder = open_gated()
    info = WatchedInfo(hf_processor())
    async with OverridesApply(info, cache=ProcessorCache(1 << 30) if cached else None) as processor:
        first = await processor.apply(request(processor, refs(decoder, 2)))
        second = await processor.apply(request(processor, refs(decoder, 3)))

    assert first.cached == {"image": [False, False]}
    assert second.cached == {"image": [cached, cached, False]}
    assert (decoder.calls, info.processed) == ((3, 3) if cached else (5, 5))


class MarksPlain(MultiModalProcessor):
    """What it returns says so in its prompt."""

    def _apply_hf_processor(self, inputs: ProcessorInputs) -> MultiModalInputs:
        return replace(super()._apply_hf_processor(inputs), prompt="plain")


class Marks(MarksPlain):
    def _cached_apply_hf_processor(self, inputs: ProcessorInputs) -> MultiModalInputs:
        return replace(super()._cached_apply_hf_processor(inputs), prompt="cached")


class AnswersItself(MultiModalProcessor):
    """Calls nothing of the base class's."""

    def _apply_hf_processor(self, inputs: ProcessorInputs) -> MultiModalInputs:
        return MultiModalInputs("itself", [1], {}, {}, {}, {})


@pytest.mark.parametrize(("kind", "text"), [(Marks, "cached"), (MarksPlain, "plain"), (AnswersItself, "itself")])
async def test_what_an_override_returns_is_handed_over_once(kind: type[MultiModalProcessor], text: str) -> None:
    outbox: list[MultiModalInputs] = []
    info, cache = WatchedInfo(hf_processor()), Cache(1 << 30)
    async with kind(info, cache=cache, on_commit=outbox.append) as processor:
        results = [await processor.apply(request(processor, refs(open_gated(), 1))) for _ in range(2)]

    assert [handed.prompt for handed in outbox] == [text, text]
    assert outbox == results


async def test_when_the_receiver_of_an_override_fails_nothing_stays_in_the_cache() -> None:
    def receive(_: MultiModalInputs) -> None:
        raise RuntimeError("full")

    cache = Cache(1 << 30)
    async with OverridesCached(WatchedInfo(hf_processor()), cache=cache, on_commit=receive) as processor:
        with pytest.raises(RuntimeError, match="full"):
            await processor.apply(request(processor, refs(open_gated(), 2)))

    assert len(cache) == 0


@pytest.mark.parametrize(
    ("make", "method"),
    [
        (OverridesApply, "apply"),
        (OverridesCached, "_cached_apply_hf_processor"),
        (OverridesPlain, "_apply_hf_processor"),
        (overridden_on_the_instance, "_apply_hf_processor"),
        (Marks, "_cached_apply_hf_processor, _apply_hf_processor"),
    ],
)
async def test_phases_called_by_hand_do_not_bypass_an_override(
    make: Callable[..., MultiModalProcessor], method: str
) -> None:
    decoder = open_gated()
    async with make(WatchedInfo(hf_processor()), cache=ProcessorCache(1 << 30)) as processor:
        with pytest.raises(RuntimeError, match=f"bypass the overridden {method}; call apply"):
            async with processor.open_apply(request(processor, refs(decoder, 1))) as state:
                await state.phase1()
        async with processor.open_apply(request(processor, refs(decoder, 1))) as state:
            with pytest.raises(RuntimeError, match="after phase1"):
                await state.phase2()
        assert decoder.calls == 0
        assert (await processor.apply(request(processor, refs(decoder, 1)))).mm_hashes
        assert_quiet(processor)


# --- equal items ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("skip", [True, False])
async def test_equal_items_of_a_request_are_decoded_and_processed_once(skip: bool) -> None:
    """Also where no cache is used: references to equal payloads, and equal pictures that came decoded."""
    decoder = open_gated()
    async with caching() as processor:
        items = [*refs(decoder, 2), picture(7), *refs(decoder, 2), picture(7)]
        result = await processor.apply(request(processor, items, skip_mm_cache=skip))

        assert (decoder.calls, processor.info.processed) == (2, 3)
        assert len(set(result.mm_hashes["image"])) == 3
        assert all(np.array_equal(pixels(result)[index], pixels(result)[index + 3]) for index in range(3))
        assert result.cached == {"image": [False] * 6}
        assert (processor.cache is not None and len(processor.cache) == 0) == skip


async def test_a_hit_returns_the_tensors_that_the_cache_holds() -> None:
    info = WatchedInfo(hf_processor(), return_tensors="pt")
    for share in (True, False):
        async with opened(info=info, cache=ProcessorCache(1 << 30, share_tensors=share)) as processor:
            results = [await processor.apply(request(processor, [picture(1)])) for _ in range(2)]
            first, second = (result.mm_kwargs["image"][0] for result in results)
            assert first is not None
            assert second is not None

            assert (first["pixel_values"] is second["pixel_values"]) == share
            assert results[0] == results[1]
            assert results[1].cached == {"image": [True]}
