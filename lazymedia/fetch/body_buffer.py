"""Payloads while their bytes come: counted against caps, and held once."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Final, final

from lazymedia.errors import OverloadedError, PayloadTooLargeError

PREFIX_SIZES: Final = (1, 4 << 10, 16 << 10, 64 << 10, 256 << 10)
"""Bytes that have come when a decoder may check the header again."""
RETRY_AFTER: Final = 1.0
"""Seconds; a download takes about as long, and each that ends makes room."""


def too_large(max_bytes: int) -> PayloadTooLargeError:
    return PayloadTooLargeError(f"the payload has more than the {max_bytes} bytes allowed")


@final
class CappedBuffer:
    """Collects a payload. Its value shares the buffer's memory, so that the payload is held once."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._buffer = BytesIO()

    def __len__(self) -> int:
        return self._buffer.tell()

    def write(self, chunk: bytes) -> None:
        """Append.

        Raises:
            PayloadTooLargeError: More bytes in all than allowed.
        """
        if len(self) + len(chunk) > self._max_bytes:
            raise too_large(self._max_bytes)
        self._buffer.write(chunk)

    def getvalue(self) -> bytes:
        """What was written, in the buffer's own memory as long as nothing more is written."""
        return self._buffer.getvalue()

    def prefix(self, size: int) -> bytes:
        """A copy of the first bytes, ``size`` at most."""
        with self._buffer.getbuffer() as view:
            return bytes(view[:size])


@final
class ByteBudget:
    """Bytes that all downloads under way hold together.

    They are counted as they come, not as they are declared: a server that declares much and sends nothing would take
    the room of others. Where there is too little, the download that asks is rejected and its bytes serve the others:
    downloads that waited for room would hold what they have, and could all wait for each other.
    """

    def __init__(self, cap: int | None = None) -> None:
        self._cap = cap
        self.held = 0

    def check(self, size: int) -> None:
        """Do nothing where ``size`` more bytes fit now.

        Raises:
            OverloadedError: No room for so many.
        """
        if self._cap is not None and self.held + size > self._cap:
            raise OverloadedError("the downloads under way hold too many bytes", retry_after=RETRY_AFTER)

    def take(self, size: int) -> None:
        """Count bytes that have come. They are counted also where this raises, since they are held."""
        self.held += size
        self.check(0)

    def give_back(self, size: int) -> None:
        self.held -= size


@final
class BodyBuffer:
    """The body while it downloads: one payload, from one body or from several that continue one another.

    Args:
        max_bytes: The cap, checked at each chunk.
        budget: Where every byte is counted as long as it is held here. `close` gives them back.
        on_prefix: Called when so much has come that a decoder may check the header again.

    Attributes:
        max_bytes: The cap.
        declared: Bytes that the payload is said to have, or None.
        prefixes: How often `on_prefix` was called.
    """

    def __init__(
        self, max_bytes: int, *, budget: ByteBudget | None = None, on_prefix: Callable[[], None] | None = None
    ) -> None:
        self.max_bytes = max_bytes
        self.declared: int | None = None
        self.prefixes = 0
        self._budget = ByteBudget() if budget is None else budget
        self._on_prefix = on_prefix
        self._buffer = CappedBuffer(max_bytes)
        self._counted = 0
        self._next_prefix: float = PREFIX_SIZES[0]

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
            self._drop()
        self.declared = declared
        if declared is not None:
            if declared > self.max_bytes:
                raise too_large(self.max_bytes)
            self._budget.check(declared - offset)

    def write(self, chunk: bytes) -> None:
        """Append a chunk.

        Raises:
            PayloadTooLargeError: More bytes in all than allowed.
            OverloadedError: All downloads together hold too many.
        """
        self._buffer.write(chunk)
        self._counted += len(chunk)
        self._budget.take(len(chunk))
        if self._counted >= self._next_prefix:
            self._next_prefix = next((size for size in PREFIX_SIZES if size > self._counted), float("inf"))
            self.prefixes += 1
            if self._on_prefix is not None:
                self._on_prefix()

    def prefix(self) -> bytes:
        """A copy of the first bytes: 256 KiB, or what there is."""
        return self._buffer.prefix(PREFIX_SIZES[-1])

    def getvalue(self) -> bytes:
        """The payload, in the buffer's own memory as long as nothing more is written."""
        return self._buffer.getvalue()

    def close(self) -> None:
        """Drop what is held."""
        self._drop()
        self._on_prefix = None

    def _drop(self) -> None:
        self._budget.give_back(self._counted)
        self._counted = 0
        self._buffer = CappedBuffer(self.max_bytes)
        self._next_prefix = PREFIX_SIZES[0]


__all__ = ["PREFIX_SIZES", "RETRY_AFTER", "BodyBuffer", "ByteBudget", "CappedBuffer", "too_large"]
