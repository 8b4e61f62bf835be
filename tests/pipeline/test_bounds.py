"""What a request may become inside the processor, checked by headers and shapes before anything is decoded."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from lazymedia.cache import ProcessorCache
from lazymedia.errors import LazyMediaError, PayloadTooLargeError, UnprocessableMediaError
from lazymedia.limits import Limits
from lazymedia.media.image import ImageMediaIO
from lazymedia.media.ref import MediaRef
from lazymedia.models import processing_info
from lazymedia.pipeline import MultiModalProcessor
from lazymedia.processing import MultiModalInputs, ProcessorInputs
from lazymedia.testing.decoders import CountingMediaIO
from lazymedia.testing.media import make_image
from lazymedia.testing.processors import make_processor
from tests.infos import FAMILIES
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

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "AVIF", "BMP")
HALF = Limits().max_request_processor_pixels // 2


def gif(width: int, height: int) -> bytes:
    """A GIF whose header says any size; its one frame has one pixel."""
    out = io.BytesIO()
    Image.new("P", (1, 1)).save(out, "GIF")
    data = bytearray(out.getvalue())
    data[6:10] = width.to_bytes(2, "little") + height.to_bytes(2, "little")
    return bytes(data)


def long(kind: str) -> Any:
    """A picture of 804 x 4 pixels."""
    if kind in FORMATS:
        return make_image(804, 4, format=kind)
    array = np.zeros((4, 804, 3), np.uint8)
    made: dict[str, Callable[[], Any]] = {
        "PIL": lambda: Image.fromarray(array),
        "array": lambda: array,
        "grey array": lambda: array[..., 0],
        "tensor": lambda: torch.from_numpy(array.transpose(2, 0, 1).copy()),
        "decoded reference": lambda: MediaRef(lambda: Image.fromarray(array), b"x"),
    }
    return made[kind]()


@pytest.mark.parametrize("cached", [True, False], ids=["with a cache", "without"])
@pytest.mark.parametrize(
    "kind", [*FORMATS, "PIL", "array", "grey array", "tensor", "decoded reference"], ids=lambda kind: kind
)
async def test_a_picture_too_long_is_refused_by_its_place_before_any_decode(kind: str, cached: bool) -> None:
    decoder = CountingMediaIO(ImageMediaIO())
    item = long(kind)
    if isinstance(item, bytes):
        item = decoder.load_bytes_ref(item)
    elif isinstance(item, MediaRef):
        item.decode()
    good = [decoder.load_bytes_ref(make_image(30, 20, seed=seed)) for seed in range(2)]
    async with opened(cache=ProcessorCache(1 << 30) if cached else None) as processor:
        with pytest.raises(UnprocessableMediaError, match="804 x 4 is too long") as caught:
            await processor.apply(request(processor, [*good, item]))

    assert (caught.value.modality, caught.value.index, decoder.calls) == ("image", 2, 0)
    assert processor.info.processed == 0


@pytest.mark.parametrize("family", FAMILIES)
async def test_the_sum_of_a_requests_pixels_is_bounded_before_any_decode(family: str) -> None:
    """Each of these is allowed alone. LLaVA makes 22 million pixels out of each, whatever the file holds."""
    info = processing_info(make_processor(family), return_tensors="np")
    decoder = CountingMediaIO(ImageMediaIO())
    size = (16_384, 82) if family == "llava" else (16_384, 3_000) if family != "idefics3" else (8_000, 6_000)
    items = [decoder.load_bytes_ref(gif(size[0] - number, size[1])) for number in range(64)]
    async with MultiModalProcessor(info) as processor:
        with pytest.raises(UnprocessableMediaError, match="more than the 357913940 pixels allowed") as caught:
            await processor.apply(processor.make_inputs(info.placeholder("image") * 64, {"image": items}))
    settings = info.prepare_kwargs(None).settings["image"]
    sizes = [(size[1], size[0] - number) for number in range(caught.value.index or 0)]
    allowed = sum(info.working_pixels(*each, settings) or 0 for each in sizes)

    assert (caught.value.modality, decoder.calls) == ("image", 0)
    assert HALF < allowed <= 2 * HALF


async def test_equal_pictures_count_once_and_cached_ones_not_at_all() -> None:
    """They are processed once, and not at all."""
    one = 336 * 336
    options: dict[str, Any] = {"limits": Limits(max_request_processor_pixels=int(2.5 * one))}
    pictures = [Image.new("RGB", (336, 336), (seed, 0, 0)) for seed in range(4)]
    async with caching(**options) as processor:
        await processor.apply(request(processor, [pictures[0]] * 5))
        await processor.apply(request(processor, pictures[1:3]))
        await processor.apply(request(processor, pictures))
        with pytest.raises(UnprocessableMediaError) as caught:
            await processor.apply(request(processor, pictures[:3], skip_mm_cache=True))

    assert caught.value.index == 2


async def test_a_decode_that_no_header_announced_is_checked_before_processing() -> None:
    """A decoder of somebody's own tells nothing before it has decoded."""
    decoder = open_gated()
    decoder._result = Image.new("RGB", (804, 4))
    async with caching() as processor:
        with pytest.raises(UnprocessableMediaError, match="804 x 4 is too long") as caught:
            await processor.apply(request(processor, refs(decoder, 1)))

    assert (caught.value.index, processor.info.processed) == (0, 0)


@pytest.mark.parametrize("override", ["_cached_apply_hf_processor", "_apply_hf_processor"])
async def test_the_bounds_hold_before_the_decodes_of_an_overridden_method(override: str) -> None:
    def own(self: MultiModalProcessor, inputs: ProcessorInputs) -> MultiModalInputs:
        raise AssertionError("not reached")

    decoder = CountingMediaIO(ImageMediaIO())
    kind = type("Own", (MultiModalProcessor,), {override: own})
    async with kind(WatchedInfo(hf_processor()), cache=ProcessorCache(1 << 30)) as processor:
        for items, text in (
            ([decoder.load_bytes_ref(make_image(804, 4))], prompt(1)),
            ([decoder.load_bytes_ref(make_image(8, 8))], prompt(1) + "x" * 600_000),
            ([decoder.load_bytes_ref(make_image(8, 8))], prompt(2)),
        ):
            with pytest.raises(LazyMediaError):
                await processor.apply(processor.make_inputs(text, {"image": items}))

    assert decoder.calls == 0


@pytest.mark.parametrize(
    "text", ["x" * 1_000_000, "the cat " * 100_000, "\n" * 600_000, "\u00e9" * 524_300, "\U0001f600" * 524_300]
)
async def test_a_long_prompt_is_refused_before_any_decode(text: str) -> None:
    decoder = CountingMediaIO(ImageMediaIO())
    async with caching() as processor:
        with pytest.raises(PayloadTooLargeError, match=r"a prompt of \d+ characters is too long: 524288"):
            await processor.apply(
                processor.make_inputs(prompt(1) + text, {"image": decoder.load_bytes_ref(make_image(8, 8))})
            )

    assert decoder.calls == 0


async def test_the_longest_prompt_that_is_allowed_passes() -> None:
    cache: Cache = ProcessorCache(1 << 30)
    async with opened(
        info=WatchedInfo(hf_processor(), limits=Limits(max_prompt_characters=60)), cache=cache
    ) as processor:
        text = prompt(1)
        padded = text + "x" * (60 - len(text))
        await processor.apply(processor.make_inputs(padded, {"image": picture()}))
        with pytest.raises(PayloadTooLargeError):
            await processor.apply(processor.make_inputs(padded + "x", {"image": picture()}))


async def test_values_that_are_not_finite_name_their_item_and_are_not_cached() -> None:
    cache: Cache = ProcessorCache(1 << 30)
    async with opened(cache=cache) as processor:
        with pytest.raises(UnprocessableMediaError, match="pixel_values holds values that are not finite") as caught:
            await processor.apply(
                request(processor, [picture(1), picture(2)], mm_processor_kwargs={"image_std": [1e-45] * 3})
            )

    assert (caught.value.modality, caught.value.index, len(cache)) == ("image", 0, 0)
