"""Matroska and WebM: tags, chapters, code books and cues, and whether packets are compressed. RFC 8794 and RFC 9559.

FFmpeg keeps its index sorted: a cue whose time comes before the others moves them all, so that cues in descending order
take a time that grows with the square of their number. 200,000 of them, in three megabytes, took 11 seconds for each
opening.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Final

from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import Limits
from lazymedia.media.cancellation import checkpoint
from lazymedia.media.containers.entries import BOOKS, Entries, check_entries
from lazymedia.media.containers.vorbis import SETUP, book_entries
from lazymedia.media.isobmff import Span

_TAGS, _CHAPTERS, _TRACKS = b"\x12\x54\xc3\x67", b"\x10\x43\xa7\x70", b"\x16\x54\xae\x6b"
_CUES, _ENCODINGS = b"\x1c\x53\xbb\x6b", b"\x6d\x80"
_SEGMENT, _SEEK_HEAD, _CLUSTER = b"\x18\x53\x80\x67", b"\x11\x4d\x9b\x74", b"\x1f\x43\xb6\x75"
_PARTS: Final = (
    *(_TAGS, _CHAPTERS, _TRACKS, _SEEK_HEAD, _CLUSTER),
    *(b"\x15\x49\xa9\x66", _CUES, b"\x19\x41\xa4\x69"),
)
"""Elements of a segment."""
_FILLING: Final = (b"\xec", b"\xbf")
"""Empty space, and checksums."""
_ANY_PART: Final = re.compile(b"|".join(map(re.escape, _PARTS)))

_MOST_SEEKS: Final = 64
"""Parts of a segment that FFmpeg finds by their positions."""


_FEW_CUES: Final = 4_000
_BYTES_PER_CUE: Final = 200
_MOST_CUES: Final = 150_000
"""Cues of a payload of any size; bytes of a payload for each further one; and cues in all. Real files have one for each
key frame at most."""
_MOST_NESTED: Final = 12
"""Tags within tags; FFmpeg gives up at ten."""
_SETUP: Final = re.compile(re.escape(SETUP))


def check(data: bytes, limits: Limits, modality: str) -> None:
    """Reject a Matroska with too many tags, chapters, entries of code books, or cues."""
    check_entries(_entries(data), data, limits, modality)
    check_cues(data, modality)


def check_cues(data: bytes, modality: str) -> None:
    """Reject a Matroska with more cues than a payload of its size may have.

    The id of the cues stands elsewhere too, in the seek head for one, and what follows it there is no length. So the
    elements behind each such id are read as far as they are EBML, each of them once, whichever length the cues have.

    Raises:
        UnprocessableMediaError: It has.
    """
    most = min(_MOST_CUES, _FEW_CUES + len(data) // _BYTES_PER_CUE)
    seen: set[int] = set()
    for match in re.finditer(_CUES, data):
        checkpoint()
        start = _behind_size(data, match.end())
        for _, (first, _) in elements(data, (start, len(data))):
            if first in seen:
                break
            seen.add(first)
            if len(seen) > most:
                raise UnprocessableMediaError(
                    f"a Matroska of this size may have {most} cues at most", modality=modality
                )


def has_encodings(data: bytes) -> bool:
    """Whether a track may be compressed, or its packets share a beginning: a packet of some bytes may then hold any
    number of them. What looks like tracks is searched, wherever it lies.
    """
    done = 0
    for match in re.finditer(_TRACKS, data):
        start, end = next((span for _, span in elements(data, (match.start(), len(data)))), (0, 0))
        if data.find(_ENCODINGS, max(start, done - 1), end) >= 0:
            return True
        done = max(done, end)
    return False


def _behind_size(data: bytes, position: int) -> int:
    """Where the content begins behind a size. RFC 8794, section 4."""
    return position + 9 - data[position].bit_length() if position < len(data) else position


def _entries(data: bytes) -> Entries:
    spans = _parts(data, frozenset({_TAGS, _CHAPTERS, _TRACKS}))
    if sum(end - start for _, (start, end) in spans) > 2 * len(data):  # they overlap, as those of no file do
        yield "tags", sys.maxsize
    for kind, span in spans:
        if kind == _TAGS:
            yield from _simple_tags(data, span, 0, 0)
        elif kind == _CHAPTERS:
            yield from _chapter_atoms(data, span)
        else:
            for match in _SETUP.finditer(data, *span):
                yield BOOKS, book_entries(data, match.start())


def _simple_tags(data: bytes, span: Span, above: int, depth: int) -> Entries:
    """Tags within tags have both names, and the language besides. RFC 9559, section 5.1.8."""
    inner, own, is_tag = [], above, False
    for kind, (start, end) in elements(data, span):
        if kind in {b"\x73\x73", b"\x67\xc8"}:
            inner.append((start, end))
        elif kind in {b"\x45\xa3", b"\x44\x7a", b"\x44\x7b"}:
            own, is_tag = own + end - start, True
    if is_tag:
        yield "tags", min(own, 1024)
    if depth < _MOST_NESTED:
        for part in inner:
            yield from _simple_tags(data, part, own, depth + 1)


def _chapter_atoms(data: bytes, span: Span) -> Entries:
    """RFC 9559, section 5.1.7."""
    for kind, edition in elements(data, span):
        if kind == b"\x45\xb9":
            yield from (("chapters", 0) for atom, _ in elements(data, edition) if atom == b"\xb6")


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


def _parts(data: bytes, wanted: frozenset[bytes]) -> list[tuple[bytes, Span]]:
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


__all__ = ["check", "check_cues", "elements", "has_encodings"]
