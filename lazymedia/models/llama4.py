"""Llama 4: a picture stands as one token in the prompt and becomes patches, which are another token."""

from __future__ import annotations

from lazymedia.processing.info import ProcessingInfo


class Llama4Info(ProcessingInfo):
    """``pixel_values`` bfloat16 (tiles of all pictures, 3, side, side), ``aspect_ratios`` int64 (pictures, 2)."""

    embed_tokens = {"image": ("<|patch|>",)}  # noqa: RUF012  # declared a ClassVar in the base class


__all__ = ["Llama4Info"]
