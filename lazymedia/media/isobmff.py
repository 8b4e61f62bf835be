"""Boxes of the ISO base media file format (ISO/IEC 14496-12): MP4, AVIF and HEIF.

A box is a length, a type and a content. Callers bound how many boxes they read: a payload may hold millions.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import TypeAlias

Span: TypeAlias = tuple[int, int]
"""Where something lies in the payload: its first offset, and the offset behind its last byte."""


def boxes(data: bytes, span: Span) -> Iterator[tuple[bytes, Span]]:
    """Type and content of each box in a part of the payload, up to one that is malformed. ISO/IEC 14496-12, 4.2."""
    position, end = span
    while position + 8 <= end:
        size, kind = struct.unpack_from(">L4s", data, position)
        body = position + 8
        if size == 1:
            if body + 8 > end:
                return
            (size,) = struct.unpack_from(">Q", data, body)
            body += 8
        stop = end if size == 0 else position + size
        if stop < body:
            return
        yield kind, (body, min(stop, end))
        position = stop


def by_type(found: Iterable[tuple[bytes, Span]], single: frozenset[bytes]) -> dict[bytes, Span]:
    """Boxes by their type; of several of one type, the last.

    Args:
        found: Type and content of each box.
        single: Types that may occur once. Readers differ in which of two such boxes they use.

    Raises:
        KeyError: Two boxes of a type in ``single``.
    """
    result: dict[bytes, Span] = {}
    for kind, body in found:
        if kind in result and kind in single:
            raise KeyError(kind)
        result[kind] = body
    return result


class Fields:
    """Reads the big-endian numbers of a box one after the other.

    Args:
        data: The payload.
        position: Where the first one is.
    """

    __slots__ = ("_data", "position")

    def __init__(self, data: bytes, position: int) -> None:
        self._data = data
        self.position = position

    def number(self, size: int) -> int:
        """The next number of ``size`` bytes; 0 for none.

        Raises:
            IndexError: The payload ends before.
        """
        start = self.position
        self.position += size
        if self.position > len(self._data):
            raise IndexError(start)
        return int.from_bytes(self._data[start : self.position])

    def version(self) -> int:
        """The version of a full box, whose flags are skipped. ISO/IEC 14496-12, 4.2."""
        return self.number(4) >> 24


__all__ = ["Fields", "Span", "boxes", "by_type"]
