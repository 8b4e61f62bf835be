"""AAC that FFmpeg decodes many frames at a time, by one call that leaves the interpreter to others.

PyAV takes the interpreter's lock four times for every frame of 23 ms, so that two threads which decode hold each other
up. A source within FFmpeg's filter graph reads and decodes on its own. It is given the frames as a Flash Video, through
a pipe that holds more, before each call, than the call takes. That container says no more of a frame than its size, so
that the decoder gets what it gets packet by packet.

Comes in: the frames of a track. Goes out: samples, the same as frame by frame, as far as nothing is unusual. Never
here: a name or a header of the payload's own, a thread, or a wait for the pipe.
"""

from __future__ import annotations

import os
import struct
import sys
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any, Final

import av
import numpy as np

from lazymedia.media.audio.mp4_aac import FRAME, AacTrack
from lazymedia.media.audio.samples import Samples
from lazymedia.media.stopping import checkpoint

_PIPE: Final = 1 << 17
"""Bytes that a pipe is asked to hold. Linux gives as much until a user's pipes hold 64 MiB, then less."""
_AHEAD: Final = 1 << 15
"""Bytes that FFmpeg may read beyond the frames that come out, one of them for its decoder."""
_MOST: Final = 32
"""Frames that one call decodes: most of a second, in half a millisecond. FFmpeg holds them three times over."""
_CALLS: Final = 3
"""Calls whose samples are handed on together."""
_FEWEST: Final = 8
"""Frames that are worth a call."""

_OPTIONS: Final = f"protocol_whitelist=pipe:probesize={_AHEAD}:rw_timeout=1000"
"""Nothing but a pipe is opened. What is missing from it for a millisecond is its end: nobody fills it meanwhile."""

_TAG: Final = struct.Struct(">IIIIB")
"""Bytes of the last tag; type and bytes of this one; its time in ms, the highest byte last; stream 0 in three bytes;
and the first two of what the tag holds: AAC, and whether a frame. Adobe, Video File Format 10.1, annex E.
"""
_LEAD: Final = 11
"""Bytes of a tag before what it holds."""
_SOUND: Final = 8
_AAC: Final = 0xAF
_BEGIN: Final = b"FLV\x01\x04" + (9).to_bytes(4)
"""Sound only."""

_HERE: Final = sys.platform == "linux" and "amovie" in av.filter.filters_available


@contextmanager
def opened(track: AacTrack) -> Iterator[Iterator[Samples]]:
    """A track's samples as float32 (channels, N), those that prime the decoder among them.

    They end without an error, before the end, at whatever is not as the track tells: damage, SBR, a frame without
    samples. There are none where the system has no pipe for them. The first frame is decoded once more behind the
    last: what follows a frame in its packet is looked at with the next packet only.
    """
    feed = _Feed.of(track) if _HERE else None
    if feed is None:
        yield iter(())
        return
    try:
        with closing(_blocks(track, feed)) as blocks:
            yield blocks
    finally:
        feed.close()


def _blocks(track: AacTrack, feed: _Feed) -> Generator[Samples]:
    """What some calls give, in one buffer: each step of what is done with it takes the interpreter too."""
    buffer = np.empty((track.channels, _CALLS * feed.frames * FRAME), np.float32)
    done = held = 0
    for frame in _decoded(track, feed):
        if held == buffer.shape[1]:  # and what is behind it has been decoded too
            yield buffer
            held = 0
        for row, plane in zip(buffer, frame.planes, strict=True):
            row[held : held + frame.samples] = np.frombuffer(plane, np.float32, frame.samples)
        held += frame.samples
        done += frame.samples
    if done == (track.frames + 1) * FRAME and held > FRAME:
        yield buffer[:, : held - FRAME]


def _decoded(track: AacTrack, feed: _Feed) -> Iterator[Any]:
    """The frame of samples that each call gives."""
    done = 0
    try:
        _kept, sink = _graph(feed)
        while feed.holds_a_call():
            checkpoint()
            frame = sink.pull()
            if not _is_next(frame, track, done):
                return
            done += frame.samples
            yield frame
    except av.FFmpegError:  # the end, or damage that is met again frame by frame
        return


def _is_next(frame: Any, track: AacTrack, done: int) -> bool:
    """Whether samples are what the track tells, and those behind the ones that are done: FFmpeg counts the frames that
    it reads, and one that holds nothing leaves a gap in the times.
    """
    shape = (frame.sample_rate, frame.layout.nb_channels, frame.format.name)
    if shape != (track.rate, track.channels, "fltp") or frame.pts is None:
        return False
    return bool(abs(frame.pts * frame.time_base * track.rate - done) < FRAME // 2)


def _graph(feed: _Feed) -> tuple[Any, Any]:
    """What decodes, and where its samples come out; the latter does not keep the former."""
    feed.fill()
    graph = av.filter.Graph()
    graph.threads = 1
    source = graph.add("amovie", filename=f"pipe:{feed.end}", f="flv", dec_threads="1", format_opts=_OPTIONS)
    gather = graph.add("asetnsamples", n=str(feed.frames * FRAME), p="0")
    sink = graph.add("abuffersink")
    graph.link_nodes(source, gather, sink).configure()
    return graph, sink


class _Feed:
    """Frames on their way through a pipe, some for each call.

    Attributes:
        end: The descriptor to read from. It never blocks.
        frames: For each call.
    """

    def __init__(self, ends: tuple[int, int], groups: Iterator[bytes], frames: int) -> None:
        self.end, self._entry = ends
        self.frames = frames
        self._groups = groups
        self._rest = memoryview(b"")
        self._made = self._written = 0
        self._calls: deque[int] = deque()

    @classmethod
    def of(cls, track: AacTrack) -> _Feed | None:
        """None where the system gives no pipe that is large enough."""
        try:
            ends = os.pipe()
        except OSError:  # too many files are open
            return None
        for end in ends:
            os.set_blocking(end, False)
        frames = min(_MOST, (_widened(ends[1]) - 2 * _AHEAD) // (track.largest + _TAG.size))
        feed = cls(ends, _groups(track, frames), frames)
        if frames < _FEWEST:
            feed.close()
            return None
        return feed

    def fill(self) -> None:
        """Write until the pipe takes no more, or all is written and the pipe has an end."""
        while self._entry >= 0:
            if not self._rest:
                group = next(self._groups, b"")
                if not group:
                    self._close_entry()
                    return
                self._made += len(group)
                self._calls.append(self._made)
                self._rest = memoryview(group)
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


def _groups(track: AacTrack, frames: int) -> Iterator[bytes]:
    """Tags for each call; those of the first, and the last, with what begins and ends the file.

    One plain loop: it runs for every frame, and holds the interpreter meanwhile.
    """
    pack, rate = _TAG.pack, track.rate
    size = 2 + len(track.config)
    parts: list[bytes | memoryview] = [_BEGIN, pack(0, _SOUND << 24 | size, 0, _AAC, 0), track.config]
    for number, frame in enumerate(_with_one_more(track)):
        last, size = size + _LEAD, 2 + len(frame)
        time = number * FRAME * 1000 // rate
        parts += (pack(last, _SOUND << 24 | size, (time & 0xFFFFFF) << 8 | time >> 24, _AAC, 1), frame)
        if number % frames == frames - 1:
            yield b"".join(parts)
            parts.clear()
    yield b"".join((*parts, (size + _LEAD).to_bytes(4)))


def _with_one_more(track: AacTrack) -> Iterator[memoryview]:
    left = track.frames
    for frame in track:
        left -= 1
        yield frame
    if left == 0:
        yield next(iter(track))


def _widened(end: int) -> int:
    """Bytes that a pipe holds, after it was asked to hold more."""
    import fcntl  # not everywhere

    with suppress(OSError):  # this user's pipes hold enough already
        return fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, _PIPE)
    return fcntl.fcntl(end, fcntl.F_GETPIPE_SZ)


__all__ = ["opened"]
