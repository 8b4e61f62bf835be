"""Decodes the wanted frames of a video by torchcodec: those that `reader` gives, of payloads that PyAV has opened.

torchcodec demuxes and decodes; its packets are opaque, so that a frame is known by the time it is shown at, and all
times are compared with the index before the first one is decoded. The samples are laid into a frame that PyAV has
decoded from the same stream, so that colours are converted and pixels rotated by the same code, to the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from lazymedia.contexts import contextmanager
from lazymedia.media import system_ffmpeg
from lazymedia.media.cancellation import checkpoint
from lazymedia.media.video import reader
from lazymedia.media.video.container import check_transfer, open_video
from lazymedia.media.video.decode_ranges import DecodeRange, Parts
from lazymedia.media.video.errors import rejection
from lazymedia.media.video.nal import SLICED

if TYPE_CHECKING:
    from av.video.frame import VideoFrame

    from lazymedia.limits import Limits
    from lazymedia.media.video.container import Opened
    from lazymedia.media.video.frame_sink import FrameSink
    from lazymedia.media.video.frames import Pixels
    from lazymedia.media.video.index import PacketIndex

_Frames: TypeAlias = "Iterator[tuple[int | None, Any]]"
"""torchcodec's frames, each with its time in ticks; None for a time that the index does not know."""

_REORDERED: Final = 16
"""Frames that a decoder holds back at most, to bring others before them (ITU-T H.264, A.3.1; H.265, A.4.2)."""

_ALIGNMENT: Final = 256
"""Columns fewer than which torchcodec leaves of a crop on the left: it cannot ask FFmpeg for crops that do not begin
where samples are aligned, as `container.open_video` does. The columns on the right are the same."""

_TRANSFERS: Final = {"smpte2084": 16, "arib-std-b67": 18}
"""FFmpeg's names of what `check_transfer` rejects."""

_HIDING: Final = frozenset({"vp8", "vp9"})
"""Codecs with packets that are never shown, which torchcodec counts and the index does not."""


class Reader(reader.Reader):
    """As `reader.Reader`, and every frame that is decoded is decoded by torchcodec, in one codec thread.

    No frame is skipped on the way: torchcodec has no way to ask for that.
    """

    _first: VideoFrame | None = None
    _track: _Track | None = None

    def read(self, index: PacketIndex, frame_indices: Sequence[int]) -> tuple[Pixels, list[int]]:
        """As `reader.Reader.read`.

        Raises:
            UnprocessableMediaError: Besides: the times of the frames do not distinguish them, or torchcodec finds other
                times than the index.
            ImportError: torchcodec cannot be loaded.
        """
        if not index.timed:
            raise rejection(
                'frames without times of their own cannot be distinguished by torchcodec; "pyav" reads them'
            )
        return super().read(index, frame_indices)

    def run(self, index: PacketIndex, parts: Parts, sink: FrameSink) -> None:
        """Decode parts for as long as any is left, each in stored order, and offer every frame that is wanted."""
        if self._first is None:
            self._first = self._first_frame(index, sink)
        for part in parts:
            self._track = _Track(self._data, self._opened, index, self._first)
            for decode_range in part:
                self._count_slices_of(decode_range, index, sink)
                if self._begin_at_key(decode_range, index, sink) or not self._may_walk(decode_range):
                    continue
                # The container landed behind the key frame, or on one that begins nothing.
                self._walk(self._track.from_head(), decode_range, index, sink)

    def _run_apart(self, index: PacketIndex, parts: Parts, sink: FrameSink) -> None:
        with reading(self._data, self._limits, threads=1) as apart:
            apart.run(index, parts, sink)

    def _first_frame(self, index: PacketIndex, sink: FrameSink) -> VideoFrame:
        """The first frame that PyAV decodes: its size, colours and which way is up are those of all."""
        self._reopen()
        for frame in self._frames(DecodeRange(0, index.packets - 1, {}), sink, skips=False):
            self._check(frame)
            return frame
        raise rejection("no frame of the video can be decoded") from sink.fault

    def _begin_at_key(self, decode_range: DecodeRange, index: PacketIndex, sink: FrameSink) -> bool:
        """Decode a range from its key frame. False where that is not what the container gave."""
        assert self._track is not None
        if not decode_range.start:
            self._walk(self._track.from_head(), decode_range, index, sink)
            return True
        time = index.key_time(decode_range.start)  # torchcodec seeks by display times, as it does itself
        frames = None if time is None else self._track.from_time(time * index.tick)
        if frames is None:
            return False
        first = index.pts[min(decode_range.wanted.values())]
        for pts, raw in self._counted(frames):
            position = index.key_at(pts)
            if position is not None and position <= decode_range.start:
                self._walk(chain([(pts, raw)], frames), decode_range, index, sink)
                return True
            if pts is not None and pts >= first:
                return False
        return False

    def _count_slices_of(self, decode_range: DecodeRange, index: PacketIndex, sink: FrameSink) -> None:
        """As before every packet that PyAV decodes: torchcodec does not show what is in a packet."""
        if self._opened.codec in SLICED:
            self._go_to(decode_range.start, index)
            for packet in self._until(decode_range.stop):
                self._count_slices(packet, sink)

    def _walk(self, frames: _Frames, decode_range: DecodeRange, index: PacketIndex, sink: FrameSink) -> None:
        """Offer what the range wants, until that is all there or cannot come any more."""
        assert self._track is not None
        wanted = set(decode_range.wanted.values())
        last, behind = index.pts[max(wanted)], 0
        for pts, raw in self._counted(frames):
            frame_index = index.frame_at(pts)
            if frame_index in wanted:
                sink.offer(self._track.fill(raw, pts), self._converter)
                wanted.remove(frame_index)
            behind += pts is not None and pts > last
            if not wanted or behind > _REORDERED:
                return

    def _counted(self, frames: _Frames) -> _Frames:
        """The same frames; an end to what a container costs that lands far from where it was sent."""
        for pts, raw in frames:
            self.decoded += 1
            if self.decoded > 2 * self._limits.max_video_walk_frames:
                raise rejection("far more frames would have to be decoded than those that are wanted depend on")
            yield pts, raw

    def _may_walk(self, decode_range: DecodeRange) -> bool:
        return self.decoded + decode_range.stop < self._limits.max_video_walk_frames


class _Track:
    """The video stream as torchcodec has it, once it has been found to be the one that PyAV opened.

    Raises:
        UnprocessableMediaError: It is another, or its frames have other times than the index has.
    """

    def __init__(self, data: bytes, opened: Opened, index: PacketIndex, first: VideoFrame) -> None:
        self._data = data
        self._number = opened.stream.index
        self._index = index
        self._codec = opened.stream.codec_context.codec.canonical_name
        first.make_writable()
        self._mould = first
        self._format = _plain(first.format.name)
        self._colours: tuple[str, ...] | None = None
        self._width = 0
        self._fresh = True
        self._open()

    def _open(self) -> None:
        self._demuxer, stream = system_ffmpeg.open_track(self._data, self._number)
        if stream.metadata.media_type != "video" or stream.metadata.codec != self._codec:
            raise rejection("torchcodec finds another video in the payload than PyAV")
        self._check_times(stream.scan().pts_seconds.numpy())
        self._decoder = stream.make_decoder(device="cpu", num_ffmpeg_threads=1)

    def _check_times(self, found: Any) -> None:
        """All frames of the index are there, each at its time; and no others, unless a codec hides some, or fields have
        times of their own.
        """
        expected = np.asarray(self._index.pts, dtype=np.float64) * self._index.tick
        half = self._index.tick / 2
        places = np.searchsorted(found, expected - half)
        same = places[-1] < len(found) and bool((np.abs(found[places] - expected) < half).all())
        more = self._codec in _HIDING or self._index.paired
        if not same or (not more and len(found) != len(expected)):
            raise rejection("torchcodec finds frames at other times than PyAV")

    def from_head(self) -> _Frames:
        """Frames from the first one on."""
        if not self._fresh:
            self._open()
        self._fresh = False
        return self._frames()

    def from_time(self, seconds: float) -> _Frames | None:
        """Frames from a key frame on, as far as the container finds it. None where it cannot seek."""
        self._fresh = False
        try:
            self._demuxer.seek(seconds)
        except RuntimeError:
            return None
        self._decoder.reset()
        return self._frames()

    def _frames(self) -> _Frames:
        while True:
            checkpoint()
            try:
                packet = next(self._demuxer, None)
            except RuntimeError:
                packet = None  # a truncated container; what came before the cut stands
            try:
                frames = self._decoder.drain() if packet is None else self._decoder.decode(packet)
            except RuntimeError:
                frames = []  # one frame is broken; the decoder goes on with the next
            for raw in frames:
                yield self._ticks(raw.pts_seconds), raw
            if packet is None:
                return

    def _ticks(self, seconds: float) -> int | None:
        tick = self._index.tick
        pts = round(seconds / tick)
        return pts if abs(pts * tick - seconds) < tick / 4 and self._index.frame_at(pts) is not None else None

    def fill(self, raw: Any, pts: int | None) -> VideoFrame:
        """PyAV's frame with the samples of one of torchcodec's. It is the same frame each time.

        Raises:
            UnprocessableMediaError: Another size, kind of samples, or colours than the first frame's.
        """
        frame = self._mould
        self._width = self._width or raw.width
        is_larger_by = self._width - frame.width
        if (raw.width, raw.height) != (self._width, frame.height) or not 0 <= is_larger_by < _ALIGNMENT:
            raise rejection("the size of the video's frames changes in its middle")
        check_transfer(_TRANSFERS.get(raw.color_transfer_characteristic, 0))
        colours = (raw.color_space, raw.color_range)
        self._colours = self._colours or colours
        if _plain(raw.pixel_format) != self._format or colours != self._colours:
            raise rejection("the colours of the video's frames are stored in different ways")
        for plane, samples in zip(frame.planes, self._in_order(raw.planes), strict=True):
            buffer: Any = plane  # the stubs do not say that it is one
            rows = np.frombuffer(buffer, dtype=np.uint8).reshape(-1, plane.line_size)
            stored = samples.numpy().view(np.uint8)
            columns = stored.shape[1] * plane.width // samples.shape[1]
            rows[: plane.height, :columns] = stored[:, stored.shape[1] - columns :]
        frame.pts = pts
        return frame

    def _in_order(self, planes: tuple[Any, ...]) -> tuple[Any, ...]:
        """Planes as FFmpeg stores them: torchcodec names red first, FFmpeg's planar RGB green."""
        if len(planes) != len(self._mould.planes) or any(plane.stride(-1) != 1 for plane in planes):
            raise rejection(f'frames of type {self._format} are not in planes; "pyav" reads them')
        return (*planes[1:3], planes[0], *planes[3:]) if self._format.startswith("gbr") else planes


def _plain(pixel_format: str) -> str:
    """A name without its mark for full range, which the frame's range has too."""
    return pixel_format.replace("yuvj", "yuv")


@contextmanager
def reading(data: bytes, limits: Limits, *, threads: int | None) -> Iterator[Reader]:
    """As `reader.reading`, for payloads that `system_ffmpeg.is_certain` holds to be so.

    Raises:
        UnprocessableMediaError: As `open_video`; or a codec beside the video that FFmpeg should not try.
        ImportError: torchcodec cannot be loaded.
    """
    with ExitStack() as stack:
        opened = stack.enter_context(open_video(data, limits))
        other = system_ffmpeg.other_codec(opened.container)
        if other is not None:
            raise rejection(f"a track of codec {other} beside the video is not opened by torchcodec")
        yield Reader(data, limits, opened, stack, threads)


__all__ = ["Reader", "reading"]
