"""What happens between the phases of one request when other requests' phases run: hits that go, misses that come."""

from __future__ import annotations

from typing import Any

import anyio
import numpy as np
import pytest

from lazymedia.cache import ProcessorCache
from lazymedia.errors import CacheMissError, UnprocessableMediaError
from lazymedia.processing import MultiModalInputs
from lazymedia.testing.decoders import FailingMediaIO, GatedMediaIO
from tests.pipeline.support import Cache, caching, open_gated, opened, picture, reached, refs, request


def first_pixels(result: MultiModalInputs) -> Any:
    item = result.mm_kwargs["image"][0]
    assert item is not None
    return np.asarray(item["pixel_values"])


async def test_a_miss_that_became_a_hit_is_not_processed_a_second_time() -> None:
    io = open_gated()
    async with caching() as processor:
        async with processor.open_apply(request(processor, refs(io, 1))) as state:
            await state.phase1()
            await state.wait_decodes()
            other = await processor.apply(request(processor, refs(io, 1)))
            result = await state.phase2()

        assert processor.info.processed == 1
        assert (other.cached, result.cached) == ({"image": [False]}, {"image": [True]})
        assert np.array_equal(first_pixels(result), first_pixels(other))


async def test_a_hit_that_room_was_made_at_the_cost_of_is_still_good() -> None:
    """Its output is held by the request since phase 1; nothing is decoded again."""
    io = open_gated()
    async with opened(cache=ProcessorCache(2 << 20)) as processor:
        expected = await processor.apply(request(processor, refs(io, 1)))
        async with processor.open_apply(request(processor, refs(io, 1))) as state:
            await state.phase1()
            await processor.apply(request(processor, refs(io, 1, first=7)))
            assert not processor.cache.is_cached(expected.mm_hashes["image"][0])  # type: ignore[union-attr]  # it has one
            result = await state.phase2()

        assert io.calls == 2
        assert result.cached == {"image": [True]}
        assert np.array_equal(first_pixels(result), first_pixels(expected))


@pytest.mark.parametrize("how", ["invalidate", "clear"])
async def test_a_hit_that_was_declared_void_is_decoded_late_with_the_limiter_free(how: str) -> None:
    cache: Cache = ProcessorCache(1 << 30)
    early, late = open_gated(), GatedMediaIO[Any](picture(1))
    async with opened(cache=cache) as processor:
        expected = await processor.apply(request(processor, refs(early, 1)))
        results = []

        async def second() -> None:
            async with processor.open_apply(request(processor, refs(late, 1))) as state:
                await state.phase1()
                await state.wait_decodes()
                if how == "clear":
                    cache.clear()
                else:
                    cache.invalidate(expected.mm_hashes["image"][0])
                results.append(await state.phase2())

        async with anyio.create_task_group() as nursery:
            nursery.start_soon(second)
            await reached(late.started)
            other = await processor.apply(request(processor, refs(early, 1, first=5)))

            assert other.cached == {"image": [False]}
            assert not results
            late.release()

        assert late.calls == 1
        assert processor.info.processed == 3
        assert results[0].cached == {"image": [False]}
        assert np.array_equal(first_pixels(results[0]), first_pixels(expected))


@pytest.mark.parametrize("how", ["invalidate", "clear"])
@pytest.mark.parametrize("held", [True, False])
async def test_what_is_declared_void_while_a_request_works_on_it_is_not_put_back(how: str, held: bool) -> None:
    cache: Cache = ProcessorCache(1 << 30)
    io = open_gated()
    async with opened(cache=cache) as processor:
        first, second = refs(io, 2)
        known = await processor.apply(request(processor, [first]))
        if not held:
            cache.clear()
        processor.info.gate.arm()
        async with anyio.create_task_group() as nursery:
            nursery.start_soon(processor.apply, request(processor, [first, second]))
            await reached(processor.info.gate.reached)
            if how == "clear":
                cache.clear()
            else:
                cache.invalidate(known.mm_hashes["image"][0])
            processor.info.gate.open()

        assert not cache.is_cached(known.mm_hashes["image"][0])
        assert len(cache) == (0 if how == "clear" else 1)


async def test_a_late_decode_that_fails_names_its_place_and_changes_nothing() -> None:
    cache: Cache = ProcessorCache(1 << 30)
    good, bad = open_gated(), FailingMediaIO(ValueError("broken"), settings={"testing": "GatedMediaIO"})
    async with opened(cache=cache) as processor:
        await processor.apply(request(processor, refs(good, 3)))
        inputs = request(processor, [*refs(good, 2), *refs(bad, 1, first=2)])
        with pytest.raises(UnprocessableMediaError, match="image at index 2"):
            async with processor.open_apply(inputs) as state:
                await state.phase1()
                await state.wait_decodes()
                assert bad.calls == 0
                cache.clear()
                await state.phase2()

        assert len(cache) == 0


async def test_phase_two_runs_at_most_three_times_whatever_is_invalidated_between() -> None:
    """The second request for decodes asks for every item, so that the third run lacks nothing."""
    cache: Cache = ProcessorCache(1 << 30)
    runs: list[tuple[int, int]] = []
    io = open_gated()
    async with opened(cache=cache) as processor:
        await processor.apply(request(processor, refs(io, 4)))
        before = io.calls
        inputs = request(processor, refs(io, 4))
        hashes = inputs.get_mm_hashes(processor.model_id)["image"]
        async with processor.open_apply(inputs) as state:
            await state.phase1()
            decode = state.decode

            def invalidate_more_and_decode(places: Any) -> None:
                runs.append((len(places), len(cache)))
                for mm_hash in hashes:
                    cache.invalidate(mm_hash)
                decode(places)

            state.decode = invalidate_more_and_decode  # type: ignore[method-assign]
            cache.invalidate(hashes[2])
            await state.wait_decodes()
            result = await state.phase2()

        assert runs == [(1, 3), (3, 0)]
        assert io.calls - before == 4
        assert result.cached == {"image": [False] * 4}


async def test_an_item_without_media_that_was_invalidated_meanwhile_is_a_miss() -> None:
    cache: Cache = ProcessorCache(1 << 30)
    async with opened(cache=cache) as processor:
        await processor.apply(request(processor, [picture(1)], mm_uuids={"image": ["cat"]}))
        with pytest.raises(CacheMissError):
            async with processor.open_apply(request(processor, [None], mm_uuids={"image": ["cat"]})) as state:
                await state.phase1()
                cache.clear()
                await state.phase2()


async def test_requests_interleave_between_their_phases() -> None:
    io = open_gated()
    async with caching() as processor:
        async with processor.open_apply(request(processor, refs(io, 1))) as first:
            await first.phase1()
            async with processor.open_apply(request(processor, refs(io, 1, first=1))) as second:
                await second.phase1()
                await second.wait_decodes()
                assert (await second.phase2()).cached == {"image": [False]}
            await first.wait_decodes()
            assert (await first.phase2()).cached == {"image": [False]}


async def test_the_same_order_of_use_on_both_sides_of_a_hand_over() -> None:
    """A mirror that applies what is handed over, in order, evicts what the cache evicts."""
    cache: Cache = ProcessorCache(6 << 20)
    mirror: Cache = ProcessorCache(6 << 20)
    entries: dict[str, Any] = {}

    def receive(result: MultiModalInputs) -> None:
        hashes = result.mm_hashes["image"]
        for mm_hash in hashes:
            entries[mm_hash] = entries.get(mm_hash) or cache.pin(mm_hash)
        mirror.update_all([(mm_hash, entries[mm_hash].entry) for mm_hash in hashes])

    io = open_gated()
    async with opened(cache=cache, on_commit=receive) as processor:

        async def one(number: int) -> None:
            with anyio.CancelScope() as scope:
                async with processor.open_apply(request(processor, refs(io, 2, first=number * 3 % 8))) as state:
                    await state.phase1()
                    if number % 4 == 3:
                        scope.cancel()
                    await state.wait_decodes()
                    await state.phase2()

        for _ in range(3):
            async with anyio.create_task_group() as nursery:
                for number in range(10):
                    nursery.start_soon(one, number)

            assert list(cache._entries) == list(mirror._entries)
