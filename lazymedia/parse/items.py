"""The items of one modality in one request, as stored and as decoded.

* ``get_raw(i)`` is the item as stored: for fetched media the `MediaRef`. Hashing, look-up, selection and release read
  here.
* ``get(i)`` is the item as a processor wants it; for a reference, its decoded media.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, Self, TypeVar, cast

from lazymedia.foreign import is_array
from lazymedia.media.ref import MediaRef

V = TypeVar("V")


def one_or_many(
    data: object, is_one: Callable[[object], bool], split: Callable[[object], Sequence[object]], what: str
) -> list[object]:
    """Media that are one item or several, as a list of items, each of which may be None.

    Args:
        data: As a caller handed it in.
        is_one: Whether something is one item.
        split: What makes items of everything else. Raises TypeError where nothing can.
        what: What the error says, with ``{index}`` of that item and ``{type}``, which is what `described` says of it.

    Raises:
        TypeError: An item that is none. The caller's fault.
    """
    items = [data] if is_one(data) else list(split(data))
    for index, item in enumerate(items):
        if item is not None and not is_one(item):
            raise TypeError(f"{what.format(index=index, type=described(item))}, or None together with a UUID")
    return items


def as_sequence(data: object, batch_axes: int | None, expected: str) -> Sequence[object]:
    """Media that are no single item, as a sequence of items; nothing for None.

    Args:
        data: As a caller handed it in.
        batch_axes: How many axes an array or tensor has whose first one counts items. None where there are none such.
        expected: What the error says, with ``{type}`` of the data.

    Raises:
        TypeError: Nothing of that. The caller's fault.
    """
    if data is None:
        return ()
    if isinstance(data, list | tuple):
        return data
    if batch_axes is not None and is_array(data) and len(data.shape) == batch_axes:  # type: ignore[attr-defined]  # arrays have one
        return list(data)  # type: ignore[call-overload,no-any-return]
    raise TypeError(expected.format(type=described(data)))


def described(value: object) -> str:
    """What something is, for an error: its class, and of an array or tensor dtype and shape."""
    kind = type(value).__name__
    if not is_array(value):
        return kind
    dtype, shape = str(value.dtype).removeprefix("torch."), tuple(value.shape)  # type: ignore[attr-defined]  # see is_array
    return f"{kind} of {dtype} with shape {shape}"


class ModalityDataItems(Generic[V]):
    """The items of one modality; ``V`` is what a processor gets of each.

    An item may be None: it is then named by its UUID alone, and a cache must hold what it was processed to.

    Args:
        data: The items as stored.
        modality: Their modality, such as ``"image"``.
    """

    def __init__(self, data: Sequence[object], modality: str) -> None:
        self.modality = modality
        self._data: tuple[object, ...] = tuple(data)
        self._original: tuple[int, ...] = tuple(range(len(self._data)))

    def __len__(self) -> int:
        return len(self._data)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {len(self)} of {self.modality}>"

    def get(self, index: int) -> V:
        """The item as a processor wants it. Decodes a reference that is not decoded yet."""
        raw = self._data[index]
        view: Any = raw.decode() if isinstance(raw, MediaRef) else raw
        return cast("V", view)

    def get_raw(self, index: int) -> object:
        """The item as stored. Never decodes."""
        return self._data[index]

    def get_all(self) -> list[V]:
        """Every item as a processor wants it. Decodes what is not decoded yet."""
        return [self.get(index) for index in range(len(self))]

    def get_all_raw(self) -> list[object]:
        """Every item as stored. Never decodes."""
        return list(self._data)

    def get_original_index(self, index: int) -> int:
        """Where the item stood in the request, also after any number of selections."""
        return self._original[index]

    def check_limits(self, index: int) -> None:
        """Check an item that came decoded, before all of it is read. References were checked when they were made.

        Raises:
            UnprocessableMediaError: Over a limit, or it cannot be loaded. The item's fault.
        """

    def get_passthrough_data(self) -> Mapping[str, object]:
        """What these items hand to the model beside the processor. Items that have such data bypass the cache."""
        return {}

    def select(self, indices: Sequence[int]) -> Self:
        """The items at ``indices``, as they were parsed: same class, references and settings, nothing decoded."""
        chosen = copy.copy(self)
        chosen._data = tuple(self._data[index] for index in indices)
        chosen._original = tuple(self._original[index] for index in indices)
        return chosen

    def fork(self) -> Self:
        """The same items, with each reference forked: what processing works on and releases.

        All or nothing: when one cannot be forked, those that were are released.

        Raises:
            ReleasedError: A reference was released before it was decoded.
        """
        forked: list[object] = []
        try:
            for raw in self._data:
                forked.append(raw.fork() if isinstance(raw, MediaRef) else raw)  # noqa: PERF401  # kept on failure
        except BaseException:
            _release(forked)
            raise
        items = copy.copy(self)
        items._data = tuple(forked)
        return items

    def release(self) -> None:
        """Release every reference. Waits for decodes in flight through them; decoded media stays readable."""
        _release(self._data)


def _release(items: Sequence[object]) -> None:
    for item in items:
        if isinstance(item, MediaRef):
            item.release()


class MultiModalDataItems(Mapping[str, ModalityDataItems[Any]]):
    """The items of one request by modality."""

    def __init__(self, items: Mapping[str, ModalityDataItems[Any]]) -> None:
        self._items = dict(items)

    def __getitem__(self, modality: str) -> ModalityDataItems[Any]:
        return self._items[modality]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return f"MultiModalDataItems({self.get_all_counts()})"

    def get_all_counts(self) -> dict[str, int]:
        """The number of items of each modality."""
        return {modality: len(items) for modality, items in self._items.items()}

    def fork(self) -> MultiModalDataItems:
        """All items with their references forked, or nothing; see `ModalityDataItems.fork`."""
        forked: dict[str, ModalityDataItems[Any]] = {}
        try:
            for modality, items in self._items.items():
                forked[modality] = items.fork()
        except BaseException:
            MultiModalDataItems(forked).release()
            raise
        return MultiModalDataItems(forked)

    def release(self) -> None:
        """Release every reference of every modality."""
        for items in self._items.values():
            items.release()


__all__ = ["ModalityDataItems", "MultiModalDataItems"]
