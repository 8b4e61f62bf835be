"""Gemma 3 and 3n: the call returns the modality of each token under the name ``token_type_ids``."""

from __future__ import annotations

from lazymedia.processing.fields import Batched
from lazymedia.processing.info import ProcessingInfo
from lazymedia.processing.prompt import RenderedPrompt


class Gemma3Info(ProcessingInfo):
    """Squares of 896 pixels; crops besides where the operator turned pan and scan on."""

    def text_columns(self, rendered: RenderedPrompt) -> dict[str, list[int]]:
        columns = super().text_columns(rendered)
        if "mm_token_type_ids" in columns:
            columns["token_type_ids"] = columns.pop("mm_token_type_ids")
        return columns


class Gemma3nInfo(Gemma3Info):
    """Gemma 3n. ``input_features`` float32 (clips, frames, 128), ``input_features_mask`` bool (clips, frames).

    A clip is processed alone. In the processor's own call on several, up to three frames at the end of the shorter ones
    come from the filling; here the filling is 0, and the mask leaves it out.
    """

    layouts = {  # noqa: RUF012  # declared a ClassVar in the base class
        "audio": {"input_features": Batched(pad=0), "input_features_mask": Batched(pad=0)}
    }


__all__ = ["Gemma3Info", "Gemma3nInfo"]
