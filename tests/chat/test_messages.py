"""Chat messages: what is split out for fetching, what a template gets, what is refused."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from PIL import Image
from pydantic import TypeAdapter

from lazymedia.chat import MediaPart, parse_chat, parse_tools
from lazymedia.errors import BadRequestError
from lazymedia.media.ref import MediaRef

PICTURE = Image.new("RGB", (1, 1))


def user(*parts: object) -> list[dict[str, Any]]:
    return [{"role": "user", "content": list(parts)}]


A = "http://h/a"
NAME = UUID("6f1c2a34-5b6d-4e7f-8a90-b1c2d3e4f506")
SAMPLES = (np.zeros(4, np.float32), 16_000)
FRAMES = np.zeros((2, 4, 4, 3), np.uint8)
PIXELS = FRAMES[0]
REF: MediaRef[Any] = MediaRef(lambda: PICTURE, b"x")


class Dumped:
    """As a model of pydantic's."""

    def __init__(self, **fields: Any) -> None:
        self._fields = fields

    def model_dump(self) -> dict[str, Any]:
        return self._fields


MEDIA: list[tuple[Any, MediaPart]] = [
    # OpenAI
    ({"type": "image_url", "image_url": {"url": A}}, MediaPart("image", url=A)),
    ({"type": "image_url", "image_url": {"url": A, "detail": "low"}}, MediaPart("image", A)),
    ({"type": "image_url", "image_url": A}, MediaPart("image", url=A)),
    ({"type": "image_url", "image_url": A, "text": None, "video_url": None}, MediaPart("image", url=A)),
    ({"type": "input_image", "image_url": A, "detail": "auto", "file_id": None}, MediaPart("image", url=A)),
    ({"type": "input_image", "image_url": {"url": A}}, MediaPart("image", url=A)),
    (
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}},
        MediaPart("audio", url="data:audio/mp3;base64,AAAA"),
    ),
    ({"type": "input_audio", "input_audio": {"data": "AAAA"}}, MediaPart("audio", url="data:audio/wav;base64,AAAA")),
    (
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": None}},
        MediaPart("audio", url="data:audio/wav;base64,AAAA"),
    ),
    (
        {"type": "input_audio", "input_audio": {"data": "DATA:audio/wav;base64,AAAA", "format": "wav"}},
        MediaPart("audio", url="DATA:audio/wav;base64,AAAA"),
    ),
    (Dumped(type="image_url", image_url={"url": A}), MediaPart("image", url=A)),
    # vLLM
    ({"type": "video_url", "video_url": {"url": A}}, MediaPart("video", url=A)),
    ({"type": "audio_url", "audio_url": {"url": A}}, MediaPart("audio", url=A)),
    ({"type": "image_pil", "image_pil": PICTURE}, MediaPart("image", media=PICTURE)),
    ({"image_url": A}, MediaPart("image", url=A)),
    ({"image_url": {"url": A}, "type": None}, MediaPart("image", url=A)),
    ({"video_url": A}, MediaPart("video", url=A)),
    ({"audio_url": {"url": A}}, MediaPart("audio", url=A)),
    ({"input_audio": {"data": "AAAA", "format": "wav"}}, MediaPart("audio", url="data:audio/wav;base64,AAAA")),
    ({"image_pil": PICTURE}, MediaPart("image", media=PICTURE)),
    # transformers
    ({"type": "image", "url": A}, MediaPart("image", url=A)),
    ({"type": "image", "image": A, "text": None}, MediaPart("image", url=A)),
    ({"type": "image", "image": "data:image/png;base64,AAAA"}, MediaPart("image", url="data:image/png;base64,AAAA")),
    ({"type": "image", "image": PICTURE}, MediaPart("image", media=PICTURE)),
    ({"type": "image", "image": PIXELS}, MediaPart("image", media=PIXELS)),
    ({"type": "image", "image": REF}, MediaPart("image", media=REF)),
    ({"type": "image", "image_url": {"url": A}}, MediaPart("image", url=A)),
    ({"type": "image", "base64": "AAAA"}, MediaPart("image", url="data:image/*;base64,AAAA")),
    ({"type": "image", "base64": "data:image/png;base64,AAAA"}, MediaPart("image", "data:image/png;base64,AAAA")),
    ({"type": "image", "path": "/p/a b.png"}, MediaPart("image", url="file:///p/a%20b.png")),
    ({"type": "image", "path": Path("/p/a.png")}, MediaPart("image", url="file:///p/a.png")),
    ({"type": "image", "path": "a.png"}, MediaPart("image", url=Path("a.png").absolute().as_uri())),
    ({"type": "video", "video": A}, MediaPart("video", url=A)),
    ({"type": "video", "video": FRAMES}, MediaPart("video", media=FRAMES)),
    ({"type": "video", "path": "/p/a.mp4"}, MediaPart("video", url="file:///p/a.mp4")),
    ({"type": "audio", "audio": SAMPLES}, MediaPart("audio", media=SAMPLES)),
    ({"type": "audio", "audio": A}, MediaPart("audio", url=A)),
    ({"type": "audio", "base64": "AAAA"}, MediaPart("audio", url="data:audio/*;base64,AAAA")),
    ({"image": A}, MediaPart("image", url=A)),
    ({"image": A, "text": None, "video": None}, MediaPart("image", url=A)),
    # UUIDs
    ({"type": "image_url", "image_url": A, "uuid": "x"}, MediaPart("image", url=A, uuid="x")),
    ({"type": "image_url", "uuid": "x"}, MediaPart("image", uuid="x")),
    ({"type": "image_url", "image_url": None, "uuid": "x"}, MediaPart("image", uuid="x")),
    ({"type": "image_url", "image_url": {"url": None}, "uuid": "x"}, MediaPart("image", uuid="x")),
    ({"type": "image_url", "image_url": {"url": ""}, "uuid": "x"}, MediaPart("image", uuid="x")),
    ({"image_url": None, "uuid": "x"}, MediaPart("image", uuid="x")),
    ({"type": "input_audio", "input_audio": {"data": "", "format": "wav"}, "uuid": "x"}, MediaPart("audio", uuid="x")),
    ({"type": "input_audio", "input_audio": {"data": None}, "uuid": "x"}, MediaPart("audio", uuid="x")),
    ({"type": "input_audio", "input_audio": {}, "uuid": "x"}, MediaPart("audio", uuid="x")),
    ({"type": "input_audio", "input_audio": None, "uuid": "x"}, MediaPart("audio", uuid="x")),
    ({"type": "image", "uuid": "x"}, MediaPart("image", uuid="x")),
    ({"type": "image", "image": None, "uuid": "x"}, MediaPart("image", uuid="x")),
    ({"type": "image_pil", "image_pil": None, "uuid": "x"}, MediaPart("image", uuid="x")),
    ({"type": "image_url", "image_url": A, "uuid": 7}, MediaPart("image", url=A, uuid="7")),
    ({"type": "image_url", "image_url": A, "uuid": NAME}, MediaPart("image", url=A, uuid=str(NAME))),
    ({"type": "image_url", "image_url": A, "uuid": NAME.int}, MediaPart("image", url=A, uuid=str(NAME.int))),
    ({"type": "image_url", "image_url": A, "uuid": None}, MediaPart("image", url=A)),
]


@pytest.mark.parametrize(("part", "expected"), MEDIA)
def test_media_parts(part: dict[str, Any], expected: MediaPart) -> None:
    chat = parse_chat(user(part))

    (found,) = chat.parts
    assert (found.modality, found.url, found.uuid) == (expected.modality, expected.url, expected.uuid)
    assert found.media is expected.media
    assert chat.messages == user({"type": expected.modality})


def test_text_and_order_are_kept_and_so_is_everything_else_of_a_message() -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        *user(
            {"type": "text", "text": "a"}, {"type": "image_url", "image_url": "1"}, "b", {"type": "text", "text": ""}
        ),
        {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "f"}}], "name": "n"},
        *user({"type": "image_url", "image_url": "2"}),
    ]

    chat = parse_chat(messages)

    assert [part.url for part in chat.parts] == ["1", "2"]
    assert chat.messages == [
        messages[0],
        *user(
            {"type": "text", "text": "a"},
            {"type": "image"},
            {"type": "text", "text": "b"},
            {"type": "text", "text": ""},
        ),
        messages[2],
        *user({"type": "image"}),
    ]


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ("a", "a"),
        ({"type": "text", "text": "a"}, "a"),
        ({"type": "text", "text": "a", "image": None, "image_url": None}, "a"),
        ({"text": "a"}, "a"),
        ({"type": "text", "text": ""}, ""),
        ({"type": "input_text", "text": "a"}, "a"),
        ({"type": "output_text", "text": "a", "annotations": []}, "a"),
        ({"type": "refusal", "refusal": "a"}, "a"),
        ({"refusal": "a"}, "a"),
        ({"type": "thinking", "thinking": "a", "closed": True}, "a"),
        (Dumped(type="text", text="a"), "a"),
    ],
)
def test_text_parts(part: Any, text: str) -> None:
    assert parse_chat(user(part)).messages == user({"type": "text", "text": text})


def iterables(*parts: Any) -> list[Any]:
    validated = TypeAdapter(Iterable[dict[str, Any]]).validate_python(list(parts))
    return [list(parts), tuple(parts), iter(parts), (part for part in parts), deque(parts), validated]


@pytest.mark.parametrize("form", range(6), ids=["list", "tuple", "iterator", "generator", "deque", "pydantic"])
def test_any_iterable_is_a_list_of_messages_of_parts_and_of_calls(form: int) -> None:
    content = iterables({"type": "text", "text": "a"}, {"type": "image_url", "image_url": A})[form]
    calls = iterables({"function": {"name": "f", "arguments": '{"x": 1}'}})[form]
    chat = parse_chat(iterables({"role": "assistant", "content": content, "tool_calls": calls})[form])

    assert chat.messages == [
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "a"}, {"type": "image"}],
            "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1}}}],
        }
    ]
    assert chat.parts == [MediaPart("image", url=A)]


def test_what_pydantic_rejects_while_it_is_read_is_the_clients_fault() -> None:
    invalid = TypeAdapter(Iterable[dict[str, Any]]).validate_python([1])

    with pytest.raises(BadRequestError, match="message 0: content must be text or a list of parts: an item is invalid"):
        parse_chat([{"role": "user", "content": invalid}])


@pytest.mark.parametrize("content", [None, "", "absent"])
def test_a_refusal_instead_of_content_is_what_the_assistant_said(content: Any) -> None:
    """As the OpenAI client's messages dump themselves."""
    fields = {} if content == "absent" else {"content": content}
    message = Dumped(role="assistant", refusal="I cannot.", tool_calls=None, audio=None, **fields)

    assert parse_chat([message]).messages == [{"role": "assistant", "content": "I cannot."}]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [('{"a": [1]}', {"a": [1]}), ({"a": 1}, {"a": 1}), ("[1]", "[1]"), ("{", "{"), ("[" * 100_000, "[" * 100_000)],
)
def test_arguments_of_a_call(arguments: Any, expected: Any) -> None:
    calls = [{"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}]
    (message,) = parse_chat([{"role": "assistant", "content": None, "tool_calls": calls}]).messages

    assert message["tool_calls"][0]["function"] == {"name": "f", "arguments": expected}
    assert "content" not in message


@pytest.mark.parametrize("form", range(6), ids=["list", "tuple", "iterator", "generator", "deque", "pydantic"])
def test_tools_may_be_any_iterable_of_mappings_models_and_functions(form: int) -> None:
    schema = {"type": "function", "function": {"name": "f"}}

    assert parse_tools(iterables(schema, schema)[form]) == [schema, schema]
    assert parse_tools([Dumped(**schema), MappingProxyType(schema), len]) == [schema, schema, len]
    assert parse_tools(None) is None


@pytest.mark.parametrize("tools", ["f", {"type": "function"}, 1, [1], [None], ["f"], ({} for _ in count())])
def test_tools_of_another_form_are_the_clients_fault(tools: object) -> None:
    with pytest.raises(BadRequestError, match="tools"):
        parse_tools(tools, max_parts=10)


@pytest.mark.parametrize(
    "messages",
    [
        ({"role": "user", "content": "a"} for _ in count()),
        [{"role": "user", "content": ("a" for _ in count())}],
        [{"role": "assistant", "tool_calls": ({"function": {}} for _ in count())}],
        [{"role": "user", "content": ["a"] * 5}] * 2,
    ],
    ids=["messages", "parts", "calls", "together"],
)
def test_a_conversation_has_a_bounded_number_of_parts(messages: Any) -> None:
    with pytest.raises(BadRequestError, match="more than the 10 messages, parts, calls or tools"):
        parse_chat(messages, max_parts=10)


@pytest.mark.parametrize(
    ("messages", "where"),
    [
        ("hello", "list"),
        ({"role": "user"}, "list"),
        (None, "list"),
        ([1], "message 0"),
        ([{"content": "x"}], "message 0"),
        ([{"role": "user", "content": 3}], "message 0"),
        (user({"type": "text", "text": "x"}, 3), "message 0, part 1"),
        (user({"type": "text"}), "part 0"),
        (user({"type": "text", "text": 3}), "part 0"),
        (user({"type": "smell"}), "unknown type 'smell'"),
        (user({}), "part 0: a part without a type must have one of"),
        (user({"type": ["image_url"]}), "type must be text, not list"),
        (user({"type": "image_url"}), "neither media nor UUID"),
        (user({"type": "image_url", "image_url": {}}), "neither media nor UUID"),
        (user({"type": "image_url", "image_url": 3}), "part 0"),
        (user({"type": "image_url", "image_url": "u", "uuid": 3.5}), "uuid"),
        (user({"type": "image_url", "image_url": "u", "uuid": True}), "uuid"),
        (user({"type": "image_url", "image_url": "u", "uuid": 1 << 128}), "uuid"),
        (user({"type": "image_pil"}), "neither media nor UUID"),
        (user({"type": "image_pil", "image_pil": "x"}), "a PIL image, not str"),
        (user({"type": "input_audio", "input_audio": "AAAA"}), "data and format"),
        (user({"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}), "part 0: neither media nor UUID"),
        (user({"type": "text", "text": None}), "part 0: text must be text"),
        (user({"type": "refusal", "refusal": 3}), "part 0: refusal must be text"),
        (user({"type": "text", "text": "a", "image_url": A}), "part 0: the part also has image_url"),
        (user({"type": "image_url", "image_url": A, "text": "a"}), "part 0: the part also has text"),
        (user({"type": "image", "image": A, "text": "a"}), "part 0: the part also has text"),
        (user({"type": "image", "image": A, "url": A}), "part 0: image and url in one part"),
        (user({"type": "image", "image": 3}), "part 0: image must be text"),
        (user({"type": "image", "image": [1, 2]}), "part 0: image must be text"),
        (user({"type": "image", "image": [FRAMES]}), "part 0: image must be text"),
        (user({"type": "image", "image": b"x"}), "part 0: image must be text"),
        (user({"type": "image", "url": PICTURE}), "part 0: url must be text"),
        (user({"type": "image", "base64": 3}), "part 0: base64 must be text"),
        (user({"type": "image", "path": 3}), "part 0: path must be the path of a file"),
        (user({"type": "image", "path": "\ud800"}), "part 0: path must be the path of a file"),
        (user({"type": "video", "video": [A]}), "part 0: video must be text"),
        (user({"type": "audio", "audio": [0.5, 0.5]}), "part 0: audio must be text"),
        (user({"type": "image"}), "part 0: neither media nor UUID"),
        (user("a", {"text": "a", "image": A}), "part 1: a part without a type must have one of"),
        (user({"uuid": "x"}), "part 0: a part without a type"),
        (user({"type": "input_image", "file_id": "f"}), "part 0: a file_id names nothing here"),
        (user({"type": "input_file", "file_id": "f"}), "part 0: unknown type 'input_file'"),
        (user({"type": "image_embeds", "image_embeds": "AAAA"}), "part 0: image_embeds is not supported"),
        (user({"image_embeds": "AAAA"}), "part 0: image_embeds is not supported"),
        (user({"type": "audio_embeds", "audio_embeds": "AAAA"}), "part 0: audio_embeds is not supported"),
        (user({"type": "prompt_embeds", "data": "AAAA"}), "part 0: prompt_embeds is not supported"),
        ([{"role": "user", "content": {"type": "text", "text": "a"}}], "message 0: content"),
        ([{"role": "user", "content": b"a"}], "message 0: content"),
        (
            [{"role": "user", "content": "a"}, {"role": None, "content": "a"}],
            "message 1: expected a mapping with a role",
        ),
        ([{"role": "assistant", "refusal": 3}], "message 0: refusal must be text"),
        ([{"role": "assistant", "tool_calls": "f"}], "message 0: tool_calls must be a list"),
        ([{"role": "assistant", "tool_calls": [1]}], "message 0: tool call 0"),
        ([{"role": "assistant", "tool_calls": [{"function": 1}]}], "message 0: tool call 0"),
        ([{"role": "assistant", "function_call": "f"}], "message 0: tool call 0"),
        (user({"type": "input_audio", "input_audio": {"format": "wav"}}), "part 0: neither media nor UUID"),
        (user({"type": "input_audio", "input_audio": {"data": 3}}), "part 0: data"),
        (user({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav,x"}}), "part 0: format"),
    ],
)
def test_what_is_malformed_is_refused_by_its_place(messages: object, where: str) -> None:
    with pytest.raises(BadRequestError, match=where):
        parse_chat(messages)
