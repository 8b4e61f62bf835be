"""What one subclasses or registers to extend lazymedia.

* a decoder: `MediaIO`, with `Payload`, `MediaRef`, `DecodeSpec`, `DecoderCaches`, `checkpoint` and `DecodeStopped`
* a source: `MediaConnector`, `register_connector`, `get_connector`
* a family of processors: `ProcessingInfo`, `register_family`, `family_of`; its outputs `Batched`, `Flat`, `Listed`,
  `Shared`, `Hidden` (`Layout` is any of them); its conversations `ChatStyle`; and what its methods take and return

docs/extending.md has an example of each. Names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazymedia import _load

if TYPE_CHECKING:
    from lazymedia.fetch import MediaConnector, get_connector, register_connector
    from lazymedia.media import DecoderCaches, DecodeSpec, DecodeStopped, MediaIO, MediaRef, Payload, checkpoint
    from lazymedia.media.video import Sampling
    from lazymedia.models import family_of, register_family, verify_family
    from lazymedia.processing import (
        Batched,
        ChatStyle,
        Flat,
        Hidden,
        ItemMedia,
        Layout,
        Listed,
        PlaceholderRange,
        PreparedKwargs,
        ProcessedItem,
        ProcessingInfo,
        RenderedPrompt,
        Replacement,
        RequestOptions,
        ReturnTensors,
        Shared,
        ValidOptions,
        bounded_torch_threads,
    )

__all__ = [
    "Batched",
    "ChatStyle",
    "DecodeSpec",
    "DecodeStopped",
    "DecoderCaches",
    "Flat",
    "Hidden",
    "ItemMedia",
    "Layout",
    "Listed",
    "MediaConnector",
    "MediaIO",
    "MediaRef",
    "Payload",
    "PlaceholderRange",
    "PreparedKwargs",
    "ProcessedItem",
    "ProcessingInfo",
    "RenderedPrompt",
    "Replacement",
    "RequestOptions",
    "ReturnTensors",
    "Sampling",
    "Shared",
    "ValidOptions",
    "bounded_torch_threads",
    "checkpoint",
    "family_of",
    "get_connector",
    "register_connector",
    "register_family",
    "verify_family",
]


def __getattr__(name: str) -> Any:
    return _load(__name__, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
