"""One recording of an MP3 by libsndfile, which is not to learn how long it is.

libsndfile reads an MP3 in pieces of 230 bytes, each a call into Python where it reads a payload. So it reads a pipe,
without the interpreter; and a stream where there is no pipe, to the same samples.

Comes in: a payload, and a recording in it. Goes out: what it holds, block by block. Never here: a limit, or the search
for recordings.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy.typing as npt
import soundfile

from lazymedia.media.audio.feed import Feed
from lazymedia.media.audio.mp3_recordings import Recording
from lazymedia.media.audio.samples import BLOCK
from lazymedia.media.audio.sndfile import Linear, Payload
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

    def __init__(self, data: bytes, recording: Recording) -> None:
        self._data, self._recording = data, recording
        self._done = 0
        self._pipe = None if recording.ends is None else Feed.of(recording, _CALL)
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
        return Linear(_Stream(self._data, self._recording))

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
        self._pipe = None
        self.file = self._opened()
        while self._done > 0:
            checkpoint()
            self._done -= len(self.file.read(out=out[: self._done]))

    def _close_pipe(self) -> None:
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None


@contextmanager
def opened(data: bytes, recording: Recording) -> Iterator[Recorded]:
    """A recording, to be read from start to end.

    Raises:
        Exception: soundfile's own, where it is damaged.
    """
    recorded = Recorded(data, recording)
    try:
        yield recorded
    finally:
        recorded.close()


class _Stream(Payload):
    """A part of a payload. Where its first frame does not tell the number of the others, it says that it is large
    beyond all measure: libsndfile ends where the size and the bit rate of the first frame make it expect the end.
    """

    def __init__(self, data: bytes, recording: Recording) -> None:
        super().__init__(data)  # which is no copy
        self._start, self._stop = recording.start, recording.stop
        self._size = recording.stop - recording.start if recording.tells else _BEYOND_MEASURE
        self.seek(0)

    def tell(self) -> int:
        return super().tell() - self._start

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        place = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self.tell(), io.SEEK_END: self._size}[whence]
        if place >= 0:
            super().seek(self._start + place)
        return self.tell()

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer)
        if self._size - _TAIL <= self.tell() and self._size == _BEYOND_MEASURE:
            return len(view)  # where a tag might stand, there is none
        return super().readinto(view[: max(self._stop - super().tell(), 0)])


__all__ = ["Recorded", "opened"]
