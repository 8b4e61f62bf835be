"""Qwen2.5-Omni and Qwen3-Omni: pictures and videos as in Qwen-VL, and clips that are as long as they are."""

from __future__ import annotations

from lazymedia.processing.fields import Batched, Hidden
from lazymedia.processing.info import ProcessingInfo


class Qwen3OmniInfo(ProcessingInfo):
    """``input_features`` float32 (clips, 128, frames) and ``feature_attention_mask`` int32 (clips, frames).

    A clip is processed alone. In the processor's own call on several, the last frames of the shorter ones see the
    filling, and differ by up to 0.03; the filling itself, which the mask leaves out, is 0 here.
    """

    layouts = {  # noqa: RUF012  # declared a ClassVar in the base class
        "audio": {
            "input_features": Batched(pad=0),
            "feature_attention_mask": Batched(pad=0),
            "num_audio_tokens": Hidden(),
        }
    }


__all__ = ["Qwen3OmniInfo"]
