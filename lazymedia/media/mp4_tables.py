"""What the tables of an MP4 claim, compared with the payload's size before FFmpeg reads them.

FFmpeg allocates a sample table by its count: a ``stsz`` of fixed size takes twelve bytes and can claim four billion
samples, a ``trun`` without flags likewise.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from lazymedia.errors import UnprocessableMediaError
from lazymedia.media.isobmff import boxes

MAX_SAMPLES: Final = 2_000_000
"""Samples that one container may claim over all its tracks: nine hours at 60 frames per second, or of audio."""

_EDITED: Final = 2
"""Samples of each track times its edits, as a multiple of the samples that are allowed. FFmpeg copies the samples of
every edit into its index, 24 bytes for each."""

_MAX_BOXES: Final = 100_000
_FEW_BOXES: Final = 10_000
_BOX_BYTES: Final = 16
"""Bytes of a payload for each box beyond `_FEW_BOXES`. Reading one takes some 15 microseconds over all passes, FFmpeg's
own among them. A fragment of one small frame has 8 boxes in 120 bytes."""
_MAX_DEPTH: Final = 12
_PARENTS: Final = frozenset(
    {b"moov", b"hoov", b"trak", b"mdia", b"minf", b"stbl", b"edts", b"moof", b"traf", b"mvex", b"udta", b"dinf"}
    | {b"tref", b"wave", b"gmhd"}
)
"""Boxes inside which FFmpeg looks for any other; "hoov" is what some cameras write for a moov in progress."""

_ALPHA: Final = (b"urn:mpeg:mpegB:cicp:systems:auxiliary:alpha\0", b"urn:mpeg:hevc:2015:auxid:1\0")
"""Names in the sample entry of a track that holds the alpha of another one."""

_ENTRY_BYTES: Final = {b"stts": 8, b"ctts": 8, b"stsc": 12, b"stco": 4, b"co64": 8, b"stss": 4}


_FEW_SAMPLES: Final = 10_000
"""Samples that the tables of a payload of any size may claim."""

_SAMPLE_BYTES: Final = 4
"""Bytes of a payload for each further sample. A silent frame of AAC has six, and four in a table."""

_FEW_CHUNKS: Final = 2_000
_CHUNK_BYTES: Final = 16
"""Chunks of uncompressed sound: so many, and a further one for each of so many bytes. Each becomes a packet, which
takes some 30 microseconds to decode. Real ones hold 20 milliseconds or more."""


def most_samples(payload_bytes: int) -> int:
    """Samples that the tables of a payload of this size may claim. They may name the same bytes again and again; the
    samples of a real file have bytes of their own.
    """
    return min(MAX_SAMPLES, _FEW_SAMPLES + payload_bytes // _SAMPLE_BYTES)


_PLAIN: Final = frozenset(
    {b"sowt", b"twos", b"in24", b"in32", b"fl32", b"fl64", b"raw ", b"ulaw", b"alaw", b"lpcm", b"ipcm", b"fpcm"}
)
"""Codes of uncompressed sound, of which a sample may be a byte."""


@dataclass(slots=True)
class _Track:
    """What the tables of one track claim."""

    samples: int = 0
    chunks: int = 0
    edits: int = 0
    handlers: set[bytes] = field(default_factory=set)
    codes: set[bytes] = field(default_factory=set)
    sizes: list[int] = field(default_factory=list)
    ticks: list[int] = field(default_factory=list)

    def read(self, kind: bytes, data: bytes, body: int, end: int) -> None:
        """Read one box. ISO/IEC 14496-12, 8.4.3, 8.5.2, 8.6.1.2, 8.6.6, 8.7.3 and 8.7.5."""
        size = end - body
        if kind == b"stsz" and size >= 12:
            fixed, count = struct.unpack_from(">II", data, body + 4)
            self.samples += count
            self.sizes.append(fixed)
            _check_fits(kind, 0 if fixed else 4, count, body + 12, end)
        elif kind == b"stz2" and size >= 12:
            self.samples += struct.unpack_from(">I", data, body + 8)[0]
            self.sizes.append(0)
        elif kind in {b"stco", b"co64"} and size >= 8:
            self.chunks += struct.unpack_from(">I", data, body + 4)[0]
        elif kind == b"stts" and size >= 16:
            count, _, ticks = struct.unpack_from(">III", data, body + 4)
            self.ticks.append(ticks if count == 1 else 0)
        elif kind == b"elst" and size >= 8:
            self.edits += struct.unpack_from(">I", data, body + 4)[0]
        elif kind == b"hdlr" and size >= 12:
            self.handlers.add(data[body + 8 : body + 12])
        elif kind == b"stsd" and size >= 16:
            self.codes.add(data[body + 12 : body + 16] if data[body + 4 : body + 8] == b"\0\0\0\1" else b"")

    @property
    def is_plain_sound(self) -> bool:
        """Whether it is uncompressed sound with one size and one duration for all samples, of which FFmpeg keeps the
        chunks and not the samples (mov_build_index in FFmpeg 8.1).
        """
        is_sound = b"soun" in self.handlers and b"vide" not in self.handlers and self.codes and self.codes <= _PLAIN
        return bool(is_sound) and len(self.sizes) == 1 and self.sizes[0] > 0 and self.ticks == [1]


def check_tables(data: bytes, modality: str) -> None:
    """Reject claims that do not fit the payload.

    Args:
        data: A payload that begins as ISO base media.
        modality: For the error.

    Raises:
        UnprocessableMediaError: More samples than `most_samples`, edits that repeat more than twice as many, or too
            many chunks of uncompressed sound; a table longer than its box, boxes nested too deep or too many of them; a
            compressed header, or a track of alpha, which are not supported.
    """
    try:
        _check(data)
    except _ClaimError as exc:
        raise UnprocessableMediaError(str(exc), modality=modality) from None


class _ClaimError(Exception):
    """What is wrong with the tables."""


def _check(data: bytes) -> None:
    tracks = [_Track()]
    for kind, body, end in _walk(data):
        if kind == b"trak":
            tracks.append(_Track())
        elif kind == b"cmov":
            raise _ClaimError("the container's header is compressed, which is not supported")
        elif kind == b"trun" and body + 8 <= end:
            tracks[0].samples += struct.unpack_from(">I", data, body + 4)[0]  # fragments lie outside of all tracks
        elif kind == b"stsd" and any(data.find(name, body, end) >= 0 for name in _ALPHA):
            # FFmpeg takes such a track for a video like any other, and may call it the best.
            raise _ClaimError("an animated AVIF with transparent frames is not supported")
        elif kind in _ENTRY_BYTES and body + 8 <= end:
            _check_fits(kind, _ENTRY_BYTES[kind], struct.unpack_from(">I", data, body + 4)[0], body + 8, end)
        tracks[-1].read(kind, data, body, end)
    most, most_chunks = most_samples(len(data)), _FEW_CHUNKS + len(data) // _CHUNK_BYTES
    indexed = [track for track in tracks if not track.is_plain_sound]
    if sum(track.samples for track in indexed) > most:
        raise _ClaimError(f"the container claims more than the {most} samples allowed for its size")
    if sum(track.samples * track.edits for track in indexed) > _EDITED * most:
        raise _ClaimError(f"the container's edits repeat more than the {_EDITED * most} samples allowed for its size")
    if sum(track.chunks for track in tracks if track.is_plain_sound) > most_chunks:
        raise _ClaimError(f"the container has more than the {most_chunks} chunks of sound allowed for its size")


def _check_fits(kind: bytes, entry_bytes: int, count: int, start: int, end: int) -> None:
    if entry_bytes * count > end - start:
        raise _ClaimError(f"the container's {kind.decode()} table claims more entries than it holds")


def _walk(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Type, first and last offset of the content of every box that matters, depth first; a track before its boxes."""
    levels = [boxes(data, (0, len(data)))]
    most = min(_MAX_BOXES, _FEW_BOXES + len(data) // _BOX_BYTES)
    for _ in range(most):
        while (found := next(levels[-1], None)) is None:
            levels.pop()
            if not levels:
                return
        kind, (body, stop) = found
        inner = body
        if kind == b"meta":  # FFmpeg reads on from the handler, wherever that stands
            inner = max(body, data.find(b"hdlr", body, stop) - 4)
        if kind in _PARENTS or inner > body:
            if len(levels) > _MAX_DEPTH:
                raise _ClaimError("the container's boxes are nested too deep")
            if kind == b"trak":
                yield kind, inner, stop
            levels.append(boxes(data, (inner, stop)))
        else:
            yield kind, body, stop
    raise _ClaimError(f"the container has more than the {most} boxes allowed for its size")


def display_size(data: bytes) -> tuple[int, int] | None:
    """Width and height of the largest track of an MP4, as its headers have them; None where none has.

    For an estimate only: the stream decides. ISO/IEC 14496-12, 8.3.2.
    """
    sizes = [(0, 0)]
    for kind, body, end in _walk(data):
        if kind == b"tkhd" and end - body >= 84:
            width, height = struct.unpack_from(">II", data, end - 8)
            sizes.append((width >> 16, height >> 16))
    width, height = max(sizes, key=lambda size: size[0] * size[1])
    return (width, height) if width and height else None


def display_matrix(data: bytes, track: int) -> tuple[int, ...] | None:
    """The display matrix of a track; None where its headers have none or two, or the whole movie has another one
    besides. ISO/IEC 14496-12, 8.2.2 and 8.3.2.
    """
    found: list[tuple[int, ...]] = []
    movies = 0
    for kind, body, end in _walk(data):
        later = 12 if data[body : body + 1] == b"\1" else 0  # version 1 has longer times before all that counts
        if kind == b"mvhd" and end - body >= 100 + later:
            movies += 1
            if _matrix(data, body + later + 36) != _IDENTITY:
                return None
        number = body + (20 if later else 12)
        if kind == b"tkhd" and end - body >= 84 + later and struct.unpack_from(">I", data, number)[0] == track:
            found.append(_matrix(data, body + later + 40))
    # FFmpeg passes over a second movie, and of two headers of a track only one counts.
    return found[0] if movies == len(found) == 1 else None


_IDENTITY: Final = (1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30)


def _matrix(data: bytes, start: int) -> tuple[int, ...]:
    return struct.unpack_from(">9i", data, start)


__all__ = ["MAX_SAMPLES", "check_tables", "display_matrix", "display_size", "most_samples"]
