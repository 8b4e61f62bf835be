"""Boxes of the ISO base media file format: length, type, content, one behind the other.

Comes in: a payload and the part of it to look at. Goes out: types and places. Never here: what a box means, or how many
are too many; whoever reads them stops.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TypeAlias

Span: TypeAlias = tuple[int, int]
"""Where something lies in the payload: from the first offset up to and without the second."""


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


__all__ = ["Span", "boxes"]
