"""Requests from beginning to end: what is decoded, processed, cached, and told."""

from __future__ import annotations

import gc
import io
import logging
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from lazymedia.cache import ProcessorCache
from lazymedia.errors import (
    BadRequestError,
    CacheMissError,
    DecoderCrashedError,
    LazyMediaError,
    ReleasedError,
    UnprocessableMediaError,
)
from lazymedia.limits import Limits
from lazymedia.media.image import ImageMediaIO
from lazymedia.media.ref import MediaRef
from lazymedia.models import processing_info
from lazymedia.pipeline import MultiModalProcessor
from lazymedia.processing import MultiModalInputs, ProcessorInputs
from lazymedia.testing.decoders import CountingMediaIO, FailingMediaIO, GatedMediaIO
from lazymedia.testing.media import make_image
from tests.pipeline.support import Cache, WatchedInfo, hf_processor, open_gated, opened, picture, prompt, refs, request


def pixels(result: MultiModalInputs) -> list[Any]:
    return [np.asarray(item["pixel_values"]) for item in result.mm_kwargs["image"] if item is not None]


async def test_a_second_request_with_the_same_pictures_decodes_and_processes_nothing() -> None:
    decoder = CountingMediaIO(ImageMediaIO())
    payloads = [make_image(40, 30, seed=seed) for seed in range(3)]
    async with opened(cache=ProcessorCache(1 << 30)) as processor:
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
    async with opened(cache=ProcessorCache(1 << 30), info=info) as processor:
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


async def test_equal_items_of_one_request_are_decoded_and_processed_once() -> None:
    decoder = open_gated()
    async with opened(cache=ProcessorCache(1 << 30)) as processor:
        result = await processor.apply(request(processor, [decoder.load_bytes_ref(b"same") for _ in range(4)]))

        assert (decoder.calls, processor.info.processed) == (1, 1)
        assert len(set(result.mm_hashes["image"])) == 1
        assert len(pixels(result)) == 4


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
    async with opened(cache=ProcessorCache(1 << 30)) as processor:
        result = await processor.apply(processor.make_inputs("USER: hello", {}))

        assert result.prompt_token_ids == hf_processor().tokenizer("USER: hello")["input_ids"]
        assert (result.mm_kwargs, result.mm_hashes, result.mm_placeholders) == ({}, {}, {})


async def test_media_that_came_decoded_are_hashed_by_what_they_hold() -> None:
    async with opened(cache=ProcessorCache(1 << 30)) as processor:
        first = await processor.apply(request(processor, [picture(1), np.asarray(picture(2))]))
        second = await processor.apply(request(processor, [picture(1), np.asarray(picture(2)), picture(3)]))

        assert second.cached == {"image": [True, True, False]}
        assert all(np.array_equal(a, b) for a, b in zip(pixels(first), pixels(second)))


async def test_payloads_are_released_and_the_callers_references_are_not() -> None:
    decoder = open_gated()
    async with opened(cache=ProcessorCache(1 << 30)) as processor:
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
    async with opened(cache=ProcessorCache(1 << 30)) as processor:
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


# --- what a failure tells, and what it leaves -------------------------------------------------------------------------


async def test_two_failures_that_end_in_reverse_order_name_the_first_after_both_have_ended() -> None:
    def fail_slowly(_: bytes) -> Any:
        raise ValueError("slow")

    def fail_first(_: bytes) -> OSError:
        slow.release()
        return OSError("quick")

    slow: GatedMediaIO[Any] = GatedMediaIO(fail_slowly, settings={"n": 1})
    quick = FailingMediaIO(fail_first)
    fine = open_gated(settings={"n": 2})
    items = [*refs(fine, 2), slow.load_bytes_ref(b"a"), *refs(fine, 2, 2), quick.load_bytes_ref(b"b")]
    async with opened(cache=ProcessorCache(1 << 30), decode_workers=8) as processor:
        with pytest.raises(UnprocessableMediaError, match="slow") as caught:
            await processor.apply(request(processor, items))

        assert (caught.value.modality, caught.value.index) == ("image", 2)
        assert isinstance(caught.value.__cause__, ValueError)
        assert (slow.finished, quick.finished) == (1, 1)


async def test_the_index_is_that_of_the_whole_request_and_not_of_its_misses() -> None:
    good, bad = open_gated(), FailingMediaIO(ValueError("broken"))
    async with opened(cache=ProcessorCache(1 << 30)) as processor:
        await processor.apply(request(processor, refs(good, 3)))
        with pytest.raises(UnprocessableMediaError, match="image at index 3") as caught:
            await processor.apply(request(processor, [*refs(good, 3), bad.load_bytes_ref(b"x"), *refs(good, 1, 9)]))

        assert caught.value.index == 3


async def test_a_failed_request_leaves_nothing_in_the_cache() -> None:
    cache: Cache = ProcessorCache(1 << 30)
    good, bad = open_gated(), FailingMediaIO(ValueError("broken"))
    async with opened(cache=cache) as processor:
        for _ in range(2):
            with pytest.raises(UnprocessableMediaError):
                await processor.apply(request(processor, [*refs(good, 2), bad.load_bytes_ref(b"x")]))

        assert len(cache) == 0
        assert bad.calls == 2


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (ImportError("no codec"), ImportError),
        (MemoryError(), MemoryError),
        (ReleasedError("gone"), ReleasedError),
        (SystemExit(1), DecoderCrashedError),
        (KeyboardInterrupt(), DecoderCrashedError),
        (ValueError("bad"), UnprocessableMediaError),
        (KeyError("bad"), UnprocessableMediaError),
        (UnprocessableMediaError("bad"), UnprocessableMediaError),
    ],
)
async def test_only_the_media_are_the_clients_fault(raised: BaseException, told: type[Exception]) -> None:
    async with opened(cache=ProcessorCache(1 << 30)) as processor:
        with pytest.raises(told) as caught:
            await processor.apply(request(processor, refs(FailingMediaIO(raised), 1)))

        if isinstance(caught.value, LazyMediaError):
            assert (caught.value.status_hint == 422) == (told is UnprocessableMediaError)
            assert (caught.value.modality, caught.value.index) == ("image", 0)


async def test_waiting_twice_raises_the_same_failure_afresh() -> None:
    async with opened() as processor:
        caught = []
        with pytest.raises(UnprocessableMediaError):
            async with processor.open_apply(request(processor, refs(FailingMediaIO(ValueError("bad")), 2))) as state:
                await state.phase1()
                for _ in range(2):
                    try:
                        await state.wait_decodes()
                    except UnprocessableMediaError as exc:
                        caught.append(exc)
                await state.wait_decodes()

        assert caught[0] is not caught[1]
        assert str(caught[0]) == str(caught[1])
        assert caught[0].__cause__ is caught[1].__cause__


@pytest.mark.parametrize("fault", [ValueError, TypeError, IndexError, ZeroDivisionError])
async def test_what_the_processor_cannot_take_is_told_with_its_place(fault: type[Exception]) -> None:
    cache: Cache = ProcessorCache(1 << 30)
    info = WatchedInfo(hf_processor(), return_tensors="np")

    def fail(media: Any) -> None:
        if media.size == (1, 1):
            raise fault("a shape it cannot take")

    info.fail = fail
    async with opened(cache=cache, info=info) as processor:
        with pytest.raises(UnprocessableMediaError, match="image at index 1") as caught:
            await processor.apply(request(processor, [picture(1), picture(2).resize((1, 1))]))

        assert caught.value.index == 1
        assert len(cache) == 0


async def test_a_failure_of_the_processor_itself_passes_as_it_is() -> None:
    info = WatchedInfo(hf_processor(), return_tensors="np")

    def fail(media: Any) -> None:
        raise NotImplementedError("out of order")

    info.fail = fail
    async with opened(cache=ProcessorCache(1 << 30), info=info) as processor:
        with pytest.raises(NotImplementedError, match="out of order"):
            await processor.apply(request(processor, [picture(1)]))


@pytest.mark.parametrize("count", [0, 1, 3])
async def test_placeholders_that_do_not_match_the_items_are_the_clients_fault(count: int) -> None:
    cache: Cache = ProcessorCache(1 << 30)
    async with opened(cache=cache) as processor:
        with pytest.raises(BadRequestError, match=f"{count}"):
            await processor.apply(processor.make_inputs(prompt(count), {"image": refs(open_gated(), 2)}))

        assert len(cache) == 0


async def test_too_many_items_are_refused() -> None:
    async with opened(limits=Limits(max_items_per_request=3)) as processor:
        with pytest.raises(UnprocessableMediaError, match="4 items"):
            request(processor, refs(open_gated(), 4))


async def test_media_that_would_not_fit_together_are_refused_before_any_is_decoded() -> None:
    decoder = CountingMediaIO(ImageMediaIO())
    payload = [make_image(100, 100, seed=seed) for seed in range(3)]
    size = decoder.load_bytes_ref(payload[0]).decoded_bytes
    assert size is not None
    async with opened(cache=ProcessorCache(1 << 30), limits=Limits(max_request_decoded_bytes=2 * size)) as processor:
        await processor.apply(request(processor, [decoder.load_bytes_ref(data) for data in payload[:2]]))
        await processor.apply(request(processor, [decoder.load_bytes_ref(data) for data in payload]))
        processor.cache.clear()  # type: ignore[union-attr]  # it has one
        with pytest.raises(UnprocessableMediaError, match="image at index 2"):
            await processor.apply(request(processor, [decoder.load_bytes_ref(data) for data in payload]))

        assert decoder.calls == 3


async def test_late_decodes_are_admitted_like_the_others() -> None:
    cache: Cache = ProcessorCache(1 << 30)
    decoder = CountingMediaIO(ImageMediaIO())
    payloads = [make_image(100, 100, seed=seed) for seed in range(4)]
    async with opened(cache=cache, limits=Limits(max_request_decoded_bytes=100 * 100 * 4)) as processor:
        for payload in payloads:
            await processor.apply(request(processor, [decoder.load_bytes_ref(payload)]))
        with pytest.raises(UnprocessableMediaError, match="decoded bytes allowed"):
            async with processor.open_apply(
                request(processor, [decoder.load_bytes_ref(payload) for payload in payloads])
            ) as state:
                await state.phase1()
                await state.wait_decodes()
                cache.clear()
                await state.phase2()

        assert decoder.calls == 4


@pytest.mark.parametrize("with_cache", [True, False])
async def test_pictures_that_came_opened_are_judged_before_they_are_read(with_cache: bool) -> None:
    """With a cache, they are hashed first; what cannot be loaded, or must not be, is told by its place all the same."""
    whole = Image.open(io.BytesIO(make_image(60, 50, format="JPEG")))
    cut = Image.open(io.BytesIO(make_image(60, 50, format="JPEG")[:-300]))
    large = Image.open(io.BytesIO(make_image(300, 300, format="PNG")))
    cache: Cache | None = ProcessorCache(1 << 30) if with_cache else None
    info = WatchedInfo(hf_processor(), limits=Limits(max_image_pixels=50_000))
    async with opened(cache=cache, info=info) as processor:
        for bad in (cut, large):
            with pytest.raises(UnprocessableMediaError, match="image at index 1") as caught:
                await processor.apply(request(processor, [whole, bad]))
            assert caught.value.index == 1

        assert large.fp is not None, "it was not loaded"


async def test_what_a_request_becomes_is_bounded_too() -> None:
    """Small pictures become as large as a request's options say."""
    limits = Limits(max_request_processed_bytes=3 << 20)
    async with opened(
        cache=ProcessorCache(1 << 30), info=WatchedInfo(hf_processor(), limits=limits), limits=limits
    ) as processor:
        with pytest.raises(UnprocessableMediaError, match="image at index 2"):
            await processor.apply(request(processor, [picture(number) for number in range(6)]))

        assert processor.info.processed == 3
        assert processor.cache is not None
        assert len(processor.cache) == 0


async def test_an_error_class_of_a_decoders_own_is_told_with_its_place() -> None:
    class Mine(UnprocessableMediaError):
        def __init__(self, code: int) -> None:
            super().__init__(f"code {code}")
            self.code = code

    class Mute(ValueError):
        def __str__(self) -> str:
            raise RuntimeError

    async with opened() as processor:
        with pytest.raises(Mine, match="image at index 0: code 3") as caught:
            await processor.apply(request(processor, refs(FailingMediaIO(Mine(3)), 1)))
        assert (caught.value.index, caught.value.code) == (0, 3)
        with pytest.raises(UnprocessableMediaError, match="could not be decoded: Mute"):
            await processor.apply(request(processor, refs(FailingMediaIO(Mute()), 1)))


async def test_nothing_that_was_handed_out_can_be_written_to() -> None:
    async with opened(cache=ProcessorCache(1 << 30)) as processor:
        result = await processor.apply(request(processor, [picture(1)]))
        held = (result.mm_placeholders["image"][0].is_embed, pixels(result)[0])
        for array in held:
            for part in (array, array.base):
                assert part is not None
                with pytest.raises((ValueError, AttributeError)):
                    part.flags.writeable = True

        again = await processor.apply(request(processor, [picture(1)]))
        assert again.mm_placeholders["image"][0].is_embed.all()


@pytest.mark.parametrize("cause", ["decoder", "processor"])
async def test_a_failed_requests_payload_is_freed_at_once(cause: str) -> None:
    """Not when the garbage collector comes round: bad pictures may be large and many."""

    class Payload:
        """Stands for encoded bytes, which cannot be watched themselves."""

        def decode(self) -> Any:
            if cause == "decoder":
                raise ValueError("bad")
            return picture(1)

    def fail(media: Any) -> None:
        if cause == "processor":
            raise ValueError("bad")

    info = WatchedInfo(hf_processor(), return_tensors="np")
    info.fail = fail
    watched: list[weakref.ref[Payload]] = []

    async def one(processor: MultiModalProcessor) -> None:
        payload = Payload()
        watched.append(weakref.ref(payload))
        ref = MediaRef(payload.decode, b"payload")
        try:
            await processor.apply(request(processor, [ref]))
        except UnprocessableMediaError:
            pass
        else:
            raise AssertionError

    async with opened(info=info) as processor:
        gc.collect()
        gc.disable()
        try:
            for _ in range(3):
                await one(processor)
            alive = [watch() is not None for watch in watched]
        finally:
            gc.enable()

    assert not any(alive)


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


# --- UUIDs ------------------------------------------------------------------------------------------------------------


async def test_an_item_named_by_uuid_alone_is_taken_from_the_cache() -> None:
    decoder = open_gated()
    async with opened(cache=ProcessorCache(1 << 30)) as processor:
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
    async with opened(cache=ProcessorCache(1 << 30)) as processor:
        first = await processor.apply(request(processor, refs(open_gated(), 1), **options))
        with pytest.raises(CacheMissError) as caught:
            await processor.apply(request(processor, [None], **{**options, **change}))

        assert caught.value.hashes != tuple(first.mm_hashes["image"])
        assert (caught.value.modality, caught.value.index) == ("image", 0)


async def test_every_missing_hash_is_told_at_once() -> None:
    async with opened(cache=ProcessorCache(1 << 30)) as processor:
        with pytest.raises(CacheMissError) as caught:
            await processor.apply(request(processor, [None, picture(1), None], mm_uuids={"image": ["a", None, "b"]}))

        assert len(caught.value.hashes) == 2


async def test_an_item_without_media_is_stood_for_by_its_equal_that_has_some() -> None:
    decoder = open_gated()
    async with opened(cache=ProcessorCache(1 << 30)) as processor:
        result = await processor.apply(
            request(processor, [None, *refs(decoder, 1)], mm_uuids={"image": ["same", "same"]})
        )

        assert (decoder.calls, len(pixels(result))) == (1, 2)


async def test_a_uuid_never_meets_a_content_key() -> None:
    decoder = open_gated()
    async with opened(cache=ProcessorCache(1 << 30)) as processor:
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
    ],
)
async def test_uuids_that_do_not_match_the_items_are_refused(uuids: dict[str, list[str | None]]) -> None:
    for cache in (ProcessorCache[Any](1 << 30), None):
        async with opened(cache=cache) as processor:
            with pytest.raises(BadRequestError, match="UUIDs"):
                await processor.apply(request(processor, [picture(1), picture(2)], mm_uuids=uuids))


async def test_an_item_with_neither_media_nor_uuid_is_refused() -> None:
    async with opened(cache=ProcessorCache(1 << 30)) as processor:
        with pytest.raises(BadRequestError, match="index 1 has neither"):
            await processor.apply(request(processor, [picture(1), None]))


# --- what changes the identity ----------------------------------------------------------------------------------------


async def test_options_of_the_processor_separate_entries_and_those_of_other_modalities_do_not() -> None:
    async with opened(cache=ProcessorCache(1 << 30)) as processor:
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
        assert len(set(hashes)) == 3
        assert plain.get_mm_hashes("another model")["image"][0] not in hashes


async def test_decode_options_are_counted_once_for_references_and_beside_content_that_is_none() -> None:
    async with opened(cache=ProcessorCache(1 << 30)) as processor:
        options = {"image": {"image_mode": "L"}}
        ref = ImageMediaIO().load_bytes_ref(make_image())

        def hash_of(item: object, **kwargs: Any) -> str:
            return request(processor, [item], **kwargs).get_mm_hashes("m")["image"][0]

        assert hash_of(ref) == hash_of(ref, media_io_kwargs=options)
        assert hash_of(picture(1)) != hash_of(picture(1), media_io_kwargs=options)


# --- misuse, and overriding -------------------------------------------------------------------------------------------


async def test_another_processors_inputs_are_refused() -> None:
    async with opened(cache=ProcessorCache(1 << 30)) as mine, opened(cache=ProcessorCache(1 << 30)) as other:
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
        lines = [record.getMessage() for record in caplog.records if "one phase" in record.getMessage()]
        assert len(lines) == 1
        assert method in lines[0]


async def test_an_override_of_processing_is_asked_for_every_request() -> None:
    OverridesPlain.calls = 0
    async with OverridesPlain(WatchedInfo(hf_processor()), cache=ProcessorCache(1 << 30)) as processor:
        for _ in range(2):
            await processor.apply(request(processor, refs(open_gated(), 1)))

    assert OverridesPlain.calls == 2


async def test_results_are_handed_over_in_the_order_of_the_commits() -> None:
    outbox: list[MultiModalInputs] = []
    async with opened(cache=ProcessorCache(1 << 30), on_commit=outbox.append) as processor:
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
