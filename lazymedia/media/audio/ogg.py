"""Where the recordings in an OGG begin: several may follow each other, as a radio station's songs do.

Comes in: a payload that begins as an OGG. Goes out: where its links lie, each a whole OGG. Never here: a codec, or a
copy of the payload.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lazymedia.media.audio.bounds import refused

_FIRST_PAGE: Final = b"OggS\x00\x02"
"""How the first page of a logical stream begins (RFC 3533, section 6): version 0, and the flag "beginning of stream"
alone."""

MAX_LINKS: Final = 256
"""Recordings in one payload: the setup of a codec costs about a millisecond for each."""


def links_of(data: bytes) -> list[slice]:
    """Which bytes each recording is, in order. Streams that begin together, page after page, belong to one.

    Raises:
        UnprocessableMediaError: More than `MAX_LINKS`.
    """
    starts: list[int] = []
    together = -1
    position = data.find(_FIRST_PAGE)
    while position >= 0:
        if position != together:
            starts.append(position)
        if len(starts) > MAX_LINKS:
            raise refused(f"an OGG may hold {MAX_LINKS} recordings at most")
        together = position + _page_bytes(data, position)
        position = data.find(_FIRST_PAGE, together)
    return [slice(start, stop) for start, stop in zip([0, *starts[1:]], [*starts[1:], len(data)])]


def share_a_serial(data: bytes, links: Sequence[slice]) -> bool:
    """Whether two recordings go by one number, which RFC 3533 (section 4) forbids. FFmpeg loses samples of them."""
    serials = [data[link.start + 14 : link.start + 18] for link in links]
    return len(set(serials)) < len(serials)


def _page_bytes(data: bytes, position: int) -> int:
    """A page is 27 bytes, a table of as many as the last of them tells, and as many as the table adds up to."""
    table = data[position + 27 : position + 27 + int.from_bytes(data[position + 26 : position + 27])]
    return 27 + len(table) + sum(table)


__all__ = ["MAX_LINKS", "links_of", "share_a_serial"]
