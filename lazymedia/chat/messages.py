"""Chat messages in the forms that OpenAI, vLLM and transformers write, split into template input and media.

The table in docs/chat.md lists the forms and what becomes of each. Nothing is fetched here, and no chat template is
known here.

Types of a content part:

* text: ``text``, ``input_text``, ``output_text``, ``refusal``, ``thinking``, or a plain string
* OpenAI media: ``image_url``, ``video_url``, ``audio_url``, ``input_image``, ``input_audio``
* transformers media: ``image``, ``video``, ``audio``, with the media under the type's name, ``url``, ``path`` or
  ``base64``
* vLLM media: ``image_pil``

A part without ``type`` has the type whose field it holds. A field that is None is not there. Any media part may carry
``uuid``; with a UUID and without media it stands for an item that a cache holds.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from lazymedia.errors import BadRequestError
from lazymedia.foreign import is_array, is_picture
from lazymedia.limits import DEFAULT_LIMITS
from lazymedia.media.ref import MediaRef

_TEXTS: Final = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "refusal": "refusal",
    "thinking": "thinking",
}
"""Types that hold text, with the field that holds it."""

_URLS: Final = {
    "image_url": ("image", "image_url"),
    "input_image": ("image", "image_url"),
    "video_url": ("video", "video_url"),
    "audio_url": ("audio", "audio_url"),
}
"""Types that hold a URL, with modality and field."""

_MODALITIES: Final = ("image", "video", "audio")
"""Types of transformers, which hold media in one of several fields."""

_EMBEDDINGS: Final = ("image_embeds", "video_embeds", "audio_embeds", "prompt_embeds")

_CONTENT: Final = tuple(
    dict.fromkeys(
        [
            *_TEXTS.values(),
            *(field for _, field in _URLS.values()),
            "input_audio",
            "image_pil",
            *_MODALITIES,
            *_EMBEDDINGS,
        ]
    )
)
"""Every field that is content. A part has one of them; each is also the name of a type."""

_SOURCES: Final = ("url", "path", "base64")
"""Where a part of transformers may hold its media, beside the field of its modality."""

_AUDIO_FORMAT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]{0,31}")
"""A media subtype as in RFC 6838, section 4.2, with fewer characters; the bytes overrule it anyway."""

_UUID_BITS: Final = 128


@dataclass(frozen=True, slots=True)
class MediaPart:
    """One item that a message names.

    Attributes:
        modality: ``"image"``, ``"video"`` or ``"audio"``.
        url: Where it is; None where it came as an object, or by UUID alone.
        media: The object, where it came as one.
        uuid: The client's name for it, or None.
    """

    modality: str
    url: str | None = None
    media: Any = None
    uuid: str | None = None


@dataclass(frozen=True, slots=True)
class ParsedChat:
    """Messages for a chat template, and the media that they name.

    Attributes:
        messages: ``content`` is a string, or a list of ``{"type": "text", "text": …}`` and ``{"type": <modality>}``.
            A message without content has no such key. ``tool_calls`` is a list of dicts. Other fields are unchanged.
        parts: The media parts, in order.
    """

    messages: list[dict[str, Any]]
    parts: list[MediaPart]


def parse_chat(messages: object, *, max_parts: int = DEFAULT_LIMITS.max_chat_parts) -> ParsedChat:
    """Split messages into what a chat template takes and what must be fetched.

    Args:
        messages: An iterable of mappings, or of objects with ``model_dump`` such as those of the OpenAI client.
            ``content`` may be any iterable; it is read once.
        max_parts: Messages, content parts and tool calls that are read.

    Raises:
        BadRequestError: A message or part that is malformed or of unknown type, with its position, or too many of
            them. The client's fault.
    """
    reader = _Reader(max_parts)
    parsed = [
        reader.message(message, f"message {number}")
        for number, message in enumerate(reader.items(messages, "messages must be a list of messages"))
    ]
    return ParsedChat(parsed, reader.parts)


def parse_tools(tools: object, *, max_parts: int = DEFAULT_LIMITS.max_chat_parts) -> list[Any] | None:
    """The tools of a request: schemas as dicts, and functions as they are.

    Args:
        tools: An iterable of mappings, of objects with ``model_dump``, or of functions; None where there are none.
        max_parts: Tools that are read.

    Raises:
        BadRequestError: Anything else, or too many of them. The client's fault.
    """
    if tools is None:
        return None
    found = []
    for number, tool in enumerate(_Reader(max_parts).items(tools, "tools must be a list of JSON schemas")):
        schema = _mapping(tool)
        if schema is None and not callable(tool):
            raise BadRequestError(f"tools must be a list of JSON schemas; tool {number} is {type(tool).__name__}")
        found.append(tool if schema is None else dict(schema))
    return found


class _Reader:
    """Reads one conversation.

    Args:
        max_parts: Messages, content parts and tool calls that are read.
    """

    def __init__(self, max_parts: int) -> None:
        self.parts: list[MediaPart] = []
        self._max = self._left = max_parts

    def message(self, value: object, where: str) -> dict[str, Any]:
        message = _mapping(value)
        if message is None or not isinstance(message.get("role"), str):
            raise BadRequestError(f"{where}: expected a mapping with a role")
        # As transformers does: many templates write None as a word, and all of them handle a key that is not there.
        parsed = {str(name): field for name, field in message.items() if field is not None}
        content = parsed.pop("content", None)
        if _is_empty(content) and "refusal" in parsed:  # OpenAI's answers hold one of the two
            content = _text(parsed.pop("refusal"), f"{where}: refusal")
        elif content is not None and not isinstance(content, str):
            items = self.items(content, f"{where}: content must be text or a list of parts")
            content = [self._part(part, f"{where}, part {position}") for position, part in enumerate(items)]
        if content is not None:
            parsed["content"] = content
        call = parsed.pop("function_call", None)  # OpenAI's form before there were tools
        if call is not None:
            parsed.setdefault("tool_calls", [{"type": "function", "function": call}])
        if "tool_calls" in parsed:
            calls = self.items(parsed["tool_calls"], f"{where}: tool_calls must be a list")
            parsed["tool_calls"] = [
                _parse_call(call, f"{where}: tool call {number}") for number, call in enumerate(calls)
            ]
        return parsed

    def _part(self, value: object, where: str) -> dict[str, Any]:
        if isinstance(value, str):
            return {"type": "text", "text": value}
        part = _mapping(value)
        if part is None:
            raise BadRequestError(f"{where}: expected a mapping with a type, not {type(value).__name__}")
        kind = _kind(part, where)
        if kind in _TEXTS:
            field = _TEXTS[kind]
            _reject_other_content(part, {field}, where)
            return {"type": "text", "text": _text(part.get(field), f"{where}: {field}")}
        media = _parse_media(part, kind, where)
        if media.url is None and media.media is None and media.uuid is None:
            raise BadRequestError(f"{where}: neither media nor UUID")
        self.parts.append(media)
        return {"type": media.modality}

    def items(self, value: object, expected: str) -> list[Any]:
        """The items of any iterable that is no text and no mapping: pydantic gives iterators that validate."""
        if isinstance(value, str | bytes | bytearray | Mapping) or not isinstance(value, Iterable):
            raise BadRequestError(expected)
        try:
            items = list(islice(value, self._left + 1))
        except (TypeError, ValueError) as exc:  # pydantic's validation errors, raised where an item is read
            raise BadRequestError(f"{expected}: an item is invalid") from exc
        self._left -= len(items)
        if self._left < 0:
            raise BadRequestError(f"more than the {self._max} messages, parts, calls or tools that a request may have")
        return items


def _parse_call(value: object, where: str) -> dict[str, Any]:
    """A tool call with its arguments as a mapping: OpenAI sends JSON text, templates expect what it says."""
    call = _mapping(value)
    function = None if call is None else _mapping(call.get("function", call))
    if call is None or function is None:
        raise BadRequestError(f"{where}: expected a mapping with a function")
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        try:
            parsed = json.loads(arguments)
        except (ValueError, RecursionError):  # a model wrote it
            parsed = None
        if isinstance(parsed, dict):
            function = {**function, "arguments": parsed}
    return {**call, "function": dict(function)} if "function" in call else dict(function)


def _kind(part: Mapping[str, Any], where: str) -> str:
    if part.get("type") is not None:
        return _text(part["type"], f"{where}: type")
    held = [field for field in _CONTENT if not _is_empty(part.get(field))] or [
        field for field in _CONTENT if field in part
    ]
    if len(held) != 1:
        raise BadRequestError(f"{where}: a part without a type must have one of {', '.join(_CONTENT)}")
    return held[0]


def _parse_media(part: Mapping[str, Any], kind: str, where: str) -> MediaPart:
    uuid = _uuid(part.get("uuid"), where)
    if kind in _URLS:
        modality, field = _URLS[kind]
        _reject_other_content(part, {field}, where)
        if part.get("file_id") is not None:
            raise BadRequestError(f"{where}: a file_id names nothing here; send a URL")
        return MediaPart(modality, url=_url(part.get(field), f"{where}: {field}"), uuid=uuid)
    if kind in _MODALITIES:
        fields = {kind, f"{kind}_url"}
        _reject_other_content(part, fields, where)
        return _parse_transformers(part, kind, where, uuid)
    _reject_other_content(part, {kind}, where)
    value = part.get(kind)
    if kind == "input_audio":
        return MediaPart("audio", url=_audio_url(value, where), uuid=uuid)
    if kind == "image_pil":
        if value is not None and not is_picture(value):
            raise BadRequestError(f"{where}: expected a PIL image, not {type(value).__name__}")
        return MediaPart("image", media=value, uuid=uuid)
    if kind in _EMBEDDINGS:
        raise BadRequestError(f"{where}: {kind} is not supported; send the media")
    known = ", ".join(dict.fromkeys([*_TEXTS, *_URLS, "input_audio", *_MODALITIES, "image_pil"]))
    raise BadRequestError(f"{where}: unknown type {kind[:32]!r}; expected one of {known}")


def _parse_transformers(part: Mapping[str, Any], modality: str, where: str, uuid: str | None) -> MediaPart:
    fields = [field for field in (modality, f"{modality}_url", *_SOURCES) if not _is_empty(part.get(field))]
    if len(fields) > 1:
        raise BadRequestError(f"{where}: {' and '.join(fields)} in one part; expected one of them")
    if not fields:
        return MediaPart(modality, uuid=uuid)
    value = part[fields[0]]
    if fields[0] == "path":
        return MediaPart(modality, url=_path_url(value, where), uuid=uuid)
    if fields[0] == "base64":
        return MediaPart(modality, url=_base64_url(_text(value, f"{where}: base64"), modality, "*"), uuid=uuid)
    if fields[0] == modality and _is_decoded(value, modality):
        return MediaPart(modality, media=value, uuid=uuid)
    return MediaPart(modality, url=_url(value, f"{where}: {fields[0]}"), uuid=uuid)


def _is_decoded(value: object, modality: str) -> bool:
    """Whether this is media that a caller in this process has: JSON cannot hold it."""
    if modality != "image" and isinstance(value, list | tuple) and value:
        value = value[0]  # of frames, of frames with their metadata, or of samples with their rate
    return isinstance(value, MediaRef) or is_picture(value) or is_array(value)


def _is_empty(value: object) -> bool:
    """Whether a field holds nothing. Datasets fill fields that a part does not have with None or empty text."""
    return value is None or (isinstance(value, str) and not value)


def _reject_other_content(part: Mapping[str, Any], fields: set[str], where: str) -> None:
    """Reject a part with content that its type does not name, which would be lost."""
    others = [field for field in _CONTENT if field not in fields and not _is_empty(part.get(field))]
    if others:
        raise BadRequestError(f"{where}: the part also has {', '.join(others)}; send each in a part of its own")


def _url(value: object, where: str) -> str | None:
    if isinstance(value, Mapping):
        value = value.get("url")
    return None if _is_empty(value) else _text(value, where)


def _path_url(value: object, where: str) -> str:
    """A file URL, so that the policy for local files applies. A relative path begins at the working directory."""
    try:
        return Path(os.fspath(value)).absolute().as_uri()  # type: ignore[call-overload]  # fspath checks
    except (TypeError, ValueError) as exc:
        raise BadRequestError(f"{where}: path must be the path of a file") from exc


def _audio_url(value: object, where: str) -> str | None:
    """Clients send bare base64, as the API says, or a data URL, as others do."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise BadRequestError(f"{where}: expected a mapping of data and format")
    data = value.get("data")
    if _is_empty(data):
        return None
    given = value.get("format")
    if given is not None and not (isinstance(given, str) and _AUDIO_FORMAT.fullmatch(given)):
        raise BadRequestError(f"{where}: format must be the name of an audio format, such as wav")
    return _base64_url(_text(data, f"{where}: data"), "audio", given or "wav")


def _base64_url(data: str, modality: str, subtype: str) -> str:
    return data if data[:5].lower() == "data:" else f"data:{modality}/{subtype};base64,{data}"


def _uuid(value: object, where: str) -> str | None:
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool):
        if value.bit_length() > _UUID_BITS:
            raise BadRequestError(f"{where}: uuid is a number of more than {_UUID_BITS} bits")
        return str(value)
    return None if value is None else _text(value, f"{where}: uuid")


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise BadRequestError(f"{where} must be text, not {type(value).__name__}")
    return value


def _mapping(value: object) -> Mapping[str, Any] | None:
    """A mapping as it is, a model of pydantic's as a mapping; None for anything else."""
    if isinstance(value, Mapping):
        return value
    dump = getattr(value, "model_dump", None)
    dumped = dump() if callable(dump) and not isinstance(value, type) else None
    return dumped if isinstance(dumped, Mapping) else None


__all__ = ["MediaPart", "ParsedChat", "parse_chat", "parse_tools"]
