"""InternVL: the frames of videos are pictures to the model, in the order in which pictures and videos stand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lazymedia.processing.fields import Flat, Hidden
from lazymedia.processing.info import ProcessingInfo
from lazymedia.processing.kwargs import PreparedKwargs
from lazymedia.processing.media import ItemMedia


class InternVLInfo(ProcessingInfo):
    """``pixel_values`` float32 (tiles of all pictures and frames of all videos, 3, side, side)."""

    layouts = {  # noqa: RUF012  # declared a ClassVar in the base class
        "image": {"pixel_values": Flat(), "num_patches": Hidden()},
        "video": {"pixel_values": Flat(), "pixel_values_videos": Hidden(), "video_metadata": Hidden()},
    }

    def process_items(
        self, modality: str, items: Sequence[ItemMedia], kwargs: PreparedKwargs
    ) -> tuple[dict[str, Any], list[str]]:
        outputs, texts = super().process_items(modality, items, kwargs)
        if modality == "video":
            # (1, frames, 3, side, side)
            outputs["pixel_values"] = outputs.pop("pixel_values_videos")[0]
        return outputs, texts


__all__ = ["InternVLInfo"]
