"""A payload opened by FFmpeg through PyAV, with everything closed that a payload could use to reach something else: one
demuxer, no protocol, and audio decoders only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import av

from lazymedia.limits import Limits
from lazymedia.media import ffmpeg, system_ffmpeg
from lazymedia.media.audio import header
from lazymedia.media.audio.bounds import check_layout, check_length, rejection
from lazymedia.media.audio.formats import MP3, Format, declared_samples
from lazymedia.media.audio.header import AudioInfo
from lazymedia.media.containers import ogg

_CODECS: Final = {
    *("aac", "aac_latm", "mp3", "mp2", "mp1", "opus", "vorbis", "flac", "alac", "ac3", "eac3", "amrnb", "amrwb"),
    *("amr_nb", "amr_wb", "adpcm_ima_wav", "adpcm_ms", "adpcm_ima_qt", "speex"),
}
"""FFmpeg's names of the codecs that are decoded, besides every ``pcm_``."""

_PROBED: Final = (
    {"mp3float", "mp2float", "mp1float"} | {name for name in av.codecs_available if name.startswith("pcm_")} | _CODECS
)
"""Decoders, by their own names, that opening may run to learn a track's parameters. None of video or pictures."""

_SECTIONS: Final = {"mpegts", "mpeg"}
_INDEX: Final = 1 << 16
"""Bytes of FFmpeg's index of a container whose packets it learns as it reads; see `lazymedia.media.video.container`."""
_PROBE, _PROBE_SECTIONS = 1 << 18, 1 << 21
"""Bytes that FFmpeg reads to learn what is in a payload. Of MPEG streams more, which have no header that says all. Each
packet that is read takes some 500 bytes of memory until it is decoded, and may have one or two itself.
"""


def demuxer_options(kind: Format) -> dict[str, str]:
    """FFmpeg's options for opening a payload, without those that say where it is."""
    return {
        "codec_whitelist": ",".join(sorted(_PROBED)),
        "enable_drefs": "0",  # references of a QuickTime movie to other files
        "probesize": str(_PROBE_SECTIONS if kind.demuxer in _SECTIONS else _PROBE),
        "analyzeduration": str(5_000_000),
        "max_streams": "64",
        "indexmem": str(_INDEX),
    }


_LISTED: Final = " channels ("
"""What the name of a layout with a list of its own contains."""


@dataclass(frozen=True, slots=True)
class Track:
    """The track of a payload that is decoded.

    Attributes:
        number: Its index among the streams of the container.
        codec: FFmpeg's name of the codec.
        channels: As the header has them; 0 where it does not.
        is_listed: Whether the order of the channels is a list of the container's own.
        frame_samples: Samples per channel of a packet, 0 where that is not known.
        declared: Samples per channel that the container declares, where that is no guess.
        is_one_page: Whether it is Vorbis whose samples all lie in one page of an OGG. FFmpeg 8 drops the wrong number
            of samples at the end of those.
        is_cut: Whether it is an OGG whose last page is damaged or ends no stream. Then it is not known how long it was.
        other_codec: As `lazymedia.media.system_ffmpeg.other_codec`.
    """

    number: int
    codec: str
    channels: int
    is_listed: bool
    frame_samples: int
    declared: int | None
    is_one_page: bool
    is_cut: bool
    other_codec: str | None


def open_container(data: bytes, kind: Format) -> Any:
    """PyAV's container.

    Raises:
        UnprocessableMediaError: A header that asks for more memory than there is, which has a cause.
        av.FFmpegError: A damaged header.
    """
    return ffmpeg.open_container(data, kind.demuxer, "audio", container_options=demuxer_options(kind))


def choose(container: Any, data: bytes, kind: Format, limits: Limits) -> tuple[Any, Track]:
    """The stream to decode: FFmpeg's best, of the program of the video if there is one in that.

    Raises:
        UnprocessableMediaError: No audio, a codec that is not decoded, or a rate, channels or a length over a limit. No
            cause.
    """
    stream = _best(container, "audio", related=_best(container, "video")) or _best(container, "audio")
    if stream is None:
        raise rejection("there is no audio track")
    context = stream.codec_context
    if context is None:
        raise rejection("the codec of the audio track is unknown")
    name = context.codec.canonical_name
    if name not in _CODECS and not name.startswith("pcm_"):
        raise rejection(f"the audio codec {name} is not decoded")
    is_listed = _settle_layout(context)
    channels = context.layout.nb_channels
    if context.sample_rate and channels:
        check_layout(context.sample_rate, channels, limits)
    declared = _declared(container, stream, data, kind)
    if declared is not None and kind.declared_length:
        check_length(declared, stream.rate, 1, limits)
    track = Track(
        stream.index,
        name,
        channels,
        is_listed,
        context.frame_size or 0,
        declared,
        kind.demuxer == "ogg" and name == "vorbis" and ogg.has_one_page_of_sound(data),
        kind.demuxer == "ogg" and not ogg.is_complete(data),
        system_ffmpeg.other_codec(container),
    )
    return stream, track


def read_track(data: bytes, kind: Format, limits: Limits) -> Track:
    """Open a payload, check its header against the limits, and decode nothing. Raises as `open_container`, `choose`."""
    with open_container(data, kind) as container:
        return choose(container, data, kind, limits)[1]


def read_info(data: bytes, kind: Format, limits: Limits) -> AudioInfo:
    """What FFmpeg reads from a header, without a packet being decoded but those that opening decodes. The decode may
    find another rate and other channels (AAC with SBR or PS). Raises as `open_container` and `choose`, but not for the
    length.
    """
    with open_container(data, kind) as container:
        stream, track = choose(container, data, kind, limits)
        return AudioInfo(stream.rate, track.channels, track.declared if kind.declared_length else None)


def _best(container: Any, type_: str, related: Any = None) -> Any:
    try:
        return container.streams.best(type_, related=related)
    except (ValueError, IndexError):
        return None


def _settle_layout(context: Any) -> bool:
    """Make the channels' order one that needs no list of its own; whether it had one. PyAV 18 copies a layout with the
    address of its list, and frees that with each copy: to read a layout of a ``chan`` box twice ends the process.
    """
    layout = context.layout
    if not layout.nb_channels:
        return False
    is_listed = _LISTED in layout.name
    context.layout = f"{layout.nb_channels} channels"  # drops the list, which this one copy frees
    return is_listed


def _declared(container: Any, stream: Any, data: bytes, kind: Format) -> int | None:
    """Samples per channel that the container declares. None where it does not, or where FFmpeg's number is a guess."""
    if kind == MP3:
        return declared_samples(data)
    known = header.read_header(data, kind)
    if known is not None and (known.declared or kind.sndfile):
        return known.declared
    if not stream.rate or not kind.declared_length or kind.sndfile:  # MPEG in a WAV, for example
        return None
    if stream.duration is not None and stream.time_base is not None:
        length = stream.duration
        if kind.demuxer == "ogg":  # FFmpeg 8 counts them for Opus, in units of samples
            length -= _pre_skip(stream) + (max(stream.start_time or 0, 0) if _is_opus(stream) else 0)
        samples = int(length * stream.time_base * stream.rate)
    elif kind.demuxer == "matroska":
        samples = _in_matroska(container, stream)
    else:
        samples = 0
    return samples if samples > 0 else None


def _is_opus(stream: Any) -> bool:
    return bool(stream.codec_context.codec.canonical_name == "opus")


def _pre_skip(stream: Any) -> int:
    """Samples that prime an Opus decoder. RFC 7845, section 5.1."""
    return int.from_bytes((stream.codec_context.extradata or b"")[10:12], "little") if _is_opus(stream) else 0


def _in_matroska(container: Any, stream: Any) -> int:
    """By the tag that FFmpeg and mkvmerge write for each track, or by the length of the whole where there is one track;
    0 where neither says.
    """
    match = re.fullmatch(r"(\d{1,6}):(\d\d):(\d\d(?:\.\d{1,9})?)", stream.metadata.get("DURATION", ""))
    if match is not None:
        seconds = int(match[1]) * 3600 + int(match[2]) * 60 + float(match[3])
    elif len(container.streams) == 1 and container.duration is not None:
        seconds = container.duration / av.time_base
    else:
        return 0
    start = 0.0 if stream.start_time is None else float(stream.start_time * stream.time_base)
    return int((seconds - max(start, 0.0)) * stream.rate) - _pre_skip(stream)


__all__ = [
    "Track",
    "choose",
    "demuxer_options",
    "open_container",
    "read_info",
    "read_track",
]
