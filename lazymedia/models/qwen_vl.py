"""Qwen2-VL, Qwen2.5-VL and Qwen3-VL: a picture is as many patches as it is large, within bounds on its area."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lazymedia.processing.chat_style import ChatStyle
from lazymedia.processing.fields import Batched, Flat
from lazymedia.processing.info import ProcessingInfo
from lazymedia.processing.kwargs import RequestOptions
from lazymedia.processing.sizes import largest


class QwenVLInfo(ProcessingInfo):
    """``pixel_values`` float32 (patches of all pictures, values of a patch); ``image_grid_thw`` int64 (pictures, 3):
    how many patches in time, height and width.

    A request chooses the area of its pictures by ``size={"shortest_edge": …, "longest_edge": …}``, both in pixels of
    area and not of an edge, or by ``min_pixels`` and ``max_pixels``, their older names.
    """

    layouts = {"image": {"pixel_values": Flat(), "image_grid_thw": Batched()}}  # noqa: RUF012  # a ClassVar in the base
    # The model's own sizes; besides, the processor counts tokens by its setting and not by the call's.
    operator_only = frozenset({"merge_size", "patch_size", "temporal_patch_size"})
    chat_style = ChatStyle(
        openings={role: f"<|im_start|>{role}\n" for role in ("system", "user", "assistant")},
        closing="<|im_end|>\n",
        generation="<|im_start|>assistant\n",
        items={"image": "<|vision_start|>{placeholder}<|vision_end|>"},
    )

    def rewrite_options(self, options: RequestOptions) -> RequestOptions:
        """``min_pixels`` and ``max_pixels`` as the ``size`` that they stand for; as such, transformers warns of
        them.
        """
        chosen = dict(options["image"])
        bounds = {
            edge: chosen.pop(name)
            for edge, name in (("shortest_edge", "min_pixels"), ("longest_edge", "max_pixels"))
            if chosen.get(name) is not None
        }
        if not bounds:
            return options
        size = chosen.get("size")
        chosen["size"] = dict(size if isinstance(size, Mapping) else self.hf_processor.image_processor.size) | bounds
        return {**options, "image": chosen}

    def working_pixels(self, height: int, width: int, settings: Mapping[str, Any]) -> int:
        """The area as it comes, or as the processor's own rule makes it."""
        from transformers.models.qwen2_vl.image_processing_qwen2_vl import smart_resize

        size = settings.get("size") or {}
        if not settings.get("do_resize") or not {"shortest_edge", "longest_edge"} <= size.keys():
            return height * width
        resized = smart_resize(
            height,
            width,
            settings["patch_size"] * settings["merge_size"],
            min_pixels=size["shortest_edge"],
            max_pixels=size["longest_edge"],
        )
        return largest([(height, width), resized])


__all__ = ["QwenVLInfo"]
