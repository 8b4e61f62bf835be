"""What one request becomes: a value that leaves processing, and may be copied, compared, pickled and sent elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

from lazymedia.foreign import is_array
from lazymedia.processing.fields import Layout, ReturnTensors, merge_fields, same, text_arrays
from lazymedia.processing.prompt import PlaceholderRange

_LONGEST_REPR: Final = 400
"""Characters, so that a log line stays one."""
_HISTORY: Final = frozenset({"timings", "cached"})
"""Fields that say how a result came about and not what it is."""


@dataclass(frozen=True, eq=False, repr=False)
class MultiModalInputs:
    """One request, processed.

    A value made of plain data: it pickles, copies and compares, and `merged` needs neither transformers nor the process
    in which it was made. Two are equal when everything but ``timings`` and ``cached`` is, arrays by content. It has no
    hash. Arrays are not to be written to: NumPy arrays are read-only, and torch tensors are shared with the cache (see
    `ProcessorCache`).

    Attributes:
        prompt: The text as it was given, one placeholder for each item.
        prompt_token_ids: Token ids of the text, each placeholder replaced by what its item needs.
        mm_kwargs: For each modality, each item's arrays as the Hugging Face processor gives them for that item alone,
            in request order; None where only an identity travels.
        mm_hashes: For each modality, each item's cache identity, hexadecimal.
        mm_placeholders: For each modality, where each item's tokens stand in ``prompt_token_ids``.
        timings: Seconds by stage.
        cached: For each modality, whether each item came from the cache.
        layouts: For each modality, how each array is merged with those of the other items.
        text_columns: What the processor returns beside the items' arrays, such as ``input_ids``, one value for each
            token.
        return_tensors: ``"pt"`` where arrays are torch tensors, ``"np"`` where they are NumPy arrays.
    """

    prompt: str
    prompt_token_ids: list[int]
    mm_kwargs: Mapping[str, Sequence[Mapping[str, Any] | None]]
    mm_hashes: dict[str, list[str]]
    mm_placeholders: dict[str, list[PlaceholderRange]]
    timings: dict[str, float]
    cached: dict[str, list[bool]] = field(default_factory=dict)
    layouts: Mapping[str, Mapping[str, Layout]] = field(default_factory=dict)
    text_columns: Mapping[str, list[int]] = field(default_factory=dict)
    return_tensors: ReturnTensors = "np"

    def merged(self) -> dict[str, Any]:
        """Everything that one call of the Hugging Face processor on the whole request returns: same keys, same shapes.

        The arrays of a single item are the ones in ``mm_kwargs``, not copies.

        Raises:
            RuntimeError: An item travelled without its arrays.
            UnprocessableMediaError: The items' shapes cannot be joined, as when a request turned resizing off.
        """
        merged = text_arrays(self.text_columns, self.return_tensors)
        for modality, items in self.mm_kwargs.items():
            present = [item for item in items if item is not None]
            if len(present) < len(items):
                raise RuntimeError("these inputs hold identities without arrays and cannot be merged")
            merged.update(merge_fields(present, self.layouts.get(modality, {})))
        return merged

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MultiModalInputs):
            return NotImplemented
        names = [each.name for each in fields(self) if each.name not in _HISTORY]
        return all(same(getattr(self, name), getattr(other, name)) for name in names)

    __hash__ = None  # type: ignore[assignment]  # it holds lists and dictionaries

    def __repr__(self) -> str:
        parts = [f"{len(self.prompt)} characters", f"{len(self.prompt_token_ids)} tokens"]
        for modality, items in self.mm_kwargs.items():
            first = next((item for item in items if item is not None), {})
            shapes = ", ".join(f"{name} {_shape(array)}" for name, array in first.items())
            cached = sum(self.cached.get(modality, ()))
            parts.append(f"{modality}: {len(items)}, {cached} cached{f', the first {shapes}' if shapes else ''}")
        text = "; ".join(parts)
        text = text if len(text) <= _LONGEST_REPR else f"{text[: _LONGEST_REPR - 3]}..."
        return f"<{type(self).__name__} {text}>"


def _shape(array: Any) -> str:
    return f"{tuple(array.shape)}" if is_array(array) else type(array).__name__


__all__ = ["MultiModalInputs"]
