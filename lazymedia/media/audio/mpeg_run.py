"""Frames of MPEG audio of one kind, one behind the other, and which of them tell how many follow.

Comes in: a payload, and where a frame begins in it. Goes out: a `Run`. Never here: what a recording is, or a library.
"""

from __future__ import annotations

from array import array
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from lazymedia.media.audio.mpeg_audio import frame_samples, frame_size, kind_of, side_bytes
from lazymedia.media.stopping import checkpoint

_MOST_TELLING: Final = 1 << 10
"""Frames of a run that may tell of others; it ends where there are more."""

_AT_ONCE: Final = (1 << 6, 1 << 12)
"""Frames that are walked and judged together: at first, and at most."""
_TAG: Final = 12
"""Bytes of a frame's tag up to the number: letters, flags, and it."""
_FIELDS: Final = (4, 4, 100, 4)
"""Bytes of what stands behind the flags, where they say so: the number, the size, a table, the quality."""
_DROPPED: Final = 21
"""Where in LAME's tag, behind those, the numbers of samples are that are to be dropped at the ends: 12 bits each."""


@dataclass(slots=True)
class Run:
    """Frames of one kind.

    Attributes:
        start: Where the first begins.
        header: Its.
        ends: Where each ends.
        told: How many frames follow, by the number of the frame that tells of them; 0 where it tells no number.
    """

    start: int
    header: bytes
    _data: bytes
    ends: array[int] = field(default_factory=lambda: array("Q"))
    told: dict[int, int] = field(default_factory=dict)

    @property
    def stop(self) -> int:
        """Where the last ends."""
        return self.ends[-1] if self.ends else self.start

    @property
    def last(self) -> int:
        """Where the last begins."""
        return self.ends[-2] if len(self.ends) > 1 else self.start

    @property
    def kind(self) -> tuple[object, ...]:
        """Theirs."""
        return kind_of(self.header)

    @property
    def per_frame(self) -> int:
        """Samples per channel."""
        return frame_samples(self.header)

    @classmethod
    def of(cls, data: bytes, start: int) -> Run:
        """As many as there are, from one on that is whole."""
        run = cls(start, data[start : start + 4], data)
        sizes = _sizes(run.header[1], run.header[2] & 0x0C)
        bytes_ = np.frombuffer(data, np.uint8)
        at_once, most = _AT_ONCE
        while run._add(_places(data, run.stop, sizes, at_once), at_once, bytes_):
            checkpoint()
            at_once = min(2 * at_once, most)
        return run

    def leave_out_last(self) -> None:
        """As if it were not there."""
        self.ends.pop()
        self.told.pop(len(self.ends), None)

    def _add(self, places: list[int], wanted: int, bytes_: npt.NDArray[np.uint8]) -> bool:
        """Take frames in as far as they are of the kind. Whether more may follow."""
        starts = np.array(places[:-1], np.int64)
        heads = bytes_[starts[:, None] + np.arange(4)]
        sync, version, _, mode = heads.T
        same = (sync == 0xFF) & ((version ^ self.header[1]) & 0xFE == 0)
        same &= (mode >> 6 == 3) == (self.header[3] >> 6 == 3)
        good = len(starts) if same.all() else int(same.argmin())
        sizes = np.diff(places)
        for number in self._that_tell(starts[:good], sizes[:good], bytes_):
            told = _told(self._data, int(starts[number]))
            if told is not None:
                self.told[len(self.ends) + number] = told
        self.ends.extend(places[1 : good + 1])
        return good == wanted and len(self.told) <= _MOST_TELLING

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


@lru_cache(maxsize=256)
def _sizes(second: int, rate: int) -> list[int]:
    """Bytes of a frame by the third byte of its header; 0 where that tells another rate, or none."""
    headers = [bytes((0xFF, second, third, 0)) for third in range(256)]
    return [frame_size(header) or 0 if header[2] & 0x0C == rate else 0 for header in headers]


def _places(data: bytes, place: int, sizes: list[int], wanted: int) -> list[int]:
    """Where up to so many frames begin and, at last, end. A loop of as little as possible: this holds the
    interpreter.
    """
    places = [place]
    append = places.append
    with suppress(IndexError):  # behind the end
        for _ in range(wanted):
            size = sizes[data[place + 2]]
            if not size:
                break
            place += size
            append(place)
    if place > len(data):
        places.pop()
    return places


def _told(data: bytes, start: int) -> int | None:
    """How many frames the one there tells to follow; 0 if it does not tell, or tells that all of them be dropped. None
    if it is sound, by mpg123's rule: what stands before the tag is not all zeros, the checksum aside.
    """
    at = start + 4 + side_bytes(data[start : start + 4])
    if any(data[start + 6 : at]):
        return None
    flags = data[at + 7]
    if not flags & 1:
        return 0
    told = int.from_bytes(data[at + 8 : at + 12], "big")
    lame = at + 8 + sum(size for bit, size in enumerate(_FIELDS) if flags >> bit & 1)
    dropped = int.from_bytes(data[lame + _DROPPED : lame + _DROPPED + 3], "big")
    return told if (dropped >> 12) + (dropped & 0xFFF) < told * frame_samples(data[start : start + 4]) else 0


__all__ = ["Run"]
