"""Gemma 3: the call returns the modality of each token under the name ``token_type_ids``."""

from __future__ import annotations

from lazymedia.processing.info import ProcessingInfo
from lazymedia.processing.prompt import RenderedPrompt


class Gemma3Info(ProcessingInfo):
    """Squares of 896 pixels; crops besides where the operator turned pan and scan on."""

    def text_columns(self, rendered: RenderedPrompt) -> dict[str, list[int]]:
        columns = super().text_columns(rendered)
        if "mm_token_type_ids" in columns:
            columns["token_type_ids"] = columns.pop("mm_token_type_ids")
        return columns


__all__ = ["Gemma3Info"]
