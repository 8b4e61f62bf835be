"""Bits in a row, and units of H.264 made of them."""

from __future__ import annotations

from typing import Self


class Bits:
    """Bits, most significant first."""

    def __init__(self) -> None:
        self._bits = ""

    def put(self, value: int, count: int) -> Self:
        self._bits += format(value, f"0{count}b")
        return self

    def code(self, value: int) -> Self:
        """Unsigned Exp-Golomb."""
        return self.put(value + 1, 2 * (value + 1).bit_length() - 1)

    def stuffed(self, bit: int) -> bytes:
        """Filled up with one bit to whole bytes."""
        bits = self._bits + str(bit) * (-len(self._bits) % 8)
        return bytes(int(bits[start : start + 8], 2) for start in range(0, len(bits), 8))

    def closed(self) -> bytes:
        """As a unit's content ends: a 1, and zeros."""
        return self.put(1, 1).stuffed(0)


def unit(header: int, content: bytes) -> bytes:
    """A unit of H.264 behind a start code, with a 3 wherever its content looks like one."""
    escaped = bytearray()
    zeros = 0
    for byte in content:
        if zeros == 2 and byte <= 3:
            escaped.append(3)
            zeros = 0
        escaped.append(byte)
        zeros = zeros + 1 if byte == 0 else 0
    return b"\0\0\0\1" + bytes([header]) + bytes(escaped)
