"""Clips by FFmpeg through PyAV: MP4, WebM, AAC, AMR, MPEG streams, and whatever it is named for.

Comes in: a payload whose format is known. Goes out: a `Source`. Never here: a demuxer of FFmpeg's choice, a protocol,
FFmpeg's mix to mono, or its resampler: samples leave at the rate and with the channels they are stored with.
"""

from __future__ import annotations

import ctypes
import io
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Final

import av
import numpy.typing as npt
from av.error import InvalidDataError
from av.error import MemoryError as FFmpegMemoryError
from av.stream import Discard

from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import Limits
from lazymedia.media import system_ffmpeg
from lazymedia.media.audio import mp4_aac, ogg_opus, piped
from lazymedia.media.audio.aac_in_matroska import AacInMatroska
from lazymedia.media.audio.bounds import check_layout, check_length, refused
from lazymedia.media.audio.formats import OGG, OPUS, Format
from lazymedia.media.audio.header import AudioHeader
from lazymedia.media.audio.ogg import links_of, share_a_serial
from lazymedia.media.audio.piped import Pipeable
from lazymedia.media.audio.samples import BLOCK
from lazymedia.media.audio.source import Source
from lazymedia.media.stopping import checkpoint

_CODECS: Final = {
    *("aac", "aac_latm", "mp3", "mp2", "mp1", "opus", "vorbis", "flac", "alac", "ac3", "eac3", "amrnb", "amrwb"),
    *("amr_nb", "amr_wb", "adpcm_ima_wav", "adpcm_ms", "adpcm_ima_qt"),
}
"""FFmpeg's names of the codecs that are decoded, besides every ``pcm_``."""

_PROBED: Final = (
    {"mp3float", "mp2float", "mp1float", "libopus", "libvorbis", "h264", "hevc", "vp8", "vp9", "mpeg4", "mpeg2video"}
    | {"mpeg1video", "h263", "flv", "mjpeg"}
    | {name for name in av.codecs_available if name.startswith("pcm_")}
    | _CODECS
)
"""Decoders, by their own names, that opening may run to learn a track's parameters, video tracks' among them."""

_DEMUXER_OPTIONS: Final = {
    "codec_whitelist": ",".join(sorted(_PROBED)),
    "protocol_whitelist": "none",  # no such protocol: nothing but the payload can be opened
    "enable_drefs": "0",  # references of a QuickTime movie to other files
    "probesize": str(5 << 20),
    "analyzeduration": str(5_000_000),
    "max_streams": "64",
}

_MEMORY: Final = "the header asks for more memory than there is"

_POINTERS: Final = 8
"""From so many planes on, PyAV 18 reads on behind FFmpeg's list of them, and ends the process."""

_CHANGE: Final = "the rate, channels or type of the samples change in the middle of the audio"

_UNDECODABLE_START: Final = 64
"""Packets that a recording which may begin anywhere can lose before its first whole frame."""


@dataclass(frozen=True, slots=True)
class Track:
    """The track of a payload that would be decoded, for another library to find it.

    Attributes:
        number: Its place in the container.
        codec: FFmpeg's name of what it is coded in.
        other_codec: As `lazymedia.media.system_ffmpeg.other_codec`.
    """

    number: int
    codec: str
    other_codec: str | None


def judge(data: bytes, kind: Format, limits: Limits) -> Track:
    """Open a payload, hold its header against the limits, and decode nothing.

    Raises:
        UnprocessableMediaError: As far as a header tells, what `open_source` raises. No cause.
        Exception: PyAV's own, where the payload is damaged.
    """
    _check_links(data, kind)
    with _open(data, kind) as container:
        stream = _judged(container, kind, limits)
        codec = stream.codec_context.codec.canonical_name
        return Track(stream.index, codec, system_ffmpeg.other_codec(container))


@contextmanager
def open_source(data: bytes, kind: Format, limits: Limits) -> Iterator[Source]:
    """Decode the audio of a payload by FFmpeg.

    Of several audio tracks FFmpeg's best is taken: marked as default rather than not, then the one with more packets
    and the higher bit rate, then the first. Of several programs in one stream, it is taken from that of the video, if
    there is any in it. Pictures and video tracks are never decoded.

    Where the container tells that a codec primed its decoder (an edit list, Opus pre-skip), those samples at the start
    are dropped, as FFmpeg does. Samples that pad the last frame stay: an AAC clip may be up to a frame longer than what
    was encoded. Gaps in the time stamps, at the start too, are not filled.

    AAC in an MP4, and Opus in an OGG, are decoded many frames at a time where tables or pages leave no doubt, to the
    same samples. Then a header that is broken in the video beside it is no error, and a channel that a damaged frame
    lacks is silent.

    A damaged packet is an error, apart from those before the first whole frame of a stream that may begin anywhere
    (ADTS, MPEG). A container that ends early yields what exists, a last frame cut in the middle is an error.

    Raises:
        UnprocessableMediaError: Over a limit, no audio, a codec that is not decoded, or a rate or layout that changes
            on the way. No cause.
        Exception: PyAV's own, where the payload is damaged.
    """
    track = _pipeable(data, kind)
    if track is not None and _within(track, limits):
        with piped.opened(track) as blocks:
            first = next(blocks, None)
            if first is not None:
                packets = partial(_packets, data, kind, limits)
                with closing(_calls(track, chain((first,), blocks), packets)) as samples:
                    yield Source(track.rate, track.channels, samples)
                return
    with _packets(data, kind, limits) as source:
        yield source


def _pipeable(data: bytes, kind: Format) -> Pipeable | None:
    """The track, where it can be decoded many frames at a time."""
    if not piped.is_possible():
        return None
    if kind.demuxer == "mov":
        aac = mp4_aac.find(data)
        return None if aac is None else AacInMatroska(aac)
    return ogg_opus.find(data) if kind == OPUS else None


def _within(track: Pipeable, limits: Limits) -> bool:
    """Whether nothing that the tables tell is over a limit. FFmpeg's demuxer is to say what is."""
    try:
        check_layout(track.rate, track.channels, limits)
        check_length(track.samples, track.rate, 1, limits)
    except UnprocessableMediaError:
        return False
    return True


def _calls(
    track: Pipeable, blocks: Iterable[npt.NDArray[Any]], packets: Callable[[], AbstractContextManager[Source]]
) -> Generator[npt.NDArray[Any]]:
    """A track many frames at a time, without what primes the decoder. From where that ends too early, it is read packet
    by packet, which tells what is wrong.
    """
    done = -track.primed
    for block in blocks:
        done += block.shape[1]
        if done > 0:
            yield block[:, -done:]  # of the first such block a part, of later ones all
    if done + track.primed < track.samples:
        with packets() as source:
            if (source.rate, source.channels) != (track.rate, track.channels):
                raise refused(_CHANGE)
            yield from _behind(source.blocks, max(done, 0))


def _behind(blocks: Iterator[npt.NDArray[Any]], done: int) -> Iterator[npt.NDArray[Any]]:
    """What comes after so many samples."""
    for block in blocks:
        if block.shape[1] > done:
            yield block[:, done:]
        done = max(done - block.shape[1], 0)


@contextmanager
def _packets(data: bytes, kind: Format, limits: Limits) -> Iterator[Source]:
    """A track packet by packet, as `open_source` says."""
    _check_links(data, kind)
    with _open(data, kind) as container:
        stream = _judged(container, kind, limits)
        for other in container.streams:
            if other.index != stream.index:
                other.discard = Discard.all
        stream.codec_context.thread_count = 1  # FLAC and ALAC would take a thread for every core, for one clip
        runs = _runs(container, stream, kind)
        first = next(runs, None)
        if first is None:
            raise refused("the audio track holds no samples")
        rate, channels = first[0].sample_rate, first[0].layout.nb_channels
        # Only a decoded frame tells for certain: AAC with SBR has twice the rate of its header.
        check_layout(rate, channels, limits)
        yield Source(rate, channels, _blocks(chain((first,), runs), (rate, channels, first[0].format.name)))


def read_header(data: bytes, kind: Format, limits: Limits) -> AudioHeader:
    """What FFmpeg makes of a header, without a packet being decoded but those that opening looks into. The decode may
    find another rate and other channels (AAC with SBR or PS). Raises as `open_source`.
    """
    with _open(data, kind) as container:
        stream = _choose(container)
        _check_header(stream, limits)
        return AudioHeader(stream.rate, stream.codec_context.layout.nb_channels, _promised(stream, kind))


def _promised(stream: Any, kind: Format) -> int | None:
    """Samples per channel that the header promises, where its word is worth something."""
    if not kind.declared_length or stream.duration is None or stream.time_base is None or not stream.rate:
        return None
    length = stream.duration - _before_the_first(stream, kind)
    return int(length * stream.time_base * stream.rate) if length > 0 else None


def _before_the_first(stream: Any, kind: Format) -> int:
    """What FFmpeg 8 counts to the length of an Opus in OGG: its pre-skip, and the time at which it begins where it was
    cut out of a longer recording.
    """
    if kind != OPUS:
        return 0
    return max(stream.start_time or 0, 0) + int.from_bytes((stream.codec_context.extradata or b"")[10:12], "little")


def _check_links(data: bytes, kind: Format) -> None:
    links = links_of(data) if kind.demuxer == "ogg" else []
    if kind == OGG and len(links) > 1:
        # FFmpeg would decode the second recording by the tables of the first, and call that sound.
        raise refused("several recordings in one OGG are read by soundfile only")
    if share_a_serial(data, links):
        raise refused("two recordings in one OGG go by the same number")


def _open(data: bytes, kind: Format) -> Any:
    options = {**_DEMUXER_OPTIONS, "format_whitelist": kind.demuxer}
    try:
        return av.open(io.BytesIO(data), format=kind.demuxer, container_options=options, metadata_errors="replace")
    except FFmpegMemoryError as exc:
        # FFmpeg believes the sizes of tables that a header tells; a payload of some megabytes needs none of that kind.
        raise refused(_MEMORY) from exc


def _choose(container: Any) -> Any:
    stream = _best(container, "audio", related=_best(container, "video")) or _best(container, "audio")
    if stream is None:
        raise refused("there is no audio track")
    context = stream.codec_context
    if context is None:
        raise refused("the codec of the audio track is unknown")
    name = context.codec.canonical_name
    if name not in _CODECS and not name.startswith("pcm_"):
        raise refused(f"the audio codec {name} is not decoded")
    _settle_layout(context)
    return stream


def _settle_layout(context: Any) -> None:
    """Make the channels' order one that needs no list of its own. PyAV 18 copies a layout with the address of its list,
    and frees that with each copy: to look twice at a layout of a ``chan`` box ends the process.
    """
    layout = context.layout
    if layout.nb_channels:
        context.layout = f"{layout.nb_channels} channels"  # drops the list, which this one copy frees


def _best(container: Any, type_: str, related: Any = None) -> Any:
    try:
        return container.streams.best(type_, related=related)
    except (ValueError, IndexError):
        return None


def _judged(container: Any, kind: Format, limits: Limits) -> Any:
    """The track, within the limits on rate, channels and length where the container's header already tells them."""
    stream = _choose(container)
    _check_header(stream, limits)
    promised = _promised(stream, kind)
    if promised is not None:
        check_length(promised, stream.rate, 1, limits)
    return stream


def _check_header(stream: Any, limits: Limits) -> None:
    """The limits on rate and channels, where the container's header already tells them."""
    context = stream.codec_context
    if context.sample_rate and context.layout.nb_channels:
        check_layout(context.sample_rate, context.layout.nb_channels, limits)


def _runs(container: Any, stream: Any, kind: Format) -> Iterator[list[Any]]:
    """What the packets decode to, in order, the decoder drained at the end. No run is empty, and no frame."""
    lost, begun = 0, False
    for packet in _demuxed(container, stream):
        checkpoint()
        try:
            decoded = packet.decode()
        except InvalidDataError:
            lost += 1
            if begun or not kind.joinable or lost > _UNDECODABLE_START:
                raise
            continue
        _refuse_listed(decoded)
        frames = [frame for frame in decoded if frame.samples]
        if frames:
            begun = True
            yield frames


def _refuse_listed(frames: list[Any]) -> None:
    """Refuse frames whose decoder itself lists the order of its channels, as one of USAC may; see `_settle_layout`."""
    listed = [frame.layout for frame in frames if " channels (" in frame.layout.name]
    for layout in listed:
        # The frame frees the list; this copy of it must outlive even the interpreter's last tidying up.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(layout))
    if listed:
        raise refused("an order of channels that the codec lists is not decoded")


def _demuxed(container: Any, stream: Any) -> Iterator[Any]:
    """The packets, as far as there is memory for what they claim to hold."""
    try:
        yield from container.demux(stream)
    except FFmpegMemoryError as exc:
        raise refused(_MEMORY) from exc


def _blocks(runs: Iterator[list[Any]], shape: tuple[int, int, str]) -> Iterator[npt.NDArray[Any]]:
    """Frames put together to about a second by FFmpeg's own queue: to turn each of 20 ms into an array costs as much as
    to decode it.
    """
    queue = av.AudioFifo()
    for frames in runs:
        for frame in frames:
            # The queue compares no layout: a frame with fewer channels than the first would be read beyond its end.
            if (frame.sample_rate, frame.layout.nb_channels, frame.format.name) != shape:
                raise refused(_CHANGE)
            frame.pts = None  # or the queue would want them without a gap
            queue.write(frame)
        if queue.samples >= BLOCK:
            yield _samples(queue.read(0, True), shape[1])
    if queue.samples:
        yield _samples(queue.read(0, True), shape[1])


def _samples(frame: Any, channels: int) -> npt.NDArray[Any]:
    """The samples of a frame as (channels, N). Packed formats come as one row of all channels in turn."""
    if frame.format.is_planar and channels >= _POINTERS:
        (frame,) = av.AudioResampler(format=frame.format.packed.name).resample(frame)
    array: npt.NDArray[Any] = frame.to_ndarray()
    return array.reshape(-1, channels).T if frame.format.is_packed else array


__all__ = ["Track", "judge", "open_source", "read_header"]
