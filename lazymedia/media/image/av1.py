"""The size of the frames that an AV1 stream really codes.

Comes in: the bytes of a sample or item. Goes out: the largest frame its sequence headers allow. Never here: a
container.

The container around AV1 only declares a size, and libavif scales whatever it decodes to that size: without this, a
file of two kilobytes that says 64 x 64 would cost what 16384 x 16384 costs. Syntax: AV1 Bitstream & Decoding Process
Specification, 5.3 (units) and 5.5 (sequence header).
"""

from __future__ import annotations

from typing import Final

_SEQUENCE_HEADER: Final = 1
_MAX_UNITS: Final = 1024
"""Units looked at; a picture has a handful, or one for each of its tiles."""
_HEADER_BYTES: Final = 256
"""A sequence header is far shorter, even with all 32 operating points."""


def coded_size(stream: bytes | memoryview) -> tuple[int, int] | None:
    """The largest width and height among the sequence headers; None where there is none, or the units are malformed."""
    width = height = position = 0
    for _ in range(_MAX_UNITS):
        if position >= len(stream):
            break
        header = stream[position]
        position += 2 if header & 0x04 else 1
        if header & 0x02:
            size, position = _leb128(stream, position)
        else:
            size = len(stream) - position
        if header & 0x80 or size < 0:
            return None
        if header >> 3 & 0x0F == _SEQUENCE_HEADER:
            across, down = _frame_size(_Bits(stream[position : position + min(size, _HEADER_BYTES)]))
            width, height = max(width, across), max(height, down)
        position += size
    else:
        return None
    return (width, height) if width and height else None


def _leb128(stream: bytes | memoryview, position: int) -> tuple[int, int]:
    value = 0
    for index, byte in enumerate(stream[position : position + 8]):
        value |= (byte & 0x7F) << 7 * index
        if not byte & 0x80:
            return value, position + index + 1
    return -1, position


class _Bits:
    __slots__ = ("_left", "_value")

    def __init__(self, data: bytes | memoryview) -> None:
        self._value = int.from_bytes(data)
        self._left = 8 * len(data)

    def take(self, count: int) -> int:
        """The next bits as a number; zeros behind the end."""
        self._left -= count
        shifted = self._value >> self._left if self._left >= 0 else self._value << -self._left
        return shifted & ((1 << count) - 1)

    def skip_uvlc(self) -> None:
        zeros = 0
        while zeros < 32 and not self.take(1):
            zeros += 1
        if zeros < 32:
            self.take(zeros)


def _frame_size(bits: _Bits) -> tuple[int, int]:
    bits.take(4)  # seq_profile, still_picture
    if bits.take(1):  # reduced_still_picture_header
        bits.take(5)
    else:
        _skip_operating_points(bits)
    width_bits, height_bits = bits.take(4) + 1, bits.take(4) + 1
    return bits.take(width_bits) + 1, bits.take(height_bits) + 1


def _skip_operating_points(bits: _Bits) -> None:
    delay_bits = 0
    if bits.take(1):  # timing_info_present_flag
        bits.take(64)
        if bits.take(1):  # equal_picture_interval
            bits.skip_uvlc()
        if bits.take(1):  # decoder_model_info_present_flag
            delay_bits = bits.take(5) + 1
            bits.take(42)
    display_delay = bits.take(1)
    for _ in range(bits.take(5) + 1):
        bits.take(12)
        if bits.take(5) > 7:  # seq_level_idx: from here on a tier follows
            bits.take(1)
        if delay_bits and bits.take(1):
            bits.take(2 * delay_bits + 1)
        if display_delay and bits.take(1):
            bits.take(4)


__all__ = ["coded_size"]
