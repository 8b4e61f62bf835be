"""How the arrays of single items become those of one Hugging Face call on all of them."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lazymedia.errors import UnprocessableMediaError
from lazymedia.foreign import is_tensor

Array: TypeAlias = Any
"""A `numpy.ndarray` or a `torch.Tensor`. Written as Any, because naming torch's type would make everybody need
torch."""


ReturnTensors = Literal["np", "pt"]
"""Which of the two."""


@dataclass(frozen=True, slots=True)
class Batched:
    """One row for each item: shape (1, …) alone, (items, …) together.

    Attributes:
        pad: With what the other axes are filled up, at their ends, where items differ in them; None where they must
            not.
    """

    pad: float | None = None

    def merge(self, arrays: Sequence[Array]) -> Array:
        for array in arrays:
            if array.shape[0] != 1:
                raise ValueError(f"one item has {array.shape[0]} rows in a field that has one row for each item")
        return _joined(arrays, 0, self.pad)


@dataclass(frozen=True, slots=True)
class Flat:
    """Any number of entries for each item, one item's after the other's, along one axis.

    Attributes:
        dim: That axis.
        pad: With what the other axes are filled up, at their ends, where items differ in them; None where they must
            not.
    """

    dim: int = 0
    pad: float | None = None

    def merge(self, arrays: Sequence[Array]) -> Array:
        return _joined(arrays, self.dim, self.pad)


@dataclass(frozen=True, slots=True)
class Hidden:
    """An output that serves to lay out the prompt and is no part of what the processor returns in the end."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A list with any number of entries for each item, one item's after the other's.

    Attributes:
        depth: 0 where the output itself is that list; 1 where it is a list that holds it as its only entry.
    """

    depth: int = 0

    def merge(self, values: Sequence[Any]) -> list[Any]:
        for _ in range(self.depth):
            values = [value[0] for value in values]
        joined: list[Any] = [entry for value in values for entry in value]
        for _ in range(self.depth):
            joined = [joined]
        return joined


@dataclass(frozen=True, slots=True)
class Shared:
    """One value for all items, the same for every item."""

    def merge(self, values: Sequence[Any]) -> Any:
        if not all(same(value, values[0]) for value in values[1:]):
            raise _ShapesDifferError("the items' values differ")
        return values[0]


Layout = Batched | Flat | Listed | Shared | Hidden

_KINDS: Final[Mapping[str, type[Layout]]] = {
    "batched": Batched,
    "flat": Flat,
    "listed": Listed,
    "shared": Shared,
    "hidden": Hidden,
}


def layout_to_plain(layout: Layout) -> dict[str, Any]:
    """A layout as a mapping that JSON can hold, such as ``{"kind": "flat", "dim": 1, "pad": 0.0}``."""
    kind = next(name for name, cls in _KINDS.items() if type(layout) is cls)
    return {"kind": kind} | {each.name: getattr(layout, each.name) for each in dataclass_fields(layout)}


def layout_from_plain(plain: Mapping[str, Any]) -> Layout:
    """The layout that `layout_to_plain` wrote.

    Raises:
        ValueError: No such layout.
    """
    try:
        arguments = dict(plain)
        return _KINDS[arguments.pop("kind")](**arguments)
    except (KeyError, TypeError, ValueError) as exc:
        raise ValueError(f"no layout: {dict(plain)!r}") from exc


def split_fields(outputs: Mapping[str, Any], layouts: Mapping[str, Layout]) -> tuple[dict[str, Array], dict[str, Any]]:
    """What a processor returned for one item, as (features, hidden outputs).

    Raises:
        NotImplementedError: An output without a layout, or one that should be an array and is not. The fault of whoever
            declared the layouts, never the item's.
    """
    features: dict[str, Array] = {}
    hidden: dict[str, Any] = {}
    for name, value in outputs.items():
        layout = layouts.get(name)
        if layout is None:
            raise NotImplementedError(
                f"the processor returned {name!r}, which has no layout; declare one in ProcessingInfo.layouts"
            )
        if isinstance(layout, Hidden):
            hidden[name] = value
        elif isinstance(layout, Listed | Shared) or isinstance(value, np.ndarray) or is_tensor(value):
            features[name] = value
        else:
            raise NotImplementedError(f"the processor returned {name!r} as {type(value).__name__}, not as an array")
    return features, hidden


def merge_fields(items: Sequence[Mapping[str, Array]], layouts: Mapping[str, Layout]) -> dict[str, Array]:
    """The arrays of all items together, keys and shapes as in one Hugging Face call. One item's arrays are not copied.

    Raises:
        ValueError: Items with different fields.
        UnprocessableMediaError: Items whose shapes this field cannot join, as when a request turned resizing off.
    """
    if not items:
        return {}
    names = list(items[0])
    for index, item in enumerate(items):
        if item.keys() != items[0].keys():
            raise ValueError(f"items 0 and {index} have different fields: {sorted(names)} and {sorted(item)}")
    merged: dict[str, Array] = {}
    for name in names:
        layout = layouts.get(name)
        if layout is None or isinstance(layout, Hidden):
            raise NotImplementedError(f"field {name!r} has no layout by which items could be merged")
        try:
            merged[name] = layout.merge([item[name] for item in items])
        except _ShapesDifferError as exc:
            raise UnprocessableMediaError(f"the items cannot be put into one {name}: {exc}") from exc
    return merged


def check_finite(features: Mapping[str, Array]) -> None:
    """Refuse floating point values that are NaN or infinite: a model would answer nonsense, and a cache would keep it.

    Raises:
        ValueError: There are some.
    """
    for name, value in features.items():
        for array in arrays_in(value):
            if is_tensor(array):
                if array.is_floating_point() and array.numel():
                    _check_range(name, *array.aminmax())
            elif np.issubdtype(array.dtype, np.floating) and array.size:
                with np.errstate(invalid="ignore"):
                    _check_range(name, array.min(), array.max())


def arrays_in(value: Any) -> Iterator[Array]:
    """The arrays in a feature, which is one, or a list of them."""
    if isinstance(value, list | tuple):
        for element in value:
            yield from arrays_in(element)
    elif isinstance(value, np.ndarray) or is_tensor(value):
        yield value


def _check_range(name: str, least: Any, most: Any) -> None:
    if not (math.isfinite(least) and math.isfinite(most)):  # NaN, where there is one, is both
        raise ValueError(f"the processor's {name} holds values that are not finite")


def text_arrays(columns: Mapping[str, list[int]], return_tensors: ReturnTensors) -> dict[str, Array]:
    """Values of tokens as arrays of shape (1, tokens), int64."""
    if return_tensors == "np":
        return {name: np.array([values], np.int64) for name, values in columns.items()}
    import torch

    return {name: torch.tensor([values], dtype=torch.int64) for name, values in columns.items()}


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, nested ones too; arrays where kind, dtype, shape and values are."""
    if is_tensor(one) or is_tensor(other):
        both = is_tensor(one) and is_tensor(other) and one.dtype == other.dtype
        return both and one.shape == other.shape and bool((one == other).all())
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        both = isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and one.dtype == other.dtype
        return both and np.array_equal(one, other)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def owned(array: Any, media: object) -> Any:
    """The array in memory of its own: no view of something larger, nothing shared with the media it came from.

    NumPy arrays become read-only for good; torch has nothing like it. Lists become tuples of such arrays.
    """
    if isinstance(array, list | tuple):
        return tuple(owned(element, media) for element in array)
    if not isinstance(array, np.ndarray) and not is_tensor(array):
        return array
    if is_tensor(array):
        shared = array.untyped_storage().nbytes() > array.nbytes or _start(array) == _start(media)
        return array.detach().clone() if shared else array.detach()
    return immutable(array)


def immutable(array: NDArray[Any]) -> NDArray[Any]:
    """A copy that cannot be made writable again, because its memory is a bytes object's."""
    if array.nbytes == 0:
        return np.broadcast_to(array.dtype.type(), array.shape)
    return np.frombuffer(array.tobytes(), array.dtype).reshape(array.shape)


class _ShapesDifferError(ValueError):
    """Arrays differ in an axis along which they are not joined, and nothing may be filled in."""


def _joined(arrays: Sequence[Array], dim: int, pad: float | None) -> Array:
    if len(arrays) == 1:
        return arrays[0]
    others = {tuple(array.shape[:dim]) + tuple(array.shape[dim + 1 :]) for array in arrays}
    if len(others) == 1:
        return sys.modules["torch"].cat(list(arrays), dim) if is_tensor(arrays[0]) else np.concatenate(arrays, dim)
    if pad is None or len({len(array.shape) for array in arrays}) > 1:
        raise _ShapesDifferError(f"shapes {', '.join(str(tuple(array.shape)) for array in arrays[:4])}")
    shape = [max(lengths) for lengths in zip(*(array.shape for array in arrays))]
    shape[dim] = sum(array.shape[dim] for array in arrays)
    first = arrays[0]
    joined = first.new_full(shape, pad) if is_tensor(first) else np.full(shape, pad, first.dtype)
    start = 0
    for array in arrays:
        region = [slice(length) for length in array.shape]
        region[dim] = slice(start, start + array.shape[dim])
        joined[tuple(region)] = array
        start += array.shape[dim]
    return joined


def _start(value: Any) -> int | None:
    """The address where an array's or tensor's memory begins, whatever part of it this is; None for anything else."""
    if is_tensor(value):
        address: int = value.untyped_storage().data_ptr()
        return address
    if isinstance(value, np.ndarray):
        while isinstance(value.base, np.ndarray):
            value = value.base
        return _start(value.base) if is_tensor(value.base) else int(value.ctypes.data)
    return None


def _is_buffer(value: object) -> bool:
    return isinstance(value, bytes | bytearray | memoryview)


__all__ = [
    "Array",
    "Batched",
    "Flat",
    "Hidden",
    "Layout",
    "Listed",
    "ReturnTensors",
    "Shared",
    "arrays_in",
    "check_finite",
    "layout_from_plain",
    "layout_to_plain",
    "merge_fields",
    "owned",
    "same",
    "split_fields",
    "text_arrays",
]
