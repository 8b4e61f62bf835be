"""Boxes of a picture's file, one inside the other, and no more of them than a picture may have.

Comes in: a payload and the part of it to look at. Goes out: types and places. Never here: what a box means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lazymedia.media import boxes as iso
from lazymedia.media.image.outline import Span, check_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lazymedia.limits import Limits

_SINGLE: Final = frozenset(
    {b"meta", b"moov", b"pitm", b"iinf", b"iloc", b"iprp", b"idat"}
    | {b"mdia", b"minf", b"stbl", b"stsd", b"stco", b"co64", b"stsz", b"tkhd"}
)


def boxes(data: bytes, span: Span, limits: Limits) -> Iterator[tuple[bytes, Span]]:
    """Type and content of each box in a part of the payload, up to one that is malformed.

    Raises:
        UnprocessableMediaError: More than `Limits.max_image_chunks`.
    """
    for count, box in enumerate(iso.boxes(data, span)):
        yield box
        check_count(count, "boxes", limits.max_image_chunks)


def inside(data: bytes, span: Span, limits: Limits) -> dict[bytes, Span]:
    """The boxes inside one, by type. Where two could be meant and libavif might mean the other, KeyError."""
    found: dict[bytes, Span] = {}
    for kind, body in boxes(data, span, limits):
        if kind in found and kind in _SINGLE:
            raise KeyError(kind)
        found[kind] = body
    return found


def unsigned(data: bytes, position: int, size: int) -> tuple[int, int]:
    """A big-endian number of ``size`` bytes, and the position behind it. IndexError where the payload ends before."""
    if position + size > len(data):
        raise IndexError(position)
    return int.from_bytes(data[position : position + size]), position + size


__all__ = ["boxes", "inside", "unsigned"]
