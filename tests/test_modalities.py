"""A chat request with a picture, a video and a clip: from URLs to what a model takes, through the main door."""

from __future__ import annotations

import base64
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import numpy as np
import pytest

from lazymedia import MultiModalInputs, Renderer, UnprocessableMediaError, open_renderer
from lazymedia.contexts import asynccontextmanager
from lazymedia.processing.fields import same
from lazymedia.processing.hooks import call_whole
from lazymedia.testing import (
    CountingMediaIO,
    MediaServer,
    make_audio,
    make_image,
    make_processor,
    make_video,
    plain_chat_template,
)

pytest.importorskip("torchvision")

LOOPBACK = ("127.0.0.0/8",)
FILES = {
    "/picture": make_image(300, 200),
    "/other": make_image(90, 200, seed=1),
    "/video": make_video(50, width=160, height=120, fps=25),
    "/clip": make_audio(2, 8_000, format="FLAC"),
}
URLS = {"image": "/picture", "video": "/video", "audio": "/clip"}


@asynccontextmanager
async def opened(family: str, **options: Any) -> AsyncIterator[tuple[Renderer, MediaServer]]:
    processor = make_processor(family)
    processor.chat_template = plain_chat_template(processor)
    async with (
        MediaServer(FILES) as server,
        open_renderer(processor, allowed_networks=LOOPBACK, **options) as renderer,
    ):
        yield renderer, server


def part(modality: str, server: MediaServer, path: str = "") -> dict[str, Any]:
    return {"type": f"{modality}_url", f"{modality}_url": {"url": server.url(path or URLS[modality])}}


def ask(*parts: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [{"type": "text", "text": "Look: "}, *parts, {"type": "text", "text": "?"}]}]


def whole(renderer: Renderer, result: MultiModalInputs, media: dict[str, list[Any]]) -> dict[str, Any]:
    info = renderer.processor.info
    items = {modality: [info.prepare_item(modality, item) for item in of] for modality, of in media.items()}
    return call_whole(info.hf_processor, items, result.prompt, {}, 1, info.return_tensors)


MIXED = [
    ("qwen2_5_omni", ("image", "video", "audio")),
    ("gemma4", ("image", "video", "audio")),
    ("qwen3_vl", ("image", "video")),
    ("internvl", ("video", "image")),
    ("kimi_k25", ("video", "image")),
    ("gemma3n", ("audio", "image")),
    ("qwen2_audio", ("audio",)),
]


@pytest.mark.parametrize(("family", "modalities"), MIXED, ids=str)
async def test_a_request_of_all_modalities_equals_one_call_and_hits_when_it_comes_again(
    family: str, modalities: tuple[str, ...]
) -> None:
    async with opened(family) as (renderer, server):
        messages = ask(*(part(modality, server) for modality in modalities))
        first = await renderer.render_chat(messages)
        info = renderer.processor.info
        parser, media = info.get_data_parser(), {}
        for modality in modalities:
            ref = info.get_media_io(modality).load_bytes_ref(FILES[URLS[modality]])
            items: Any = parser.parse_mm_data({modality: [ref]})[modality]
            media[modality] = [ref.decode() if modality == "video" else items.get(0)]
        again = await renderer.render_chat(messages)
        other = await renderer.render_chat(ask(*(part(modality, server) for modality in modalities[::-1])))

        assert same(first.merged(), whole(renderer, first, media))
        assert first.cached == {modality: [False] for modality in modalities}
        assert again.cached == other.cached == {modality: [True] for modality in modalities}
        assert again == first
        assert same(again.merged(), first.merged())
        for modality in modalities:
            (place,) = first.mm_placeholders[modality]
            assert place.is_embed.sum() > 0
            assert first.prompt_token_ids[place.offset : place.offset + place.length]


async def test_a_hit_decodes_and_processes_nothing_of_any_modality(monkeypatch: pytest.MonkeyPatch) -> None:
    decoders: dict[str, CountingMediaIO[Any]] = {}
    async with opened("qwen2_5_omni") as (renderer, server):
        info = renderer.processor.info
        make = info.get_media_io

        def counted(modality: str, options: Any = None) -> Any:
            return decoders.setdefault(modality, CountingMediaIO(make(modality, options)))

        monkeypatch.setattr(info, "get_media_io", counted)
        messages = ask(*(part(modality, server) for modality in URLS))
        for _ in range(3):
            await renderer.render_chat(messages)

    assert {modality: decoder.calls for modality, decoder in decoders.items()} == dict.fromkeys(URLS, 1)


async def test_the_model_chooses_rate_and_frames_and_a_request_may_choose_others() -> None:
    async with opened("qwen3_vl") as (renderer, server):
        usual = await renderer.render_chat(ask(part("video", server)))
        chosen = await renderer.render_chat(ask(part("video", server)), media_io_kwargs={"video": {"num_frames": 8}})

    # Two seconds at two frames a second, at least four; two frames are one step in time.
    assert usual.merged()["video_grid_thw"][0, 0] == 2
    assert chosen.merged()["video_grid_thw"][0, 0] == 4
    assert usual.mm_hashes != chosen.mm_hashes


@pytest.mark.parametrize(
    ("family", "modality", "word"), [("llava", "audio", "image"), ("qwen2_audio", "image", "audio")]
)
async def test_a_modality_that_the_model_does_not_take_is_rejected_alike_on_every_path(
    family: str, modality: str, word: str
) -> None:
    async with opened(family) as (renderer, server):
        url = server.url(URLS[modality])
        media = np.zeros(400, np.float32) if modality == "audio" else np.zeros((4, 4, 3), np.uint8)
        attempts: tuple[Callable[[], Awaitable[MultiModalInputs]], ...] = (
            lambda: renderer.render_chat(ask(part(modality, server))),
            lambda: renderer.render("x", {modality: [url]}),
            lambda: renderer.render("x", {modality: [media]}),
        )
        for attempt in attempts:
            with pytest.raises(UnprocessableMediaError, match=f"this model takes {word}, not {modality}") as caught:
                await attempt()
            assert (caught.value.modality, caught.value.index, caught.value.status_hint) == (modality, 0, 422)
        assert server.hits[URLS[modality]] == 0


ODD: list[tuple[str, Any]] = [
    ("image", np.zeros((1, 1, 3), np.uint8)),
    ("image", np.zeros((1, 40, 3), np.uint8)),
    ("image", np.zeros((3, 300, 3), np.uint8)),
    ("image", np.zeros((5, 3_000, 3), np.uint8)),
    ("video", np.zeros((1, 40, 60, 3), np.uint8)),
    ("video", np.zeros((4, 1, 1, 3), np.uint8)),
    ("video", np.zeros((4, 3, 900, 3), np.uint8)),
    ("video", np.zeros((4, 40, 60, 4), np.uint8)),
    ("video", np.zeros((0, 40, 60, 3), np.uint8)),
    ("audio", np.zeros(800, np.float32)),
    ("audio", np.zeros(1, np.float32)),
]


@pytest.mark.parametrize(("modality", "media"), ODD, ids=lambda value: getattr(value, "shape", value))
async def test_odd_media_are_processed_or_rejected_with_their_place(modality: str, media: Any) -> None:
    fine = np.full((60, 80, 3), 9, np.uint8)
    async with opened("qwen2_5_omni", warm_up="off") as (renderer, _):
        text = renderer.processor.info.placeholder("image") + renderer.processor.info.placeholder(modality)
        items = {"image": [fine, media]} if modality == "image" else {"image": [fine], modality: [media]}
        try:
            result = await renderer.render(text, items)
        except UnprocessableMediaError as error:
            assert (error.modality, error.index) == (modality, int(modality == "image"))
        else:
            assert all(array.isfinite().all() for array in result.merged().values())
        assert (await renderer.render(renderer.processor.info.placeholder("image"), {"image": fine})).merged()


async def test_what_cannot_be_processed_alone_is_processed_by_one_call_and_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "lazymedia.processing"):
        async with opened("chameleon", warm_up="await") as (renderer, server):
            pictures = [part("image", server), part("image", server, "/other")]
            results = [await renderer.render_chat(ask(*pictures)) for _ in range(2)]
            info = renderer.processor.info
            media = [info.get_media_io("image").load_bytes(FILES[path]) for path in ("/picture", "/other")]
            expected = whole(renderer, results[0], {"image": media})

    for result in results:
        assert result.cached == {"image": [False, False]}
        assert same(result.merged(), expected)
        assert [place.length for place in result.mm_placeholders["image"]] == [1024, 1024]
    assert len([record for record in caplog.records if "is not cached" in record.message]) == 1


async def test_a_clip_in_base64_is_resampled_to_what_the_model_takes() -> None:
    async with opened("qwen2_audio") as (renderer, _):
        data = base64.b64encode(make_audio(1.5, 44_100, channels=2, format="WAV")).decode()
        one = await renderer.render_chat(ask({"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}))

    assert one.merged()["feature_attention_mask"].sum() == 150  # hundredths of a second
