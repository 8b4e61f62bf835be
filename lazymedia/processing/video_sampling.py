"""Which frames a Hugging Face video processor would take of a video, as options of our decoder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from lazymedia.media.video.sampling import READS, Clip, Sampling

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

    A rule that no policy mirrors is the processor's own, called on what is known of the video before a decode. Empty,
    so that the decoder's own defaults hold, for a processor that names neither a number nor a rate and has the general
    rule, and for one of its own rule that does not sample unless it is asked to.
    """
    policy = _policy(type(video_processor))
    if policy is None:
        return {"sampling": _own_rule(video_processor)} if getattr(video_processor, "do_sample_frames", False) else {}
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


def _own_rule(video_processor: Any) -> Sampling:
    """The processor's ``sample_frames``, with its settings as they are now."""
    kind = type(video_processor)
    settings = json.dumps(video_processor.to_dict(), sort_keys=True, default=str)
    digest = hashlib.sha256(settings.encode()).hexdigest()[:16]

    def choose(clip: Clip) -> list[int]:
        from transformers.video_utils import VideoMetadata

        metadata = VideoMetadata(total_num_frames=clip.total, fps=clip.rate, duration=clip.duration)
        indices = video_processor.sample_frames(metadata=metadata)
        return sorted(min(clip.total - 1, max(0, int(index))) for index in indices) or [0]

    return Sampling(f"{kind.__module__}.{kind.__qualname__}:{digest}", choose)


__all__ = ["sampling_of"]
