"""Where the recordings in an MP3 lie, frame by frame: several may follow each other, with tags between them or not.

Comes in: a payload that begins as an MP3, behind its tags. Goes out: its `Recording`s. Never here: a library, or a copy
of the payload.

mpg123 ends behind as many frames as the first one tells, if it tells a number, and libsndfile where the bit rate of the
first makes it expect the end, if not; either ends without an error at a frame of another kind. So neither may see more
than one recording, learn its size, or meet anything but frames.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from lazymedia.media.audio.bounds import refused
from lazymedia.media.audio.mpeg_audio import behind_id3, behind_tags, frame_size, kind_of
from lazymedia.media.audio.mpeg_run import Run
from lazymedia.media.stopping import checkpoint

MAX_RECORDINGS: Final = 256
"""In one payload: as many as an OGG may hold."""

_TOLD_BESIDES: Final = 4
"""Frames beyond those that were told which are taken for padding: encoders count this way and that."""
_DROPPED: Final = 2 * 4095 + 529
"""Samples that may be dropped at the ends of a recording: LAME's delay and padding of 12 bits each, and what mpg123
drops for its own delay.
"""
_RUNS: Final = 1 << 14
"""Runs of frames, with damage or tags between them, in one payload: a radio station may put a title between every four
thousand bytes.
"""
_BELIEVED: Final = 32
"""Frames that those of another kind have to be to be taken for sound: in a program's code, six may follow each other by
chance.
"""
_LOOKS: Final = 1 << 17
"""Places of one payload that are looked at, where a frame might begin behind damage: a third of a second."""
_AT_ONCE, _LOOKS_AT_ONCE = 1 << 20, 1 << 10
"""Bytes that are searched for such places, and places that are looked at, without a pause."""
_NEAR: Final = 1 << 16
"""Bytes behind damage in which two frames are believed to be frames; further on, only three are."""
_HEADER: Final = re.compile(rb"\xff(?=[\xe2-\xff][\x10-\xef])")
"""How a frame may begin, roughly."""

_Ends: TypeAlias = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Recording:
    """Frames of one encoder, which are `Feedable`.

    Attributes:
        per_frame: Samples per channel.
        told: How many others there are, as the first frame tells; 0 where it does not.
        ends: Where each frame ends.
        breaks: The numbers of the first frame, and of those before which something is left out, and where each begins.
    """

    per_frame: int
    told: int
    ends: _Ends
    breaks: list[tuple[int, int]]
    _data: bytes

    @property
    def least(self) -> int:
        """Samples per channel that come out at least, unless frames are damaged within."""
        if len(self.breaks) > 1:
            return 0
        frames = min(len(self.ends), self.told or len(self.ends))
        return max(self.per_frame * (frames - 2) - _DROPPED, 0)

    def parts(self) -> list[memoryview]:
        """Its frames, those that lie behind each other in one."""
        return list(self._parts(0, len(self.ends)))

    def most_bytes(self, samples: int) -> int:
        """Of the frames that one call needs."""
        if len(self.breaks) > 1:
            return max(map(len, self.pieces(samples)))
        places = np.append(np.uint64(self.breaks[0][1]), self.ends[self._stops(samples) - 1])
        return int(np.diff(places).max())

    def pieces(self, samples: int) -> Iterator[bytes | memoryview]:
        """Frames, up to the one with which a call's samples are complete."""
        for first, stop in pairwise([0, *self._stops(samples).tolist()]):
            checkpoint()
            parts = list(self._parts(first, stop))
            yield parts[0] if len(parts) == 1 else b"".join(parts)

    def _stops(self, samples: int) -> npt.NDArray[np.int64]:
        """The number of frames that are needed for each call and those before it."""
        wanted = np.arange(samples, self.per_frame * len(self.ends), samples)
        return np.append((wanted - 1) // self.per_frame + 1, len(self.ends))

    def _parts(self, first: int, stop: int) -> Iterator[memoryview]:
        view = memoryview(self._data)
        at = bisect_right(self.breaks, (first, len(self._data))) - 1
        while first < stop:
            number, start = self.breaks[at]
            at += 1
            following = self.breaks[at][0] if at < len(self.breaks) else stop
            begin = start if first == number else int(self.ends[first - 1])
            first = min(stop, following)
            yield view[begin : int(self.ends[first - 1])]


def find(data: bytes) -> list[Recording]:
    """The recordings, in order. What is no whole frame belongs to none.

    A frame that tells how many follow begins a recording. So does the one behind as many as were told, and the first of
    another version, layer, rate or number of channels. Whatever else stands between frames is left out, and a recording
    goes on behind it.

    Raises:
        UnprocessableMediaError: More than `MAX_RECORDINGS`, no whole frame of sound, or more damage than is looked
            through.
    """
    found: list[Recording] = []
    frames = _Frames(data)
    for run in _runs(data):
        if not frames.go_on_with(run):
            _add(found, frames)
            frames = _Frames(data)
            frames.go_on_with(run)
    _add(found, frames)
    if not found:
        raise refused("the MP3 holds no whole frame of sound")
    return found


def _add(found: list[Recording], frames: _Frames) -> None:
    for recording in frames.recordings():
        found.append(recording)
        _check_number(len(found))


def _runs(data: bytes) -> Iterator[Run]:
    """Frames of one kind."""
    search = _Search(data)
    start = behind_id3(data)
    place, before, telling = search.next_frame(start), None, 0
    for _ in range(_RUNS):
        checkpoint()
        if place < 0:
            return
        run = Run.of(data, place)
        if before is not None and not _is_sound(run, before, is_tagged=before.stop < start == place):
            place = search.next_frame(place + 1)
            continue
        telling += len(run.told)
        _check_number(telling)
        start = behind_tags(data, run.stop)
        is_followed = start > run.stop or _is_frame(data, start, 1)
        place = search.next_frame(start if is_followed else run.last + 1)
        if 0 <= place < run.stop:
            run.leave_out_last()  # it is cut, and another begins where its bytes are missing
        if run.ends:
            yield run
            before = run
    if place >= 0:
        raise refused("the MP3 is damaged in too many places")


def _is_sound(run: Run, before: Run, *, is_tagged: bool) -> bool:
    """Whether what looks like frames is taken for some, by what they are and what stands before them."""
    return is_tagged or run.kind == before.kind or 0 in run.told or len(run.ends) >= _BELIEVED


def _check_number(recordings: int) -> None:
    if recordings > MAX_RECORDINGS:
        raise refused(f"an MP3 may hold {MAX_RECORDINGS} recordings at most")


class _Search:
    """The search for the next frame; a payload that makes it look too often is refused."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._looks = 0

    def next_frame(self, start: int) -> int:
        """Where one begins; -1 where none does any more."""
        if _is_frame(self._data, start, 1):
            return start
        near = start + _NEAR
        while start < len(self._data):
            checkpoint()
            for match in _HEADER.finditer(self._data, start, start + _AT_ONCE + 2):
                self._looks += 1
                if self._looks % _LOOKS_AT_ONCE == 0:
                    checkpoint()
                if self._looks > _LOOKS:
                    raise refused("the MP3 holds too much that looks like a frame and is none")
                if _is_frame(self._data, match.start(), 1 if match.start() < near else 2):
                    return match.start()
            start += _AT_ONCE
        return -1


def _is_frame(data: bytes, place: int, others: int) -> bool:
    """Whether a frame begins there that so many others of its kind follow, before there are tags or nothing."""
    size = frame_size(data[place : place + 4])
    if size is None or place + size > len(data):
        return False
    behind = data[place + size : place + size + 4]
    if others == 0 or not behind or behind.startswith((b"TAG", b"ID3", b"APE")):
        return True
    return kind_of(behind) == kind_of(data[place : place + 4]) and _is_frame(data, place + size, others - 1)


class _Frames:
    """Frames of one kind, some of them behind damage."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._runs: list[Run] = []
        self._breaks: list[tuple[int, int]] = []
        self._told: dict[int, int] = {}
        self._number = 0

    def go_on_with(self, run: Run) -> bool:
        """Take in more, unless they are of another kind or begin a recording."""
        if self._runs and (run.kind != self._runs[0].kind or 0 in run.told):
            return False
        self._runs.append(run)
        self._breaks.append((self._number, run.start))
        self._told |= {self._number + number: told for number, told in run.told.items()}
        self._number += len(run.ends)
        return True

    def recordings(self) -> Iterator[Recording]:
        """What they consist of."""
        if not self._runs:
            return
        ends = np.concatenate([np.array(run.ends, np.uint64) for run in self._runs])
        for first, stop in pairwise([*sorted({0, *self._told}), len(ends)]):
            told = self._told.get(first, 0)
            over = first + 1 + told
            parts = [first, over, stop] if told and stop > over + _TOLD_BESIDES else [first, stop]
            for one, other in pairwise(parts):
                # A frame that tells of others is no sound, and left out where it does not tell how many.
                begins = one + (self._told.get(one) == 0)
                if other - begins > 1 + (begins in self._told):  # one alone is none: mpg123 wants to see two
                    yield self._recording(ends, begins, other)

    def _recording(self, ends: _Ends, first: int, stop: int) -> Recording:
        at = bisect_right(self._breaks, (first, len(self._data))) - 1
        number, start = self._breaks[at]
        breaks = [(0, start if number == first else int(ends[first - 1]))]
        breaks += [(number - first, start) for number, start in self._breaks[at + 1 :] if number < stop]
        return Recording(self._runs[0].per_frame, self._told.get(first, 0), ends[first:stop], breaks, self._data)


__all__ = ["MAX_RECORDINGS", "Recording", "find"]
