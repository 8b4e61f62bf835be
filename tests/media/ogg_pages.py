"""OGG pages taken apart and put together again, checksums right."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

CONTINUED, FIRST, LAST = 1, 2, 4
"""Flags of a page: its first packet began on the one before; the stream begins; the stream ends."""

_HEAD: Final = struct.Struct("<5sBqIIIB")


def _row(byte: int) -> int:
    row = byte << 24
    for _ in range(8):
        row = (row << 1 & 0xFFFFFFFF) ^ (0x04C11DB7 if row >> 31 else 0)
    return row


_ROWS: Final = [_row(byte) for byte in range(256)]


def _checksum(data: bytes) -> int:
    """RFC 3533, section 6, field 7."""
    total = 0
    for byte in data:
        total = total << 8 & 0xFFFFFFFF ^ _ROWS[total >> 24 ^ byte]
    return total


@dataclass(frozen=True)
class Sheet:
    """A page with what is on it."""

    flags: int
    granule: int
    serial: int
    number: int
    table: bytes
    body: bytes

    def packed(self) -> bytes:
        place = (self.flags, self.granule, self.serial, self.number)
        bare = _HEAD.pack(b"OggS\0", *place, 0, len(self.table)) + self.table + self.body
        return bare[:22] + _checksum(bare).to_bytes(4, "little") + bare[26:]


def sheets(clip: bytes) -> list[Sheet]:
    found: list[Sheet] = []
    start = 0
    while start < len(clip):
        _, flags, granule, serial, number, _, rows = _HEAD.unpack_from(clip, start)
        body = start + _HEAD.size + rows
        table = clip[start + _HEAD.size : body]
        start = body + sum(table)
        found.append(Sheet(flags, granule, serial, number, table, clip[body:start]))
    return found


def sheet_of(packets: Iterable[bytes], serial: int, number: int, flags: int = 0, granule: int = 0) -> Sheet:
    """A page of whole packets."""
    table, body = b"", b""
    for packet in packets:
        table += b"\xff" * (len(packet) // 255) + bytes([len(packet) % 255])
        body += packet
    return Sheet(flags, granule, serial, number, table, body)


def packed(all_of_them: Iterable[Sheet]) -> bytes:
    return b"".join(sheet.packed() for sheet in all_of_them)


def changed(clip: bytes, change: Callable[[int, Sheet], Sheet]) -> bytes:
    """Every page after a function of its number and itself."""
    return packed(change(number, sheet) for number, sheet in enumerate(sheets(clip)))


__all__ = ["CONTINUED", "FIRST", "LAST", "Sheet", "changed", "packed", "replace", "sheet_of", "sheets"]
