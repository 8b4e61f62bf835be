"""The renderer: chat requests over real loopback HTTP, data and file URLs, on both event loops."""

from __future__ import annotations

import base64
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest
from PIL import Image

from lazymedia import SyncMediaConnector, SyncRenderer, fetch_image, open_renderer
from lazymedia.errors import (
    BadRequestError,
    CacheMissError,
    LazyMediaError,
    NotAllowedError,
    OverloadedError,
    PayloadTooLargeError,
    UnprocessableMediaError,
)
from lazymedia.fetch import MediaConnector, register_connector
from lazymedia.limits import Limits
from lazymedia.media.image import ImageMediaIO
from lazymedia.models import processing_info
from lazymedia.processing import ProcessorInputs
from lazymedia.renderer import Renderer
from lazymedia.testing import MediaServer, Request, Response, assert_quiet, make_image, make_processor

LOOPBACK = ["127.0.0.0/8"]


@cache
def llava() -> Any:
    return make_processor("llava")


def data_url(payload: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(payload).decode()}"


def ask(*urls: str, uuids: Sequence[str | int | None] = ()) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    for part, uuid in zip(parts, uuids):
        part["uuid"] = uuid
    return [{"role": "user", "content": [*parts, {"type": "text", "text": "What is this?"}]}]


@asynccontextmanager
async def opened(**options: Any) -> AsyncIterator[Renderer]:
    options = {"warm_up": "off", "allowed_networks": LOOPBACK, **options}
    async with open_renderer(options.pop("processor", None) or llava(), **options) as renderer:
        yield renderer
        assert_quiet(renderer)


async def test_one_request_with_http_data_and_file_urls_and_then_again(tmp_path: Path) -> None:
    payloads = [make_image(50, 40, seed=seed) for seed in range(3)]
    (tmp_path / "c.png").write_bytes(payloads[2])
    async with (
        MediaServer({"/a.png": payloads[0]}) as server,
        opened(allowed_local_media_path=tmp_path) as renderer,
    ):
        urls = [server.url("/a.png"), data_url(payloads[1]), (tmp_path / "c.png").as_uri()]
        cold = await renderer.render_chat(ask(*urls))
        hot = await renderer.render_chat(ask(*urls))

        assert renderer.processor.statistics().decoded == 3
        assert (cold.cached, hot.cached) == ({"image": [False] * 3}, {"image": [True] * 3})
        assert cold.prompt_token_ids == hot.prompt_token_ids
        assert server.hits["/a.png"] == 2
        images = [ImageMediaIO().load_bytes(payload) for payload in payloads]
        whole = llava()(text=cold.prompt, images=images, return_tensors="pt")
        merged = hot.merged()
        assert merged.keys() == whole.keys()
        assert all(np.array_equal(np.asarray(merged[name]), np.asarray(whole[name])) for name in whole)
        assert set(hot.timings) >= {"fetch", "decode_mm_items", "apply_hf_processor"}


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl", "idefics3"])
async def test_other_families_take_chats_too(family: str) -> None:
    async with opened(processor=make_processor(family)) as renderer:
        urls = [data_url(make_image(80 + seed, 60, seed=seed)) for seed in range(2)]
        cold = await renderer.render_chat(ask(*urls))
        hot = await renderer.render_chat(ask(*urls))

        assert hot.cached == {"image": [True, True]}
        merged, again = cold.merged(), hot.merged()
        assert all(np.array_equal(np.asarray(merged[name]), np.asarray(again[name])) for name in merged)


async def test_the_first_failure_in_request_order_is_told_and_later_fetches_are_given_up() -> None:
    """The third fails at once, the first when the third has; the fourth never ends by itself."""
    third_failed, fourth_left = anyio.Event(), anyio.Event()

    async def first(request: Request) -> Response:
        await third_failed.wait()
        return Response(404)

    async def third(request: Request) -> Response:
        third_failed.set()
        return Response(410)

    async def fourth(request: Request) -> Response:
        try:
            await anyio.sleep_forever()
        finally:
            fourth_left.set()
        raise AssertionError

    routes: dict[str, Any] = {"/0": first, "/1": make_image(), "/2": third, "/3": fourth}
    async with MediaServer(routes) as server, opened() as renderer:
        with anyio.fail_after(20), pytest.raises(UnprocessableMediaError, match="image at index 0") as caught:
            await renderer.render_chat(ask(*(server.url(f"/{number}") for number in range(4))))

        assert (caught.value.modality, caught.value.index, caught.value.status_hint) == ("image", 0, 422)


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("http://127.0.0.1:1\\@example.com/", "BadUrlError"),
        ("ftp://example.com/a.png", "BadUrlError"),
        ("http://169.254.169.254/latest", "NotAllowedError"),
        ("http://10.0.0.1/a.png", "NotAllowedError"),
        ("file:///etc/passwd", "NotAllowedError"),
        ("data:image/png;base64,!!!!", "BadUrlError"),
        ("data:image/png;base64,", "UnprocessableMediaError"),
        ("data:image/png;base64,AAAA", "UnprocessableMediaError"),
    ],
)
async def test_each_refusal_names_the_item_and_nothing_of_its_url(url: str, kind: str) -> None:
    async with opened() as renderer:
        with pytest.raises(LazyMediaError) as caught:
            await renderer.render_chat(ask(data_url(make_image()), url))

        assert type(caught.value).__name__ == kind
        assert (caught.value.modality, caught.value.index) == ("image", 1)
        assert not any(secret in str(caught.value) for secret in ("169", "10.0", "passwd", "latest", "example"))


async def test_a_truncated_picture_is_a_client_error_with_its_place() -> None:
    async with opened() as renderer:
        with pytest.raises(UnprocessableMediaError, match="image at index 1") as caught:
            await renderer.render_chat(ask(data_url(make_image()), data_url(make_image(200, 200)[:-200])))

        assert caught.value.index == 1
        assert caught.value.__cause__ is not None


@pytest.mark.parametrize("part", ["video_url", "audio_url"])
async def test_a_modality_that_the_model_does_not_take_is_refused_before_anything_is_fetched(part: str) -> None:
    async with MediaServer({"/x": b"x"}) as server, opened() as renderer:
        messages = [{"role": "user", "content": [{"type": part, part: {"url": server.url("/x")}}]}]
        with pytest.raises(UnprocessableMediaError, match="this model takes image, not"):
            await renderer.render_chat(messages)

        assert server.hits["/x"] == 0


async def test_too_many_items_and_too_many_bytes_are_refused() -> None:
    payload = make_image(100, 100)
    async with opened(
        limits=Limits(max_items_per_request=2, max_request_download_bytes=3 * len(payload) // 2)
    ) as renderer:
        with pytest.raises(UnprocessableMediaError, match="3 items"):
            await renderer.render_chat(ask(*[data_url(payload)] * 3))
        for _ in range(5):
            with pytest.raises(PayloadTooLargeError, match="allowed together") as caught:
                await renderer.render_chat(ask(*[data_url(payload)] * 2))

            assert caught.value.index is None


async def test_a_requests_decoder_options_change_pixels_and_identity_and_the_operators_stay_the_operators() -> None:
    see_through = make_image(20, 20, mode="RGBA")
    async with opened() as renderer:
        results = [
            await renderer.render_chat(
                ask(data_url(see_through)), media_io_kwargs={"image": {"rgba_background_color": colour}}
            )
            for colour in ([255, 255, 255], [0, 0, 0])
        ]
        assert results[1].cached == {"image": [False]}
        assert results[0].mm_hashes != results[1].mm_hashes
        for option in ({"image_id": "trust"}, {"limits": None}, {"no_such": 1}, {"image_mode": "XYZ"}):
            with pytest.raises(UnprocessableMediaError, match=next(iter(option))):
                await renderer.render_chat(ask(data_url(see_through)), media_io_kwargs={"image": option})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"media_io_kwargs": {"image": 5}}, "must be a mapping"),
        ({"media_io_kwargs": [1]}, "must be a mapping"),
        ({"media_io_kwargs": {"imgae": {}}}, "imgae"),
        ({"mm_processor_kwargs": [1]}, "must be a mapping"),
        ({"mm_processor_kwargs": {"bogus": 1}}, "no option bogus"),
        ({"mm_processor_kwargs": {"image_mean": {1: 2}}}, "image_mean"),
        ({"mm_processor_kwargs": {"device": "cuda"}}, "device"),
    ],
)
async def test_options_are_judged_before_anything_is_fetched(options: dict[str, Any], said: str) -> None:
    async with MediaServer({"/a.png": make_image()}) as server, opened() as renderer:
        for request in (
            renderer.render_chat(ask(server.url("/a.png")), **options),
            renderer.render("<image>", {"image": server.url("/a.png")}, **options),
        ):
            with pytest.raises(LazyMediaError, match=said) as caught:
                await request
            assert caught.value.status_hint in {400, 422}
        with pytest.raises(LazyMediaError, match=said):
            renderer.processor.make_inputs("<image>", {"image": Image.new("RGB", (2, 2))}, **options)
        items = renderer.processor.make_inputs("<image>", {"image": Image.new("RGB", (2, 2))}).mm_data_items
        names = {"mm_processor_kwargs": "hf_processor_mm_kwargs"}
        by_hand = ProcessorInputs("<image>", items, **{names.get(name, name): value for name, value in options.items()})
        with pytest.raises(LazyMediaError, match=said):
            await renderer.processor.apply(by_hand)

        assert server.hits["/a.png"] == 0


ONLY_UUID = [{"role": "user", "content": [{"type": "image_url", "uuid": "cat"}, {"type": "text", "text": "?"}]}]


async def test_uuids_in_messages_are_scoped_by_the_tenant() -> None:
    async with opened() as renderer:
        await renderer.render_chat(ask(data_url(make_image()), uuids=["cat"]), cache_scope="a")
        again = await renderer.render_chat(ONLY_UUID, cache_scope="a")
        assert again.cached == {"image": [True]}
        with pytest.raises(CacheMissError):
            await renderer.render_chat(ONLY_UUID, cache_scope="b")


@pytest.mark.parametrize("scope", [None, ""])
@pytest.mark.parametrize("skips", [True, False])
async def test_a_uuid_in_a_message_is_rejected_where_it_has_no_scope(scope: str | None, skips: bool) -> None:
    """A client could otherwise read what another sent under a UUID, or take its place."""
    async with MediaServer({"/a.png": make_image()}) as server, opened() as renderer:
        url = server.url("/a.png")
        for messages in (ask(url, url, uuids=[None, "cat"]), ask(url, url, uuids=[None, 7])):
            with pytest.raises(
                BadRequestError, match="image at index 1: a UUID counts only within a cache scope"
            ) as caught:
                await renderer.render_chat(messages, cache_scope=scope, skip_mm_cache=skips)

            assert (caught.value.modality, caught.value.index, caught.value.status_hint) == ("image", 1, 400)
        assert server.hits["/a.png"] == 0
        await renderer.render_chat(ask(url, uuids=[None]), cache_scope=scope, skip_mm_cache=skips)


async def test_uuids_count_without_a_scope_where_the_operator_or_the_caller_says_so() -> None:
    url = data_url(make_image())
    async with opened(trust_uuids=True) as renderer:
        await renderer.render_chat(ask(url, uuids=["cat"]))
        assert (await renderer.render_chat(ONLY_UUID)).cached == {"image": [True]}
        with pytest.raises(CacheMissError):
            await renderer.render_chat(ONLY_UUID, cache_scope="a")
    async with opened() as renderer:
        await renderer.render("<image>", {"image": url}, mm_uuids={"image": ["cat"]})
        named = await renderer.render("<image>", {"image": [None]}, mm_uuids={"image": ["cat"]})
        assert named.cached == {"image": [True]}


async def test_a_ready_prompt_with_urls_references_and_pictures() -> None:
    payload = make_image(30, 30)
    async with opened() as renderer:
        picture = ImageMediaIO().load_bytes(payload)
        ref = ImageMediaIO().load_bytes_ref(payload)
        result = await renderer.render("<image><image><image>!", {"image": [data_url(payload), ref, picture]})

        assert len(result.mm_placeholders["image"]) == 3
        assert renderer.processor.statistics().decoded == 1
        assert (await renderer.render("hello", {})).mm_kwargs == {}
        assert ref.data == payload


async def test_skipping_the_cache_and_having_none() -> None:
    url = data_url(make_image())
    async with opened() as renderer:
        for _ in range(2):
            assert (await renderer.render_chat(ask(url), skip_mm_cache=True)).cached == {"image": [False]}
    async with opened(cache_bytes=0) as renderer:
        for _ in range(2):
            assert (await renderer.render_chat(ask(url))).cached == {"image": [False]}


@pytest.mark.parametrize("how", ["background", "await", "off"])
async def test_warm_up(how: Any) -> None:
    async with opened(warm_up=how) as renderer:
        await renderer.render_chat(ask(data_url(make_image())))

        assert renderer.processor.statistics().warm_up == ("none" if how == "off" else "done")
        assert len(renderer.processor.cache or ()) == 1


async def test_a_renderer_that_was_left_refuses_with_503() -> None:
    async with opened() as renderer:
        pass
    for request in (renderer.render_chat(ask("http://example.com/a.png")), renderer.render("x", {})):
        with pytest.raises(OverloadedError):
            await request


PLACED = "what does <image> mean?"


@pytest.mark.parametrize(
    ("messages", "options"),
    [
        ([{"role": "user", "content": PLACED}], {}),
        ([{"role": "user", "content": [{"type": "text", "text": PLACED}]}], {}),
        ([{"role": "user", "content": "a", "name": PLACED}], {}),
        ([{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [{"function": {"name": PLACED}}]}], {}),
        ([{"role": "user", "content": "a"}], {"tools": [{"function": {"description": PLACED}}]}),
        ([{"role": "user", "content": "a"}], {"tools": [{"function": {"properties": {PLACED: {}}}}]}),
        ([{"role": "user", "content": "a"}], {"chat_template_kwargs": {"date": [PLACED]}}),
        ([{"role": "user", "content": [{"type": "text", "text": "<ima"}, {"type": "text", "text": "ge>"}]}], {}),
    ],
)
@pytest.mark.parametrize("has_picture", [True, False])
@pytest.mark.parametrize("template", ["none", "parts", "loses pictures"])
async def test_a_text_that_contains_a_placeholder_is_rejected_and_not_mistaken_for_a_picture(
    messages: list[dict[str, Any]], options: dict[str, Any], has_picture: bool, template: str
) -> None:
    """Above all not where a template loses the picture itself, so that the numbers would be equal."""
    picture = "<image>" if template == "parts" else ""
    looping = (
        "{% for m in messages %}{{ m.name }}{% for p in m.content %}"
        "{% if p.type == 'image' %}" + picture + "{% else %}{{ p.text }}{% endif %}{% endfor %}{% endfor %}"
        "{{ tools }}{{ date }}"
    )
    processor = make_processor("llava", chat_template=None if template == "none" else looping)
    first = {"role": "user", "content": [{"type": "image_url", "image_url": data_url(make_image())}, "?"]}
    async with opened(processor=processor) as renderer:
        with pytest.raises(ValueError, match=r"placeholder|takes no tools") as caught:
            await renderer.render_chat([first, *messages] if has_picture else messages, **options)

        assert template == "loses pictures" or isinstance(caught.value, BadRequestError)


@pytest.mark.parametrize("token", ["<|image_pad|>", "<|video_pad|>"])
async def test_the_placeholder_of_a_modality_that_a_model_also_has_is_no_text(token: str) -> None:
    async with opened(processor=make_processor("qwen2_vl")) as renderer:
        with pytest.raises(BadRequestError, match="message 1 contains"):
            await renderer.render_chat([{"role": "user", "content": "a"}, {"role": "user", "content": f"a {token}"}])


TOOL_TEMPLATE = (
    "{% for tool in tools or [] %}<{{ tool.function.name }}>{% endfor %}"
    "{% for m in messages %}[{{ m.role }}]{% for p in m.content %}{{ '<image>' if p.type == 'image' else p.text }}"
    "{% endfor %}{% endfor %}{% if add_generation_prompt %}[assistant{{ '!' if quick else '' }}]{% endif %}"
)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "[user]<image>What is this?[assistant]Hm[assistant]"),
        ({"tools": [{"function": {"name": "look"}}]}, "<look>[user]<image>What is this?[assistant]Hm[assistant]"),
        ({"chat_template_kwargs": {"quick": True}}, "[user]<image>What is this?[assistant]Hm[assistant!]"),
        ({"add_generation_prompt": False}, "[user]<image>What is this?[assistant]Hm"),
        ({"continue_final_message": True}, "[user]<image>What is this?[assistant]Hm"),
        (
            {"continue_final_message": True, "add_generation_prompt": False},
            "[user]<image>What is this?[assistant]Hm",
        ),
        (
            {"chat_template": "{{ '<image>' }}{% for m in messages %}{{ m.content[-1].text }}{% endfor %}"},
            "<image>What is this?Hm",
        ),
    ],
)
async def test_what_a_template_is_given(options: dict[str, Any], expected: str) -> None:
    messages = [*ask(data_url(make_image())), {"role": "assistant", "content": "Hm"}]
    async with opened(processor=make_processor("llava", chat_template=TOOL_TEMPLATE)) as renderer:
        assert (await renderer.render_chat(messages, **options)).prompt == expected


@pytest.mark.parametrize("template", [None, TOOL_TEMPLATE, "{{ messages[-1].tool_calls[0].function.arguments + 'x' }}"])
@pytest.mark.parametrize("place", ["arguments", "tools", "variables", "name"])
async def test_what_is_nested_too_deeply_is_the_clients_fault_or_rendered(template: str | None, place: str) -> None:
    """Each is a list that JSON readers take, and that something behind them may not."""
    deep: Any = []
    for _ in range(20_000):
        deep = [deep]
    call = {"function": {"name": "look", "arguments": {"at": deep if place == "arguments" else 1}}}
    messages = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "tool_calls": [call], "name": deep if place == "name" else "n"},
    ]
    options: dict[str, Any] = {"tools": [{"function": deep}]} if place == "tools" else {}
    if place == "variables":
        options = {"chat_template_kwargs": {"quick": deep}}
    async with opened(processor=make_processor("llava", chat_template=template)) as renderer:
        try:
            await renderer.render_chat(messages, **options)
        except BadRequestError:
            assert template is not None or place in {"arguments", "tools"}
        else:
            assert template is None
            assert place in {"variables", "name"}


async def test_pictures_in_the_forms_of_transformers_take_the_ways_of_urls(tmp_path: Path) -> None:
    """A path is read below the operator's folder only."""
    payload = make_image(30, 20)
    (tmp_path / "a b.png").write_bytes(payload)
    picture = ImageMediaIO().load_bytes(payload)
    parts: list[dict[str, Any]] = [
        {"type": "image", "url": data_url(payload)},
        {"type": "image", "image": data_url(payload)},
        {"type": "image", "base64": base64.b64encode(payload).decode()},
        {"type": "image", "path": str(tmp_path / "a b.png")},
        {"type": "input_image", "image_url": (tmp_path / "a b.png").as_uri()},
        {"image": ImageMediaIO().load_bytes_ref(payload)},
        {"type": "image", "image": picture},
    ]
    async with opened(allowed_local_media_path=tmp_path) as renderer:
        result = await renderer.render_chat([{"role": "user", "content": (part for part in parts)}])
        assert len(set(result.mm_hashes["image"][:6])) == 1
        rows = [np.asarray(row["pixel_values"]) for row in result.mm_kwargs["image"] if row is not None]
        assert len(rows) == 7
        assert all(np.array_equal(row, rows[0]) for row in rows)
        for path in ("/etc/passwd", str(tmp_path / ".." / "x.png"), "pyproject.toml", str(tmp_path)):
            with pytest.raises(NotAllowedError, match="image at index 0"):
                await renderer.render_chat([{"role": "user", "content": [{"type": "image", "path": path}]}])
    async with opened() as renderer:
        with pytest.raises(NotAllowedError, match="image at index 0"):
            await renderer.render_chat([{"role": "user", "content": [parts[3]]}])


@pytest.mark.parametrize("kind", ["video", "audio"])
@pytest.mark.parametrize("field", ["type", "url", "path", "base64", "decoded"])
async def test_a_part_of_transformers_that_the_model_does_not_take(kind: str, field: str) -> None:
    value = (
        {kind: np.zeros(4, np.float32)} if field == "decoded" else {kind if field == "type" else field: "http://h/a"}
    )
    async with opened() as renderer:
        with pytest.raises(UnprocessableMediaError, match=f"this model takes image, not {kind}") as caught:
            await renderer.render_chat([{"role": "user", "content": [{"type": kind, **value}]}])
    assert (caught.value.modality, caught.value.index) == (kind, 0)


# --- connectors -------------------------------------------------------------------------------------------------------


class Store(MediaConnector):
    """Serves a scheme of its own from memory."""

    payloads: dict[str, bytes] = {}  # noqa: RUF012  # set by the test

    async def load_from_url(self, url: str, media_io: Any, fetch_timeout: float | None = None) -> Any:
        if url.startswith("store://"):
            return await self.build_ref(self.payloads[url], media_io)
        return await super().load_from_url(url, media_io, fetch_timeout)


async def test_a_connector_by_instance_and_by_registered_name() -> None:
    Store.payloads = {"store://a": make_image()}
    register_connector("store-of-this-test")(Store)
    async with Store() as entered:
        async with opened(connector=entered, allowed_networks=()) as renderer:
            assert (await renderer.render_chat(ask("store://a"))).cached == {"image": [False]}
        assert entered.is_open
    left = Store()
    async with opened(connector=left, allowed_networks=()) as renderer:
        await renderer.render_chat(ask("store://a"))
    assert not left.is_open
    async with opened(connector="store-of-this-test") as renderer:
        assert isinstance(renderer.connector, Store)
        await renderer.render_chat(ask("store://a", data_url(make_image())))


async def test_options_that_exclude_each_other_are_refused() -> None:
    for options in (
        {"connector": Store(), "allowed_networks": LOOPBACK},
        {"processor": processing_info(llava()), "media_io_kwargs": {"image": {}}},
    ):
        with pytest.raises(ValueError, match="its own"):
            async with opened(**options):
                pass


# --- the synchronous faces --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["trio", "asyncio"])
def test_a_synchronous_renderer_is_shared_among_threads(backend: str) -> None:
    url = data_url(make_image())
    results: list[Any] = []
    with SyncRenderer(llava(), backend=backend, warm_up="off") as renderer:
        threads = [threading.Thread(target=lambda: results.append(renderer.render_chat(ask(url)))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with pytest.raises(UnprocessableMediaError, match="image at index 0"):
            renderer.render_chat(ask("data:image/png;base64,AAAA"))
        ready = renderer.render("<image>", {"image": Image.new("RGB", (4, 4))})

    assert sum(result.cached["image"] == [False] for result in results) == 1
    assert ready.cached == {"image": [False]}
    with pytest.raises(RuntimeError):
        renderer.render("x", {})


def test_a_synchronous_owner_is_entered_first_and_once() -> None:
    media = SyncMediaConnector()
    with pytest.raises(RuntimeError, match="enter the SyncMediaConnector first"):
        media.fetch_image("data:,x", ImageMediaIO())
    with media, pytest.raises(RuntimeError, match="entered once"):
        media.__enter__()


def test_synchronous_fetching(tmp_path: Path) -> None:
    payload = make_image(30, 20)
    (tmp_path / "a.png").write_bytes(payload)
    url = (tmp_path / "a.png").as_uri()
    with SyncMediaConnector(allowed_local_media_path=tmp_path) as media:
        refs = [media.fetch_image(url, ImageMediaIO()), media.load_from_url(url, ImageMediaIO())]
        two = media.fetch_video_and_audio(url, ImageMediaIO(), ImageMediaIO("L"))

        assert {ref.key for ref in refs} == {two[0].key}
        assert two[0].data is two[1].data
        assert not any(ref.is_decoded for ref in refs)
    with pytest.raises(NotAllowedError), SyncMediaConnector() as media:
        media.fetch_video(url, ImageMediaIO())
    with pytest.raises(NotAllowedError), SyncMediaConnector() as media:
        media.fetch_audio(url, ImageMediaIO())


async def test_offline_fetching_works_inside_a_running_loop() -> None:
    """As in a notebook, whose loop it leaves alone."""
    picture = fetch_image(data_url(make_image(30, 20)))

    assert (picture.size, picture.mode) == ((30, 20), "RGB")
    assert fetch_image(data_url(make_image(30, 20)), media_io=ImageMediaIO(output="array")).shape == (20, 30, 3)


# --- a request is checked before its first download -------------------------------------------------------------------

CONTRADICTIONS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("no placeholder", {"prompt": "hello"}, {}),
    ("too many placeholders", {"prompt": "<image>" * 3}, {}),
    ("too few UUIDs", {}, {"mm_uuids": {"image": ["a"]}}),
    ("too many UUIDs", {}, {"mm_uuids": {"image": ["a", "b", "c"]}}),
    ("UUIDs of another modality", {}, {"mm_uuids": {"video": ["a"]}}),
    ("UUIDs that are no list", {}, {"mm_uuids": {"image": "ab"}}),
    ("an item without media or UUID", {"second": None}, {}),
    ("an item without media whose UUID is None", {"second": None}, {"mm_uuids": {"image": ["a", None]}}),
    ("an item that is no media", {"second": 5}, {}),
    ("an item that is an embedding", {"second": np.zeros((576, 4096), np.float32)}, {}),
    ("another modality", {"more": {"video": np.zeros((2, 4, 4, 3), np.uint8)}}, {}),
    ("a long prompt", {"prompt": "<image><image>" + "x" * 600_000}, {}),
    ("a prompt that is no text", {"prompt": b"<image><image>"}, {}),
    ("an option out of bounds", {}, {"mm_processor_kwargs": {"rescale_factor": 1e308}}),
    ("a decoder option out of bounds", {}, {"media_io_kwargs": {"image": {"rgba_background_color": [0] * 100}}}),
]


@pytest.mark.parametrize(
    ("request_", "options"), [case[1:] for case in CONTRADICTIONS], ids=[c[0] for c in CONTRADICTIONS]
)
async def test_a_request_that_contradicts_itself_downloads_nothing(
    request_: dict[str, Any], options: dict[str, Any]
) -> None:
    async with (
        MediaServer({"/a.png": make_image(30, 20), "/b.png": make_image(20, 30)}) as server,
        opened() as renderer,
    ):
        items = [server.url("/a.png"), request_.get("second", server.url("/b.png"))]
        with pytest.raises((LazyMediaError, TypeError)):
            await renderer.render(
                request_.get("prompt", "<image><image>"), {"image": items, **request_.get("more", {})}, **options
            )

        assert not server.hits


async def test_none_stands_for_no_items_and_no_uuids() -> None:
    async with MediaServer({"/a.png": make_image(30, 20)}) as server, opened() as renderer:
        url = server.url("/a.png")
        plain = await renderer.render("<image>", {"image": url})
        for data, uuids in (
            ({"image": url, "video": None}, None),
            ({"image": [url], "video": None, "audio": None}, {"image": None}),
            ({"image": url, "video": []}, {"image": None, "video": None}),
            ({"image": url}, {"image": [None]}),
        ):
            assert await renderer.render("<image>", data, mm_uuids=uuids) == plain
        text = await renderer.render("hello", None)

        assert await renderer.render("hello", {"image": None}) == text
        for wrong in (5, "image", ["image"]):
            with pytest.raises(BadRequestError, match="media must be a mapping"):
                await renderer.render("<image>", wrong)  # type: ignore[arg-type]


async def test_a_long_conversation_is_refused_before_its_template_and_its_downloads() -> None:
    async with MediaServer({"/a.png": make_image(30, 20)}) as server, opened() as renderer:
        messages = ask(server.url("/a.png"))
        tool = {"type": "function", "function": {"name": "f", "description": "x" * 600_000}}
        for more, tools in (([{"role": "user", "content": "x" * 600_000}], None), ([], [tool])):
            with pytest.raises(PayloadTooLargeError, match="characters is too long"):
                await renderer.render_chat([*messages, *more], tools=tools)

        assert not server.hits


async def test_tensors_are_shared_with_the_cache_unless_the_operator_says_otherwise() -> None:
    for options, share in (({}, True), ({"share_tensors": False}, False)):
        async with opened(processor=processing_info(llava(), return_tensors="pt"), **options) as renderer:
            results = [await renderer.render("<image>", {"image": Image.new("RGB", (8, 8))}) for _ in range(2)]
            first, second = (result.mm_kwargs["image"][0] for result in results)
            assert first is not None
            assert second is not None

            assert (first["pixel_values"] is second["pixel_values"]) == share
