"""Chat messages: what is split out for fetching, what a template gets, what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from PIL import Image

from lazymedia.chat import MediaPart, parse_chat
from lazymedia.errors import BadRequestError

PICTURE = Image.new("RGB", (1, 1))


def user(*parts: object) -> list[dict[str, Any]]:
    return [{"role": "user", "content": list(parts)}]


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"type": "image_url", "image_url": {"url": "http://h/a"}}, MediaPart("image", url="http://h/a")),
        ({"type": "image_url", "image_url": {"url": "http://h/a", "detail": "low"}}, MediaPart("image", "http://h/a")),
        ({"type": "image_url", "image_url": "http://h/a"}, MediaPart("image", url="http://h/a")),
        ({"type": "image_url", "image_url": "u", "uuid": "x"}, MediaPart("image", url="u", uuid="x")),
        ({"type": "image_url", "uuid": "x"}, MediaPart("image", uuid="x")),
        ({"type": "image_url", "image_url": None, "uuid": "x"}, MediaPart("image", uuid="x")),
        ({"type": "video_url", "video_url": {"url": "u"}}, MediaPart("video", url="u")),
        ({"type": "audio_url", "audio_url": {"url": "u"}}, MediaPart("audio", url="u")),
        (
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}},
            MediaPart("audio", url="data:audio/mp3;base64,AAAA"),
        ),
        (
            {"type": "input_audio", "input_audio": {"data": "DATA:audio/wav;base64,AAAA", "format": "wav"}},
            MediaPart("audio", url="DATA:audio/wav;base64,AAAA"),
        ),
        ({"type": "image_pil", "image_pil": PICTURE}, MediaPart("image", media=PICTURE)),
    ],
)
def test_media_parts(part: dict[str, Any], expected: MediaPart) -> None:
    chat = parse_chat(user(part))

    assert chat.parts == [expected]
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
        (user({"type": "input_audio", "input_audio": {"format": "wav"}}), "part 0: neither media nor UUID"),
        (user({"type": "input_audio", "input_audio": {"data": 3}}), "part 0: data"),
        (user({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav,x"}}), "part 0: format"),
    ],
)
def test_what_is_malformed_is_refused_by_its_place(messages: object, where: str) -> None:
    with pytest.raises(BadRequestError, match=where):
        parse_chat(messages)
