"""What is read of a Matroska before FFmpeg opens it: the number of its cues, and whether its packets are compressed.

FFmpeg keeps its index sorted: a cue whose time comes before the others moves them all, so that cues in descending order
take a time that grows with the square of their number. 200,000 of them, in three megabytes, took 11 seconds for each
opening.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lazymedia.errors import UnprocessableMediaError

_FEW: Final = 4_000
_BYTES: Final = 200
_MOST: Final = 150_000
"""Cues of a payload of any size; bytes of a payload for each further one; and cues in all. Real files have one for each
key frame at most."""

_CUES: Final = b"\x1c\x53\xbb\x6b"
_POINT, _TIME = 0xBB, b"\xb3"
_TRACKS, _ENCODINGS = b"\x16\x54\xae\x6b", b"\x6d\x80"
"""Element ids. RFC 9559, 5.1.4 and 5.1.5."""


def check_cues(data: bytes, modality: str) -> None:
    """Reject a Matroska with too many cues.

    Args:
        data: A payload that begins as Matroska.
        modality: For the error.

    Raises:
        UnprocessableMediaError: More cues than a payload of this size may have.
    """
    most = min(_MOST, _FEW + len(data) // _BYTES)
    points = 0
    for start, end in _spans(data, _CUES):
        # Every cue at a time of its own names that time. The bytes are counted first, since that takes no time.
        counted = data.count(_TIME, start, end)
        if points + counted <= most:
            points += counted
            continue
        for _ in _points(data, start, end):
            points += 1
            if points > most:
                raise UnprocessableMediaError(
                    f"a Matroska of this size may have {most} cues at most", modality=modality
                )


def has_encodings(data: bytes) -> bool:
    """Whether a track may be compressed, or its packets share a beginning: a packet of some bytes may then hold any
    number of them.
    """
    return any(data.find(_ENCODINGS, start, end) >= 0 for start, end in _spans(data, _TRACKS))


def _spans(data: bytes, name: bytes) -> Iterator[tuple[int, int]]:
    """The content of whatever looks like such an element, wherever it lies."""
    at = data.find(name)
    while at >= 0:
        start, end = _content(data, at + len(name), len(data))
        yield start, end
        at = data.find(name, end)


def _points(data: bytes, start: int, end: int) -> Iterator[int]:
    """Where each cue begins, to the first element that is none of EBML. RFC 8794, 4 and 5."""
    while start < end:
        width = 9 - data[start].bit_length()
        if width > 4:
            return
        if data[start] == _POINT:
            yield start
        _, start = _content(data, start + width, end)


def _content(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Where the content of an element begins and ends, its size being at ``at``; at ``end`` where that is not known."""
    width = 9 - data[at].bit_length() if at < end else 9
    if width > 8:
        return end, end
    size = int.from_bytes(data[at : at + width]) - (1 << 7 * width)
    start = at + width
    return start, end if size == (1 << 7 * width) - 1 else min(start + size, end)


__all__ = ["check_cues", "has_encodings"]
