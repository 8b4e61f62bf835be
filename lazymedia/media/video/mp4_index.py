"""The index of an MP4 whose tables tell it, without a doubt: only its first packets and its last group are read.

Comes in: a payload and its open container. Goes out: the `PacketIndex` that a scan would find, or None. Never here: a
guess: whatever a scan might see in another way is left to one.

The display times are those of FFmpeg's own index and of the table of offsets; key frames are those that the table names
and that begin with an IDR picture, as FFmpeg's parser has it. That takes a fifth of the time of a scan.
"""

from __future__ import annotations

import struct
from array import array
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from itertools import chain, islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from lazymedia.media.cancellation import checkpoint
from lazymedia.media.isobmff import Span
from lazymedia.media.mp4 import Box, Boxes, Track, column, movie
from lazymedia.media.usual import UnusualError, require
from lazymedia.media.video.container import packets_of
from lazymedia.media.video.fields import FieldPairs
from lazymedia.media.video.index import PacketIndex
from lazymedia.media.video.units import TYPE, length_bytes

if TYPE_CHECKING:
    from av.video.stream import VideoStream

    from lazymedia.media.video.container import Opened

_FIRST: Final = 8
"""Packets at the head whose times are compared."""

_LAST: Final = 4
"""The last group is read if it is that small a part of all packets at most; otherwise a scan takes about as long."""

_STEP: Final = 4096
"""Packets between two looks at whether the decode is still wanted."""

_MOST: Final = 1 << 18
"""Packets: more than two hours at 30 frames per second. A scan of longer ones can be stopped at every packet."""
_MOST_KEYS: Final = 1 << 15

_FARTHEST: Final = 1 << 28
"""Ticks between a decode time and a display time, from which on FFmpeg ignores all of the table."""

_KEY: Final = 1
"""Set in FFmpeg's index for a key frame; of its other flags, one hides a packet (avformat.h, AVINDEX_*)."""

_SLICE, _IDR, _MESSAGE, _SEQUENCE, _PICTURE, _DELIMITER = 1, 5, 6, 7, 8, 9
"""Types of units; ITU-T H.264, table 7-1."""
_FIRST_BLOCK: Final = 0x80
"""The first bit of a slice that begins at the first block of the picture; ITU-T H.264, 7.3.3."""
_INTRA, _ALL_INTRA = 0b1011, 0b10001000
"""The first half, or all, of the first byte of such a slice, if it is intra; ITU-T H.264, table 7-6."""
_UNREGISTERED: Final = 5
"""The type of a message in an encoder's own words; ITU-T H.264, D.1.1. Of others, one makes key frames and some make
times."""
_HEAD_UNITS: Final = 64
"""Units in which a key frame's first slice begins."""
_LENGTH: Final = 4
"""Bytes of the length before each unit."""

_NUMBERS: Final = attrgetter("timestamp", "pos", "size", "flags")

Column = npt.NDArray[np.int64]


def claimed(data: bytes, opened: Opened) -> Claim | None:
    """What the tables of an MP4 tell of its H.264 or HEVC, if they are of the usual kind. Reads no packet.

    Raises:
        DecodeStopped: The request was cancelled.
    """
    if opened.kind != "mov" or opened.codec not in {"h264", "hevc"}:
        return None
    try:
        return _claimed(data, opened)
    except (UnusualError, KeyError, IndexError, struct.error):
        return None


@dataclass(frozen=True, slots=True)
class Claim:
    """All that is needed for an index. Display times still lack a term that is the same for all."""

    samples: _Samples
    offsets: Column
    keys: Column
    layered: bool

    def borne_out(self, opened: Opened) -> PacketIndex | None:
        """The index, if the first packets and the last group are just as claimed; these are read.

        Raises:
            DecodeStopped: The request was cancelled.
        """
        import av

        try:
            times = self.samples.dts + self.offsets
            head = list(islice(packets_of(opened), _FIRST))
            require(bool(head) and head[0].pts is not None)
            times += head[0].pts - times[0]
            self._check(head, times, 0)
            last = int(self.keys[-1])
            opened.container.seek(int(times[last]), stream=opened.stream)
            tail = list(deque(packets_of(opened), len(times) - last))  # the seek may land before the key frame
            require(len(tail) == len(times) - last)
            self._check(tail, times, last)
            return self._index(opened, times, tail)
        except (UnusualError, av.FFmpegError, EOFError):
            return None

    def _check(self, packets: list[Any], times: Column, start: int) -> None:
        require(start + len(packets) <= len(times))
        for place, packet in enumerate(packets, start):
            found = (packet.pts, packet.dts, packet.pos, packet.size, int(packet.is_keyframe))
            require(not packet.is_discard and found == (int(times[place]), *self.samples.row(place)))

    def _index(self, opened: Opened, times: Column, tail: list[Any]) -> PacketIndex:
        order = np.argsort(times)
        shown = times[order]
        require(bool((np.diff(shown) > 0).all()) and bool((times >= self.samples.dts).all()))
        last = int(order[-1]) - (len(times) - len(tail))
        require(last >= 0 and tail[last].duration is not None and tail[last].duration > 0)
        keys = self.keys[np.argsort(times[self.keys])]
        return PacketIndex(
            timed=True,
            pts=_array(shown),
            positions=_array(order),
            key_pts=_array(times[keys]),
            key_positions=_array(keys),
            key_seeks=_array(self.samples.dts[keys]),
            packets=len(times),
            tick=float(opened.stream.time_base or 0),
            last_ticks=tail[last].duration,
            header_fps=opened.header_fps,
            layered=self.layered,
            paired=False,
            changes=False,
        )


def _array(numbers: Column) -> array[int]:
    return array("q", numbers.astype(np.int64).tobytes())


@dataclass(frozen=True, slots=True)
class _Samples:
    """FFmpeg's index of a stream, in stored order."""

    dts: Column
    places: Column
    sizes: Column
    flags: Column

    @classmethod
    def of(cls, stream: VideoStream) -> _Samples:
        entries, count = stream.index_entries, len(stream.index_entries)
        numbers = array("q")
        for start in range(0, count, _STEP):
            checkpoint()
            numbers.extend(chain.from_iterable(map(_NUMBERS, entries[start : start + _STEP])))
        return cls(*np.frombuffer(numbers, np.int64).reshape(-1, 4).T.copy())

    def row(self, place: int) -> tuple[int, ...]:
        """One sample's numbers, in the order of the attributes."""
        return tuple(int(numbers[place]) for numbers in (self.dts, self.places, self.sizes, self.flags))


def _claimed(data: bytes, opened: Opened) -> Claim:
    stream = opened.stream
    tables = _track(data, stream.id).samples
    count = _count(data, tables[b"stsz"])
    require(count == len(stream.index_entries) and count <= _MOST)
    samples = _Samples.of(stream)
    _check_places(data, samples)
    keys = np.flatnonzero(samples.flags)
    require(0 < len(keys) <= _MOST_KEYS and keys[0] == 0 and (count - int(keys[-1])) * _LAST <= count)
    offsets = _offsets(data, tables, count)
    parameters = stream.codec_context.extradata or b""
    require(length_bytes(opened.codec, parameters) == _LENGTH)
    if opened.codec == "h264":
        _check_units(data, samples, keys, parameters)
        return Claim(samples, offsets, keys, layered=False)
    layers = np.frombuffer(data, np.uint8)[samples.places + _LENGTH + 1] & 7
    return Claim(samples, offsets, keys, layered=bool((layers > 1).any()))


def _track(data: bytes, number: int) -> Track:
    """The track that FFmpeg has as a stream of this number. ISO/IEC 14496-12, 8.3.2."""
    file = Boxes(data)
    _, tracks = movie(file)
    numbered = [track for track in tracks if _number(data, track) == number]
    require(len(numbered) == 1 and numbered[0].in_one_file(file))
    (track,) = numbered
    for span in (track.samples[b"stsd"], track.edits):
        require(span is None or struct.unpack_from(">I", data, span[0] + 4)[0] == 1)
    return track


def _number(data: bytes, track: Track) -> int:
    start = track.header[0]
    return int(struct.unpack_from(">I", data, start + (20 if data[start] else 12))[0])


def _count(data: bytes, span: Span) -> int:
    """How many samples have a size of their own. ISO/IEC 14496-12, 8.7.3.2."""
    fixed, count = struct.unpack_from(">II", data, span[0] + 4)
    require(fixed == 0 and count > 0)
    return int(count)


def _check_places(data: bytes, samples: _Samples) -> None:
    """All samples are there, each with bytes of its own by their sum, and none is hidden by an edit."""
    require(not bool((samples.flags & ~_KEY).any()) and int(samples.sizes.sum()) <= len(data))
    require(int(samples.sizes.min()) > _LENGTH + 1 and int(samples.places.min()) >= 0)
    require(int((samples.places + samples.sizes).max()) <= len(data))


def _offsets(data: bytes, tables: Box, count: int) -> Column:
    """Ticks from decoding to display, but for what is the same for all. ISO/IEC 14496-12, 8.6.1.3."""
    if b"ctts" not in tables:
        return np.zeros(count, np.int64)
    rows = column(data, tables[b"ctts"], ">i4", 2)
    require(len(rows) <= count)
    rows = rows.astype(np.int64)
    require(int(rows[:, 0].min()) > 0 and int(rows[:, 0].sum()) == count)
    require(int(np.abs(rows[:, 1]).max()) < _FARTHEST)
    return np.repeat(rows[:, 1], rows[:, 0])


def _check_units(data: bytes, samples: _Samples, keys: Column, parameters: bytes) -> None:
    """Every packet of H.264 is a frame, and FFmpeg's parser calls key frames just those that the table does. (It goes
    by the table for HEVC.)
    """
    spans = np.stack((samples.places, samples.places + samples.sizes), axis=1)[keys].tolist()
    fields = FieldPairs(parameters)
    require(not fields.is_second(data[slice(*spans[0])]) and not fields.are_possible)
    begins, slices = (np.frombuffer(data, np.uint8)[samples.places + _LENGTH + byte] for byte in (0, 1))
    begins[keys], slices[keys] = _SLICE, _FIRST_BLOCK
    require(bool((begins & TYPE == _SLICE).all() and (slices & _FIRST_BLOCK).all()))
    harmless = {_PICTURE, _DELIMITER}
    if bool(((slices >> 4 == _INTRA) | (slices == _ALL_INTRA)).any()):
        require(fields.references > 1)  # otherwise FFmpeg's parser calls them key frames
    else:
        harmless |= {_SEQUENCE}
    for number, (start, stop) in enumerate(spans):
        if number % _HEAD_UNITS == 0:
            checkpoint()
        require(_is_key(data, start, stop, harmless))


def _is_key(data: bytes, start: int, stop: int, harmless: Collection[int]) -> bool:
    """Whether a packet is a key frame for its slices alone, and no message bears on its times."""
    for _ in range(_HEAD_UNITS):
        unit = start + _LENGTH
        start = unit + int.from_bytes(data[start:unit])
        kind = data[unit] & TYPE if unit < start <= stop else -1
        if kind == _IDR:
            return True
        if kind not in harmless and not (kind == _MESSAGE and data[unit + 1] == _UNREGISTERED):
            return False
    return False


__all__ = ["Claim", "claimed"]
