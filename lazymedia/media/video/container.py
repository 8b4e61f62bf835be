"""The container of a video: its demuxer by the first bytes, its best video stream, packets, and a decoder."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lazymedia.contexts import contextmanager
from lazymedia.media import formats
from lazymedia.media.cancellation import checkpoint
from lazymedia.media.containers.matroska import check_cues
from lazymedia.media.containers.mpegts import check_programs
from lazymedia.media.ffmpeg import open_container
from lazymedia.media.mp4_tables import check_tables
from lazymedia.media.video.errors import payload_errors, rejection

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.packet import Packet
    from av.video.stream import VideoStream

    from lazymedia.limits import Limits

CODECS: Final = frozenset(
    {"h264", "hevc", "vp8", "vp9", "libdav1d", "av1", "mpeg4", "mpeg2video", "mpeg1video", "mjpeg", "h263", "flv"}
    | {"theora", "prores", "msmpeg4", "gif"}
)
"""Decoders that may run, by FFmpeg's names; "flv" is Sorenson's H.263."""

_PROBED: Final = CODECS | {"aac", "ac3", "eac3", "mp2float", "mp3float", "opus", "vorbis", "flac"}
"""What opening may decode to learn a stream's parameters."""

_LATE: Final = frozenset({"flv", "mpeg", "mpegts"})
"""Demuxers that may find streams after they have read the header. FFmpeg passes none of our options to the decoders of
these while it learns their parameters (avformat_find_stream_info in FFmpeg 8.1), so that a frame of 16384 x 8192 pixels
would be decoded, in 570 MiB. So none of their videos is decoded on opening, and parsers find the size of a frame."""

_PROBED_LATE: Final = _PROBED - CODECS | {"mpeg1video"}
"""What opening may decode of these. Frames of MPEG-1 have 4095 x 4095 pixels at most, and their times are not found
without a decoder."""

_DEMUXERS: Final = {
    formats.MP4: "mov",
    formats.AVI: "avi",
    formats.MATROSKA: "matroska",
    formats.FLV: "flv",
    formats.OGG: "ogg",
    formats.GIF: "gif",
    formats.MPEG_PS: "mpeg",
}
SUPPORTED: Final = "MP4, MOV, Matroska, WebM, AVI, MPEG, FLV, Ogg, GIF, WebP, AVIF"
"""For error texts."""

_CHECKS: Final = {"mov": check_tables, "matroska": check_cues, "mpegts": check_programs}
"""What is compared with the payload's size before FFmpeg opens it, by demuxer."""

_OPTIONS: Final[dict[str, dict[str, str]]] = {"mjpeg": {"err_detect": "explode"}}
"""Options of single decoders. Motion JPEG leaves the rest of a damaged picture as it was in memory, which depends on
the frames that were kept before; with this one such a picture is an error, and is left out."""

_TRANSFERS_TO_HDR: Final = {16: "PQ (SMPTE ST 2084)", 18: "HLG (ARIB STD-B67)"}

_FEW_PACKETS: Final = 2_000
"""Packets of the video that a payload of any size may have."""

_PACKET_BYTES: Final = 24
"""Bytes of a payload for each further packet. Reading one takes 10 microseconds, up to three times over. The smallest
frames of H.264 have ten bytes, and as many in the container's tables; key frames between them have thousands."""

_SPARE_BYTES: Final = 1 << 20
"""What packets may hold together beyond twice the payload. Blocks of a Matroska share a beginning of some bytes that is
stored once (RFC 9559, 5.1.4.1.31); compressed ones, or samples of an MP4 that share bytes, may hold any number of times
as much."""

_INDEX_BYTES: Final = 1 << 16
"""What FFmpeg's index may take of a container whose key frames it learns as it reads. It is sorted, and an entry that
comes before the others moves them all; FFmpeg halves an index that is full. Its own limit is a mebibyte."""

PROBE_BYTES: Final = 5_000_000
"""Bytes that opening reads at most to learn the streams' parameters: FFmpeg's own default, which an option could
lift."""


@dataclass(frozen=True, slots=True)
class Opened:
    """An open container. It stays open as long as the block that opened it."""

    kind: str
    container: InputContainer
    stream: VideoStream
    payload_bytes: int

    @property
    def codec(self) -> str:
        """FFmpeg's name of the decoder."""
        return self.stream.codec_context.name

    @property
    def header_fps(self) -> float:
        """The rate that the header claims, in frames per second; 0.0 for none."""
        for rate in (self.stream.average_rate, self.stream.guessed_rate):
            fps = float(rate) if rate else 0.0
            if math.isfinite(fps) and 0 < fps <= 1000:
                return fps
        return 0.0


def identify(data: bytes) -> str | None:
    """The demuxer for a payload, by its first bytes: "mov", "matroska", "avi", "mpegts", "flv", "ogg", "gif" or
    "mpeg". None for everything else, raw streams and playlists among it.
    """
    known = formats.identify(data, _DEMUXERS)
    if known is not None:
        return _DEMUXERS[known]
    # Packets of 188 bytes, or of 192 behind a timestamp (Blu-ray), each begun by 0x47.
    if any(data[start : start + 3 * step : step] == b"GGG" for start, step in ((0, 188), (4, 192))):
        return "mpegts"
    return None


@contextmanager
def open_video(data: bytes, limits: Limits) -> Iterator[Opened]:
    """Open a payload for demuxing and decoding.

    The stream is the one FFmpeg's rule calls best: default disposition first, then the number of frames seen while
    probing, bit rate, and claimed frames. Attached pictures are no video. Other streams are not read.

    Args:
        data: The payload.
        limits: Limits on streams and on the size of frames.

    Raises:
        UnprocessableMediaError: Unknown format, no video stream, a codec that is not allowed, HDR, or a frame size over
            the limit. The payload's fault.
    """
    kind = identify(data)
    if kind is None:
        raise rejection(f"not a supported video format (supported: {SUPPORTED})")
    if kind in _CHECKS:
        _CHECKS[kind](data, "video")
    with payload_errors("the video's container cannot be read"):
        container = open_container(
            data,
            kind,
            "video",
            # What is decoded to learn parameters is thrown away, and need not be smooth.
            options={"max_pixels": str(_coded_pixels(limits)), "skip_loop_filter": "all"},
            container_options={
                "codec_whitelist": ",".join(sorted(_PROBED_LATE if kind in _LATE else _PROBED)),
                "probesize": str(PROBE_BYTES),
                "analyzeduration": str(PROBE_BYTES),
                "max_streams": str(limits.max_video_streams),
                "indexmem": str(_INDEX_BYTES),
            },
        )
    with container:
        with payload_errors("the video's streams cannot be read"):
            opened = Opened(kind, container, _best_stream(container, limits), len(data))
        yield opened


def packets_of(opened: Opened) -> Iterator[Packet[VideoStream]]:
    """The packets of the video stream that hold data, to the end of what can be read.

    Raises:
        UnprocessableMediaError: More packets than a payload of this size may have, empty ones among them; or far more
            bytes in them than in the payload.
        DecodeStopped: Between packets, when the request was cancelled.
    """
    import av

    most = _FEW_PACKETS + opened.payload_bytes // _PACKET_BYTES
    most_bytes = _SPARE_BYTES + 2 * opened.payload_bytes
    size = 0
    try:
        for number, packet in enumerate(opened.container.demux(opened.stream)):
            checkpoint()
            size += packet.size
            if number > most:
                raise rejection(f"a video of this size may have {most} packets at most")
            if size > most_bytes:
                raise rejection(f"the packets of a video of this size may hold {most_bytes} bytes at most")
            if packet.size:  # an empty packet means to the decoder that the stream has ended
                yield packet
    except av.FFmpegError:
        return  # a truncated container; what came before the cut stands


def check_frame_size(width: int, height: int, limits: Limits) -> None:
    """Refuse frames that are larger than an operator allows.

    Raises:
        UnprocessableMediaError: Over `Limits.max_video_frame_pixels`. No cause.
    """
    if width * height > limits.max_video_frame_pixels:
        raise rejection(f"{width} x {height}: a frame may have {limits.max_video_frame_pixels} pixels at most")


def check_transfer(transfer: int) -> None:
    """Refuse HDR, which has no meaning in eight bits without a tone curve.

    Raises:
        UnprocessableMediaError: ``transfer`` is PQ or HLG, by the code points of ITU-T H.273. No cause.
    """
    if transfer in _TRANSFERS_TO_HDR:
        raise rejection(f"the video is HDR, {_TRANSFERS_TO_HDR[transfer]}; convert it to SDR before sending it")


def _best_stream(container: InputContainer, limits: Limits) -> VideoStream:
    from av.codec.context import Flags
    from av.stream import Discard, Disposition
    from av.video.stream import VideoStream

    stream = container.streams.best("video")
    if not isinstance(stream, VideoStream) or stream.disposition & Disposition.attached_pic:
        raise rejection("the payload holds no video stream")
    for other in container.streams:
        if other.index != stream.index:
            other.discard = Discard.all
    # The stubs know no stream without a decoder; decoding one crashed the process in older versions (PyAV #2344).
    codec: Any = stream.codec_context
    if codec is None or codec.name not in CODECS:
        raise rejection("the video's codec is not supported")
    check_frame_size(codec.width, codec.height, limits)
    check_transfer(codec.color_trc)
    # By default FFmpeg moves a crop on the left to where its samples are aligned, and frames are wider than the header.
    codec.flags |= Flags.unaligned
    codec.options = {"max_pixels": str(_coded_pixels(limits)), **_OPTIONS.get(codec.name, {})}
    codec.thread_count = 1  # FFmpeg's own choice would be a thread for each core, for every video at once
    return stream


def _coded_pixels(limits: Limits) -> int:
    """What a decoder may allocate: it counts whole blocks, by which a frame within the limit may exceed it."""
    return limits.max_video_frame_pixels + max(limits.max_video_frame_pixels // 8, 1 << 16)


__all__ = ["CODECS", "Opened", "check_frame_size", "check_transfer", "identify", "open_video", "packets_of"]
