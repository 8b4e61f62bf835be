"""The AAC track of an MP4 whose tables tell, without a doubt, where each of its frames lies.

Comes in: a payload. Goes out: an `AacTrack`, or None. Never here: a decoder, or a reading of anything unusual: whatever
FFmpeg's demuxer might understand in another way, or repair, is left to it.

FFmpeg makes an index of 24 bytes and more for every frame, 10 MB for an hour; the tables of the payload itself need no
memory.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Final

import numpy as np
import numpy.typing as npt

from lazymedia.media.boxes import Span
from lazymedia.media.mp4 import Boxes, Track, column, is_opaque, movie
from lazymedia.media.usual import UnusualError, require

FRAME: Final = 1024
"""Samples per channel in a frame."""

_RATES: Final = (96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350)
"""Hz by index; ISO/IEC 14496-3, table 1.18."""
_MOST_CHANNELS: Final = 6
"""Of configurations that are their number; ISO/IEC 14496-3, table 1.19."""

_SILENT: Final = frozenset(
    {(b"text", b"text"), (b"text", b"tx3g"), (b"sbtl", b"tx3g"), (b"tmcd", b"tmcd"), (b"meta", b"mebx")}
)
"""Handlers and sample descriptions of tracks beside, other than videos', that hold no sound: chapters, subtitles, time
codes, a telephone's metadata.
"""

_HEARD_SAMPLES: Final = frozenset({b"stsd", b"stts", b"stsc", b"stsz", b"stco", b"co64", b"sgpd", b"sbgp"})
_SOUND: Final = frozenset({b"esds", b"btrt"})
"""Types of boxes. ISO/IEC 14496-12, table 1, and 14496-14, 5.6."""
_MOST_DESCRIPTION: Final = 1 << 10
"""Bytes."""
_MOST_RUNS: Final = 1 << 16
"""Rows of the table of chunks, 24 bytes each once read."""
_MOST_BYTES: Final = 1 << 13
"""Of a frame: more than 6 channels can have; ISO/IEC 14496-3, 4.5.1.1."""


@dataclass(frozen=True, slots=True)
class AacTrack:
    """Frames of AAC-LC, in order.

    Attributes:
        rate: Hz, if no frame brings SBR.
        channels: If no frame brings PS.
        primed: Samples at the start that prime the decoder and are no sound.
        frames: How many there are.
        largest: Bytes of the largest.
        config: The AudioSpecificConfig.
    """

    rate: int
    channels: int
    primed: int
    frames: int
    largest: int
    config: bytes
    _data: bytes
    _sizes: npt.NDArray[np.uint32]
    _offsets: npt.NDArray[np.unsignedinteger]
    _runs: npt.NDArray[np.int64]

    def groups(self, frames: int) -> Iterator[tuple[npt.NDArray[np.int64], list[memoryview]]]:
        """So many frames at a time: the bytes of each, and all of them in as few pieces as they lie in. They end early
        where one would lie outside the payload.
        """
        view, chunks = memoryview(self._data), zip(self._offsets, self._counts(), strict=True)
        position = left = 0
        for start in range(0, self.frames, frames):
            sizes = self._sizes[start : start + frames].astype(np.int64)
            ends = [0, *np.cumsum(sizes).tolist()]
            taken, pieces = 0, []
            while taken < len(sizes):
                if left == 0:
                    offset, left = next(chunks)
                    position = int(offset)
                step = min(left, len(sizes) - taken)
                stop = position + ends[taken + step] - ends[taken]
                if stop > len(view):
                    return
                pieces.append(view[position:stop])
                taken, left, position = taken + step, left - step, stop
            yield sizes, pieces

    def _counts(self) -> Iterator[int]:
        """Frames of each chunk."""
        return chain.from_iterable(repeat(int(count), int(chunks)) for chunks, count in self._runs)


def find(data: bytes) -> AacTrack | None:
    """The only audio track of an MP4, if it is AAC-LC in one piece: no fragments, one description, no gap in its times,
    and all of it played, from within its first second.
    """
    try:
        return _find(data)
    except (UnusualError, KeyError, IndexError, struct.error):
        return None


def _find(data: bytes) -> AacTrack | None:
    file = Boxes(data)
    header, tracks = movie(file)
    movie_scale, _ = _times(data, header)
    heard = [track for track in tracks if not _is_silent(data, track)]
    require(len(heard) == 1)
    return _track(file, heard[0], movie_scale)


def _is_silent(data: bytes, track: Track) -> bool:
    handler = _name(data, track.media[b"hdlr"], 8)
    if handler == b"soun":
        return False
    description = track.samples[b"stsd"]
    require(is_opaque(data, description))
    # FFmpeg goes by the description where the handler is none that it knows.
    require(handler == b"vide" or (handler, _name(data, description, 12)) in _SILENT)
    return True


def _name(data: bytes, span: Span, place: int) -> bytes:
    start, end = span
    return data[start + place : min(start + place + 4, end)]


def _times(data: bytes, header: Span) -> tuple[int, int]:
    """Ticks per second, and the duration in them, of a movie or a track. ISO/IEC 14496-12, 8.2.2 and 8.4.2."""
    version = data[header[0]]
    scale, duration = struct.unpack_from(">IQ" if version else ">II", data, header[0] + (20 if version else 12))
    require(version <= 1 and scale > 0)
    return int(scale), int(duration)


def _track(file: Boxes, track: Track, movie_scale: int) -> AacTrack:
    data, tables = file.data, track.samples
    require(tables.keys() <= _HEARD_SAMPLES and (b"stco" in tables) != (b"co64" in tables))
    require(track.in_one_file(file))
    config = _description(file, tables[b"stsd"])
    index, channels = _configuration(config)
    rate = _RATES[index]
    scale, duration = _times(data, track.media[b"mdhd"])
    sizes = _sizes(data, tables[b"stsz"])
    require(scale == rate and -FRAME < duration - len(sizes) * FRAME <= FRAME)
    require(_steps(data, tables[b"stts"], len(sizes)))
    offsets = column(data, tables[b"stco"], ">u4") if b"stco" in tables else column(data, tables[b"co64"], ">u8")
    return AacTrack(
        rate,
        channels,
        0 if track.edits is None else _primed(data, track.edits, (rate, movie_scale), len(sizes)),
        len(sizes),
        int(sizes.max()),
        config,
        data,
        sizes,
        offsets,
        _runs(data, tables[b"stsc"], len(offsets), len(sizes)),
    )


def _description(file: Boxes, span: Span) -> bytes:
    """The AudioSpecificConfig of the only sample description. ISO/IEC 14496-12, 12.2.3, and 14496-1, 7.2.6."""
    data, (start, end) = file.data, span
    count, size, kind = struct.unpack_from(">II4s", data, start + 4)
    version = struct.unpack_from(">H", data, start + 24)[0]
    require(count == 1 and kind == b"mp4a" and version == 0 and start + 8 + size == end)
    first, last = file.inside((start + 44, end), _SOUND)[b"esds"]
    require(last - first < _MOST_DESCRIPTION)
    stream = _descriptor(data[first + 4 : last], 3)
    require(stream[2] == 0)
    decoder = _descriptor(stream[3:], 4)
    require(decoder[0] == 0x40)
    return _descriptor(decoder[13:], 5)


def _descriptor(data: bytes, tag: int) -> bytes:
    """The content of a descriptor, whose length takes one to four bytes of seven bits."""
    require(data[0] == tag)
    length = 0
    for place in range(1, 5):
        length = length << 7 | data[place] & 0x7F
        if data[place] < 0x80:
            require(len(data) > place + length)
            return data[place + 1 : place + 1 + length]
    raise UnusualError


def _configuration(config: bytes) -> tuple[int, int]:
    """Index of the rate, and the channels, of AAC-LC with frames of 1024 samples, where SBR is denied or not spoken of.
    ISO/IEC 14496-3, 1.6.2.1.
    """
    require(len(config) == 2 or config[2:] == b"\x56\xe5\x00")
    bits = int.from_bytes(config[:2])
    index, channels = bits >> 7 & 15, bits >> 3 & 15
    require(bits >> 11 == 2 and bits & 7 == 0 and index < len(_RATES) and 1 <= channels <= _MOST_CHANNELS)
    return index, channels


def _sizes(data: bytes, span: Span) -> npt.NDArray[np.uint32]:
    """Bytes of each frame. ISO/IEC 14496-12, 8.7.3.2."""
    start, end = span
    fixed, count = struct.unpack_from(">II", data, start + 4)
    require(fixed == 0 and 0 < count <= (end - start - 12) // 4)
    sizes = np.frombuffer(data, ">u4", count, start + 12)
    require(int(sizes.min()) > 0 and int(sizes.max()) <= _MOST_BYTES)
    return sizes


def _steps(data: bytes, span: Span, frames: int) -> bool:
    """Whether all frames are as long as they should be, but for the last. ISO/IEC 14496-12, 8.6.1.2."""
    steps = column(data, span, ">u4", 2)
    if len(steps) > 2 or int(steps[:, 0].sum(dtype=np.int64)) != frames or int(steps[0, 1]) != FRAME:
        return False
    last = steps[-1]
    return len(steps) == 1 or (int(last[0]) == 1 and 0 < int(last[1]) <= FRAME)


def _runs(data: bytes, span: Span, chunks: int, frames: int) -> npt.NDArray[np.int64]:
    """How many chunks in a row have how many frames each. ISO/IEC 14496-12, 8.7.4."""
    rows = column(data, span, ">u4", 3)
    require(len(rows) <= _MOST_RUNS)
    counts = rows[:, 1].astype(np.int64)
    lengths = np.diff(rows[:, 0].astype(np.int64), append=chunks + 1)
    require(int(rows[0, 0]) == 1 and bool((rows[:, 2] == 1).all()))
    require(int(lengths.min()) > 0 and int(counts.min()) > 0 and int(counts.max()) <= frames)
    require(int((lengths * counts).sum()) == frames)
    return np.stack((lengths, counts), axis=1)


def _primed(data: bytes, span: Span, scales: tuple[int, int], frames: int) -> int:
    """Where the only edit begins, which has to last to the end, at the track's own speed. ISO/IEC 14496-12, 8.6.6."""
    start, end = span
    rate, movie_scale = scales
    long = data[start] == 1
    count, duration, begin, speed = struct.unpack_from(">IQqI" if long else ">IIiI", data, start + 4)
    require(count == 1 and end - start >= (28 if long else 20) and speed == 1 << 16)
    require(0 <= begin < rate and (begin == 0 or begin < (frames - 1) * FRAME) and 0 < duration < 1 << 32)
    require(begin + duration * rate // movie_scale > (frames - 1) * FRAME)
    return int(begin)


__all__ = ["FRAME", "AacTrack", "find"]
