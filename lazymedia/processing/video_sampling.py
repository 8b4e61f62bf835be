"""Which frames a Hugging Face video processor would take of a video, as options of our decoder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lazymedia.media.video.sampling import READS

_POLICIES: Final[Mapping[str, str]] = {
    "Qwen2VLVideoProcessor": "qwen2_vl",
    "Qwen3VLVideoProcessor": "qwen3_vl",
    "Glm4vVideoProcessor": "glm4v",
    "SmolVLMVideoProcessor": "smolvlm",
    "BaseVideoProcessor": "transformers",
}
"""The policy that mirrors the rule of a class, for the classes that have one of their own."""


def sampling_of(video_processor: object, most: int) -> dict[str, Any]:
    """The options by which a decoder takes the frames that the processor would take, at most so many.

    Empty, so that the decoder's own defaults hold, for a processor with a rule that no policy mirrors, and for one that
    names neither a number nor a rate and has the general rule.
    """
    policy = _policy(type(video_processor))
    if policy is None:
        return {}
    found = {name: getattr(video_processor, name, None) for name in READS[policy]}
    options = {
        name: min(value, most) if name.endswith("_frames") else value
        for name, value in found.items()
        if value is not None
    }
    if policy == "transformers" and not options:
        return {}
    return {"sampling": policy, **options}


def _policy(kind: type) -> str | None:
    """By the nearest class that chooses frames itself; None where that one is not known."""
    owner = next((ancestor for ancestor in kind.__mro__ if "sample_frames" in vars(ancestor)), None)
    return None if owner is None else _POLICIES.get(owner.__name__)


__all__ = ["sampling_of"]
