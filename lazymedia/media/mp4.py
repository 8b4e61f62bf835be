"""The tracks of an MP4 in which every box stands where it belongs, and nothing else that FFmpeg would heed.

Comes in: a payload. Goes out: where each track's tables lie; `UnusualError` for any other file, which is FFmpeg's to
read. Never here: what a track holds.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from lazymedia.media.isobmff import Span, boxes
from lazymedia.media.usual import require

Box: TypeAlias = "dict[bytes, Span]"

_TOP: Final = frozenset({b"ftyp", b"free", b"skip", b"wide", b"mdat", b"moov"})
_MOVIE: Final = frozenset({b"mvhd", b"iods", b"trak", b"udta", b"meta", b"free", b"skip"})
_TRACK: Final = frozenset({b"tkhd", b"edts", b"mdia", b"udta", b"meta", b"free", b"skip"})
_EDITS: Final = frozenset({b"elst"})
_MEDIA: Final = frozenset({b"mdhd", b"hdlr", b"minf"})
_INNER: Final = frozenset({b"smhd", b"vmhd", b"nmhd", b"sthd", b"gmhd", b"dinf", b"stbl"})
_REFERENCES: Final = frozenset({b"dref"})
_SAMPLES: Final = frozenset(
    {b"stsd", b"stts", b"stsc", b"stsz", b"stco", b"co64", b"sgpd", b"sbgp", b"stss", b"ctts", b"sdtp", b"cslg"}
)
"""Types of boxes on each level. ISO/IEC 14496-12, table 1."""
_OPAQUE: Final = frozenset({b"udta", b"meta", b"gmhd"})
_HEEDED: Final = (
    *(b"moov", b"moof", b"mdat", b"trak", b"mdia", b"minf", b"stbl", b"edts", b"mvhd", b"tkhd", b"mdhd", b"elst"),
    *(b"stsd", b"stts", b"ctts", b"stsc", b"stsz", b"stz2", b"stco", b"co64", b"stss", b"esds", b"cmov", b"trun"),
    *(b"tfhd", b"trex", b"tref", b"wave", b"chan", b"chnl", b"dOps", b"dfLa", b"ddts", b"dmlp", b"pcmC", b"wfex"),
    *(b"lhvC", b"dref", b"sidx", b"iTunSMPB"),
)
"""What FFmpeg would heed within boxes that are not read here, and the tag from which it takes the priming."""

_MOST_BOXES: Final = 1000
"""In all."""
_MOST_OPAQUE: Final = 2 << 20
"""Bytes of a box that is not read here, which may hold pictures: to find nothing in them takes 40 ms."""


class Boxes:
    """Boxes of a payload, of the expected types only: FFmpeg heeds a table wherever it lies."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._left = _MOST_BOXES

    def all_of(self, span: Span, types: frozenset[bytes]) -> list[tuple[bytes, Span]]:
        found = []
        for kind, body in boxes(self.data, span):
            self._left -= 1
            require(self._left > 0 and kind in types)
            require(kind not in _OPAQUE or is_opaque(self.data, body))
            found.append((kind, body))
        return found

    def inside(self, span: Span, types: frozenset[bytes]) -> Box:
        """Each of them the only one of its type."""
        found = self.all_of(span, types)
        require(len({kind for kind, _ in found}) == len(found))
        return dict(found)


@dataclass(frozen=True, slots=True)
class Track:
    """What a track's boxes hold.

    Attributes:
        header: Its tkhd.
        edits: Its elst, if there is one.
        media: Its mdia's boxes.
        inner: Its minf's.
        samples: Its stbl's: the tables.
    """

    header: Span
    edits: Span | None
    media: Box
    inner: Box
    samples: Box

    @classmethod
    def of(cls, file: Boxes, span: Span) -> Track:
        track = file.inside(span, _TRACK)
        require(all(file.data.find(b"hdlr", *track[kind]) < 0 for kind in _OPAQUE & track.keys()))
        media = file.inside(track[b"mdia"], _MEDIA)
        inner = file.inside(media[b"minf"], _INNER)
        edits = file.inside(track[b"edts"], _EDITS)[b"elst"] if b"edts" in track else None
        return cls(track[b"tkhd"], edits, media, inner, file.inside(inner[b"stbl"], _SAMPLES))

    def in_one_file(self, file: Boxes) -> bool:
        """Whether the samples lie in the file itself. ISO/IEC 14496-12, 8.7.2."""
        start, end = file.inside(self.inner[b"dinf"], _REFERENCES)[b"dref"]
        return end - start == 20 and file.data[start + 4 : end] == b"\0\0\0\1\0\0\0\x0curl \0\0\0\1"


def movie(file: Boxes) -> tuple[Span, list[Track]]:
    """The mvhd and the tracks of the only movie.

    Raises:
        UnusualError: Another box, or one elsewhere, or twice.
        KeyError: One is missing.
        IndexError, struct.error: One ends early.
    """
    movies = [span for kind, span in file.all_of((0, len(file.data)), _TOP) if kind == b"moov"]
    require(len(movies) == 1)
    (first, header), *others = file.all_of(movies[0], _MOVIE)
    require(first == b"mvhd" and all(kind != b"mvhd" for kind, _ in others))
    return header, [Track.of(file, span) for kind, span in others if kind == b"trak"]


def is_opaque(data: bytes, span: Span) -> bool:
    """Whether FFmpeg certainly finds nothing to heed in there."""
    return span[1] - span[0] <= _MOST_OPAQUE and all(data.find(name, *span) < 0 for name in _HEEDED)


def column(data: bytes, span: Span, kind: str, width: int = 1) -> npt.NDArray[np.unsignedinteger]:
    """A table of numbers behind their count, so many columns wide."""
    start, end = span
    (count,) = struct.unpack_from(">I", data, start + 4)
    require(0 < count <= (end - start - 8) // (np.dtype(kind).itemsize * width))
    table: npt.NDArray[np.unsignedinteger] = np.frombuffer(data, kind, count * width, start + 8)
    return table if width == 1 else table.reshape(-1, width)


__all__ = ["Box", "Boxes", "Track", "column", "is_opaque", "movie"]
