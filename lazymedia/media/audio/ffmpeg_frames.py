"""Samples frame by frame through PyAV: for damaged clips, and for systems without memory files.

PyAV takes the interpreter's lock several times for each frame, so that two threads that decode this way slow each other
down. `ffmpeg_graph` is the default.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from itertools import chain
from typing import Any, Final

import av
import numpy.typing as npt
from av.error import EOFError as FFmpegEOFError
from av.stream import Discard

from lazymedia.contexts import contextmanager
from lazymedia.limits import Limits
from lazymedia.media.audio.bounds import PacketCount, check_layout, rejection
from lazymedia.media.audio.ffmpeg import Track, choose, open_container
from lazymedia.media.audio.formats import Format, frame_size
from lazymedia.media.audio.samples import BLOCK, Clock, Losses, NoSamplesError, Source
from lazymedia.media.cancellation import checkpoint

CHANGE: Final = "the rate, channels or type of the samples change in the middle of the audio"

_POINTERS: Final = 8
"""From so many planes on, PyAV 18 reads beyond the end of FFmpeg's list of them, which ends the process."""

_UNDECODABLE_START: Final = 64
"""Packets that a recording which may begin anywhere can lose before its first whole frame; they count as no error."""

_FOREIGN: Final = 24
"""Frames of another rate or layout from which on they are no damage: half a second of most codecs."""

_LARGEST_FRAME: Final = 2881
"""Bytes of an MPEG audio frame, of layer II at 384 kbit/s and a rate of 32 kHz doubled, at most."""

_FEW, _BYTES_PER_ERROR = 1024, 256
"""Errors behind which reading ends: a demuxer may report one at the same place for ever. More for a large payload: a
packet of AAC has some 300 bytes."""


_STRICT: Final = {"flac": {"err_detect": "crccheck+explode"}}
"""Options of decoders. By default FFmpeg's FLAC decoder gives the noise that a damaged frame decodes to."""

_UNTRIMMED: Final = {"flags2": "+skip_manual"}
"""The option by which a decoder drops nothing, as for `Track.is_one_page`. The first frame of Vorbis then holds no
sound."""


@contextmanager
def open_source(data: bytes, kind: Format, limits: Limits) -> Iterator[Source]:
    """Decode a payload of one recording. The losses that it has are complete at the end.

    Raises:
        UnprocessableMediaError: As `choose`; another rate or other channels from the middle on; or far more packets, or
            bytes in them, than a payload of this size has.
        NoSamplesError: Nothing decodes.
        av.FFmpegError: The header is damaged.
    """
    losses = Losses()
    with open_container(data, kind) as container:
        stream, track = choose(container, data, kind, limits)
        for other in container.streams:
            if other.index != stream.index:
                other.discard = Discard.all
        frames = _Frames(container, stream, track, kind, losses, len(data))
        decoded = iter(frames)
        if track.is_one_page:
            next(decoded, None)
        first = next(decoded, None)
        if first is None:
            raise NoSamplesError("the audio track holds no samples") from frames.last_error
        shape = _shape(first)
        # Only a decoded frame is certain: AAC with SBR has twice the rate of its header.
        check_layout(shape[0], shape[1], limits)
        clock = None if track.declared else Clock(losses, limits.max_audio_seconds * shape[0])
        blocks = _blocks(frames.like(first, decoded), shape[1], clock)
        if track.is_one_page and track.declared:
            blocks = _at_most(blocks, track.declared)
        yield Source(shape[0], shape[1], blocks, losses)


class _Frames:
    """What the packets decode to, in order, the decoder drained at the end. A packet that does not decode is left out.

    Attributes:
        last_error: The last one that was passed over.
    """

    def __init__(
        self, container: Any, stream: Any, track: Track, kind: Format, losses: Losses, payload_bytes: int
    ) -> None:
        self.last_error: av.FFmpegError | None = None
        self._container = container
        self._stream = stream
        self._options = _UNTRIMMED if track.is_one_page else _STRICT.get(track.codec, {})
        self._decoder = self._prepared(stream.codec_context)
        self._losses = losses
        self._errors_left = _FEW + payload_bytes // _BYTES_PER_ERROR
        self._packets = PacketCount(payload_bytes)
        self._free_errors = _UNDECODABLE_START if kind.joinable else 0

    def __iter__(self) -> Iterator[Any]:
        while self._errors_left > 0:
            try:
                for packet in self._container.demux(self._stream):
                    checkpoint()
                    self._packets.add(packet.size)
                    if packet.size:  # an empty one would end the decoder, wherever it stands
                        yield from self._decoded(packet)
                    if self._errors_left <= 0:
                        break
            except FFmpegEOFError:
                break
            except av.FFmpegError as exc:  # of the demuxer, which goes on behind it
                self._fail(exc)
                checkpoint()
            else:
                break
        yield from self._decoded(None)

    def like(self, first: Any, others: Iterator[Any]) -> Iterator[Any]:
        """The first frame and the others of its shape. Few of another shape are damage; many are another recording,
        which cannot be put behind this one.
        """
        shape = _shape(first)
        foreign = 0
        for frame in chain((first,), others):
            if _shape(frame) == shape:
                yield frame
                continue
            foreign += 1
            self._losses.errors += 1
            if foreign >= _FOREIGN:
                raise rejection(CHANGE)
            self._renew_decoder()

    def _prepared(self, context: Any) -> Any:
        context.thread_count = 1  # FLAC and ALAC would take a thread for every core, for one clip
        context.options = self._options
        return context

    def _renew_decoder(self) -> None:
        """Damage in AAC can change the channels of the decoder for good; a new one begins with those of the header.
        Frames of MPEG audio have headers of their own.
        """
        old = self._stream.codec_context
        if old.codec.canonical_name.startswith("mp"):
            return
        new: Any = av.CodecContext.create(old.codec.name, "r")
        if old.extradata:
            new.extradata = old.extradata
        if old.sample_rate and old.layout.nb_channels:
            new.sample_rate, new.layout = old.sample_rate, old.layout
        self._decoder = self._prepared(new)

    def _decoded(self, packet: Any) -> list[Any]:
        try:
            decoded: list[Any] = self._decoder.decode(packet)
        except FFmpegEOFError:
            return []
        except av.FFmpegError as exc:
            try:
                decoded = [] if packet is None else self._behind_tags(packet)
            except av.FFmpegError:
                decoded = []
            if not decoded:
                self._fail(exc)
        _reject_listed(decoded)
        frames = [frame for frame in decoded if frame.samples]
        if frames:
            self._free_errors = 0
            self._packets.decoded(sum(frame.samples for frame in frames) / frames[0].sample_rate)
        return frames

    def _behind_tags(self, packet: Any) -> list[Any]:
        """What the last frame of MPEG audio in a packet decodes to: FFmpeg puts the tags that stand between frames into
        the packet of the frame behind them.
        """
        if not self._decoder.codec.canonical_name.startswith("mp"):
            return []
        data = bytes(packet)
        start = data.find(b"\xff", max(1, len(data) - _LARGEST_FRAME))
        while start > 0:
            if frame_size(data[start : start + 4]) == len(data) - start:
                frame = av.Packet(data[start:])
                frame.pts, frame.time_base = packet.pts, packet.time_base
                return list(self._decoder.decode(frame))
            start = data.find(b"\xff", start + 1)
        return []

    def _fail(self, exc: av.FFmpegError) -> None:
        self.last_error = exc
        self._errors_left -= 1
        if self._free_errors > 0:
            self._free_errors -= 1
        else:
            self._losses.errors += 1


def _reject_listed(frames: list[Any]) -> None:
    """Reject frames whose decoder itself lists the order of its channels, as one of USAC may; see
    `ffmpeg._settle_layout`.
    """
    listed = [frame.layout for frame in frames if " channels (" in frame.layout.name]
    for layout in listed:
        # The frame frees the list; this copy of it must outlive even the interpreter's last tidying up.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(layout))
    if listed:
        raise rejection("an order of channels that the codec lists is not decoded")


def _shape(frame: Any) -> tuple[int, int, str]:
    return frame.sample_rate, frame.layout.nb_channels, frame.format.name


def _blocks(frames: Iterator[Any], channels: int, clock: Clock | None) -> Iterator[npt.NDArray[Any]]:
    """Frames put together to about a second by FFmpeg's own queue: to turn each of 20 ms into an array costs as much as
    to decode it.
    """
    queue = av.AudioFifo()
    for frame in frames:
        if clock is not None:
            clock.add(frame)
        frame.pts = None  # or the queue would want them without a gap
        queue.write(frame)
        if queue.samples >= BLOCK:
            yield _samples(queue.read(0, True), channels)
    if queue.samples:
        yield _samples(queue.read(0, True), channels)


def _at_most(blocks: Iterator[npt.NDArray[Any]], samples: int) -> Iterator[npt.NDArray[Any]]:
    for block in blocks:
        yield block[:, :samples]
        samples -= block.shape[1]
        if samples <= 0:
            return


def _samples(frame: Any, channels: int) -> npt.NDArray[Any]:
    """The samples of a frame as (channels, N). Packed formats come as one row of all channels in turn."""
    if frame.format.is_planar and channels >= _POINTERS:
        (frame,) = av.AudioResampler(format=frame.format.packed.name).resample(frame)
    array: npt.NDArray[Any] = frame.to_ndarray()
    return array.reshape(-1, channels).T if frame.format.is_packed else array


__all__ = ["CHANGE", "open_source"]
