"""The digest of a payload, taken in a worker thread while the payload comes.

Comes in: pieces, on the loop. Goes out: a digest of all of them, once. Never here: what the digest is for, or more than
a few megabytes that wait to be read.

One thread serves one body from beginning to end: a hop for each piece would cost more than hashing it. It ends with the
body, whatever became of that, because whoever feeds it tells it so on every way out.
"""

from __future__ import annotations

from queue import SimpleQueue
from typing import TYPE_CHECKING, Final, final

from lazymedia.media import begin_payload_digest

if TYPE_CHECKING:
    from hashlib import _Hash

MAX_DIGESTS: Final = 8
"""Threads of one connector. A payload that finds all of them busy is read once it is whole."""
WORTH_A_THREAD: Final = 1 << 20
"""Bytes; what is shorter is read in less than a millisecond, together with taking its key."""
_BATCH: Final = 256 << 10  # bytes that are handed over at once
_MAX_BACKLOG: Final = 4 << 20  # bytes that may wait to be read; beyond, reading goes on when the payload is whole


@final
class ArrivingDigest:
    """Reads a payload of a known length along with its arrival."""

    def __init__(self, size: int) -> None:
        self._digest: _Hash = begin_payload_digest(size)
        self._batches: SimpleQueue[list[bytes] | None] = SimpleQueue()
        self._batch: list[bytes] = []
        self._batch_bytes = 0
        self._handed_over = 0
        self._read = 0
        self._has_fallen_behind = False
        self._whole: bytes | None = None

    def feed(self, piece: bytes) -> None:
        """The next piece. On the loop."""
        if self._has_fallen_behind:
            return
        self._batch.append(piece)
        self._batch_bytes += len(piece)
        if self._batch_bytes >= _BATCH:
            self._handed_over += self._batch_bytes
            self._batches.put(self._batch)
            self._batch, self._batch_bytes = [], 0
            self._has_fallen_behind = self._handed_over - self._read > _MAX_BACKLOG

    def complete(self, data: bytes) -> None:
        """The payload is whole; the thread reads what is missing from it. On the loop."""
        self._whole = data

    def end(self) -> None:
        """Nothing more comes. On the loop, on every way out."""
        self._batch = []
        self._batches.put(None)

    def run(self) -> _Hash | None:
        """Read until the end. In the worker thread.

        Returns:
            The digest, or None for a payload that never became whole.
        """
        while (batch := self._batches.get()) is not None:
            for piece in batch:
                self._digest.update(piece)
                self._read += len(piece)
        whole, self._whole = self._whole, None
        if whole is None:
            return None
        with memoryview(whole) as view:
            self._digest.update(view[self._read :])
        return self._digest


__all__ = ["MAX_DIGESTS", "WORTH_A_THREAD", "ArrivingDigest"]
