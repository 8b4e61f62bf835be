"""How a conversation reads as one text, for processors that bring no chat template of their own.

Comes in: messages in Hugging Face's form. Goes out: a prompt with one placeholder for each item. Never here: a Jinja
template; a processor that has one renders it itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lazymedia.errors import BadRequestError


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

    def render(self, messages: Sequence[Mapping[str, object]], placeholders: Mapping[str, str]) -> str:
        """The conversation as a prompt that asks for the next answer; parts in the order in which they are given.

        Args:
            messages: Each with ``role``, and ``content`` that is text or a list of parts: ``{"type": "text", "text":
                …}``, or ``{"type": "image"}`` and the like for an item.
            placeholders: By modality.

        Raises:
            BadRequestError: A message or part of another form. The client's fault.
        """
        return "".join([*(self._message(message, placeholders) for message in messages), self.generation])

    def _message(self, message: Mapping[str, object], placeholders: Mapping[str, str]) -> str:
        role, content = message.get("role"), message.get("content")
        if not isinstance(role, str) or role not in self.openings:
            raise BadRequestError(f"a message's role is none of {', '.join(self.openings)}")
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        if not isinstance(content, list | tuple):
            raise BadRequestError("a message's content is neither text nor a list of parts")
        parts = [self._part(part, placeholders) for part in content]
        lead = self.lead if content and content[0]["type"] == "text" else ""
        return self.openings[role] + lead + "".join(parts) + self.closing

    def _part(self, part: object, placeholders: Mapping[str, str]) -> str:
        kind = part.get("type") if isinstance(part, Mapping) else None
        if isinstance(part, Mapping) and kind == "text" and isinstance(part.get("text"), str):
            return str(part["text"])
        if isinstance(kind, str) and kind in self.items and kind in placeholders:
            return self.items[kind].replace("{placeholder}", placeholders[kind])
        raise BadRequestError(f"a message's content has a part that is neither text nor {', '.join(placeholders)}")


__all__ = ["ChatStyle"]
