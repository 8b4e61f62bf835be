"""Sound that FFmpeg decodes many frames at a time, by one call that leaves the interpreter to others.

PyAV takes the interpreter's lock four times for every frame of 20 ms, so that two threads which decode hold each other
up. A source within FFmpeg's filter graph reads and decodes on its own. It is given a container through a pipe that
holds more, before each call, than the call takes.

Comes in: a track, and the bytes to be read for each call. Goes out: samples, the same as frame by frame, as far as
nothing is unusual. Never here: a name, a codec's own rules, a thread, or a wait for the pipe.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any, Final, Protocol

import av
import numpy as np

from lazymedia.media.audio.samples import Samples
from lazymedia.media.stopping import checkpoint

_PIPE: Final = (1 << 17, 1 << 20)
"""Bytes that a pipe is asked to hold, and that it is asked for at most where a header alone is longer. Linux gives as
much until a user's pipes hold 64 MiB, then less.
"""
_AHEAD: Final = 1 << 15
"""Bytes that FFmpeg may read beyond the samples that come out."""
_CALL: Final = (64 << 10, 32 << 10, 16 << 10, 8 << 10)
"""Samples per channel that one call decodes: a second or two, in a millisecond or two. FFmpeg holds them three times
over. The most of these is taken that the track may have and the pipe has room for.
"""

_OPTIONS: Final = f"protocol_whitelist=pipe:probesize={_AHEAD}:rw_timeout=1000:max_streams=64:codec_whitelist="
"""Nothing but a pipe is opened, and nothing but the track decoded, when a picture stands among the words of an OGG
neither. What is missing from the pipe for a millisecond is its end: nobody fills it meanwhile.
"""

_HERE: Final = sys.platform == "linux" and "amovie" in av.filter.filters_available


class Pipeable(Protocol):
    """A track as FFmpeg is to read it, of which all is known beforehand.

    Attributes:
        demuxer: FFmpeg's name of the container.
        decoder: FFmpeg's name of what decodes it.
        rate: Hz.
        channels: At most 7.
        primed: Samples at the start that are none of the clip's, for the caller to drop.
        samples: Samples per channel that come out, those that prime among them.
        repeated: Samples that come out behind them, and are dropped here.
        begins: The time of the first that comes out, in samples.
        slack: Samples by which the times of a container may be wrong.
        most: Samples per channel for one call, as far as memory goes.
    """

    @property
    def demuxer(self) -> str: ...
    @property
    def decoder(self) -> str: ...
    @property
    def rate(self) -> int: ...
    @property
    def channels(self) -> int: ...
    @property
    def primed(self) -> int: ...
    @property
    def samples(self) -> int: ...
    @property
    def repeated(self) -> int: ...
    @property
    def begins(self) -> int: ...
    @property
    def slack(self) -> int: ...
    @property
    def most(self) -> int: ...

    def most_bytes(self, samples: int) -> int:
        """Bytes that FFmpeg may have to read for a call of so many samples."""

    def pieces(self, samples: int) -> Iterator[bytes | memoryview]:
        """What it reads for each call, and at last the rest, if there is any. They may end early."""


def is_possible() -> bool:
    """Whether this system has such pipes, and this FFmpeg such a source."""
    return _HERE


@contextmanager
def opened(track: Pipeable) -> Iterator[Iterator[Samples]]:
    """A track's samples as float32 (channels, N), those that prime the decoder among them.

    They end without an error, before the end, at whatever is not as the track tells: damage, SBR, a frame without
    samples. There are none where the system gives no pipe for them; `is_possible` says whether it could.
    """
    feed = _Feed.of(track)
    if feed is None:
        yield iter(())
        return
    try:
        with closing(_blocks(track, feed)) as blocks:
            yield blocks
    finally:
        feed.close()


def _blocks(track: Pipeable, feed: _Feed) -> Generator[Samples]:
    """What each call gives, in one buffer, once what is behind it has been decoded too."""
    buffer = np.empty((track.channels, feed.samples), np.float32)
    promised = track.samples + track.repeated
    done = held = 0
    for frame in _decoded(track, feed):
        if done + frame.samples > promised:
            return
        if held:
            yield buffer[:, :held]
        held = frame.samples
        done += held
        for row, plane in zip(buffer, frame.planes, strict=True):
            row[:held] = np.frombuffer(plane, np.float32, held)
        del frame
    if done == promised and held > track.repeated:
        yield buffer[:, : held - track.repeated]


def _decoded(track: Pipeable, feed: _Feed) -> Iterator[Any]:
    """The frame of samples that each call gives."""
    done = 0
    try:
        _kept, sink = _graph(track, feed)
        while feed.holds_a_call():
            checkpoint()
            frame = sink.pull()
            if not _is_next(frame, track, done):
                return
            done += frame.samples
            yield frame
            del frame  # or FFmpeg makes the next beside it
    except av.FFmpegError:  # the end, or damage that is met again frame by frame
        return


def _is_next(frame: Any, track: Pipeable, done: int) -> bool:
    """Whether samples are what the track tells, and those behind the ones that are done: FFmpeg counts the frames that
    it reads, and one that holds nothing leaves a gap in the times.
    """
    shape = (frame.sample_rate, frame.layout.nb_channels, frame.format.name)
    if shape != (track.rate, track.channels, "fltp") or frame.pts is None:
        return False
    tick = frame.time_base  # whole numbers and no fractions: this holds the interpreter once per call
    ahead = frame.pts * tick.numerator * track.rate - (track.begins + done) * tick.denominator
    return bool(abs(ahead) <= track.slack * tick.denominator)


def _graph(track: Pipeable, feed: _Feed) -> tuple[Any, Any]:
    """What decodes, and where its samples come out; the latter does not keep the former."""
    feed.fill()
    graph = av.filter.Graph()
    graph.threads = 1
    options = {"filename": f"pipe:{feed.end}", "f": track.demuxer, "format_opts": _OPTIONS + track.decoder}
    source = graph.add("amovie", **options, dec_threads="1")
    gather = graph.add("asetnsamples", n=str(feed.samples), p="0")
    sink = graph.add("abuffersink")
    graph.link_nodes(source, gather, sink).configure()
    return graph, sink


class _Feed:
    """Pieces on their way through a pipe, one for each call.

    Attributes:
        end: The descriptor to read from. It never blocks.
        samples: For each call.
    """

    def __init__(self, ends: tuple[int, int], pieces: Iterator[bytes | memoryview], samples: int) -> None:
        self.end, self._entry = ends
        self.samples = samples
        self._pieces = pieces
        self._rest = memoryview(b"")
        self._made = self._written = 0
        self._calls: deque[int] = deque()

    @classmethod
    def of(cls, track: Pipeable) -> _Feed | None:
        """None where the system gives no pipe that is large enough."""
        wanted = {samples: track.most_bytes(samples) + 2 * _AHEAD for samples in _CALL if samples <= track.most}
        try:
            ends = os.pipe()
        except OSError:  # too many files are open
            return None
        for end in ends:
            os.set_blocking(end, False)
        room = _widened(ends[1], min(wanted.values()))
        samples = next((samples for samples, size in wanted.items() if size <= room), 0)
        feed = cls(ends, track.pieces(samples) if samples else iter(()), samples)
        if not samples:
            feed.close()
            return None
        return feed

    def fill(self) -> None:
        """Write until the pipe takes no more, or all is written and the pipe has an end."""
        while self._entry >= 0:
            if not self._rest:
                piece = next(self._pieces, None)
                if piece is None:
                    self._close_entry()
                    return
                self._made += len(piece)
                self._calls.append(self._made)
                self._rest = memoryview(piece)
            try:
                written = os.write(self._entry, self._rest)
            except BlockingIOError:
                return
            self._written += written
            self._rest = self._rest[written:]

    def holds_a_call(self) -> bool:
        """Whether FFmpeg will not come to the end of what there is before it has decoded the next frames. Each time is
        for another call.
        """
        if not self._calls or self._calls[0] + _AHEAD > self._written:
            self.fill()
        return self._entry < 0 or (bool(self._calls) and self._calls.popleft() + _AHEAD <= self._written)

    def close(self) -> None:
        """Close both ends; more than once does no harm."""
        self._close_entry()
        if self.end >= 0:
            os.close(self.end)
            self.end = -1

    def _close_entry(self) -> None:
        if self._entry >= 0:
            os.close(self._entry)
            self._entry = -1


def _widened(end: int, wanted: int) -> int:
    """Bytes that a pipe holds, after it was asked to hold more."""
    import fcntl  # not everywhere

    usual, most = _PIPE
    with suppress(OSError):  # this user's pipes hold enough already
        return fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, min(max(usual, wanted), most))
    return fcntl.fcntl(end, fcntl.F_GETPIPE_SZ)


__all__ = ["Pipeable", "is_possible", "opened"]
