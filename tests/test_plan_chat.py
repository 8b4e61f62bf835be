"""Chat requests planned from headers: equal to their renders, nothing decoded, nothing kept."""

from __future__ import annotations

import base64
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import anyio
import numpy as np
import pytest
from PIL import Image

from lazymedia import NotPlannableError, ProcessingInfo, Renderer, SyncRenderer, open_renderer, processing_info
from lazymedia.errors import BadRequestError, CacheMissError, LazyMediaError, UnprocessableMediaError
from lazymedia.models.llava import LlavaInfo
from lazymedia.pipeline import MultiModalProcessor
from lazymedia.testing import (
    MediaServer,
    Request,
    Response,
    assert_quiet,
    make_audio,
    make_image,
    make_processor,
    make_video,
    plain_chat_template,
)
from tests.models.test_planning import assert_planned
from tests.pipeline.cancelling import running, ways

LOOPBACK = ["127.0.0.0/8"]


@cache
def info_of(family: str) -> ProcessingInfo:
    """With a chat template, which not every processor has."""
    processor = make_processor(family)
    info = processing_info(processor)
    if info.chat_style is None and getattr(processor, "chat_template", None) is None:
        processor.chat_template = plain_chat_template(processor)
    return info


@asynccontextmanager
async def opened(info: ProcessingInfo, **options: Any) -> AsyncIterator[Renderer]:
    async with open_renderer(info, warm_up="off", allowed_networks=LOOPBACK, **options) as renderer:
        yield renderer
        assert_quiet(renderer)


def data_url(payload: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{base64.b64encode(payload).decode()}"


def ask(*parts: dict[str, Any], text: str = "What is this?") -> list[dict[str, Any]]:
    return [{"role": "user", "content": [*parts, {"type": "text", "text": text}]}]


def picture(payload: bytes | str, **more: Any) -> dict[str, Any]:
    url = payload if isinstance(payload, str) else data_url(payload)
    return {"type": "image_url", "image_url": {"url": url}, **more}


def video(payload: bytes) -> dict[str, Any]:
    return {"type": "video_url", "video_url": {"url": data_url(payload, "video/mp4")}}


def clip(payload: bytes) -> dict[str, Any]:
    return {"type": "audio_url", "audio_url": {"url": data_url(payload, "audio/wav")}}


SMALL_PICTURES = {"mm_processor_kwargs": {"images_kwargs": {"size": {"shortest_edge": 3136, "longest_edge": 20000}}}}
REQUESTS: list[Any] = [
    pytest.param("qwen2_vl", [], {}, id="no media"),
    pytest.param("qwen2_vl", [picture(make_image(300, 200))], SMALL_PICTURES, id="options of the processor"),
    pytest.param(
        "qwen2_5_vl",
        [video(make_video(30)), picture(make_image(300, 200))],
        {"media_io_kwargs": {"video": {"num_frames": 6}}},
        id="options of a decoder",
    ),
    pytest.param(
        "qwen2_5_omni",
        [
            picture(make_image(300, 200)),
            clip(make_audio(1.7, 44_100)),
            video(make_video(20)),
            picture(make_image(9, 8)),
        ],
        {},
        id="all modalities",
    ),
    pytest.param("llava", [picture(make_image(30, 20))] * 3, {"skip_mm_cache": True}, id="without the cache"),
    pytest.param(
        "llava",
        [{"type": "image_pil", "image_pil": Image.new("L", (40, 60))}, picture(make_image(9, 30))],
        {},
        id="decoded",
    ),
    pytest.param("idefics3", [picture(make_image(300, 2000)), picture(make_image(31, 45))], {}, id="tiles"),
    pytest.param("qwen3_vl", [video(make_video(25, fps=5)), video(make_video(9))], {}, id="time stamps in the text"),
]


@pytest.mark.parametrize(("family", "parts", "options"), REQUESTS)
async def test_a_plan_equals_the_render_before_and_after_it(family: str, parts: Any, options: dict[str, Any]) -> None:
    async with opened(info_of(family)) as renderer:
        before = await renderer.plan_chat(ask(*parts), **options)
        assert renderer.processor.statistics().decoded == 0
        assert renderer.processor.cache is not None
        assert len(renderer.processor.cache) == 0
        assert_planned(before, await renderer.render_chat(ask(*parts), **options))
        decoded = renderer.processor.statistics().decoded
        after = await renderer.plan_chat(ask(*parts), **options)
        assert renderer.processor.statistics().decoded == decoded
        assert_planned(after, await renderer.render_chat(ask(*parts), **options))


async def test_a_picture_that_its_exif_turns_is_planned_upright() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    parts = [picture(make_image(90, 250, format="JPEG", exif=exif)), picture(make_image(90, 250, format="JPEG"))]
    async with opened(info_of("qwen2_vl")) as renderer:
        plan = await renderer.plan_chat(ask(*parts))
        assert_planned(plan, await renderer.render_chat(ask(*parts)))
        assert_planned(await renderer.plan_chat(ask(*parts)), await renderer.render_chat(ask(*parts)))


async def test_items_without_media_are_planned_as_the_cache_has_them() -> None:
    payload = make_image(70, 50)
    async with opened(info_of("qwen2_vl"), trust_uuids=True) as renderer:
        named = ask({"type": "image_url", "image_url": None, "uuid": "a"})
        with pytest.raises(CacheMissError):
            await renderer.plan_chat(named)
        await renderer.render_chat(ask(picture(payload, uuid="a")))
        plan = await renderer.plan_chat(named)
        assert plan.cached == {"image": [True]}
        assert_planned(plan, await renderer.render_chat(named))


async def test_a_plan_leaves_the_order_of_the_cache_as_it_is() -> None:
    first, second = ask(picture(make_image(30, 20))), ask(picture(make_image(20, 30)))
    async with opened(info_of("llava")) as renderer:
        await renderer.render_chat(first)
        await renderer.render_chat(second)
        assert renderer.processor.cache is not None
        held = renderer.processor.cache.stats()
        order = list(renderer.processor.cache._entries)  # there is no public view of the order
        await renderer.plan_chat(first)

        assert list(renderer.processor.cache._entries) == order
        assert renderer.processor.cache.stats() == held


REFUSED: list[Any] = [
    pytest.param(
        "qwen2_audio", [clip(make_audio()), clip(make_audio(format="MP3"))], NotPlannableError, ("audio", 1), id="mp3"
    ),
    pytest.param("llava", [picture(b"junk")], NotPlannableError, ("image", 0), id="junk"),
    pytest.param("video_llama_3", [video(make_video(8))], NotPlannableError, ("video", 0), id="values"),
    pytest.param(
        "qwen2_vl",
        [picture(make_image(60, 50)), picture(make_image(9000, 20))],
        UnprocessableMediaError,
        ("image", 1),
        id="too long",
    ),
    pytest.param(
        "qwen3_vl", [video(make_video(8)), video(make_video(1))], UnprocessableMediaError, ("video", 1), id="one frame"
    ),
    pytest.param("llava", [clip(make_audio())], UnprocessableMediaError, ("audio", 0), id="not taken"),
    pytest.param(
        "llava",
        [picture(make_image(), uuid="a")],
        BadRequestError,
        ("image", 0),
        id="uuid without a scope",
    ),
]


@pytest.mark.parametrize(("family", "parts", "kind", "place"), REFUSED)
async def test_errors_name_the_item(
    family: str, parts: Any, kind: type[LazyMediaError], place: tuple[str, int]
) -> None:
    async with opened(info_of(family)) as renderer:
        with pytest.raises(kind) as caught:
            await renderer.plan_chat(ask(*parts))
        assert (caught.value.modality, caught.value.index) == place
        assert f"{place[0]} at index {place[1]}" in str(caught.value) or kind is not NotPlannableError
        assert renderer.processor.statistics().decoded == 0


class ByValue(LlavaInfo):
    """A processor whose text depends on the pixels."""

    def process_items(self, modality: str, items: Any, kwargs: Any) -> Any:
        outputs, texts = super().process_items(modality, items, kwargs)
        bright = np.asarray(items[0].media).mean() > 100
        return outputs, [text * 2 if bright else text for text in texts]


async def test_what_depends_on_pixels_is_found_out_and_refused() -> None:
    async with opened(ByValue(make_processor("llava"))) as renderer:
        for _ in range(2):
            with pytest.raises(
                NotPlannableError, match=r"image at index 0 cannot be planned: .*LlavaProcessor.*depends"
            ):
                await renderer.plan_chat(ask(picture(make_image(30, 20))))
        assert (await renderer.render_chat(ask(picture(make_image(30, 20))))).cached == {"image": [False]}


async def test_a_processor_with_an_override_of_its_own_is_not_planned_for() -> None:
    class Own(MultiModalProcessor):
        def _apply_hf_processor(self, inputs: Any) -> Any:
            return super()._apply_hf_processor(inputs)

    async with Own(info_of("llava")) as processor:
        with pytest.raises(RuntimeError, match="_apply_hf_processor"):
            await processor.plan(processor.make_inputs("no picture", None))
        assert_quiet(processor)


class Gated(LlavaInfo):
    """Stands still in the middle of a plan."""

    started, gate = threading.Event(), threading.Event()

    def replacement_of(self, *arguments: Any, **options: Any) -> Any:
        self.started.set()
        assert self.gate.wait(30)
        return super().replacement_of(*arguments, **options)


@pytest.mark.every_loop
@pytest.mark.parametrize("where", ["fetching", "planning"])
async def test_a_cancelled_plan_leaves_nothing(where: str, anyio_backend: tuple[str, object]) -> None:
    for native in ways(anyio_backend):
        Gated.started.clear()
        Gated.gate.clear()
        asked = anyio.Event()

        async def silent(request: Request, asked: anyio.Event = asked) -> Response:
            asked.set()
            await anyio.sleep_forever()
            raise AssertionError

        routes: dict[str, Any] = {"/silent.png": silent, "/a.png": make_image(40, 30)}
        async with (
            MediaServer(routes) as server,
            open_renderer(Gated(make_processor("llava")), warm_up="off", allowed_networks=LOOPBACK) as renderer,
        ):
            path = "/silent.png" if where == "fetching" else "/a.png"
            messages = ask(picture(server.url(path)))
            async with running(lambda r=renderer, m=messages: r.plan_chat(m), native) as request_:  # type: ignore[misc]
                if where == "fetching":
                    await asked.wait()
                else:
                    await anyio.to_thread.run_sync(Gated.started.wait, 30)
                request_.cancel()
                Gated.gate.set()
                with anyio.fail_after(30):
                    await request_.ended.wait()
            assert request_.was_cancelled
            assert_quiet(renderer)
            plan = await renderer.plan_chat(ask(picture(server.url("/a.png"))))
            assert plan.cached == {"image": [False]}


def test_the_synchronous_renderer_plans_too() -> None:
    with SyncRenderer(make_processor("llava")) as renderer:
        messages = [{"role": "user", "content": [{"type": "image", "base64": picture_in_base64()}]}]
        plan = renderer.plan_chat(messages)
        result = renderer.render_chat(messages)

    assert plan.prompt_token_ids == result.prompt_token_ids
    assert plan.mm_hashes == result.mm_hashes


def picture_in_base64() -> str:
    return base64.b64encode(make_image(90, 60)).decode()
