"""PaliGemma: the call returns ``labels``, which no token of a prompt has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lazymedia.processing.info import ProcessingInfo
from lazymedia.processing.kwargs import PreparedKwargs
from lazymedia.processing.prompt import RenderedPrompt


class PaliGemmaInfo(ProcessingInfo):
    """``pixel_values`` float32 (pictures, 3, side, side). The pictures stand before the text."""

    def prepare_kwargs(self, mm_processor_kwargs: Mapping[str, object] | PreparedKwargs | None) -> PreparedKwargs:
        prepared = super().prepare_kwargs(mm_processor_kwargs)
        text: dict[str, Any] = {**prepared.text, "return_token_type_ids": True}
        return replace(prepared, text=text)

    def text_columns(self, rendered: RenderedPrompt) -> dict[str, list[int]]:
        columns = super().text_columns(rendered)
        return {**columns, "labels": [-100 if kind == 0 else token for token, kind in _pairs(columns)]}


def _pairs(columns: Mapping[str, Sequence[int]]) -> list[tuple[int, int]]:
    return list(zip(columns["input_ids"], columns["token_type_ids"]))


__all__ = ["PaliGemmaInfo"]
