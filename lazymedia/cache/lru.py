"""Processed outputs by hash, the least recently used leaving first, bounded by bytes.

Every call is safe from any thread. The order of calls is the caller's business: processing makes them one at a time,
and looks first and changes last.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic, Protocol, Self, TypeVar
from weakref import WeakValueDictionary

from lazymedia.errors import CacheMissError
from lazymedia.lru import LruDict

log = logging.getLogger("lazymedia.cache")

_VOIDINGS_KEPT: Final = 256
"""Invalidations that are remembered for requests under way. One that began before the last of these commits nothing."""


class Entry(Protocol):
    """What a cache holds."""

    @property
    def nbytes(self) -> int:
        """Bytes that the entry keeps alive: tensors, and whatever else it carries."""
        ...

    def handed_out(self, *, share_tensors: bool = True) -> Self:
        """The entry in a form through which a caller cannot change it, unless tensors are to be shared."""
        ...


E = TypeVar("E", bound=Entry)


@dataclass(frozen=True, slots=True)
class CacheStats:
    """A cache at one moment.

    Attributes:
        entries: Entries held.
        nbytes: Bytes that they keep alive, with what each carries beside its tensors.
        capacity_bytes: The most that they may.
        hits: Items that were held, since the cache was made or cleared.
        misses: Items that were not.
        evictions: Entries that made room for others.
        too_large: Entries that were larger than the whole cache.
    """

    entries: int
    nbytes: int
    capacity_bytes: int
    hits: int
    misses: int
    evictions: int
    too_large: int


class Pin(Generic[E]):
    """A hit that a request counts on: its entry stays readable here when the cache evicts it.

    Eviction only makes room, so an evicted entry is as good as before. Invalidation and clearing say that an entry
    must not be used any more, and void its pin.
    """

    __slots__ = ("__weakref__", "entry")

    def __init__(self, entry: E) -> None:
        self.entry: E | None = entry


class ProcessorCache(Generic[E]):
    """Processed outputs, the least recently used leaving first.

    Args:
        capacity_bytes: Bytes that all entries together may keep alive. An entry larger than this is served and not
            kept.
        share_tensors: Return torch tensors as they are held. They are then not to be written to: a write changes what
            later requests get, and torch has no read-only tensor. False returns clones, at a third of a millisecond or
            more for each megabyte. NumPy arrays are read-only views either way.

    Raises:
        ValueError: A capacity that is negative.
    """

    def __init__(self, capacity_bytes: int, *, share_tensors: bool = True) -> None:
        self.share_tensors = share_tensors
        self._lock = threading.Lock()
        self._entries: LruDict[str, E] = LruDict(capacity_bytes)
        self._pins: WeakValueDictionary[str, Pin[E]] = WeakValueDictionary()
        self._voidings = 0
        self._voided: deque[str | None] = deque(maxlen=_VOIDINGS_KEPT)  # the last ones; None voids everything
        self._hits = self._misses = self._evictions = self._too_large = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {len(self)} entries, {self._entries.nbytes} of {self.capacity_bytes} bytes>"

    @property
    def capacity_bytes(self) -> int:
        """Bytes that all entries together may keep alive."""
        return self._entries.capacity_bytes

    def is_cached(self, mm_hash: str) -> bool:
        """Whether an entry is held. Changes no order and no count."""
        with self._lock:
            return mm_hash in self._entries

    def pin(self, mm_hash: str) -> Pin[E] | None:
        """The entry, kept readable for as long as the pin lives; None where there is none. Changes no order and no
        count.
        """
        with self._lock:
            pin = self._pins.get(mm_hash)
            if pin is None and (entry := self._entries.get(mm_hash)) is not None:
                pin = self._pins[mm_hash] = Pin(entry)
            return pin

    def get_and_update(self, mm_hash: str, entry: E | None = None) -> E:
        """The entry held under a hash, which becomes the most recently used; or ``entry``, which is then held.

        Returns:
            The entry, NumPy arrays as read-only views, tensors shared or cloned as ``share_tensors`` says.

        Raises:
            CacheMissError: Nothing is held and no entry was given.
        """
        with self._lock:
            held = self._entries.get(mm_hash)
            if held is not None:
                self._hits += 1
                self._entries.touch(mm_hash)
            elif entry is None:
                self._misses += 1
                raise CacheMissError([mm_hash])
            else:
                self._misses += 1
                held = entry
                self._insert(mm_hash, entry)
        return held.handed_out(share_tensors=self.share_tensors)

    @property
    def moment(self) -> int:
        """A point in this cache's life, for `update_all`."""
        return self._voidings

    def update_all(self, entries: Sequence[tuple[str, E]], since: int | None = None) -> None:
        """Commit one request: make what is held the most recently used, then hold the rest. Cannot fail halfway.

        Everything is touched before anything is inserted, so that a request that fits never evicts its own items.

        Args:
            entries: Each item's hash and entry, in request order. An entry is ignored where the hash is held.
            since: The `moment` at which the entries were looked up or began to be made. Those that were invalidated
                since, one by one or all at once, are not held.
        """
        with self._lock:
            void = self._voided_since(since)
            held = {mm_hash for mm_hash, _ in entries if mm_hash in self._entries}
            for mm_hash, _ in entries:
                if mm_hash in held:
                    self._hits += 1
                    self._entries.touch(mm_hash)
            for mm_hash, entry in entries:
                if mm_hash not in held:
                    self._misses += 1
                    if mm_hash not in self._entries and void is not None and mm_hash not in void:
                        self._insert(mm_hash, entry)

    def touch(self, mm_hash: str) -> None:
        """Make an entry the most recently used, if it is held."""
        with self._lock:
            self._entries.touch(mm_hash)

    def invalidate(self, mm_hash: str) -> None:
        """Drop an entry, if it is held, and void the pins on it: it must not be used any more."""
        with self._lock:
            self._entries.pop(mm_hash)
            self._void(self._pins.pop(mm_hash, None))
            self._note_voiding(mm_hash)

    def clear(self) -> None:
        """Drop every entry and void every pin. Counts start anew."""
        with self._lock:
            self._entries.clear()
            for pin in self._pins.values():
                self._void(pin)
            self._pins.clear()
            self._note_voiding(None)
            self._hits = self._misses = self._evictions = self._too_large = 0

    def stats(self) -> CacheStats:
        """The cache at this moment."""
        with self._lock:
            return CacheStats(
                entries=len(self._entries),
                nbytes=self._entries.nbytes,
                capacity_bytes=self.capacity_bytes,
                hits=self._hits,
                misses=self._misses,
                evictions=self._evictions,
                too_large=self._too_large,
            )

    def _insert(self, mm_hash: str, entry: E) -> None:
        if entry.nbytes > self.capacity_bytes:
            self._too_large += 1
            if self._too_large == 1:
                log.warning("an item of %d bytes is larger than the cache and is served uncached", entry.nbytes)
            return
        self._evictions += self._entries.put(mm_hash, entry)

    def _note_voiding(self, mm_hash: str | None) -> None:
        self._voidings += 1
        self._voided.append(mm_hash)

    def _voided_since(self, moment: int | None) -> set[str] | None:
        """The hashes that were invalidated since a moment; None where all were, or where it is too long ago to know."""
        count = 0 if moment is None else self._voidings - moment
        if count > len(self._voided):
            return None
        recent = list(self._voided)[len(self._voided) - count :]
        return None if None in recent else set(filter(None, recent))

    @staticmethod
    def _void(pin: Pin[E] | None) -> None:
        if pin is not None:
            pin.entry = None


__all__ = ["CacheStats", "Entry", "Pin", "ProcessorCache"]
