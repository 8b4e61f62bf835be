"""Decodes the wanted frames of a video, for the price of those and of what they depend on.

Packets between decode ranges are passed over, by a seek where there are many, and the decoder is emptied so that a
range's last frame costs none of the frames after it. Within a range, frames that no other depends on are left to the
decoder to skip, where it does that exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from lazymedia.contexts import contextmanager
from lazymedia.media.cpu_budget import CPU_BUDGET
from lazymedia.media.ffmpeg import can_seek
from lazymedia.media.video.container import Opened, check_frame_size, check_transfer, open_video, packets_of
from lazymedia.media.video.decode_ranges import DecodeRange, Parts, plan, shares
from lazymedia.media.video.errors import rejection
from lazymedia.media.video.frame_sink import FrameSink
from lazymedia.media.video.frames import Converter
from lazymedia.media.video.nal import SLICED, length_bytes, pictures
from lazymedia.media.video.parallel import run_all
from lazymedia.media.video.scan import scan
from lazymedia.media.video.work import Work

if TYPE_CHECKING:
    from av.packet import Packet
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

    from lazymedia.limits import Limits
    from lazymedia.media.video.frames import Pixels
    from lazymedia.media.video.index import PacketIndex

SKIPS_EXACTLY: Final = frozenset({"h264", "hevc", "mpeg4", "mpeg2video"})
"""Decoders that leave out non-reference frames without a change to any other, tested frame by frame."""

SEEK_WORTH: Final = 256
"""Packets to pass over from which a seek is cheaper than reading them."""

_PARTS: Final = 8
"""Parts of a decode, each begun by a demuxer and a decoder of its own. Decoders patch damage up from what they were
given before, often in silence, and a flush does not clear all of it. So parts do not depend on how many
threads there are, and threads take whole ones. An opening costs as much as some frames; with fewer parts, threads wait
longer for the last."""

_LENGTH: Final = 4
"""Bytes of the length before a unit, in nearly all MP4 and Matroska files."""

_UNREFERENCED_SLICE: Final = 0x01
"""How a slice of H.264 begins that no other frame refers to: nal_ref_idc 0, nal_unit_type 1 (ITU-T H.264, 7.3.1)."""

_SPLIT: Final = "vp9_superframe_split"
"""FFmpeg's filter that makes a packet of each frame of a superframe; VP9 bitstream specification, annex B."""

_PROGRESSIVE: Final = frozenset({0, 1})
"""`field_order` unknown or progressive. Two fields of one frame may be two packets with two times."""


class _DamagedError(Exception):
    """A packet did not decode while others were being skipped."""


class Reader:
    """Decodes the frames of one payload. For one thread, used as a context manager."""

    def __init__(self, data: bytes, limits: Limits, opened: Opened, stack: ExitStack, threads: int | None) -> None:
        self._data = data
        self._limits = limits
        self._threads = threads
        self._stack = stack
        self._opened = opened
        self._packets: Iterator[Packet[VideoStream]] | None = None
        self._position = 0
        self._size: tuple[int, int] | None = None
        self._is_used = False
        self._converter = Converter()
        self.decoded = 0
        """Packets handed to the decoder so far."""

    def scan(self) -> PacketIndex:
        """Learn where the frames lie, and decode none.

        Raises:
            UnprocessableMediaError: As `lazymedia.media.video.scan.scan`.
            DecodeStopped: The request was cancelled.
        """
        self._is_used = True  # a demuxer too: of MP4 it keeps fragments, and which parameters it gave last
        index = scan(self._opened)
        self._packets, self._position = None, index.packets
        return index

    def read(self, index: PacketIndex, frame_indices: Sequence[int]) -> tuple[Pixels, list[int]]:
        """Frames (N, H, W, 3), uint8, RGB, upright, and the frame index of each, in the order of ``frame indices``.

        Frame indices may repeat. Frames that do not decode are missing from both.

        Raises:
            UnprocessableMediaError: No frame decodes; the frames' size changes; more memory, or more frames on the way,
                than is allowed; HDR.
            DecodeStopped: The request was cancelled.
        """
        distinct = sorted(set(frame_indices))
        ranges, work = planned(self._opened, index, distinct, len(self._data), self._limits)
        sink = FrameSink(index, frame_indices, self._limits, work)
        parts = shares(ranges, _PARTS)
        left = Parts(parts)
        with self._others(len(parts)) as others:
            run_all(
                partial(self.run, index, left, sink),
                [partial(self._run_apart, index, left, sink)] * others,
            )
        if sink.missing and index.timed and any(decode_range.start for decode_range in ranges):
            # A key frame that is none (a refresh that takes several frames): begin one key frame earlier, once.
            again = plan(index, sorted(sink.missing), before=1)
            if work.has_room(_walk(again)):
                work.add(_walk(again))
                self.run(index, Parts([again]), sink)
        return sink.finish()

    def _others(self, parts: int) -> AbstractContextManager[int]:
        """How many threads decode beside this one, for as long as the block lasts."""
        if self._threads is not None:
            return nullcontext(min(self._threads, parts) - 1)
        return CPU_BUDGET.idle(parts - 1)

    def _run_apart(self, index: PacketIndex, parts: Parts, sink: FrameSink) -> None:
        with reading(self._data, self._limits, threads=1) as reader:
            reader.run(index, parts, sink)

    def run(self, index: PacketIndex, parts: Parts, sink: FrameSink) -> None:
        """Decode parts for as long as any is left, each in stored order, and offer every frame."""
        for part in parts:
            if self._is_used:
                self._reopen()
            self._size = None  # frames of several parts meet in what is taken
            for decode_range in part:
                self._run_whole(decode_range, index, sink)

    def _run_whole(self, decode_range: DecodeRange, index: PacketIndex, sink: FrameSink) -> None:
        try:
            self._run_one(decode_range, index, sink, skips=self._may_skip(index))
        except _DamagedError:
            # What a decoder makes of the frames around a broken one depends on all that it was given before.
            sink.give_back(decode_range.wanted.values())
            sink.work.add(_walk([decode_range]))
            self._reopen()
            self._run_one(decode_range, index, sink, skips=False)

    def _run_one(self, decode_range: DecodeRange, index: PacketIndex, sink: FrameSink, *, skips: bool) -> None:
        self._is_used = True
        self._go_to(decode_range.start, index)
        for frame in self._frames(decode_range, sink, skips=skips):
            self._check(frame)
            sink.offer(frame, self._converter)
            if not sink.lacks(decode_range.wanted.values()):
                return

    def _may_skip(self, index: PacketIndex) -> bool:
        codec = self._opened.stream.codec_context
        exact = index.timed and not index.layered and not index.paired and not index.changes
        return exact and codec.name in SKIPS_EXACTLY and codec.field_order in _PROGRESSIVE

    def _frames(self, decode_range: DecodeRange, sink: FrameSink, *, skips: bool) -> Iterator[VideoFrame]:
        """What a range decodes to. Leaves the decoder empty, unless it is abandoned."""
        import av

        codec: Any = self._opened.stream.codec_context  # the stubs leave out flush_buffers
        codec.flush_buffers()
        # Two frames of one packet that do not decode leave the decoder full (FFmpeg 8.1), and PyAV 18 cannot empty it.
        split = av.BitStreamFilterContext(_SPLIT, self._opened.stream) if codec.name == "vp9" else None
        looks = skips and codec.name == "h264" and length_bytes("h264", codec.extradata or b"") == _LENGTH
        for packet in self._until(decode_range.stop):
            skips_this = skips and self._position - 1 not in decode_range.wanted
            if looks and skips_this and packet.size > _LENGTH and memoryview(packet)[_LENGTH] == _UNREFERENCED_SLICE:
                continue  # the decoder would take it apart, and then leave it out as well
            self.decoded += 1
            self._count_slices(packet, sink)
            codec.skip_frame = "NONREF" if skips_this else "DEFAULT"
            try:
                parts = [packet] if split is None else split.filter(packet)
            except (av.FFmpegError, EOFError) as exc:
                self._note(exc, sink, skips=skips)
                continue
            for part in parts:
                try:
                    frames = codec.decode(part)
                except (av.FFmpegError, EOFError) as exc:
                    self._note(exc, sink, skips=skips)
                    continue
                sink.work.resize(codec.width * codec.height)  # also of frames that are never shown
                yield from frames
        try:
            yield from codec.decode(None)
        except (av.FFmpegError, EOFError) as exc:
            self._note(exc, sink, skips=skips)
        codec.flush_buffers()

    def _count_slices(self, packet: Packet[VideoStream], sink: FrameSink) -> None:
        codec = self._opened.stream.codec_context
        if codec.name in SLICED:
            lengths = length_bytes(codec.name, codec.extradata or b"")
            size, largest = (codec.width, codec.height), self._limits.max_video_frame_pixels
            sink.work.add_slices(pictures(codec.name, bytes(packet), lengths, size, largest) - 1)

    def _note(self, fault: Exception, sink: FrameSink, *, skips: bool) -> None:
        """One frame is broken. The decoder goes on with the next, unless it stopped at a size it may not decode."""
        codec = self._opened.stream.codec_context
        check_frame_size(codec.width, codec.height, self._limits)
        sink.fault = fault.with_traceback(None)  # which would keep frames and the decoder until the next collection
        if skips:
            raise _DamagedError from fault

    def _until(self, stop: int) -> Iterator[Packet[VideoStream]]:
        """Packets from here to a position, that included."""
        while self._position <= stop:
            packet = self._next()
            if packet is None:
                return
            yield packet

    def _next(self) -> Packet[VideoStream] | None:
        if self._packets is None:
            self._packets = packets_of(self._opened)
        packet = next(self._packets, None)
        self._position += 1
        return packet

    def _go_to(self, position: int, index: PacketIndex) -> None:
        """Make ``position`` that of the next packet."""
        if position < self._position or (position - self._position > SEEK_WORTH and index.timed):
            self._seek(position, index)
        for _ in self._until(position - 1):
            pass

    def _seek(self, position: int, index: PacketIndex) -> None:
        """Come as near before ``position`` as the container lets one, or to the head.

        Where a seek lands is seen in the packet found there; some containers (MPEG-TS) land late.
        """
        import av

        for time in index.seek_times(position) if can_seek(self._opened.kind) else ():
            self._packets = None
            try:
                self._opened.container.seek(time, stream=self._opened.stream)
            except (av.FFmpegError, EOFError):
                continue
            packets = packets_of(self._opened)
            first = next(packets, None)
            landed = None if first is None or not first.is_keyframe else index.key_at(first.pts)
            if first is not None and landed is not None and landed <= position:
                self._packets, self._position = chain([first], packets), landed
                return
        self._reopen()

    def _reopen(self) -> None:
        self._packets = None
        self._stack.close()
        self._opened = self._stack.enter_context(open_video(self._data, self._limits))
        self._position = 0

    def _check(self, frame: VideoFrame) -> None:
        size = (frame.width, frame.height)
        if self._size is None:
            check_frame_size(*size, self._limits)
            self._size = size
        elif size != self._size:
            raise rejection("the size of the video's frames changes in its middle")
        check_transfer(frame.color_trc)


def planned(
    opened: Opened, index: PacketIndex, frame_indices: Sequence[int], payload_bytes: int, limits: Limits
) -> tuple[list[DecodeRange], Work]:
    """What has to be decoded for frames, each named once, and what is then still allowed.

    Raises:
        UnprocessableMediaError: More than is allowed.
    """
    ranges = plan(index, frame_indices)
    codec = opened.stream.codec_context
    pixels = codec.width * codec.height
    work = Work(codec.name, pixels, wanted=len(frame_indices), payload_bytes=payload_bytes, limits=limits)
    work.add(_walk(ranges) + index.hidden)
    return ranges, work


def _walk(ranges: Sequence[DecodeRange]) -> int:
    """Packets in these, each of which is decoded."""
    return sum(decode_range.stop - decode_range.start + 1 for decode_range in ranges)


@contextmanager
def reading(data: bytes, limits: Limits, *, threads: int | None = 1) -> Iterator[Reader]:
    """Open a payload to read frames from it; everything is closed with the block.

    With more than one thread, ranges are decoded in parallel, each thread with a decoder of its own. None takes the
    cores that no other decode uses.

    Raises:
        UnprocessableMediaError: As `open_video`.
    """
    with ExitStack() as stack:
        opened = stack.enter_context(open_video(data, limits))
        yield Reader(data, limits, opened, stack, threads)


__all__ = ["SEEK_WORTH", "SKIPS_EXACTLY", "Reader", "planned", "reading"]
