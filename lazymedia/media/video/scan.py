"""The index of a video, from all of its packets and without decoding one."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from lazymedia.media.video.container import packets_of
from lazymedia.media.video.errors import rejection
from lazymedia.media.video.index import PacketIndex
from lazymedia.media.video.interlaced import FieldPairs
from lazymedia.media.video.nal import length_bytes, refreshes_gradually

if TYPE_CHECKING:
    from av.packet import Packet
    from av.video.stream import VideoStream

    from lazymedia.media.video.container import Opened

_HEAD: Final = 4096
"""Bytes of a packet in which its supplemental messages begin."""

_LOOK: Final = 256
"""Bytes of a packet in which its first unit begins."""

_WITHOUT_TIMES: Final = frozenset({"avi"})
"""Containers that store no display times. FFmpeg makes some up, and with B-frames they are out of order."""


def scan(opened: Opened) -> PacketIndex:
    """Read every packet of the stream and decode none: about 5 µs each.

    Raises:
        UnprocessableMediaError: No packet, or more of them than a payload of this size may have.
        DecodeStopped: The request was cancelled.
    """
    parameters = opened.stream.codec_context.extradata or b""
    fields = FieldPairs(parameters) if opened.codec == "h264" else None
    lengths = length_bytes(opened.codec, parameters)
    found = _Found(opened.kind, opened.codec, parameters, opened.kind not in _WITHOUT_TIMES, fields, lengths)
    for packet in packets_of(opened):
        found.add(packet)
    if not found.shown:
        raise rejection("the video holds no frame that can be read")
    return found.finish(opened)


@dataclass(slots=True)
class _Found:
    """What is known from the packets so far."""

    kind: str
    codec: str
    parameters: bytes
    timed: bool
    fields: FieldPairs | None = None
    lengths: int = 0
    layered: bool = False
    gradual: bool = False
    paired: bool = False
    changes: bool = False
    packets: int = 0
    coded: int = 0
    last: tuple[int, int] | None = None
    shown: list[tuple[int, int]] = field(default_factory=list)
    keys: list[tuple[int, int, int]] = field(default_factory=list)

    def add(self, packet: Packet[VideoStream]) -> None:
        position, self.packets = self.packets, self.packets + 1
        self.coded += _coded_frames(self.codec, packet)
        if position and packet.has_sidedata("new_extradata") and not self.changes:
            self.changes = bytes(packet.get_sidedata("new_extradata")) != self.parameters
        if self.fields is not None and self.fields.is_second(packet):
            self._complete(packet, position)
            return
        pts = packet.pts
        if pts is None:
            self.timed, pts = False, position
        if packet.is_keyframe:
            seek = packet.dts if self.kind == "mov" else pts
            self.keys.append((pts, position, pts if seek is None else seek))
            if self.codec == "h264" and not self.gradual:
                self.gradual = refreshes_gradually(bytes(memoryview(packet)[:_HEAD]), self.lengths)
        if self.codec == "hevc" and not self.layered:
            self.layered = _has_temporal_layer(bytes(memoryview(packet)[:_LOOK]), self.lengths)
        if packet.is_discard or _is_hidden(self.codec, packet):
            return
        self.last = max(self.last or (pts, 0), (pts, packet.duration or 0))
        self.shown.append((pts, position))

    def _complete(self, packet: Packet[VideoStream], position: int) -> None:
        """The packet before began a frame, and this one holds the rest of it: what is shown has that one's time."""
        self.paired = True
        if packet.is_discard or not self.shown:
            return
        pts, begun = self.shown[-1]
        if begun == position - 1:
            self.shown[-1] = (pts, position)
            if self.last is not None and self.last[0] == pts and packet.pts is not None:
                half = packet.pts - pts
                self.last = (pts, max(self.last[1], half + (packet.duration or half)))

    def finish(self, opened: Opened) -> PacketIndex:
        self.shown.sort()
        self.keys.sort()
        times = [pts for pts, _ in self.shown]
        last_ticks = self.last[1] if self.last else 0
        if not self.timed or any(one == other for one, other in pairwise(times)):
            self.timed, times = False, list(range(len(times)))
        elif not last_ticks and len(times) > 1:
            last_ticks = (times[-1] - times[0]) // (len(times) - 1)
        elif not last_ticks and opened.header_fps and opened.stream.time_base:
            last_ticks = round(1 / opened.header_fps / opened.stream.time_base)
        return PacketIndex(
            timed=self.timed,
            pts=array("q", times),
            positions=array("q", [position for _, position in self.shown]),
            key_pts=array("q", [pts for pts, _, _ in self.keys]),
            key_positions=array("q", [position for _, position, _ in self.keys]),
            key_seeks=array("q", [seek for _, _, seek in self.keys]),
            packets=self.packets,
            tick=float(opened.stream.time_base or 0),
            last_ticks=last_ticks,
            header_fps=opened.header_fps,
            layered=self.layered,
            gradual=self.gradual,
            paired=self.paired,
            changes=self.changes,
            hidden=max(0, self.coded - self.packets),
        )


def _coded_frames(codec: str, packet: Packet[VideoStream]) -> int:
    """Frames that are decoded of one packet; 1 for codecs that store one in each.

    VP9: bitstream specification, annex B (superframe index). AV1: bitstream specification, 5.3 (OBU) and 5.9.2.
    """
    if codec == "vp9":
        view = memoryview(packet)
        marker = view[-1]
        size = 2 + (marker & 7) * ((marker >> 3 & 3) + 1) + (marker >> 3 & 3) + 1
        is_index = marker & 0xE0 == 0xC0 and len(view) >= size and view[-size] == marker
        return (marker & 7) + 1 if is_index else 1
    if codec in _AV1:
        return sum(_av1_frames(bytes(packet)))
    return 1


def _has_picture(blocks: bytes) -> bool:
    """Whether a packet of a GIF holds an image descriptor; GIF89a, 20 and 23 to 26.

    The first packet begins with the file's header.
    """
    start = 0
    if blocks.startswith(b"GIF8") and len(blocks) > 13:
        start = 13 + (6 << (blocks[10] & 7) if blocks[10] & 0x80 else 0)
    while start + 2 < len(blocks) and blocks[start] == 0x21:
        start += 2
        while start < len(blocks) and blocks[start]:
            start += 1 + blocks[start]
        start += 1
    return start < len(blocks) and blocks[start] == 0x2C


_AV1: Final = frozenset({"av1", "libdav1d"})
_FRAME_HEADER, _FRAME = 3, 6
"""OBU_FRAME_HEADER and OBU_FRAME; AV1 specification, 6.2.2."""


def _av1_frames(data: bytes) -> Iterator[bool]:
    """For each OBU of a packet, whether it begins a frame and does not only show one that was decoded before. Nothing
    follows one without a size. AV1 specification, 5.3.2 and 4.10.5.
    """
    start = 0
    while start < len(data):
        head = data[start]
        start += 2 if head & 4 else 1
        size, shift = (0, 0) if head & 2 else (len(data), 0)
        for byte in data[start : start + 8] if head & 2 else b"":
            size |= (byte & 0x7F) << shift
            shift += 7
            start += 1
            if not byte & 0x80:
                break
        kind = head >> 3 & 15
        yield kind == _FRAME or (kind == _FRAME_HEADER and not data[start : start + 1] >= b"\x80")
        start += size


def _is_hidden(codec: str, packet: Packet[VideoStream]) -> bool:
    """Whether a packet holds no frame that is shown: one that is only referred to (VP8's and VP9's "alternate
    reference"), or none, as where a GIF has a comment before its trailer.

    VP8: RFC 6386, 9.1, bit 4. VP9: bitstream specification, 6.2, show_existing_frame and show_frame; a superframe
    (annex B) always ends in a frame that is shown.
    """
    if codec == "gif":
        return not _has_picture(bytes(packet))
    if codec not in {"vp8", "vp9"}:
        return False
    view = memoryview(packet)
    first = view[0]
    if codec == "vp8":
        return not first & 0x10
    if view[-1] & 0xE0 == 0xC0 or first >> 6 != 2:
        return False
    shift = 1 if first & 0x30 == 0x30 else 0
    return not first & (0x08 >> shift) and not first & (0x02 >> shift)


def _has_temporal_layer(head: bytes, lengths: int) -> bool:
    """Whether a packet of HEVC begins with a unit above temporal layer 0 (ITU-T H.265, 7.3.1.2).

    The units of a picture share one layer, delimiters and messages before it too (7.4.2.2). Where no lengths stand
    before them, start codes do.
    """
    start = lengths or max(head.find(b"\0\0\1") + 3, 3)
    return len(head) > start + 1 and head[start + 1] & 0x07 > 1


__all__ = ["scan"]
