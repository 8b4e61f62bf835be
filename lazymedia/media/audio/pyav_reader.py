"""Clips by FFmpeg through PyAV: OGG, MP3, MP4, Matroska and all else that libsndfile is not given.

FFmpeg is the demuxer: containers are read by nothing else. Samples leave at the rate and with the channels they are
stored with, without FFmpeg's mix to mono or its resampler.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from itertools import chain
from typing import Any, Final

import av
import numpy.typing as npt

from lazymedia.contexts import contextmanager
from lazymedia.limits import Limits
from lazymedia.media.audio import ffmpeg, ffmpeg_frames, ffmpeg_graph
from lazymedia.media.audio.bounds import check_layout, rejection
from lazymedia.media.audio.ffmpeg import Track
from lazymedia.media.audio.formats import MATROSKA, MP4, Format
from lazymedia.media.audio.header import AudioInfo
from lazymedia.media.audio.samples import Clock, Losses, NoSamplesError, Source
from lazymedia.media.cancellation import checkpoint
from lazymedia.media.containers import ogg
from lazymedia.media.containers.matroska import has_encodings
from lazymedia.media.ffmpeg import can_seek

_SMALL: Final = 1 << 16
"""Bytes up to which a payload is decoded frame by frame: to open it a second time would cost more than that saves."""

_LARGE_PACKETS: Final = frozenset({"wav", "aiff", "mov"})
"""Demuxers that make large packets of uncompressed sound, or are only given files with few. In others a packet may be
one sample, and packets are counted where a clip goes frame by frame."""

_PAUSE: Final = 0.05
"""Seconds between two looks at whether a decode that waits for another is still wanted."""

_one_at_a_time = threading.Lock()
"""Held by a decode that goes frame by frame where there are no memory files: two at once take longer than one after the
other."""


@contextmanager
def open_source(data: bytes, kind: Format, limits: Limits) -> Iterator[Source]:
    """Decode the audio of a payload by FFmpeg.

    Of several audio tracks FFmpeg's best is taken: marked as default rather than not, then the one with more packets
    and the higher bit rate, then the first. Of several programs in one stream, it is taken from that of the video, if
    there is any in it. Pictures and video tracks are never decoded.

    Where the container says that a codec primed its decoder (an edit list, Opus pre-skip), those samples at the start
    are dropped, as FFmpeg does. Samples that pad the last frame stay: an AAC clip may be up to a frame longer than what
    was encoded. Gaps in the time stamps, at the start too, are not filled.

    What decodes is given in order, and what does not is left out; `Source.losses` counts it. Recordings that follow
    each other in one OGG are read one after the other, each with its own tables.

    Raises:
        UnprocessableMediaError: Over a limit, no audio, a codec that is not decoded, or a rate or layout that changes
            on the way. No cause.
        NoSamplesError: Nothing decodes.
        av.FFmpegError: The header is damaged.
    """
    if kind.demuxer != "ogg":
        with _opened(data, kind, limits) as source:
            yield source
        return
    links = ogg.links_of(data, "audio")
    with ExitStack() as stack:
        source, later = _first_that_opens(stack, data, links, kind, limits)
        blocks = chain(source.blocks, _others(source, data, later, kind, limits))
        yield Source(source.rate, source.channels, blocks, source.losses)


def read_info(data: bytes, kind: Format, limits: Limits) -> AudioInfo:
    """What the header says; of recordings that follow each other in one OGG, without a length. Raises as
    `open_source`.
    """
    links = ogg.links_of(data, "audio") if kind.demuxer == "ogg" else []
    if len(links) < 2:
        return ffmpeg.read_info(data, kind, limits)
    first = ffmpeg.read_info(data[links[0]], kind, limits)
    return AudioInfo(first.rate, first.channels, None)


def _first_that_opens(
    stack: ExitStack, data: bytes, links: list[slice], kind: Format, limits: Limits
) -> tuple[Source, list[slice]]:
    """The first recording with an undamaged header, and those behind it."""
    errors = 0
    while True:
        link, *links = links
        try:
            source = stack.enter_context(_opened(data[link], kind, limits))
        except (av.FFmpegError, NoSamplesError):
            if not links:
                raise
            errors += 1
            continue
        source.losses.errors += errors
        return source, links


def _others(first: Source, data: bytes, links: list[slice], kind: Format, limits: Limits) -> Iterator[npt.NDArray[Any]]:
    for link in links:
        checkpoint()
        try:
            opened = _opened(data[link], kind, limits)
            with opened as source:
                if (source.rate, source.channels) != (first.rate, first.channels):
                    raise rejection(ffmpeg_frames.CHANGE)
                yield from source.blocks
                first.losses.samples += source.losses.samples
                first.losses.errors += source.losses.errors
        except (av.FFmpegError, NoSamplesError):
            first.losses.errors += 1


@contextmanager
def _opened(data: bytes, kind: Format, limits: Limits) -> Iterator[Source]:
    """A payload of one recording."""
    track = ffmpeg.read_track(data, kind, limits)
    with _source(data, kind, limits, track) as source:
        yield Source(source.rate, source.channels, counted(source, track, kind), source.losses)


def counted(source: Source, track: Track, kind: Format) -> Iterator[npt.NDArray[Any]]:
    """The blocks, with the losses completed at their end by what the container declares."""
    total = 0
    for block in source.blocks:
        total += block.shape[1]
        yield block
    source.losses.errors += track.is_cut
    # An MP4 in fragments may say that nothing is heard for a while. Damage in one is always an error besides.
    if kind != MP4 or source.losses.errors:
        source.losses.at_least(_missing(track, total, source.rate))
    source.losses.at_least(source.losses.errors * track.frame_samples)


def _missing(track: Track, total: int, rate: int) -> int:
    """Samples by which a clip is shorter than declared; containers round, and count what primes a decoder."""
    missing = (track.declared or 0) - total
    return missing if missing > max(track.frame_samples, rate // 50) else 0


@contextmanager
def _source(data: bytes, kind: Format, limits: Limits, track: Track) -> Iterator[Source]:
    if not ffmpeg_graph.is_possible():
        with _alone(), ffmpeg_frames.open_source(data, kind, limits) as source:
            yield source
        return
    is_loose = track.codec.startswith(("pcm_", "adpcm_")) and kind.demuxer not in _LARGE_PACKETS
    is_loose = is_loose or (kind == MATROSKA and has_encodings(data)) or not can_seek(kind.demuxer)
    frame_by_frame = track.is_listed or track.is_one_page or track.codec == "flac" or is_loose or not track.channels
    if len(data) > _SMALL and not frame_by_frame:
        with ExitStack() as stack:
            try:
                frames = stack.enter_context(ffmpeg_graph.opened(data, kind, track))
                first = next(frames, None)
            except (OSError, av.FFmpegError):  # too many files are open, or damage, which is met again
                first = None
            if first is not None:
                rate, channels = first.sample_rate, first.layout.nb_channels
                check_layout(rate, channels, limits)
                losses = Losses()
                clock = None if track.declared else Clock(losses, limits.max_audio_seconds * rate)
                blocks = _many_at_a_time(chain((first,), frames), channels, clock)
                rest = partial(ffmpeg_frames.open_source, data, kind, limits)
                source = Source(rate, channels, blocks, losses)
                yield Source(rate, channels, _then_frame_by_frame(source, track, kind, rest), losses)
                return
    with ffmpeg_frames.open_source(data, kind, limits) as source:
        yield source


def _many_at_a_time(frames: Iterator[Any], channels: int, clock: Clock | None) -> Iterator[npt.NDArray[Any]]:
    for frame in frames:
        if clock is not None:
            clock.add(frame)
        yield ffmpeg_graph.as_array(frame, channels)


def _then_frame_by_frame(
    source: Source, track: Track, kind: Format, rest: Callable[[], AbstractContextManager[Source]]
) -> Iterator[npt.NDArray[Any]]:
    """The blocks of a source. From the first damage on, or where they end too early, what comes frame by frame, with
    losses counted anew.
    """
    done = 0
    try:
        for block in source.blocks:
            done += block.shape[1]
            yield block
        if kind == MP4 or not _missing(track, done, source.rate):
            return
    except av.FFmpegError:
        pass
    with rest() as other:
        if (other.rate, other.channels) != (source.rate, source.channels):
            raise rejection(ffmpeg_frames.CHANGE)
        yield from behind(other.blocks, done)
        source.losses.samples, source.losses.errors = other.losses.samples, other.losses.errors


def behind(blocks: Iterator[npt.NDArray[Any]], done: int) -> Iterator[npt.NDArray[Any]]:
    """What comes after so many samples."""
    for block in blocks:
        if block.shape[1] > done:
            yield block[:, done:]
        done = max(done - block.shape[1], 0)


@contextmanager
def _alone() -> Iterator[None]:
    while not _one_at_a_time.acquire(timeout=_PAUSE):
        checkpoint()
    try:
        yield
    finally:
        _one_at_a_time.release()


__all__ = ["behind", "counted", "open_source", "read_info"]
