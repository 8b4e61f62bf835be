"""From OpenAI-style chat messages to what a chat template takes and the media that the messages name.

Comes in: messages as a client sent them. Goes out: `ParsedChat`. Never here: fetching, or a chat template.

A content part is ``{"type": …}`` with, by type:

* ``text``: ``text``
* ``image_url``, ``video_url``, ``audio_url``: under the type's own name a URL, or a mapping with ``url``
* ``input_audio``: a mapping with ``data`` (base64, or a data URL) and ``format``
* ``image_pil``: a PIL image

Any media part may carry ``uuid``; with a UUID and without media it stands for an item that a cache holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lazymedia.errors import BadRequestError
from lazymedia.foreign import is_picture

_URL_PARTS: Final = {"image_url": "image", "video_url": "video", "audio_url": "audio"}
_OBJECT_PARTS: Final = {"image_pil": "image"}


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
    """Messages for a chat template, media parts replaced by ``{"type": <modality>}``; and those parts, in order."""

    messages: list[dict[str, Any]]
    parts: list[MediaPart]


def parse_chat(messages: object) -> ParsedChat:
    """Split messages into what a chat template takes and what must be fetched.

    Raises:
        BadRequestError: A message or part that is malformed or of unknown type. The client's fault.
    """
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Sequence):
        raise BadRequestError("messages must be a list of messages")
    parts: list[MediaPart] = []
    parsed: list[dict[str, Any]] = []
    for number, message in enumerate(messages):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise BadRequestError(f"message {number}: expected a mapping with a role")
        content = message.get("content")
        if isinstance(content, Sequence) and not isinstance(content, str | bytes):
            content = list(_parse_parts(content, number, parts))
        elif content is not None and not isinstance(content, str):
            raise BadRequestError(f"message {number}: content must be text or a list of parts")
        parsed.append({**message, "content": content})
    return ParsedChat(parsed, parts)


def _parse_parts(content: Sequence[object], number: int, parts: list[MediaPart]) -> Iterator[dict[str, Any]]:
    for position, part in enumerate(content):
        where = f"message {number}, part {position}"
        if isinstance(part, str):
            yield {"type": "text", "text": part}
            continue
        if not isinstance(part, Mapping):
            raise BadRequestError(f"{where}: expected a mapping with a type")
        kind = part.get("type")
        kind = _text(kind, f"{where}: type")
        if kind == "text":
            yield {"type": "text", "text": _text(part.get("text"), f"{where}: text")}
            continue
        media = _parse_media(part, kind, where)
        parts.append(media)
        yield {"type": media.modality}


def _parse_media(part: Mapping[str, Any], kind: str, where: str) -> MediaPart:
    uuid = part.get("uuid")
    if uuid is not None:
        uuid = _text(uuid, f"{where}: uuid")
    value = part.get(kind)
    if kind in _URL_PARTS:
        modality = _URL_PARTS[kind]
        if isinstance(value, Mapping):
            value = value.get("url")
        media = MediaPart(modality, url=None if value is None else _text(value, where), uuid=uuid)
    elif kind == "input_audio":
        media = MediaPart("audio", url=None if value is None else _audio_url(value, where), uuid=uuid)
    elif kind in _OBJECT_PARTS:
        if value is not None and not is_picture(value):
            raise BadRequestError(f"{where}: expected a PIL image, not {type(value).__name__}")
        media = MediaPart(_OBJECT_PARTS[kind], media=value, uuid=uuid)
    else:
        known = ", ".join(["text", *_URL_PARTS, "input_audio", *_OBJECT_PARTS])
        raise BadRequestError(f"{where}: unknown type {kind[:32]!r}; expected one of {known}")
    if media.url is None and media.media is None and media.uuid is None:
        raise BadRequestError(f"{where}: neither media nor UUID")
    return media


def _audio_url(value: object, where: str) -> str:
    """Clients send bare base64, as the API says, or a data URL, as others do; both become a data URL."""
    if not isinstance(value, Mapping):
        raise BadRequestError(f"{where}: expected a mapping of data and format")
    data = _text(value.get("data"), f"{where}: data")
    if data[:5].lower() == "data:":
        return data
    return f"data:audio/{value.get('format', 'wav')};base64,{data}"


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise BadRequestError(f"{where} must be text, not {type(value).__name__}")
    return value


__all__ = ["MediaPart", "ParsedChat", "parse_chat"]
