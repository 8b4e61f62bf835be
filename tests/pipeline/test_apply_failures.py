"""Requests that fail or are refused: whose fault it was, which item is named, and what is left."""

from __future__ import annotations

import gc
import io
import weakref
from typing import Any

import numpy as np
import pytest
from PIL import Image

from lazymedia.cache import ProcessorCache
from lazymedia.errors import (
    BadRequestError,
    DecoderCrashedError,
    LazyMediaError,
    ReleasedError,
    UnprocessableMediaError,
)
from lazymedia.limits import Limits
from lazymedia.media.image import ImageMediaIO
from lazymedia.media.ref import MediaRef
from lazymedia.pipeline import MultiModalProcessor
from lazymedia.testing.decoders import CountingMediaIO, FailingMediaIO, GatedMediaIO
from lazymedia.testing.media import make_image
from tests.pipeline.support import (
    Cache,
    WatchedInfo,
    caching,
    hf_processor,
    open_gated,
    opened,
    picture,
    prompt,
    refs,
    request,
)


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
    async with caching(decode_workers=8) as processor:
        with pytest.raises(UnprocessableMediaError, match="slow") as caught:
            await processor.apply(request(processor, items))

        assert (caught.value.modality, caught.value.index) == ("image", 2)
        assert isinstance(caught.value.__cause__, ValueError)
        assert (slow.finished, quick.finished) == (1, 1)


async def test_the_index_is_that_of_the_whole_request_and_not_of_its_misses() -> None:
    good, bad = open_gated(), FailingMediaIO(ValueError("broken"))
    async with caching() as processor:
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
    async with caching() as processor:
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
    async with caching(info=info) as processor:
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
    async with caching(limits=Limits(max_request_decoded_bytes=2 * size)) as processor:
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
    each = decoder.load_bytes_ref(payloads[0]).decoded_bytes
    assert each is not None
    async with opened(cache=cache, limits=Limits(max_request_decoded_bytes=each)) as processor:
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
    async with caching(info=WatchedInfo(hf_processor(), limits=limits), limits=limits) as processor:
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
        if cause == "processor" and not isinstance(media, np.ndarray):  # which is what it warms up with
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
