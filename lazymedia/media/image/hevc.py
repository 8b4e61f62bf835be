"""The size of the pictures that an HEVC stream really codes, by its sequence parameter sets.

A HEIF only declares a size; the decoder allocates what the stream says. Syntax: ITU-T H.265, 7.3.1 (units) and 7.3.2.2
(sequence parameter set); ISO/IEC 14496-15, 8.3.3.1 (configuration).
"""

from __future__ import annotations

import struct
from typing import Final

_PARAMETERS: Final = 33
"""Type of a unit that is a sequence parameter set."""
_MAX_UNITS: Final = 4096
"""Units looked at. A tile is one; a picture of many slices has some hundred."""
_HEADER_BYTES: Final = 256
"""The size stands within the first hundred bytes of a set, even with seven layers of profiles."""


def coded_size(configuration: bytes, stream: bytes | memoryview) -> tuple[int, int] | None:
    """The largest width and height among the sequence parameter sets of a configuration (``hvcC``) and of a stream.

    None where there is no set, one is malformed, or the stream is cut short or has too many units.
    """
    try:
        sizes = [_size(unit) for unit in (*_configured(configuration), *_sent(stream, (configuration[21] & 3) + 1))]
    except (IndexError, struct.error, ValueError):
        return None
    return (max(width for width, _ in sizes), max(height for _, height in sizes)) if sizes else None


def chroma_and_depth(configuration: bytes) -> tuple[int, int]:
    """chroma_format_idc (0: grey, 1: 4:2:0, 2: 4:2:2, 3: 4:4:4) and bits of a sample, by a configuration."""
    return configuration[16] & 3, (configuration[17] & 7) + 8


def _configured(configuration: bytes) -> list[bytes]:
    found: list[bytes] = []
    position = 23
    for _ in range(configuration[22]):
        kind = configuration[position] & 0x3F
        (count,) = struct.unpack_from(">H", configuration, position + 1)
        position += 3
        for _ in range(count):
            (length,) = struct.unpack_from(">H", configuration, position)
            if kind == _PARAMETERS:
                found.append(configuration[position + 2 : position + 2 + min(length, _HEADER_BYTES)])
            position += 2 + length
    return found


def _sent(stream: bytes | memoryview, length_bytes: int) -> list[bytes]:
    found: list[bytes] = []
    position = 0
    for _ in range(_MAX_UNITS):
        if position == len(stream) and position:
            return found
        length = int.from_bytes(stream[position : position + length_bytes])
        position += length_bytes
        if position + length > len(stream):  # libheif would make a picture of what is there
            raise ValueError("a unit that ends early")
        if stream[position] >> 1 & 0x3F == _PARAMETERS:
            found.append(bytes(stream[position : position + min(length, _HEADER_BYTES)]))
        position += length
    raise ValueError("too many units")


def _size(unit: bytes) -> tuple[int, int]:
    """Width and height of a sequence parameter set."""
    bits = _Bits(unit[2:].replace(b"\0\0\3", b"\0\0"))
    bits.take(4)  # the video parameter set
    layers = bits.take(3)
    bits.take(1)
    bits.take(96)  # the general profile and level
    present = [(bits.take(1), bits.take(1)) for _ in range(layers)]
    if layers:
        bits.take(2 * (8 - layers))
    for profile, level in present:
        bits.take(88 * profile + 8 * level)
    bits.exponential()  # its own number
    if bits.exponential() == 3:  # chroma_format_idc
        bits.take(1)
    width, height = bits.exponential(), bits.exponential()
    if not width or not height:
        raise ValueError("a picture without pixels")
    return width, height


class _Bits:
    __slots__ = ("_left", "_value")

    def __init__(self, data: bytes) -> None:
        self._value = int.from_bytes(data)
        self._left = 8 * len(data)

    def take(self, count: int) -> int:
        """The next bits as a number. IndexError where they end before."""
        self._left -= count
        if self._left < 0:
            raise IndexError
        return self._value >> self._left & ((1 << count) - 1)

    def exponential(self) -> int:
        """An Exp-Golomb number; ITU-T H.265, 9.2."""
        zeros = 0
        while not self.take(1):
            zeros += 1
            if zeros > 32:
                raise ValueError("no number is so long")
        return (1 << zeros) - 1 + self.take(zeros)


__all__ = ["chroma_and_depth", "coded_size"]
