"""What one request becomes: a value that leaves processing, and may be copied, compared, pickled and sent elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
        request_outputs: What the processor returns that belongs neither to an item nor to a token, such as Mllama's
            ``cross_attention_mask``.
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
    request_outputs: Mapping[str, Any] = field(default_factory=dict)
    return_tensors: ReturnTensors = "np"

    def merged(self) -> dict[str, Any]:
        """Everything that one call of the Hugging Face processor on the whole request returns: same keys, same shapes.

        The arrays of a single item are the ones in ``mm_kwargs``, not copies.

        Raises:
            RuntimeError: An item travelled without its arrays.
            UnprocessableMediaError: The items' shapes cannot be joined, as when a request turned resizing off.
        """
        if any(item is None for items in self.mm_kwargs.values() for item in items):
            raise RuntimeError("these inputs hold identities without arrays and cannot be merged")
        merged = text_arrays(self.text_columns, self.return_tensors)
        for names, items, layouts in self._groups():
            merged.update(merge_fields([{name: item[name] for name in names} for item in items], layouts))
        return {**merged, **self.request_outputs}

    def _groups(self) -> Iterator[tuple[list[str], list[Mapping[str, Any]], Mapping[str, Layout]]]:
        """Names of arrays, the items that have them, and their layouts.

        Where several modalities have an array of one name, as InternVL's pictures and videos, their items are joined in
        the order in which they stand in the prompt.
        """
        modalities: dict[tuple[str, ...], list[str]] = {}
        holders: dict[str, list[str]] = {}
        for modality, items in self.mm_kwargs.items():
            for name in items[0] or () if items else ():
                holders.setdefault(name, []).append(modality)
        for name, found in holders.items():
            modalities.setdefault(tuple(found), []).append(name)
        for group, names in modalities.items():
            layouts = self.layouts.get(group[0], {})
            if len(group) == 1:
                yield names, [item or {} for item in self.mm_kwargs[group[0]]], layouts
                continue
            ordered = sorted(
                (place.offset, number, item or {})
                for number, modality in enumerate(group)
                for place, item in zip(self.mm_placeholders[modality], self.mm_kwargs[modality])
            )
            yield names, [item for _, _, item in ordered], layouts

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
