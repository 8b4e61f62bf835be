"""OGG pages taken apart and put together again, checksums right."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from lazymedia.media.audio.ogg import CONTINUED, FIRST, LAST, pages

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
    return [
        Sheet(page.flags, page.granule, page.serial, page.number, page.table, clip[page.body : page.stop])
        for page in pages(clip)
    ]


def packed(all_of_them: Iterable[Sheet]) -> bytes:
    return b"".join(sheet.packed() for sheet in all_of_them)


def changed(clip: bytes, change: Callable[[int, Sheet], Sheet]) -> bytes:
    """Every page after a function of its number and itself."""
    return packed(change(number, sheet) for number, sheet in enumerate(sheets(clip)))


def laid_out(clip: bytes, rows: int, samples: int = 960) -> bytes:
    """The same packets, of so many samples each, with at most so many rows of a table on a page, wherever that cuts
    them.
    """
    identification, tags, *sound = sheets(clip)
    table, body = (b"".join(parts) for parts in zip(*((sheet.table, sheet.body) for sheet in sound), strict=True))
    made: list[Sheet] = []
    place = 0
    for start in range(0, len(table), rows):
        row = table[start : start + rows]
        done = sum(size < 255 for size in table[: start + rows])
        last = start + rows >= len(table)
        granule = sound[-1].granule if last else samples * done if min(row) < 255 else -1
        flags = (CONTINUED if start and table[start - 1] == 255 else 0) | (LAST if last else 0)
        made.append(Sheet(flags, granule, tags.serial, 2 + len(made), row, body[place : place + sum(row)]))
        place += sum(row)
    return packed([identification, tags, *made])


__all__ = ["CONTINUED", "FIRST", "LAST", "Sheet", "changed", "laid_out", "packed", "replace", "sheets"]
