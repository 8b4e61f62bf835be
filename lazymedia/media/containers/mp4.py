"""Boxes of user data in an MP4 or MOV, and its tables."""

from __future__ import annotations

from typing import Final

from lazymedia.limits import Limits
from lazymedia.media.containers.entries import Entries, check_entries
from lazymedia.media.isobmff import boxes
from lazymedia.media.mp4_tables import check_tables

_NAME: Final = 32


def check(data: bytes, limits: Limits, modality: str) -> None:
    """Reject an MP4 with too many entries in its tags, or whose tables claim more than a payload of its size has."""
    check_entries(_in_mp4(data), data, limits, modality)
    check_tables(data, modality)


_BOXES: Final = frozenset(
    {b"moov", b"trak", b"mdia", b"minf", b"stbl", b"edts", b"moof", b"traf", b"mvex", b"dinf", b"tref", b"wave"}
    | {b"hoov", b"gmhd", b"clip", b"meta", b"udta", b"ilst"}
)
"""Boxes in which FFmpeg looks for others."""
_MOST_NESTED: Final = 12
"""FFmpeg gives up at ten."""


def _in_mp4(data: bytes) -> Entries:
    """Boxes of user data and of lists; names that are listed apart. ISO/IEC 14496-12, 8.10 and 8.11; QuickTime File
    Format, "Metadata".
    """
    spans = [((0, len(data)), b"", 0)]
    while spans:
        span, parent, depth = spans.pop()
        for kind, (start, end) in boxes(data, span):
            if parent in {b"udta", b"ilst"}:
                yield "user data", _item_name(data, start, end) if kind == b"----" else 0
            if kind == b"keys":
                long = (last - first for _, (first, last) in boxes(data, (start + 8, end)))
                yield from (("user data", size - _NAME) for size in long if size >= _NAME)  # in addition to the item
            if kind in _BOXES and depth < _MOST_NESTED:
                # FFmpeg reads on from the handler, wherever that stands.
                inner = max(start, data.find(b"hdlr", start, end) - 4) if kind == b"meta" else start
                spans.append(((inner, end), kind, depth + 1))


def _item_name(data: bytes, start: int, end: int) -> int:
    return sum(last - first for kind, (first, last) in boxes(data, (start, end)) if kind in {b"mean", b"name"})


__all__ = ["check"]
