"""A dictionary of values with sizes that drops the least recently used ones."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Generic, Protocol, TypeVar

K = TypeVar("K", bound=Hashable)


class Sized(Protocol):
    """A value with a size in bytes."""

    @property
    def nbytes(self) -> int: ...


V = TypeVar("V", bound=Sized)


class LruDict(Generic[K, V]):
    """Values by key, up to a number of bytes. Not for several threads at once.

    The size of a value must not change while it is held.

    Args:
        capacity_bytes: The most that the sizes of all values may add up to.

    Raises:
        ValueError: A capacity that is negative.
    """

    def __init__(self, capacity_bytes: int) -> None:
        if capacity_bytes < 0:
            raise ValueError("capacity_bytes must not be negative")
        self.capacity_bytes = capacity_bytes
        self.nbytes = 0
        self._values: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: K) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[K]:
        """Keys, the least recently used first."""
        return iter(self._values)

    def get(self, key: K) -> V | None:
        """A value; its place in the order stays."""
        return self._values.get(key)

    def touch(self, key: K) -> None:
        """Make a key the most recently used, if it is there."""
        if key in self._values:
            self._values.move_to_end(key)

    def put(self, key: K, value: V) -> int:
        """Hold a value, the most recently used, and return how many others were dropped for it.

        A value that is larger than the capacity is not held.
        """
        self.pop(key)
        if value.nbytes > self.capacity_bytes:
            return 0
        self._values[key] = value
        self.nbytes += value.nbytes
        dropped = 0
        while self.nbytes > self.capacity_bytes:
            self.pop(next(iter(self._values)))
            dropped += 1
        return dropped

    def pop(self, key: K) -> V | None:
        """Drop a value, if it is there, and return it."""
        value = self._values.pop(key, None)
        if value is not None:
            self.nbytes -= value.nbytes
        return value

    def clear(self) -> None:
        """Drop all values."""
        self._values.clear()
        self.nbytes = 0


__all__ = ["LruDict", "Sized"]
