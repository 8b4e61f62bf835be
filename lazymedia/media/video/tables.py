"""What the tables of an MP4 claim, held against the bytes that are there, before a demuxer believes them.

Comes in: a payload that begins as ISO base media. Goes out: nothing, or the refusal of a payload whose claims alone
would cost memory or time. Never here: whether the video is any good.

FFmpeg allocates a sample table by its count: a ``stsz`` of fixed size takes twelve bytes and can claim four billion
samples, a ``trun`` without flags likewise.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from lazymedia.media.video.faults import refused

MAX_SAMPLES: Final = 2_000_000
"""Samples that one container may claim over all its tracks: nine hours at 60 frames per second, or of audio."""

_MAX_BOXES: Final = 100_000
_MAX_DEPTH: Final = 12
_PARENTS: Final = frozenset(
    {b"moov", b"hoov", b"trak", b"mdia", b"minf", b"stbl", b"edts", b"moof", b"traf", b"mvex", b"udta", b"dinf"}
    | {b"tref", b"wave", b"gmhd"}
)
"""Boxes inside which FFmpeg looks for any other; "hoov" is what some cameras write for a moov in progress."""

_ALPHA: Final = (b"urn:mpeg:mpegB:cicp:systems:auxiliary:alpha\0", b"urn:mpeg:hevc:2015:auxid:1\0")
"""By which a track tells that it holds another one's alpha."""

_ENTRY_BYTES: Final = {b"stts": 8, b"ctts": 8, b"stsc": 12, b"stco": 4, b"co64": 8, b"stss": 4}


def check_tables(data: bytes) -> None:
    """Refuse claims that do not fit the payload.

    Raises:
        UnprocessableMediaError: More samples than `MAX_SAMPLES`, a table longer than its box, boxes nested deeper or
            more of them than any real file has; a compressed header, or a track of alpha, which are not supported.
    """
    samples = 0
    for kind, body, end in _walk(data):
        if kind == b"stsz" and body + 12 <= end:
            fixed, count = struct.unpack_from(">II", data, body + 4)
            samples += count
            _check_fits(kind, 0 if fixed else 4, count, body + 12, end)
        elif kind == b"cmov":
            raise refused("the container's header is compressed, which is not supported")
        elif kind == b"stz2" and body + 12 <= end:
            samples += struct.unpack_from(">I", data, body + 8)[0]
        elif kind == b"trun" and body + 8 <= end:
            samples += struct.unpack_from(">I", data, body + 4)[0]
        elif kind == b"stsd" and any(data.find(name, body, end) >= 0 for name in _ALPHA):
            # FFmpeg takes such a track for a video like any other, and may call it the best.
            raise refused("an animated AVIF with transparent frames is not supported")
        elif kind in _ENTRY_BYTES and body + 8 <= end:
            _check_fits(kind, _ENTRY_BYTES[kind], struct.unpack_from(">I", data, body + 4)[0], body + 8, end)
        if samples > MAX_SAMPLES:
            raise refused(f"the container claims more than the {MAX_SAMPLES} samples allowed")


def _check_fits(kind: bytes, entry_bytes: int, count: int, start: int, end: int) -> None:
    if entry_bytes * count > end - start:
        raise refused(f"the container's {kind.decode()} table claims more entries than it holds")


def _walk(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Type, first and last offset of the content of every box that matters, depth first."""
    spans = [(0, len(data), 0)]
    for _ in range(_MAX_BOXES):
        while spans and spans[-1][0] + 8 > spans[-1][1]:
            spans.pop()
        if not spans:
            return
        position, end, depth = spans.pop()
        size, kind = struct.unpack_from(">I4s", data, position)
        body = position + 8
        if size == 1 and body + 8 <= end:
            (size,) = struct.unpack_from(">Q", data, body)
            body += 8
        stop = end if size == 0 else min(position + size, end)
        if stop < body:
            continue
        spans.append((stop, end, depth))
        inner = body
        if kind == b"meta":  # FFmpeg reads on from the handler, wherever that stands
            inner = max(body, data.find(b"hdlr", body, stop) - 4)
        if kind in _PARENTS or inner > body:
            if depth == _MAX_DEPTH:
                raise refused("the container's boxes are nested too deep")
            spans.append((inner, stop, depth + 1))
        else:
            yield kind, body, stop
    raise refused(f"the container has more than the {_MAX_BOXES} boxes allowed")


def display_size(data: bytes) -> tuple[int, int] | None:
    """Width and height that the largest track of an MP4 claims to be shown at; None where none tells.

    For an estimate only: the stream has the last word. ISO/IEC 14496-12, 8.3.2.
    """
    sizes = [(0, 0)]
    for kind, body, end in _walk(data):
        if kind == b"tkhd" and end - body >= 84:
            width, height = struct.unpack_from(">II", data, end - 8)
            sizes.append((width >> 16, height >> 16))
    width, height = max(sizes, key=lambda size: size[0] * size[1])
    return (width, height) if width and height else None


def display_matrix(data: bytes, track: int) -> tuple[int, ...] | None:
    """The nine numbers by which an MP4 has a track turned; None where its headers do not tell, or turn the whole movie
    besides. ISO/IEC 14496-12, 8.2.2 and 8.3.2.
    """
    found = None
    for kind, body, end in _walk(data):
        if kind == b"mvhd" and end - body >= 100 and _matrix(data, end - 64) != _UNTURNED:
            return None
        if kind == b"tkhd" and end - body >= 84:
            at = body + (20 if data[body] == 1 else 12)  # version 1 has longer times before it
            if struct.unpack_from(">I", data, at)[0] == track:
                found = _matrix(data, end - 44)
    return found


_UNTURNED: Final = (1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30)


def _matrix(data: bytes, start: int) -> tuple[int, ...]:
    return struct.unpack_from(">9i", data, start)


__all__ = ["MAX_SAMPLES", "check_tables", "display_matrix", "display_size"]
