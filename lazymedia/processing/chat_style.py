"""How a conversation reads as one text, for processors that bring no chat template of their own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lazymedia.errors import BadRequestError

_SAME_ROLES: Final = {"developer": "system", "tool": "user", "function": "user"}
"""Roles of OpenAI's that a plain conversation has none of: a tool's answer is something that the model is given."""


@dataclass(frozen=True, slots=True)
class ChatStyle:
    """A plain way of writing a conversation.

    Attributes:
        openings: For each role that a message may have, what stands before its content.
        closing: What stands after a message's content.
        generation: What stands at the end, where the model goes on.
        items: For each modality, what stands for an item; ``{placeholder}`` is the placeholder.
        lead: What stands between an opening and a text that the content begins with.
    """

    openings: Mapping[str, str]
    closing: str
    generation: str
    items: Mapping[str, str]
    lead: str = ""

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        placeholders: Mapping[str, str],
        *,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
    ) -> str:
        """The conversation as a prompt; parts in the order in which they are given, tool calls as lines of JSON.

        Args:
            messages: Each with ``role``, and ``content`` that is text or a list of parts: ``{"type": "text", "text":
                …}``, or ``{"type": "image"}`` and the like for an item. An assistant's may have ``tool_calls`` instead.
            placeholders: By modality.
            add_generation_prompt: Whether the prompt asks for the next answer.
            continue_final_message: Whether the prompt ends within the last message, which ends with text.

        Raises:
            BadRequestError: A message or part of another form. The client's fault.
        """
        texts = [self._opening(message) + self._content(message, placeholders) for message in messages]
        if continue_final_message:
            last = messages[-1].get("content")
            if not isinstance(last, str) and not (last and last[-1]["type"] == "text"):
                raise BadRequestError("the last message does not end with text, which could be continued")
        end = "" if continue_final_message else self.closing
        generation = self.generation if add_generation_prompt and not continue_final_message else ""
        return self.closing.join(texts) + end + generation

    def items_of(self, placeholders: Mapping[str, str]) -> dict[str, str]:
        """What stands for an item in a text, by modality."""
        return {
            modality: self.items.get(modality, "{placeholder}").replace("{placeholder}", placeholder)
            for modality, placeholder in placeholders.items()
        }

    def _opening(self, message: Mapping[str, Any]) -> str:
        role = message.get("role")
        if isinstance(role, str):
            role = _SAME_ROLES.get(role, role)
        if not isinstance(role, str) or role not in self.openings:
            raise BadRequestError(f"a message's role is none of {', '.join([*self.openings, *_SAME_ROLES])}")
        return self.openings[role]

    def _content(self, message: Mapping[str, Any], placeholders: Mapping[str, str]) -> str:
        content, calls = message.get("content"), message.get("tool_calls")
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        if content is None and message.get("role") == "assistant":
            content = []
        if not isinstance(content, list | tuple):
            raise BadRequestError("a message's content is neither text nor a list of parts")
        items = self.items_of(placeholders)
        text = "".join([_part(part, items) for part in content])
        lines = [json.dumps(call.get("function", call), ensure_ascii=False, default=str) for call in calls or ()]
        starts_with_text = bool(calls) if not content else content[0]["type"] == "text"
        return (self.lead if starts_with_text else "") + "\n".join([text, *lines] if text else lines)


def _part(part: object, items: Mapping[str, str]) -> str:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if isinstance(part, Mapping) and kind == "text" and isinstance(part.get("text"), str):
        return str(part["text"])
    if isinstance(kind, str) and kind in items:
        return items[kind]
    raise BadRequestError(f"a message's content has a part that is neither text nor {', '.join(items)}")


__all__ = ["ChatStyle"]
