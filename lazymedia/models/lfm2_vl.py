"""LFM2-VL: its step for pictures takes one option that is the whole processor's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lazymedia.processing.info import ProcessingInfo
from lazymedia.processing.kwargs import PreparedKwargs


class Lfm2VlInfo(ProcessingInfo):
    """``pixel_values`` float32 (tiles, patches, values of a patch), ``spatial_shapes``, ``pixel_attention_mask``."""

    def prepare_kwargs(self, mm_processor_kwargs: Mapping[str, object] | PreparedKwargs | None) -> PreparedKwargs:
        prepared = super().prepare_kwargs(mm_processor_kwargs)
        marks = self.hf_processor.use_image_special_tokens
        images = {**prepared.by_modality["image"], "use_image_special_tokens": marks}
        return replace(prepared, by_modality={**prepared.by_modality, "image": images})


__all__ = ["Lfm2VlInfo"]
