"""Which packets of an H.264 stream hold the second field of a frame: broadcasts store each field in a packet.

Syntax as in ITU-T H.264, 7.3.2.1.1 (sequence), 7.3.2.2 (picture), 7.3.3 (slice); ISO/IEC 14496-15, 5.3.3 (avcC).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

from lazymedia.media.video.nal import behind_lengths, behind_start_codes, length_bytes

if TYPE_CHECKING:
    from av.packet import Packet
    from av.video.stream import VideoStream

_SLICES: Final = frozenset({1, 2, 5})
_SEQUENCE, _PICTURE = 7, 8
_HIGH: Final = frozenset({100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135})
"""Profiles whose parameter sets describe chroma and scaling."""

_LOOK: Final = 4096
"""Bytes of a packet in which its first slice begins; delimiters, parameter sets and messages come before."""

_UNITS: Final = 64
"""Units that are looked at in a packet; a camera writes ten at most before its first slice. Empty ones would cost a
millisecond a packet."""

_SETS: Final = 286
"""Parameter sets that are looked at: as many as avcC has numbers for."""

_SET: Final = 1024
"""Bytes of a parameter set that are read; every bit of a longer one would cost a pass over all of it."""

_HEADER: Final = 64
"""Bytes that are read of a unit: more than any slice header needs up to its field flags."""


class _Bits:
    """A unit's bits, without the bytes that keep start codes out of it. A ValueError where they end too early, or a
    code is longer than any real one.
    """

    def __init__(self, unit: bytes) -> None:
        clean = unit[1:].replace(b"\0\0\3", b"\0\0")
        self._value = int.from_bytes(clean)
        self._left = 8 * len(clean)

    def take(self, count: int) -> int:
        self._left -= count
        if self._left < 0:
            raise ValueError("the unit is too short")
        return self._value >> self._left & (1 << count) - 1

    def code(self) -> int:
        """An unsigned Exp-Golomb code; a signed one has the same length."""
        zeros = 0
        while not self.take(1):
            zeros += 1
            if zeros > 32:
                raise ValueError("the code is too long")
        return (1 << zeros) - 1 + self.take(zeros)

    def pass_scaling_list(self, size: int) -> None:
        last = following = 8
        for _ in range(size):
            if following:
                code = self.code()
                following = (last + ((code + 1) // 2 if code & 1 else -(code // 2))) % 256
            last = following or last


class FieldPairs:
    """Told every packet in stored order, knows which of them are second fields.

    Args:
        parameters: The stream's parameter sets, as the container holds them; may be empty.
    """

    def __init__(self, parameters: bytes) -> None:
        self._length_bytes = length_bytes("h264", parameters)
        self._sequences: dict[int, tuple[int, bool]] = {}
        self._references: set[int] = set()
        self._pictures: dict[int, int] = {}
        self._pending: tuple[int, bool] | None = None
        self._begun = False
        units = _of_avcc(parameters) if self._length_bytes else behind_start_codes(parameters)
        for unit in islice(units, _SETS):
            self._learn(unit)

    @property
    def are_possible(self) -> bool:
        """Whether a parameter set so far allows fields."""
        return bool(self._sequences)

    @property
    def references(self) -> int:
        """Frames that others may refer to, by the least of the parameter sets so far; 0 where none was."""
        return min(self._references, default=0)

    def is_second(self, packet: Packet[VideoStream] | bytes) -> bool:
        """Whether this packet holds the other field of the frame that the packet before it began."""
        if not self._sequences and self._begun:
            return False  # frames are all that there is
        head = bytes(memoryview(packet)[:_LOOK])
        first, self._begun = not self._begun, True
        units = behind_lengths(head, self._length_bytes) if self._length_bytes else behind_start_codes(head)
        for unit in islice(units, _UNITS):
            if first:
                self._learn(unit)
            if unit[:1] and unit[0] & 31 in _SLICES:
                field = self._field(unit)
                other, self._pending = self._pending, field
                if field is None or other is None or field[0] != other[0] or field[1] == other[1]:
                    return False
                self._pending = None
                return True
        return False

    def _learn(self, unit: bytes) -> None:
        """Keep a parameter set, if it is one that allows fields or refers to it."""
        kind = unit[0] & 31 if unit else 0
        try:
            if kind == _SEQUENCE:
                identifier, references, fields = _sequence(_Bits(unit[:_SET]))
                self._references.add(references)
                if fields is not None:
                    self._sequences[identifier] = fields
            elif kind == _PICTURE:
                bits = _Bits(unit[:_HEADER])
                self._pictures[bits.code()] = bits.code()
        except ValueError:
            return

    def _field(self, unit: bytes) -> tuple[int, bool] | None:
        """The frame's number and whether this is its bottom field; None for a frame."""
        bits = _Bits(unit[:_HEADER])
        try:
            bits.code()
            bits.code()
            sequence = self._sequences.get(self._pictures.get(bits.code(), -1))
            if sequence is None:
                return None
            number_bits, separate_planes = sequence
            bits.take(2 if separate_planes else 0)
            number = bits.take(number_bits)
            return (number, bool(bits.take(1))) if bits.take(1) else None
        except ValueError:
            return None


def _sequence(bits: _Bits) -> tuple[int, int, tuple[int, bool] | None]:
    """Identifier, and frames that may be referred to. If there are fields, bits of a frame's number, and whether each
    colour has slices of its own.
    """
    profile = bits.take(8)
    bits.take(16)
    identifier = bits.code()
    separate_planes = False
    if profile in _HIGH:
        chroma = bits.code()
        separate_planes = chroma == 3 and bool(bits.take(1))
        bits.code()
        bits.code()
        bits.take(1)
        if bits.take(1):
            for number in range(12 if chroma == 3 else 8):
                if bits.take(1):
                    bits.pass_scaling_list(16 if number < 6 else 64)
    number_bits = bits.code() + 4
    order = bits.code()
    codes = 1 if order == 0 else 0
    if order == 1:
        bits.take(1)
        bits.code()
        bits.code()
        codes = bits.code()
    for _ in range(codes):
        bits.code()
    references = bits.code()
    bits.take(1)
    bits.code()
    bits.code()
    return identifier, references, None if bits.take(1) else (number_bits, separate_planes)


def _of_avcc(data: bytes) -> Iterator[bytes]:
    start = 5
    for mask in (31, 255):
        if start >= len(data):
            return
        count = data[start] & mask
        start += 1
        for _ in range(count):
            size = int.from_bytes(data[start : start + 2])
            yield data[start + 2 : start + 2 + size]
            start += 2 + size


__all__ = ["FieldPairs"]
