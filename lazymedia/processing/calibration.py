"""How the outputs of single items become those of one call on all of them: found out from a few items, never guessed.

Items are processed alone and together. A rule that makes the second out of the first is taken where it holds, bit for
bit, for every combination of items that was tried. The items differ in every length that may differ, so that a rule
that pads is seen with its value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

import numpy as np

from lazymedia.foreign import is_array, is_tensor
from lazymedia.processing.fields import Flat, Hidden, Layout, Listed, Shared, same

T = TypeVar("T")

Outputs = Mapping[str, Any]
Layouts = dict[str, Layout]

_AXES: Final = 3
"""Axes along which items are joined in any processor: 0 or 1; one more, to find what is not known yet."""


Route = Literal["steps", "call", "whole"]
"""How items are processed: by the steps of the processor's call, one item at a time; by the call itself, one item at a
time; or all items of a request in one call, which no cache can hold."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was found out about a processor and a modality.

    Attributes:
        route: How items are processed.
        layouts: How each output merges; empty where all items are processed in one call.
        reason: Why there is no better route.
    """

    route: Route
    layouts: Mapping[str, Layout]
    reason: str = ""


class UncertainLayoutError(Exception):
    """No rule makes a processor's output for several items out of its outputs for each."""


_COMBINATIONS: Final = ((0, 1), (1, 0, 2), (3, 1))
"""Of four items: other orders and numbers show a rule that holds by chance."""


def calibrate(process: Callable[[Sequence[T]], Outputs], items: Sequence[T], public: Outputs) -> Layouts:
    """The layouts of a processor's outputs, from what it makes of four items.

    Args:
        process: The outputs for some items by the processor's steps.
        items: Four that differ in every length that may differ.
        public: The outputs of the processor's call for the first item, without those for text. What the steps give
            beside them is hidden.

    Raises:
        UncertainLayoutError: An output that no rule explains, or items that the processor does not take together.
        Exception: What the processor raises for an item alone.
    """
    alone = [process([item]) for item in items]
    for name, value in public.items():
        if name not in alone[0]:
            raise UncertainLayoutError(f"{name} is made outside of the steps for single items")
        if not same(alone[0][name], value):
            raise UncertainLayoutError(f"{name} differs between the processor's call and its steps")
    hidden = alone[0].keys() - public.keys()
    together: list[tuple[Sequence[int], Outputs]] = []
    failure: Exception | None = None
    # Some processors cannot put items of different lengths together; those of equal ones show the rule.
    for combination in (*_COMBINATIONS, (0, 0)):
        try:
            together.append((combination, process([items[index] for index in combination])))
        except (ValueError, TypeError, LookupError) as exc:
            failure = exc
    if not together:
        raise UncertainLayoutError(f"the processor takes no two items in one call: {failure}") from failure
    return infer_layouts(alone, together, hidden)


def infer_layouts(
    alone: Sequence[Outputs],
    together: Sequence[tuple[Sequence[int], Outputs]],
    hidden: Collection[str] = (),
) -> Layouts:
    """The layout of each output.

    Args:
        alone: The outputs for each item.
        together: Indices of items and the outputs for these in one call; at least one.
        hidden: Outputs that are no part of the result.

    Raises:
        UncertainLayoutError: An output that no rule explains, with its name.
    """
    layouts: Layouts = {}
    names = list(dict.fromkeys(name for outputs in (*alone, *(whole for _, whole in together)) for name in outputs))
    for name in names:
        if name in hidden:
            layouts[name] = Hidden()
            continue
        absent = sum(name not in outputs for outputs in (*alone, *(whole for _, whole in together)))
        if absent:
            raise UncertainLayoutError(f"{name} is there for some items and not for others")
        cases = [([alone[index][name] for index in indices], whole[name]) for indices, whole in together]
        layouts[name] = _layout(name, cases)
    return layouts


def _layout(name: str, cases: Sequence[tuple[list[Any], Any]]) -> Layout:
    candidates = dict.fromkeys(rule for parts, whole in cases for rule in _candidates(parts, whole))
    fitting = [rule for rule in candidates if all(_holds(rule, parts, whole) for parts, whole in cases)]
    if not fitting:
        raise UncertainLayoutError(f"{name}: items together are not what they are alone, put together")
    return fitting[0]


def _candidates(parts: list[Any], whole: Any) -> Iterator[Layout]:
    if isinstance(whole, list | tuple):
        yield Listed()
        yield Listed(1)
        yield Shared()
        return
    if not all(is_array(part) for part in (*parts, whole)):
        yield Shared()
        return
    for dim in range(min(_AXES, len(whole.shape))):
        for pad in (None, _padding(parts, whole, dim)):
            yield Flat(dim, pad)
    yield Shared()


def _padding(parts: list[Any], whole: Any, dim: int) -> float | None:
    """The one value that fills a whole where its parts do not reach; None where there is no such place or value."""
    if len({len(array.shape) for array in (*parts, whole)}) > 1:
        return None
    values = _values(whole)
    inside = np.zeros(values.shape, bool)
    start = 0
    for part in parts:
        region = [slice(length) for length in part.shape]
        region[dim] = slice(start, start + part.shape[dim])
        inside[tuple(region)] = True
        start += part.shape[dim]
    outside = np.unique(values[~inside])
    return float(outside[0]) if outside.size == 1 and np.isfinite(outside[0]) else None


def _values(array: Any) -> Any:
    """As a NumPy array, which has no bfloat16."""
    if is_tensor(array):
        return array.double().numpy() if array.is_floating_point() else array.numpy()
    return array


def _holds(rule: Layout, parts: list[Any], whole: Any) -> bool:
    assert not isinstance(rule, Hidden)
    try:
        return same(rule.merge(parts), whole)
    except (ValueError, TypeError, IndexError, KeyError):
        return False


__all__ = ["Calibration", "Outputs", "Route", "UncertainLayoutError", "calibrate", "infer_layouts"]
