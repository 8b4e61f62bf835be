"""Where the recordings in an MP3 lie, frame by frame: several may follow each other, with tags between them or not.

Comes in: a payload that begins as an MP3, behind its tags. Goes out: its `Recording`s. Never here: a library, or a copy
of the payload.

mpg123 ends behind as many frames as the first one tells, if it tells a number; libsndfile ends where the bit rate of
the first makes it expect the end, if not. So neither may see more than one recording, or learn its size.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from lazymedia.media.audio.bounds import refused
from lazymedia.media.audio.mpeg_audio import behind_id3, behind_tags, frame_samples, frame_size, side_bytes
from lazymedia.media.stopping import checkpoint

MAX_RECORDINGS: Final = 256
"""In one payload: as many as an OGG may hold."""

_AT_ONCE: Final = 1 << 12
"""Frames that are walked and judged together."""
_TOLD_BESIDES: Final = 16
"""Frames beyond those that were told which are taken for padding: encoders count this way and that."""
_PRIMED: Final = 8
"""Frames' worth of samples that may be dropped for what primes and pads: 4,095 each in LAME's tag, and mpg123's own."""
_TAG: Final = 12
"""Bytes of a frame's tag up to the number: letters, flags, and it."""
_SEARCH: Final = 1 << 16
"""Bytes in which a frame must begin behind damage, as behind the tags at the start."""
_SEARCHED: Final = 8 * _SEARCH
"""Bytes of one payload that are searched so."""
_RUNS: Final = 2 * MAX_RECORDINGS
"""Runs of frames of one kind, with anything between them, that are told apart."""
_HEADER: Final = re.compile(rb"\xff[\xe2-\xff][\x10-\xef]")
"""How a frame may begin, roughly."""


@dataclass(frozen=True, slots=True)
class Recording:
    """Frames of one encoder. Where there is no damage between them, they are `Feedable`.

    Attributes:
        start: Where the first begins.
        stop: Where the last ends; tags behind it do not belong to it.
        per_frame: Samples per channel.
        ends: Where each frame ends; None where there is damage between them.
        tells: Whether the first tells how many others there are.
    """

    start: int
    stop: int
    per_frame: int
    tells: bool
    ends: npt.NDArray[np.uint64] | None
    _data: bytes

    @property
    def least(self) -> int:
        """Samples per channel that come out at least, unless frames are damaged within."""
        return 0 if self.ends is None else self.per_frame * max(len(self.ends) - _PRIMED, 0)

    def most_bytes(self, samples: int) -> int:
        """Of the frames that one call needs."""
        return max(stop - start for start, stop in pairwise(self._parts(samples)))

    def pieces(self, samples: int) -> Iterator[memoryview]:
        """Frames, up to the one with which a call's samples are complete."""
        view = memoryview(self._data)
        for start, stop in pairwise(self._parts(samples)):
            yield view[start:stop]

    def _parts(self, samples: int) -> list[int]:
        assert self.ends is not None
        wanted = np.arange(samples, self.per_frame * len(self.ends), samples)
        stops: list[int] = self.ends[(wanted - 1) // self.per_frame].tolist()
        return [self.start, *stops, self.stop]


def find(data: bytes) -> list[Recording]:
    """The recordings, in order; what comes behind the last whole frame belongs to none.

    A frame that tells how many follow begins a recording. So does the one behind as many as were told, the first of
    another version, layer, rate or number of channels, and the first behind tags. Where anything else stands between
    frames, a recording goes on behind it, and is damaged.

    Raises:
        UnprocessableMediaError: More than `MAX_RECORDINGS`, or not one frame that is whole.
    """
    found: list[Recording] = []
    searched = runs = 0
    start = behind_id3(data)
    while (place := _next_frame(data, start)) >= 0 and searched <= _SEARCHED and runs < _RUNS:
        checkpoint()
        runs += 1
        is_damaged = bool(found) and place > start
        searched += place - start
        run = _Run.of(data, place)
        for recording in run.recordings():
            if is_damaged and run.goes_on_from(found[-1]) and 0 not in run.told:
                found[-1] = replace(found[-1], stop=recording.stop, ends=None)
            else:
                found.append(recording)
            is_damaged = False
            _check_number(len(found))
        start = behind_tags(data, run.stop)
    if not found:
        raise refused("the MP3 holds no whole frame")
    if place >= 0 or not _is_over(data, start):  # libsndfile is to say what this is
        found[-1] = replace(found[-1], stop=len(data), ends=None)
    return found


def _check_number(recordings: int) -> None:
    if recordings > MAX_RECORDINGS:
        raise refused(f"an MP3 may hold {MAX_RECORDINGS} recordings at most")


def _next_frame(data: bytes, start: int) -> int:
    """Where the next frame begins; -1 where none does for a while."""
    if _is_frame(data, start):
        return start
    candidates = _HEADER.finditer(data, start, min(len(data), start + _SEARCH))
    return next((found.start() for found in candidates if _is_frame(data, found.start())), -1)


def _is_frame(data: bytes, place: int) -> bool:
    """Whether a frame begins there, which another of its kind follows, or tags, or nothing."""
    size = frame_size(data[place : place + 4])
    if size is None or place + size > len(data):
        return False
    behind = data[place + size : place + size + 4]
    return not behind or behind.startswith((b"TAG", b"ID3", b"APE")) or _kind(behind) == _kind(data[place : place + 4])


def _kind(header: bytes) -> tuple[object, ...]:
    """What stays within a recording: sync, version and layer; rate; whether it is mono."""
    return *(byte & mask for byte, mask in zip(header, (0xFF, 0xFE, 0x0C))), header[3:] >= b"\xc0"


def _is_over(data: bytes, start: int) -> bool:
    """Whether what is left is too little to hide sound, or nothing but zeros."""
    return len(data) - start <= _SEARCH or not np.frombuffer(data, np.uint8, offset=start).any()


@dataclass(slots=True)
class _Run:
    """Frames of one kind, one behind the other.

    Attributes:
        ends: Where each ends.
        told: What frames that tell of those behind them tell their number to be, 0 where they do not.
    """

    data: bytes
    start: int
    header: bytes
    ends: array[int] = field(default_factory=lambda: array("Q"))
    told: dict[int, int] = field(default_factory=dict)

    @property
    def stop(self) -> int:
        """Where the last ends."""
        return self.ends[-1] if self.ends else self.start

    @classmethod
    def of(cls, data: bytes, start: int) -> _Run:
        """As many as there are, from one on that is whole."""
        run = cls(data, start, data[start : start + 4])
        sizes = [frame_size(bytes((0xFF, run.header[1], third, 0))) or 0 for third in range(256)]
        sizes = [size if (third ^ run.header[2]) & 0x0C == 0 else 0 for third, size in enumerate(sizes)]
        bytes_ = np.frombuffer(data, np.uint8)
        while run._add(_places(data, run.stop, sizes), bytes_):
            checkpoint()
        return run

    def goes_on_from(self, recording: Recording) -> bool:
        """Whether this is of the same kind."""
        return _kind(self.data[recording.start : recording.start + 4]) == _kind(self.header)

    def recordings(self) -> Iterator[Recording]:
        """What it consists of."""
        ends = np.array(self.ends, np.uint64)
        for first, stop in pairwise([*sorted({0, *self.told}), len(ends)]):
            told = self.told.get(first, 0)
            over = first + 1 + told
            parts = [first, over, stop] if told and stop > over + _TOLD_BESIDES else [first, stop]
            for one, other in pairwise(parts):
                yield from self._recording(ends, one, other)

    def _recording(self, ends: npt.NDArray[np.uint64], first: int, stop: int) -> Iterator[Recording]:
        """Some of the frames. One that tells of others is no sound, and left out where it does not tell how many. One
        alone is none either: mpg123 wants to see two.
        """
        told = self.told.get(first)
        first += told == 0
        if stop - first > 1:
            start = int(ends[first - 1]) if first else self.start
            yield Recording(
                start, int(ends[stop - 1]), frame_samples(self.header), bool(told), ends[first:stop], self.data
            )

    def _add(self, places: list[int], bytes_: npt.NDArray[np.uint8]) -> bool:
        """Take frames in as far as they are of the kind. Whether more may follow."""
        starts = np.array(places[:-1], np.int64)
        heads = bytes_[starts[:, None] + np.arange(4)]
        sync, version, _, mode = heads.T
        same = (sync == 0xFF) & ((version ^ self.header[1]) & 0xFE == 0)
        same &= (mode >> 6 == 3) == (self.header[3] >> 6 == 3)
        good = len(starts) if same.all() else int(same.argmin())
        sizes = np.diff(places)
        for number in self._that_tell(starts[:good], sizes[:good], bytes_):
            told = _told(self.data, int(starts[number]))
            if told is not None:
                self.told[len(self.ends) + number] = told
        _check_number(len(self.told))
        self.ends.extend(places[1 : good + 1])
        return good == _AT_ONCE

    def _that_tell(
        self, starts: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64], bytes_: npt.NDArray[np.uint8]
    ) -> list[int]:
        """Frames whose samples begin with the letters of Xing's tag, or LAME's, and that have room for a number."""
        if self.header[1] & 6 != 2:  # layer III alone has them
            return []
        at = 4 + side_bytes(self.header)
        numbers = np.flatnonzero(sizes >= at + _TAG)
        marks = bytes_[starts[numbers, None] + at + np.arange(4)].view(">u4")[:, 0]
        told: list[int] = numbers[np.isin(marks, [0x58696E67, 0x496E666F])].tolist()
        return told


def _places(data: bytes, place: int, sizes: list[int]) -> list[int]:
    """Where up to `_AT_ONCE` frames begin and, at last, end. A loop of as little as possible: this holds the
    interpreter.
    """
    places = [place]
    append = places.append
    with suppress(IndexError):  # behind the end
        for _ in range(_AT_ONCE):
            size = sizes[data[place + 2]]
            if not size:
                break
            place += size
            append(place)
    if place > len(data):
        places.pop()
    return places


def _told(data: bytes, start: int) -> int | None:
    """How many frames the one there tells to follow, 0 if it does not tell; None if it is sound, by mpg123's rule: what
    stands before the tag is not all zeros, the checksum aside.
    """
    at = start + 4 + side_bytes(data[start : start + 4])
    if any(data[start + 6 : at]):
        return None
    has_number = data[at + 7] & 1  # the first of its flags
    return int.from_bytes(data[at + 8 : at + 12], "big") if has_number else 0


__all__ = ["MAX_RECORDINGS", "Recording", "find"]
