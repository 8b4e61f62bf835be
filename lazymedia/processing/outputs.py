"""What one request becomes: the values that leave processing.

Comes in: processed items, in request order. Goes out: `MultiModalInputs`, which an engine or a model is fed with. Never
here: how any of it was made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lazymedia.processing.prompt import PlaceholderRange


@dataclass(frozen=True)
class MultiModalInputs:
    """One request, processed.

    Attributes:
        prompt: The text as it was given, one placeholder for each item.
        prompt_token_ids: Token ids of the text, each placeholder replaced by what its item needs.
        mm_kwargs: For each modality, each item's arrays as the Hugging Face processor gives them for that item alone,
            in request order; None where only an identity travels.
        mm_hashes: For each modality, each item's cache identity, hexadecimal.
        mm_placeholders: For each modality, where each item's tokens stand in ``prompt_token_ids``.
        timings: Seconds by stage.
        cached: For each modality, whether each item came from the cache.
    """

    prompt: str
    prompt_token_ids: list[int]
    mm_kwargs: Mapping[str, Sequence[Mapping[str, Any] | None]]
    mm_hashes: dict[str, list[str]]
    mm_placeholders: dict[str, list[PlaceholderRange]]
    timings: dict[str, float]
    cached: dict[str, list[bool]] = field(default_factory=dict)
    _merge: Callable[[], dict[str, Any]] | None = field(default=None, repr=False, compare=False)

    def merged(self) -> dict[str, Any]:
        """Everything that one call of the Hugging Face processor on the whole request returns: same keys, same shapes.

        Raises:
            RuntimeError: An item travelled without its arrays.
        """
        if self._merge is None:
            raise RuntimeError("these inputs hold identities without arrays and cannot be merged")
        return self._merge()


__all__ = ["MultiModalInputs"]
