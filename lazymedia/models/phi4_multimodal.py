"""Phi-4 multimodal: a clip alone comes without the mask that clips together have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lazymedia.processing.fields import Batched
from lazymedia.processing.info import ProcessingInfo
from lazymedia.processing.kwargs import PreparedKwargs
from lazymedia.processing.media import ItemMedia


class Phi4MultimodalInfo(ProcessingInfo):
    """``audio_input_features`` float32 (clips, frames, 80); ``audio_attention_mask`` bool (clips, frames), always.

    Frames that fill a clip up are 0; in the processor's own call on several clips they are those of silence. The mask
    leaves them out either way.
    """

    layouts = {  # noqa: RUF012  # declared a ClassVar in the base class
        "audio": {
            "audio_input_features": Batched(pad=0),
            "audio_attention_mask": Batched(pad=0),
            "audio_embed_sizes": Batched(),
        }
    }

    def process_items(
        self, modality: str, items: Sequence[ItemMedia], kwargs: PreparedKwargs
    ) -> tuple[dict[str, Any], list[str]]:
        outputs, texts = super().process_items(modality, items, kwargs)
        if modality == "audio" and "audio_attention_mask" not in outputs:
            features = outputs["audio_input_features"]
            outputs["audio_attention_mask"] = features.isfinite().all(-1)
        return outputs, texts


__all__ = ["Phi4MultimodalInfo"]
