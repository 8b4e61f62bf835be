"""LLaVA-1.5: every picture is one square of a fixed number of tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lazymedia.processing.chat_style import ChatStyle
from lazymedia.processing.fields import Batched
from lazymedia.processing.info import ProcessingInfo
from lazymedia.processing.sizes import working_pixels


class LlavaInfo(ProcessingInfo):
    """``pixel_values`` float32 (pictures, 3, side, side); side 336 and 576 tokens in LLaVA-1.5."""

    modalities = ("image",)
    layouts = {"image": {"pixel_values": Batched()}}  # noqa: RUF012  # declared a ClassVar in the base class
    chat_style = ChatStyle(
        openings={"system": "", "user": "USER: ", "assistant": "ASSISTANT: "},
        closing=" ",
        generation="ASSISTANT:",
        items={"image": "{placeholder}\n"},
    )

    def working_pixels(self, height: int, width: int, settings: Mapping[str, Any]) -> int:
        return working_pixels(height, width, settings)


__all__ = ["LlavaInfo"]
