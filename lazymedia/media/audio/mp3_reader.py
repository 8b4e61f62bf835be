"""One recording of an MP3 by libsndfile, which is not to learn how long it is.

libsndfile reads an MP3 in pieces of 230 bytes, each a call into Python where it reads a payload. So it reads a pipe,
without the interpreter; and a stream where there is no pipe, to the same samples.

Comes in: a recording. Goes out: what it holds, block by block. Never here: a limit, or the search for recordings.
"""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from typing import Any, Final

import numpy.typing as npt
import soundfile

from lazymedia.media.audio.feed import Feed
from lazymedia.media.audio.mp3_recordings import Recording
from lazymedia.media.audio.samples import BLOCK
from lazymedia.media.audio.sndfile import Linear
from lazymedia.media.stopping import checkpoint

_CALL: Final = (BLOCK, BLOCK // 2, BLOCK // 4, BLOCK // 8)
"""Samples per channel that are read at once, by the room in a pipe."""
_BEYOND_MEASURE: Final = 1 << 40
"""Bytes: at 320 kbit/s, nine months."""
_TAIL: Final = 128
"""Bytes at the end that mpg123 looks at before anything else: an ID3v1 tag might be in them."""


class Recorded:
    """A recording that is open.

    Attributes:
        file: What libsndfile makes of its header.
    """

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._done = 0
        self._pipe = Feed.of(recording, _CALL)
        try:
            self.file = self._opened()
        except BaseException:
            self._close_pipe()
            raise

    def read(self, out: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The next samples, as the part of (N, channels) that they fill; none at the end."""
        if self._pipe is not None:
            got = self._read_pipe(self._pipe, out[: self._pipe.samples])
            if got is not None:
                return got
            self._go_on_as_stream(out)
        return self.file.read(out=out)  # type: ignore[no-any-return]  # soundfile has no types

    def close(self) -> None:
        """Close all that is open."""
        try:
            self.file.close()
        finally:
            self._close_pipe()

    def _opened(self) -> Any:
        if self._pipe is not None:
            self._pipe.fill()
            try:
                return Linear(self._pipe.end, closefd=False)
            except soundfile.LibsndfileError:  # the stream is to say what is wrong
                self._close_pipe()
        return Linear(_Stream(self._recording))

    def _read_pipe(self, pipe: Feed, out: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
        """None where there was not enough in it; libsndfile would take that for the end."""
        if not pipe.holds_a_call():
            return None
        try:
            got: npt.NDArray[Any] = self.file.read(out=out)
        except soundfile.LibsndfileError:
            if pipe.ran_dry():
                return None
            raise
        if pipe.ran_dry():
            return None
        self._done += len(got)
        return got

    def _go_on_as_stream(self, out: npt.NDArray[Any]) -> None:
        """Behind the samples that came already."""
        self.close()
        self.file = self._opened()
        while self._done > 0 and (count := len(self.file.read(out=out[: self._done]))):
            checkpoint()
            self._done -= count

    def _close_pipe(self) -> None:
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None


@contextmanager
def opened(recording: Recording) -> Iterator[Recorded]:
    """A recording, to be read from start to end.

    Raises:
        Exception: soundfile's own, where it is damaged.
    """
    recorded = Recorded(recording)
    try:
        yield recorded
    finally:
        recorded.close()


class _Stream:
    """The frames of a recording, which says that it is large beyond all measure: libsndfile ends where the size and the
    bit rate of the first frame make it expect the end. Only where that tells the number of the others, mpg123 ends
    there, and would complain of the size.
    """

    def __init__(self, recording: Recording) -> None:
        self._parts = recording.parts()
        self._stops = list(accumulate(map(len, self._parts)))
        self._size = self._stops[-1] if recording.told else _BEYOND_MEASURE
        self._place = 0

    def __repr__(self) -> str:
        return "the payload"

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        place = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        self._place = place if place >= 0 else self._place
        return self._place

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        if self._size == _BEYOND_MEASURE and self._place >= self._size - _TAIL:
            return len(view)  # where a tag might stand, there is none
        at = bisect_right(self._stops, self._place)
        if at == len(self._stops):
            return 0
        start = self._place - self._stops[at] + len(self._parts[at])
        part = self._parts[at][start : start + len(view)]
        view[: len(part)] = part
        self._place += len(part)
        return len(part)


__all__ = ["Recorded", "opened"]
