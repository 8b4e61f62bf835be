"""Byte caps, counted while bytes arrive.

Comes in: chunks. Goes out: one payload, or an error at the first byte too many. Never here: where the bytes come from.
"""

from __future__ import annotations

from io import BytesIO
from typing import final

from lazymedia.errors import PayloadTooLargeError


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
        return self._buffer.getvalue()

    def head(self, size: int) -> bytes:
        """A copy of the first bytes, ``size`` at most."""
        with self._buffer.getbuffer() as view:
            return bytes(view[:size])


__all__ = ["CappedBuffer", "too_large"]
