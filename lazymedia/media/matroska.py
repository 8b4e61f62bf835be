"""Elements of Matroska and WebM: identifier, length, content, one behind the other; and the parts of a file that
FFmpeg reads on opening it. RFC 8794 and RFC 9559.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from lazymedia.media.isobmff import Span

TAGS, CHAPTERS, TRACKS = b"\x12\x54\xc3\x67", b"\x10\x43\xa7\x70", b"\x16\x54\xae\x6b"
_SEGMENT, _SEEK_HEAD, _CLUSTER = b"\x18\x53\x80\x67", b"\x11\x4d\x9b\x74", b"\x1f\x43\xb6\x75"
_PARTS: Final = (
    *(TAGS, CHAPTERS, TRACKS, _SEEK_HEAD, _CLUSTER),
    *(b"\x15\x49\xa9\x66", b"\x1c\x53\xbb\x6b", b"\x19\x41\xa4\x69"),
)
"""Elements of a segment."""
_FILLING: Final = (b"\xec", b"\xbf")
"""Empty space, and checksums."""
_ANY_PART: Final = re.compile(b"|".join(map(re.escape, _PARTS)))

_MOST_SEEKS: Final = 64
"""Parts of a segment that FFmpeg finds by their positions."""


def elements(data: bytes, span: Span) -> Iterator[tuple[bytes, Span]]:
    """Identifier and content of each element in a part of the payload, up to one that is malformed. One of unknown
    length takes all the rest.
    """
    position, stop = span
    while position < stop:
        start = position + 9 - data[position].bit_length()
        kind = data[position:start]
        if len(kind) > 4 or start >= stop:
            return
        width = 9 - data[start].bit_length()
        size = int.from_bytes(data[start : start + width], "big") & (1 << 7 * width) - 1
        if width > 8:
            return
        start += width
        position = stop if size == (1 << 7 * width) - 1 else start + size
        yield kind, (start, min(position, stop))


def parts(data: bytes, wanted: frozenset[bytes]) -> list[tuple[bytes, Span]]:
    """The content of certain parts of a segment, as far as FFmpeg may find them: before the first cluster, and where a
    seek head says. After damage FFmpeg looks for the next part byte by byte; so where it may meet damage, all of the
    payload is searched.
    """
    segment = next((span for kind, span in elements(data, (0, len(data))) if kind == _SEGMENT), (0, 0))
    found, end = _before_clusters(data, segment)
    if end is None:
        return _searched(data, wanted)
    heads = [span for kind, span in found if kind == _SEEK_HEAD]
    positions: set[int] = set()
    for head in heads:
        for position in _positions(data, head, segment[0]):
            part = next(elements(data, (position, len(data))), None)
            if part is None or position < end or position in positions:
                continue
            positions.add(position)
            found.append(part)
            if part[0] == _SEEK_HEAD:
                heads.append(part[1])
            if len(positions) > _MOST_SEEKS:
                return _searched(data, wanted)
    return [part for part in found if part[0] in wanted]


def _before_clusters(data: bytes, segment: Span) -> tuple[list[tuple[bytes, Span]], int | None]:
    """The parts of a segment before its first cluster, and where they end; None where FFmpeg may meet damage."""
    found: list[tuple[bytes, Span]] = []
    end = segment[0]
    for kind, span in elements(data, segment):
        if kind == _CLUSTER:
            return found, end
        if kind not in _PARTS + _FILLING or (kind != _SEEK_HEAD and _ANY_PART.search(data, *span)):
            return found, None
        found.append((kind, span))
        end = span[1]
    return found, end if end == len(data) else None


def _positions(data: bytes, seek_head: Span, segment: int) -> Iterator[int]:
    """Where the parts begin that a seek head names. RFC 9559, section 5.1.1."""
    for kind, span in islice(elements(data, seek_head), 4 * _MOST_SEEKS):
        if kind == b"\x4d\xbb":
            for inner, (start, stop) in islice(elements(data, span), _MOST_SEEKS):
                if inner == b"\x53\xac":
                    yield segment + int.from_bytes(data[start : min(stop, start + 8)], "big")


def _searched(data: bytes, wanted: frozenset[bytes]) -> list[tuple[bytes, Span]]:
    """Parts wherever their identifiers stand."""
    places = (match.start() for match in re.finditer(b"|".join(map(re.escape, wanted)), data))
    return [part for place in places for part in islice(elements(data, (place, len(data))), 1)]


__all__ = ["CHAPTERS", "TAGS", "TRACKS", "elements", "parts"]
