"""LFM2-VL: its step for pictures takes one option that is the whole processor's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lazymedia.processing.info import ProcessingInfo
from lazymedia.processing.kwargs import PreparedKwargs
from lazymedia.processing.media import ItemMedia


class Lfm2VlInfo(ProcessingInfo):
    """``pixel_values`` float32 (tiles, patches, values of a patch), ``spatial_shapes``, ``pixel_attention_mask``."""

    def process_items(
        self, modality: str, items: Sequence[ItemMedia], kwargs: PreparedKwargs
    ) -> tuple[dict[str, Any], list[str]]:
        marks = {"use_image_special_tokens": self.hf_processor.use_image_special_tokens}
        options = {modality: {**kwargs.by_modality[modality], **marks}}
        return super().process_items(modality, items, replace(kwargs, by_modality=options))


__all__ = ["Lfm2VlInfo"]
