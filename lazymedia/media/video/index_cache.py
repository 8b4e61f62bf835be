"""Packet indexes that are kept, so that a second decode of a payload need not read all of its packets again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from lazymedia.limits import MIB, Limits
from lazymedia.lru import LruDict
from lazymedia.media.payload import Payload
from lazymedia.media.spec import DecodeSpec
from lazymedia.media.video.errors import payload_errors, rejection

if TYPE_CHECKING:
    from lazymedia.media.video.index import PacketIndex

_BY_PAYLOAD: Final = DecodeSpec({"index": "packets"})
"""Under which indexes are kept: they depend on no setting."""

DEFAULT_BYTES: Final = 16 * MIB
"""Sixty videos of ten minutes at 30 frames per second."""


@final
class PacketIndexCache:
    """Keeps the indexes that were used last, up to a number of bytes. Any number of threads may use it at once.

    An index depends on the payload alone, never on settings; the key is a digest that nobody can choose.

    Args:
        capacity_bytes: What it may hold, by `PacketIndex.nbytes`. An index larger than this is not kept.
    """

    def __init__(self, capacity_bytes: int = DEFAULT_BYTES) -> None:
        self._held: LruDict[bytes, PacketIndex] = LruDict(capacity_bytes)
        self._scans = 0
        self._lock = threading.Lock()

    @property
    def scans(self) -> int:
        """How many indexes were made and put in, because none was there."""
        return self._scans

    @property
    def held_bytes(self) -> int:
        """Bytes held now."""
        return self._held.nbytes

    def __len__(self) -> int:
        return len(self._held)

    def get(self, digest: bytes) -> PacketIndex | None:
        """The index of a payload, which thereby counts as used; None where there is none."""
        with self._lock:
            self._held.touch(digest)
            return self._held.get(digest)

    def put(self, digest: bytes, index: PacketIndex) -> None:
        """Keep the index of a payload, and give up those used longest ago where there is no room."""
        with self._lock:
            self._scans += 1
            self._held.put(digest, index)


@final
@dataclass(frozen=True, slots=True)
class IndexSource:
    """Where the index of one payload comes from. Make one with `of`."""

    limits: Limits
    cache: PacketIndexCache | None
    digest: bytes

    @classmethod
    def of(cls, payload: Payload, cache: PacketIndexCache | None, limits: Limits) -> IndexSource:
        """For a payload, which is read for its key where there is a cache."""
        return cls(limits, cache, b"" if cache is None else payload.derive_key(_BY_PAYLOAD))

    def index(self, scan: Callable[[], PacketIndex]) -> PacketIndex:
        """The index that is kept, or the one that a scan finds.

        Raises:
            UnprocessableMediaError: The packets cannot be read, or the video is longer than `Limits.max_video_seconds`.
        """
        index = None if self.cache is None else self.cache.get(self.digest)
        if index is None:
            with payload_errors("the video's packets cannot be read"):
                index = scan()
            if self.cache is not None:
                self.cache.put(self.digest, index)
        if index.duration > self.limits.max_video_seconds:  # an index may be kept for others, who allow more
            raise rejection(f"a video may last {self.limits.max_video_seconds:g} seconds at most")
        return index


__all__ = ["DEFAULT_BYTES", "IndexSource", "PacketIndexCache"]
