"""Clips by torchcodec, where it is named: WAV, FLAC, OGG, MP4, MOV, WebM and Matroska.

Only payloads that FFmpeg is certain to demux as PyAV does come here, and PyAV opens and checks them first. Samples
leave at the rate, with the channels and with the width they are stored with.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from lazymedia.contexts import contextmanager
from lazymedia.limits import Limits
from lazymedia.media import system_ffmpeg
from lazymedia.media.audio import ffmpeg, pyav_reader
from lazymedia.media.audio.bounds import PacketCount, check_layout, rejection
from lazymedia.media.audio.formats import Format
from lazymedia.media.audio.samples import BLOCK, Losses, Source
from lazymedia.media.cancellation import checkpoint

_OTHER_TRACK: Final = "torchcodec finds another audio track in the payload than PyAV"
_CHANGE: Final = "the rate, channels or type of the samples change in the middle of the audio"

_Shape = tuple[int, int, str]
"""Rate, channels and NumPy's name of a sample's type."""


@contextmanager
def open_source(data: bytes, kind: Format, limits: Limits) -> Iterator[Source]:
    """Decode the audio of a payload by torchcodec.

    The track, what is dropped at its start and what stays at its end are as `pyav_reader` has them. Samples of lossless
    codecs are equal to its; those of lossy ones differ by rounding (3e-7), as two releases of FFmpeg do. A damaged
    packet is left out and counted as there.

    Raises:
        UnprocessableMediaError: As `pyav_reader.open_source`; or a codec beside the audio that FFmpeg should not try.
            No cause.
        ImportError: torchcodec cannot be loaded. The operator's fault.
        RuntimeError: torchcodec's own, where the header is damaged.
    """
    track = ffmpeg.read_track(data, kind, limits)
    if track.other_codec is not None:
        raise rejection(f"a track of codec {track.other_codec} beside the audio is not opened by torchcodec")
    demuxer, stream = system_ffmpeg.open_track(data, track.number)
    if stream.metadata.media_type != "audio" or stream.metadata.codec != track.codec:
        raise rejection(_OTHER_TRACK)
    losses = Losses()
    runs = _runs(demuxer, stream.make_decoder(), losses, PacketCount(len(data)))
    first = next(runs, None)
    if first is None:
        raise rejection("the audio track holds no samples")
    shape = _shape(first)
    rate, channels, _ = shape
    check_layout(rate, channels, limits)
    source = Source(rate, channels, _blocks(first, runs, shape), losses)
    yield Source(rate, channels, pyav_reader.counted(source, track, kind), losses)


def _runs(demuxer: Any, decoder: Any, losses: Losses, count: PacketCount) -> Iterator[Any]:
    """What the packets decode to, in order, the decoder drained at the end. No run is empty. A packet that does not
    decode is left out; what the demuxer cannot read ends the clip.
    """
    packets = iter(demuxer)
    try:
        while (packet := next(packets, None)) is not None:
            checkpoint()
            count.add(0)  # torchcodec does not show how many bytes it holds
            try:
                runs = decoder.decode(packet)
            except RuntimeError:
                losses.errors += 1
                continue
            for run in runs:
                if run.num_samples:
                    count.decoded(run.num_samples / run.sample_rate)
                    yield run
    except RuntimeError:
        losses.errors += 1
    yield from (run for run in decoder.drain() if run.num_samples)


def _shape(run: Any) -> _Shape:
    return run.sample_rate, run.num_channels, run.data.numpy().dtype.name


def _blocks(first: Any, runs: Iterator[Any], shape: _Shape) -> Iterator[npt.NDArray[Any]]:
    """Runs put together to about a second."""
    held: list[npt.NDArray[Any]] = [first.data.numpy()]
    count = first.num_samples
    for run in runs:
        if _shape(run) != shape:
            raise rejection(_CHANGE)
        held.append(run.data.numpy())
        count += run.num_samples
        if count >= BLOCK:
            yield np.concatenate(held, axis=1)
            held, count = [], 0
    if count:
        yield np.concatenate(held, axis=1)


__all__ = ["open_source"]
