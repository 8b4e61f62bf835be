"""Mllama (Llama 3.2 Vision): pictures reach the model by cross-attention, and the prompt only says where they stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lazymedia.processing.fields import Array, Flat, Hidden
from lazymedia.processing.info import ProcessingInfo
from lazymedia.processing.items import ProcessedItem
from lazymedia.processing.prompt import RenderedPrompt


class MllamaInfo(ProcessingInfo):
    """``pixel_values`` float32 (1, pictures, tiles, 3, side, side), ``aspect_ratio_ids``, ``aspect_ratio_mask``; and
    ``cross_attention_mask`` int64 (1, tokens, pictures, tiles).
    """

    layouts = {  # noqa: RUF012  # declared a ClassVar in the base class
        "image": {
            "pixel_values": Flat(dim=1),
            "aspect_ratio_ids": Flat(dim=1),
            "aspect_ratio_mask": Flat(dim=1),
            "num_tiles": Hidden(),
        }
    }

    def request_outputs(
        self, rendered: RenderedPrompt, items: Mapping[str, Sequence[ProcessedItem]]
    ) -> dict[str, Array]:
        from transformers.models.mllama import processing_mllama as theirs

        pictures = items.get("image", ())
        if not pictures:
            return {}
        mask = theirs.convert_sparse_cross_attention_mask_to_dense(
            [theirs.get_cross_attention_token_mask(rendered.token_ids, self.hf_processor.image_token_id)],
            num_tiles=[[int(item.hidden["num_tiles"][0][0]) for item in pictures]],
            max_num_tiles=self.hf_processor.image_processor.max_image_tiles,
            length=len(rendered.token_ids),
        )
        if self.return_tensors == "np":
            return {"cross_attention_mask": mask}
        import torch

        return {"cross_attention_mask": torch.from_numpy(mask)}


__all__ = ["MllamaInfo"]
