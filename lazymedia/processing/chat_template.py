"""A conversation as a prompt, by the template that a processor brings.

Comes in: a processor and messages in Hugging Face's form. Goes out: one text. Never here: how to write a conversation
without a template (see `chat_style`), or a token beside the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lazymedia.errors import BadRequestError


def find_template(hf_processor: Any) -> str | None:
    """The processor's own template, or its tokenizer's; of several the one named "default"."""
    template: str | Mapping[str, str] | None = getattr(hf_processor, "chat_template", None) or getattr(
        hf_processor.tokenizer, "chat_template", None
    )
    return template["default"] if isinstance(template, Mapping) else template


def render(
    hf_processor: Any,
    template: str,
    messages: Sequence[Mapping[str, object]],
    first_token: Callable[[], int | None],
) -> str:
    """The conversation as a prompt that asks for the next answer.

    Args:
        hf_processor: Whose template it is.
        template: See `find_template`.
        messages: At least one.
        first_token: Which token the tokenizer puts before any text, if one. A beginning-of-sequence token that the
            template writes is left out where that is the same, or the prompt would begin with two.

    Raises:
        BadRequestError: The template refuses the messages. The client's fault.
        ImportError: A template needs jinja2, which is not installed.
    """
    try:
        prompt: str = hf_processor.apply_chat_template(
            [dict(message) for message in messages],
            chat_template=template,
            add_generation_prompt=True,
            tokenize=False,
        )
    except (ImportError, MemoryError):
        raise
    except Exception as exc:  # a template is a program, and fails as it likes over what it is given
        raise BadRequestError(f"the chat template refuses the messages: {exc}") from exc
    tokenizer = hf_processor.tokenizer
    bos = tokenizer.bos_token
    if bos and prompt.startswith(bos) and first_token() == tokenizer.bos_token_id:
        return prompt[len(bos) :]
    return prompt


__all__ = ["find_template", "render"]
