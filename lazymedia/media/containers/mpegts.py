"""The number of programs in an MPEG transport stream, limited before FFmpeg adds them.

FFmpeg never drops a program, and compares all of them with each other for every table that is new: 10,000 programs in
48 kB took 14 seconds. ISO/IEC 13818-1, 2.4.4.3; ETSI EN 300 468, 5.2.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import Limits

MAX_PROGRAMS: Final = 128
"""Programs of one stream. A satellite's transponder has some 30."""

_PACKET: Final = 188
_SIZES: Final = (1, 188, 192, 204)
"""A table continues in a packet that lies a multiple of a packet's size behind the last one, or after a loss of bytes
anywhere; what looks like a packet of a table lies within other packets too. Each of these is tried."""
_MAX_SECTION: Final = 4_096
"""Bytes of sections that FFmpeg keeps."""

_ASSOCIATIONS, _DESCRIPTIONS = 0x00, 0x11
"""Packet ids of the tables in which programs are numbered, and are named; FFmpeg adds those of both."""

_TABLES: Final = re.compile(rb"\x47[\x00\x20\x40\x60\x80\xa0\xc0\xe0][\x00\x11]", re.DOTALL)
"""How a packet of theirs begins, wherever it lies: FFmpeg finds its way back into a stream at any byte."""


def check(data: bytes, _limits: Limits, modality: str) -> None:
    """As `check_programs`."""
    check_programs(data, modality)


def check_programs(data: bytes, modality: str) -> None:
    """Reject a transport stream with too many programs.

    Args:
        data: A payload that begins as MPEG-TS.
        modality: For the error.

    Raises:
        UnprocessableMediaError: More than `MAX_PROGRAMS`.
    """
    programs: set[int] = set()
    tables: dict[tuple[int, int, int], _Table] = {}
    for found in _TABLES.finditer(data):
        packet = data[found.start() : found.start() + _PACKET]
        for size in _SIZES:
            table = tables.setdefault((packet[2], size, found.start() % size), _Table(packet[2]))
            programs.update(table.add(packet))
        if len(programs) > MAX_PROGRAMS:
            raise UnprocessableMediaError(
                f"a transport stream may have {MAX_PROGRAMS} programs at most", modality=modality
            )


class _Table:
    """Sections as the packets of one table build them up."""

    def __init__(self, number: int) -> None:
        self._is_associations = number == _ASSOCIATIONS
        self._sections = bytearray()
        self._last = b""

    def add(self, packet: bytes) -> set[int]:
        """The programs of the sections that are whole behind this packet."""
        programs: set[int] = set()
        if self._last == packet[4:] and packet[1] & 0x40:
            return programs  # the same table again, as ten times in a second
        self._last = packet[4:]
        for part, begins in _parts(packet):
            if begins:
                self._sections.clear()
            self._sections += part
            del self._sections[_MAX_SECTION:]
            programs.update(_associated(self._sections) if self._is_associations else _described(self._sections))
        return programs


def _parts(packet: bytes) -> Iterator[tuple[bytes, bool]]:
    """What a packet adds to the sections before it, and what begins in it."""
    if len(packet) < _PACKET or not packet[3] & 0x10:
        return
    start = 5 + packet[4] if packet[3] & 0x20 else 4
    if not packet[1] & 0x40:
        yield packet[start:], False
        return
    pointer = packet[start] if start < _PACKET else _PACKET
    if pointer:
        yield packet[start + 1 : start + 1 + pointer], False
    yield packet[start + 1 + pointer :], True


def _whole(data: bytes | bytearray, table: int) -> Iterator[bytes | bytearray]:
    """The sections of a table that are all there."""
    start = 0
    while start + 3 <= len(data) and data[start] != 0xFF:
        stop = start + 3 + ((data[start + 1] & 0x0F) << 8 | data[start + 2])
        if stop > len(data):
            return
        if data[start] == table:
            yield data[start:stop]
        start = stop


def _associated(data: bytearray) -> Iterator[int]:
    for section in _whole(data, 0x00):
        for row in range(8, len(section) - 7, 4):
            yield section[row] << 8 | section[row + 1]


def _described(data: bytearray) -> Iterator[int]:
    for section in _whole(data, 0x42):
        row = 11
        while row + 5 <= len(section) - 4:
            yield section[row] << 8 | section[row + 1]
            row += 5 + ((section[row + 3] & 0x0F) << 8 | section[row + 4])


__all__ = ["MAX_PROGRAMS", "check", "check_programs"]
