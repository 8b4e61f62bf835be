"""Sound that FFmpeg decodes many frames at a time, by one call that leaves the interpreter to others.

PyAV takes the interpreter's lock four times for every frame of 20 ms, so that two threads which decode hold each other
up. A source within FFmpeg's filter graph reads and decodes on its own. It is given a container through a pipe that
holds more, before each call, than the call takes.

Comes in: a track, and the bytes to be read for each call. Goes out: samples, the same as frame by frame, as far as
nothing is unusual. Never here: a name, a codec's own rules, a thread, or a wait for the pipe.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from typing import Any, Final, Protocol

import av
import numpy as np

from lazymedia.media.audio import feed
from lazymedia.media.audio.feed import AHEAD, Feed, Feedable
from lazymedia.media.audio.samples import Samples
from lazymedia.media.stopping import checkpoint

_CALL: Final = (64 << 10, 32 << 10, 16 << 10, 8 << 10)
"""Samples per channel that one call decodes: a second or two, in a millisecond or two. FFmpeg holds them three times
over. The most of these is taken that the track may have and the pipe has room for.
"""

_OPTIONS: Final = f"protocol_whitelist=pipe:probesize={AHEAD}:rw_timeout=1000:max_streams=64:codec_whitelist="
"""Nothing but a pipe is opened, and nothing but the track decoded, when a picture stands among the words of an OGG
neither. What is missing from the pipe for a millisecond is its end: nobody fills it meanwhile.
"""

_HERE: Final = "amovie" in av.filter.filters_available


class Pipeable(Feedable, Protocol):
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


def is_possible() -> bool:
    """Whether this system has such pipes, and this FFmpeg such a source."""
    return _HERE and feed.is_possible()


@contextmanager
def opened(track: Pipeable) -> Iterator[Iterator[Samples]]:
    """A track's samples as float32 (channels, N), those that prime the decoder among them.

    They end without an error, before the end, at whatever is not as the track tells: damage, SBR, a frame without
    samples. There are none where the system gives no pipe for them; `is_possible` says whether it could.
    """
    pipe = Feed.of(track, [samples for samples in _CALL if samples <= track.most])
    if pipe is None:
        yield iter(())
        return
    try:
        with closing(_blocks(track, pipe)) as blocks:
            yield blocks
    finally:
        pipe.close()


def _blocks(track: Pipeable, pipe: Feed) -> Generator[Samples]:
    """What each call gives, in one buffer, once what is behind it has been decoded too."""
    buffer = np.empty((track.channels, pipe.samples), np.float32)
    promised = track.samples + track.repeated
    done = held = 0
    for frame in _decoded(track, pipe):
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


def _decoded(track: Pipeable, pipe: Feed) -> Iterator[Any]:
    """The frame of samples that each call gives."""
    done = 0
    try:
        _kept, sink = _graph(track, pipe)
        while pipe.holds_a_call():
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


def _graph(track: Pipeable, pipe: Feed) -> tuple[Any, Any]:
    """What decodes, and where its samples come out; the latter does not keep the former."""
    pipe.fill()
    graph = av.filter.Graph()
    graph.threads = 1
    options = {"filename": f"pipe:{pipe.end}", "f": track.demuxer, "format_opts": _OPTIONS + track.decoder}
    source = graph.add("amovie", **options, dec_threads="1")
    gather = graph.add("asetnsamples", n=str(pipe.samples), p="0")
    sink = graph.add("abuffersink")
    graph.link_nodes(source, gather, sink).configure()
    return graph, sink


__all__ = ["Pipeable", "is_possible", "opened"]
