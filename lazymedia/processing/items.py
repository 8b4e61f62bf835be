"""What one item becomes when the processor has seen it alone, which is what a cache holds."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lazymedia.cache.handing_out import handed_out
from lazymedia.foreign import is_tensor
from lazymedia.processing.fields import Array, same

_OVERHEAD = 1024
"""Bytes of the objects around an entry's arrays: dictionaries, headers, names. An estimate."""


@dataclass(frozen=True, slots=True, eq=False)
class Replacement:
    """What an item's placeholder becomes in the prompt.

    Attributes:
        text: The text that the processor writes instead of the placeholder.
        token_ids: The text's tokens, where they are the same in every prompt; None where they depend on what stands
            beside them, and the prompt must be tokenised as a whole.
        is_embed: For each of those tokens, whether the model puts one of the item's embeddings there; read-only, bool,
            shape (tokens,). None where ``token_ids`` is.
    """

    text: str
    token_ids: tuple[int, ...] | None = None
    is_embed: NDArray[np.bool_] | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Replacement) and (self.text, self.token_ids) == (other.text, other.token_ids)

    def __hash__(self) -> int:
        return hash((self.text, self.token_ids))

    def __repr__(self) -> str:
        tokens = "unknown" if self.token_ids is None else len(self.token_ids)
        return f"<Replacement of {len(self.text)} characters, {tokens} tokens>"

    @property
    def nbytes(self) -> int:
        """Bytes of text, tokens and mask."""
        ids = () if self.token_ids is None else self.token_ids
        # Equal ids are one object each, see `prompt.compact`.
        tokens = sys.getsizeof(ids) + sum(map(sys.getsizeof, set(ids)))
        return sys.getsizeof(self.text) + tokens + (0 if self.is_embed is None else self.is_embed.nbytes)


@dataclass(frozen=True, slots=True, eq=False)
class ProcessedItem:
    """One item, processed alone.

    Attributes:
        features: The arrays that a model takes, with shapes as of a request with this item only. They own their memory;
            NumPy arrays are read-only.
        hidden: Outputs that served to lay out the prompt.
        replacement: What the item's placeholder becomes.
        nbytes: Bytes that all of this keeps alive. Counted unless given.
    """

    features: Mapping[str, Array]
    hidden: Mapping[str, Any]
    replacement: Replacement
    nbytes: int = -1

    def __post_init__(self) -> None:
        if self.nbytes >= 0:
            return
        arrays = sum(int(array.nbytes) for array in self.features.values())
        size = _OVERHEAD + arrays + _sizeof(self.hidden) + self.replacement.nbytes
        object.__setattr__(self, "nbytes", size)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ProcessedItem):
            return NotImplemented
        return all(same(getattr(self, name), getattr(other, name)) for name in ("features", "hidden", "replacement"))

    __hash__ = None  # type: ignore[assignment]  # it holds dictionaries

    def __repr__(self) -> str:
        return f"<ProcessedItem {', '.join(self.features)}; {self.nbytes} bytes>"

    def handed_out(self, *, share_tensors: bool = True) -> Self:
        """The same item with NumPy arrays as read-only views, and tensors shared or cloned."""
        return replace(self, features=handed_out(self.features, share_tensors=share_tensors))


def _sizeof(value: object) -> int:
    """Bytes of nested containers, arrays and scalars."""
    if is_tensor(value) or isinstance(value, np.ndarray):
        return int(value.nbytes)  # type: ignore[attr-defined]  # arrays and tensors have it
    size = sys.getsizeof(value)
    if isinstance(value, Mapping):
        return size + sum(map(_sizeof, value.keys())) + sum(map(_sizeof, value.values()))
    if isinstance(value, list | tuple | set | frozenset):
        return size + sum(map(_sizeof, value))
    return size


__all__ = ["ProcessedItem", "Replacement"]
