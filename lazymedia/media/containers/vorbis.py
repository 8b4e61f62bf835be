"""Entries of the code books in a Vorbis set-up header. A book of 2^14 entries may take five bytes, and decoders build
its tables each time that they are opened. Vorbis I, sections 3.2.1 and 4.2.4.
"""

from __future__ import annotations

from typing import Final

SETUP: Final = b"\x05vorbis"
"""How the header begins."""
_SYNC: Final = 0x564342
_MOST_IN_ONE: Final = 1 << 16
"""Entries of a book; FFmpeg 8.1 rejects those of 2^15."""
_LONGEST: Final = 32
"""Bits of a code word."""


def book_entries(data: bytes, start: int = 0) -> int:
    """Entries of all code books of the header that begins at ``start``, up to one that is malformed. Takes a time that
    grows with their number, whatever the length of the data is.
    """
    bits = _Bits(data, start + len(SETUP))
    total = 0
    for _ in range(bits.take(8) + 1):
        if bits.take(24) != _SYNC:
            break
        dimensions, entries = bits.take(16), bits.take(24)
        total += entries
        if entries > _MOST_IN_ONE:
            break
        if bits.take(1):
            bits.skip(5)
            _skip_ordered(bits, entries)
        elif bits.take(1):
            bits.skip_sparse(entries)
        else:
            bits.skip(5 * entries)
        _skip_lookup(bits, entries, dimensions)
    return total


def _skip_ordered(bits: _Bits, entries: int) -> None:
    """How many code words there are of each length."""
    for _ in range(_LONGEST):
        if entries <= 0:
            return
        entries -= bits.take(entries.bit_length())


def _skip_lookup(bits: _Bits, entries: int, dimensions: int) -> None:
    kind = bits.take(4)
    if kind not in {1, 2}:
        return
    bits.skip(64)
    width = bits.take(4) + 1
    bits.skip(1)
    values = _root(entries, dimensions) if kind == 1 else entries * dimensions
    bits.skip(values * width)


def _root(entries: int, dimensions: int) -> int:
    """The largest whole number whose power by the dimensions is no more than the entries. Section 9.2.3."""
    if not entries or not dimensions:
        return 0
    root = int(entries ** (1 / dimensions))
    return root + 1 if (root + 1) ** dimensions <= entries else root


class _Bits:
    """Numbers of any width, the lowest bit first."""

    def __init__(self, data: bytes, start: int) -> None:
        self._data = data
        self._position = 8 * start

    def take(self, width: int) -> int:
        """A number; of bits that are not there, 0."""
        first, self._position = self._position, self._position + width
        whole = int.from_bytes(self._data[first >> 3 : (self._position + 7) >> 3], "little")
        return whole >> (first & 7) & (1 << width) - 1

    def skip(self, width: int) -> None:
        """Pass over bits."""
        self._position += width

    def skip_sparse(self, entries: int) -> None:
        """Pass over entries of one bit, each of which five others follow if it is set."""
        first = self._position
        whole = self._data[first >> 3 : (first + 6 * entries + 7) >> 3]
        bits = f"{int.from_bytes(whole, 'little') >> (first & 7):b}"[::-1]
        position = 0
        for _ in range(entries):
            used = bits.find("1", position, position + entries)
            if used < 0:
                break
            entries -= used - position + 1
            position = used + 6
        self._position = first + position + entries


__all__ = ["SETUP", "book_entries"]
