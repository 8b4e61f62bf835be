"""A payload while it arrives: counted, looked into, and held once.

Comes in: pieces of one body, or of several bodies that continue one another. Goes out: the payload, its beginning for
those who judge it early, and the pieces for a digest. Never here: the network, or an opinion about the bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from lazymedia.fetch.caps import CappedBuffer, too_large
from lazymedia.fetch.slots import ByteBudget

LOOKS: Final = (1, 4 << 10, 16 << 10, 64 << 10, 256 << 10)
"""Bytes that have arrived when another look at the beginning is worth while."""
_NO_LOOK: Final = float("inf")


def _nothing() -> None: ...


@final
class ArrivingPayload:
    """Collects one payload.

    Args:
        max_bytes: The cap, counted at each piece.
        budget: Where every byte is counted as long as it is held here. `close` gives them back.
        on_head: Called when enough has arrived for another look at the beginning.

    Attributes:
        max_bytes: The cap.
        declared: Bytes that the payload is said to have, or None.
        looks: How often enough had arrived for another look.
    """

    def __init__(
        self, max_bytes: int, *, budget: ByteBudget | None = None, on_head: Callable[[], None] = _nothing
    ) -> None:
        self.max_bytes = max_bytes
        self.declared: int | None = None
        self.looks = 0
        self._budget = ByteBudget() if budget is None else budget
        self._on_head = on_head
        self._on_piece: Callable[[bytes], None] | None = None
        self._buffer = CappedBuffer(max_bytes)
        self._counted = 0
        self._next_look: float = LOOKS[0]

    def __len__(self) -> int:
        return self._counted

    def begin(self, declared: int | None, offset: int = 0) -> None:
        """A body begins that is the payload from ``offset`` on: from 0, or from where the last one broke off.

        Args:
            declared: Bytes that the whole payload is said to have.
            offset: Bytes of the payload that came before; either none, or all that have.

        Raises:
            PayloadTooLargeError: More than allowed.
            OverloadedError: More than there is room for now.
        """
        if offset != self._counted:
            assert offset == 0, "a body continues where the last one ended"
            self._forget()
        self.declared = declared
        if declared is not None:
            if declared > self.max_bytes:
                raise too_large(self.max_bytes)
            self._budget.admit(declared - offset)

    def write(self, piece: bytes) -> None:
        """Append a piece.

        Raises:
            PayloadTooLargeError: More bytes in all than allowed.
            OverloadedError: All downloads together hold too many.
        """
        size = len(piece)
        self._buffer.write(piece)
        self._counted += size
        self._budget.take(size)
        if self._on_piece is not None:
            self._on_piece(piece)
        if self._counted >= self._next_look:
            self._next_look = next((look for look in LOOKS if look > self._counted), _NO_LOOK)
            self.looks += 1
            self._on_head()

    def watch(self, on_piece: Callable[[bytes], None] | None) -> None:
        """Call this with every piece from now on."""
        self._on_piece = on_piece

    def head(self) -> bytes:
        """A copy of the beginning: 256 KiB, or what there is."""
        return self._buffer.head(LOOKS[-1])

    def getvalue(self) -> bytes:
        """The payload, in the buffer's own memory as long as nothing more is written."""
        return self._buffer.getvalue()

    def close(self) -> None:
        """Drop what is held."""
        self._forget()
        self._on_head, self._on_piece = _nothing, None

    def _forget(self) -> None:
        self._budget.give_back(self._counted)
        self._counted = 0
        self._buffer = CappedBuffer(self.max_bytes)
        self._next_look = LOOKS[0]


__all__ = ["LOOKS", "ArrivingPayload"]
