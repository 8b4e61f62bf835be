"""Where the recordings in an MP3 lie, frame by frame: several may follow each other, with tags between them or not.

Comes in: a payload that begins as an MP3, behind its tags. Goes out: its `Recording`s. Never here: a library, or a copy
of the payload.

mpg123 ends behind as many frames as the first one tells, if it tells a number; libsndfile ends where the bit rate of
the first makes it expect the end, if not. So neither may see more than one recording, or learn its size.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from lazymedia.media.audio.bounds import refused
from lazymedia.media.audio.mpeg_audio import behind_id3, behind_tags, frame_size, kind_of
from lazymedia.media.audio.mpeg_run import Run
from lazymedia.media.stopping import checkpoint

MAX_RECORDINGS: Final = 256
"""In one payload: as many as an OGG may hold."""

_TOLD_BESIDES: Final = 16
"""Frames beyond those that were told which are taken for padding: encoders count this way and that."""
_PRIMED: Final = 8
"""Frames' worth of samples that may be dropped for what primes and pads: 4,095 each in LAME's tag, and mpg123's own."""
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
        UnprocessableMediaError: More than `MAX_RECORDINGS`, or no whole frame of sound.
    """
    found: list[Recording] = []
    searched = runs = 0
    start = behind_id3(data)
    while (place := _next_frame(data, start)) >= 0 and searched <= _SEARCHED and runs < _RUNS:
        checkpoint()
        runs += 1
        is_damaged = bool(found) and place > start
        searched += place - start
        run = Run.of(data, place)
        for recording in _recordings(data, run):
            if is_damaged and run.kind == kind_of(data[found[-1].start : found[-1].start + 4]) and 0 not in run.told:
                found[-1] = replace(found[-1], stop=recording.stop, ends=None)
            else:
                found.append(recording)
            is_damaged = False
            _check_number(len(found))
        start = behind_tags(data, run.stop)
    if not found:
        raise refused("the MP3 holds no whole frame of sound")
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
    return (
        not behind or behind.startswith((b"TAG", b"ID3", b"APE")) or kind_of(behind) == kind_of(data[place : place + 4])
    )


def _is_over(data: bytes, start: int) -> bool:
    """Whether what is left is too little to hide sound, or nothing but zeros."""
    return len(data) - start <= _SEARCH or not np.frombuffer(data, np.uint8, offset=start).any()


def _recordings(data: bytes, run: Run) -> Iterator[Recording]:
    """What frames of one kind consist of."""
    ends = np.array(run.ends, np.uint64)
    for first, stop in pairwise([*sorted({0, *run.told}), len(ends)]):
        told = run.told.get(first, 0)
        over = first + 1 + told
        parts = [first, over, stop] if told and stop > over + _TOLD_BESIDES else [first, stop]
        for one, other in pairwise(parts):
            # A frame that tells of others is no sound, and left out where it does not tell how many.
            begins = one + (run.told.get(one) == 0)
            if other - begins > 1:  # one alone is none: mpg123 wants to see two
                start = int(ends[begins - 1]) if begins else run.start
                kept = ends[begins:other]
                yield Recording(start, int(kept[-1]), run.per_frame, bool(run.told.get(begins)), kept, data)


__all__ = ["MAX_RECORDINGS", "Recording", "find"]
