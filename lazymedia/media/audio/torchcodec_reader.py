"""Clips by torchcodec, where it is named: WAV, FLAC, OGG, MP4, MOV, WebM and Matroska.

Comes in: a payload that FFmpeg is certain to demux as PyAV does. Goes out: a `Source`. Never here: a payload that PyAV
has not opened and judged, FFmpeg's mix to mono, or its resampler: samples leave at the rate and with the channels and
the width they are stored with.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from lazymedia.limits import Limits
from lazymedia.media import system_ffmpeg
from lazymedia.media.audio import pyav_reader
from lazymedia.media.audio.bounds import check_layout, refused
from lazymedia.media.audio.formats import Format
from lazymedia.media.audio.pyav_reader import Grid, Track
from lazymedia.media.audio.samples import BLOCK, Samples, to_floats
from lazymedia.media.audio.source import Source
from lazymedia.media.stopping import checkpoint

_WINDOW: Final = 256
"""Packets that are decoded by one call, without the interpreter: some six seconds. Of AAC they hold 16 MiB at most."""

_OTHER_TRACK: Final = "torchcodec finds another audio track in the payload than PyAV"
_CHANGE: Final = "the rate, channels or type of the samples change in the middle of the audio"

_Shape = tuple[int, int, str]
"""Rate, channels and NumPy's name of a sample's type."""


@contextmanager
def open_source(data: bytes, kind: Format, limits: Limits) -> Iterator[Source]:
    """Decode the audio of a payload by torchcodec.

    The track, what is dropped at its start and what stays at its end are as `pyav_reader` has them. Samples of lossless
    codecs are equal to its; those of lossy ones differ by rounding (3e-7), as two releases of FFmpeg do. A damaged
    packet is an error as there. AAC in an MP4 is decoded some seconds at a time; there a rate that changes on the way
    is not seen.

    Raises:
        UnprocessableMediaError: As `pyav_reader.open_source`; or a codec beside the audio that FFmpeg should not try.
            No cause.
        ImportError: torchcodec cannot be loaded. The operator's fault.
        RuntimeError: torchcodec's own, where the payload is damaged.
    """
    track = pyav_reader.judge(data, kind, limits)
    if track.other_codec is not None:
        raise refused(f"a track of codec {track.other_codec} beside the audio is not opened by torchcodec")
    windows = None if track.grid is None else _windows(data, track, track.grid, limits)
    yield windows or _packets(data, track, limits)


def _windows(data: bytes, track: Track, grid: Grid, limits: Limits) -> Source | None:
    """A track some seconds at a time, which is quicker than packet by packet and leaves the interpreter to others.
    From where torchcodec finds anything but what the times of the packets tell, the track is read packet by packet;
    None where it does so in the first seconds, as in AAC whose header is silent about SBR.

    torchcodec leaves out samples outside a stretch of time, and decodes to the end where no frame ends with it. So
    every stretch lies between packets, and has to hold what they do. What it does not tell is a rate that changes on
    the way: no file has that but one made for it, whose frames bring headers of their own.
    """
    decoder = system_ffmpeg.open_audio(data, track.number)
    if decoder.metadata.codec != track.codec:
        raise refused(_OTHER_TRACK)
    first, *others = _stretches(grid)
    begin = _window(decoder, grid, first)
    if begin is None:
        return None
    channels = len(begin)
    check_layout(grid.rate, channels, limits)

    def blocks() -> Iterator[Samples]:
        yield begin
        done = begin.shape[1]
        for stretch in others:
            block = _window(decoder, grid, stretch)
            if block is None or len(block) != channels:
                yield from _behind(_packets(data, track, limits).blocks, done)
                return
            yield block
            done += block.shape[1]

    return Source(grid.rate, channels, blocks())


def _stretches(grid: Grid) -> Iterator[tuple[int, int]]:
    """From where to where each window goes, in samples."""
    end = grid.start + grid.count * grid.step
    return pairwise([*range(grid.start, end, _WINDOW * grid.step), end])


def _window(decoder: Any, grid: Grid, stretch: tuple[int, int]) -> Samples | None:
    """All that the frames of a stretch hold; None if that is not what their times tell, or if there is damage. What is
    primed may be missing at the very start, and what pads the last frame at the very end.
    """
    checkpoint()
    start, stop = stretch
    try:
        window = decoder.get_samples_played_in_range(start / grid.rate, stop / grid.rate)
    except RuntimeError:
        return None
    data = window.data
    late = round(window.pts_seconds * grid.rate) - start
    missing = stop - start - late - data.shape[1]
    cut = data.untyped_storage().nbytes() != data.numel() * data.element_size()
    padded = stop == grid.start + grid.count * grid.step and 0 < missing < grid.step
    if cut or window.sample_rate != grid.rate or (late and start != grid.start) or (missing and not padded):
        return None
    samples: Samples = data.numpy()
    return samples


def _behind(blocks: Iterator[Samples], done: int) -> Iterator[Samples]:
    """What comes after so many samples."""
    for block in blocks:
        if block.shape[1] > done:
            yield block[:, done:]
        done = max(done - block.shape[1], 0)


def _packets(data: bytes, track: Track, limits: Limits) -> Source:
    """A track packet by packet, whatever the times."""
    demuxer, stream = system_ffmpeg.open_track(data, track.number)
    if stream.metadata.media_type != "audio" or stream.metadata.codec != track.codec:
        raise refused(_OTHER_TRACK)
    runs = _runs(demuxer, stream.make_decoder())
    first = next(runs, None)
    if first is None:
        raise refused("the audio track holds no samples")
    shape = _shape(first)
    rate, channels, _ = shape
    check_layout(rate, channels, limits)
    return Source(rate, channels, _blocks(first, runs, shape))


def _runs(demuxer: Any, decoder: Any) -> Iterator[Any]:
    """What the packets decode to, in order, the decoder drained at the end. No run is empty."""
    for packet in demuxer:
        checkpoint()
        yield from (run for run in decoder.decode(packet) if run.num_samples)
    yield from (run for run in decoder.drain() if run.num_samples)


def _shape(run: Any) -> _Shape:
    return run.sample_rate, run.num_channels, run.data.numpy().dtype.name


def _blocks(first: Any, runs: Iterator[Any], shape: _Shape) -> Iterator[Samples]:
    """Runs put together to about a second."""
    held: list[npt.NDArray[Any]] = [first.data.numpy()]
    count = first.num_samples
    for run in runs:
        if _shape(run) != shape:
            raise refused(_CHANGE)
        held.append(run.data.numpy())
        count += run.num_samples
        if count >= BLOCK:
            yield to_floats(np.concatenate(held, axis=1))
            held, count = [], 0
    if count:
        yield to_floats(np.concatenate(held, axis=1))


__all__ = ["open_source"]
