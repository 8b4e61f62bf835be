"""torchcodec, and which payloads the FFmpeg of the system that it loads may open. torch is loaded only on request.

torchcodec has no option for the demuxer: FFmpeg asks every one that the system's build has about the first 2,048
bytes, takes the one with the highest score, and none where two are equal. A text of other names (a playlist, SDP) may
score 50 wherever it stands in those bytes. So only payloads are opened whose first bytes give their own demuxer
the highest score there is, for then nothing else in them can win. From 0.17 on, torchcodec also rejects
whatever a payload names.
"""

from __future__ import annotations

import importlib.util
import threading
import warnings
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from lazymedia.errors import UnprocessableMediaError

NAME: Final = "torchcodec"
"""The backend's name, in arguments and specs."""

_INSTALL: Final = "install the extra 'torchcodec' of lazymedia, and FFmpeg's shared libraries"

_PROBED_BYTES: Final = 4096
"""Twice what FFmpeg looks at first."""

_STREAMS: Final = frozenset(
    {"h264", "hevc", "vp8", "vp9", "av1", "mpeg4", "mpeg2video", "mpeg1video", "mjpeg", "h263", "flv1", "theora"}
    | {"prores", "msmpeg4v3", "gif", "png"}
    | {"aac", "ac3", "eac3", "mp1", "mp2", "mp3", "opus", "vorbis", "flac", "alac", "amr_nb", "amr_wb"}
    | {"mov_text", "subrip", "ass", "webvtt", "text"}
)
"""Codecs that a container may hold beside the track that is decoded, besides every ``pcm_``: FFmpeg tries their
decoders when it opens one."""

_silencing = threading.Lock()


def require_installed() -> None:
    """Raise ImportError where torchcodec is not installed. Loads nothing; whether it works shows in `load`."""
    if importlib.util.find_spec(NAME) is None:
        raise ImportError(f"torchcodec is not installed: {_INSTALL}")


def load() -> Any:
    """``torchcodec.decoders``. The first call imports torch, which takes seconds.

    Raises:
        ImportError: Not installed, older than 0.17, built for another torch, or without FFmpeg's shared libraries. The
            operator's fault.
    """
    try:
        import torchcodec
        from torchcodec import decoders
    except (ImportError, OSError, RuntimeError) as exc:
        raise ImportError(f"torchcodec cannot be loaded: {_INSTALL}") from exc
    if torchcodec.ffmpeg_major_version is None:
        raise ImportError(f"torchcodec finds no FFmpeg that it can use: {_INSTALL}")
    if not hasattr(decoders, "VideoPacketDecoder"):
        raise ImportError(f"torchcodec {torchcodec.__version__} is too old, 0.17 is needed: {_INSTALL}")
    return decoders


def open_track(data: bytes, number: int) -> tuple[Any, Any]:
    """A demuxer of torchcodec's for one track of a payload that `is_certain`, and that track.

    Raises:
        ImportError: As `load`.
        Exception: torchcodec's own, where the payload cannot be opened or has no such track.
    """
    demuxer = load().Demuxer(_tensor(data), streams=number)
    (track,) = demuxer.streams
    return demuxer, track


def _tensor(data: bytes) -> Any:
    """A payload as torch has it, without a copy."""
    import torch

    # torch warns, once, of memory that may not be written to. torchcodec would silence it likewise, in any thread at
    # any time, and two threads that do so at once leave the process's filters changed.
    with _silencing, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return torch.frombuffer(data, dtype=torch.uint8)


def reject_torchcodec_request(
    argument: str, default: Mapping[str, Any] | None, runtime: Mapping[str, Any] | None, modality: str
) -> None:
    """A request may not bring in torchcodec, and the system's FFmpeg with it, where the operator has not.

    Raises:
        UnprocessableMediaError: It does. The client's fault.
    """
    if (runtime or {}).get(argument) == NAME and (default or {}).get(argument) != NAME:
        raise UnprocessableMediaError(f"decoder options: {argument} cannot be {NAME!r} in a request", modality=modality)


def is_certain(data: bytes, demuxer: str) -> bool:
    """Whether FFmpeg, left to itself, takes ``demuxer`` for this payload, or none.

    Args:
        data: The payload.
        demuxer: FFmpeg's name: "mov", "matroska", "wav", "flac" or "ogg". Every other is uncertain: an MPEG stream, an
            MP3 or an ADTS is found by a pattern that scores no more than a text among its bytes.
    """
    check = _CHECKS.get(demuxer)
    return check is not None and check(data[:_PROBED_BYTES])


def other_codec(container: Any) -> str | None:
    """The first codec in an open container of PyAV's that FFmpeg should not even try on opening; None where all are
    well known. A track whose codec PyAV does not know counts as "unknown".
    """
    for stream in container.streams:
        if stream.type not in {"video", "audio", "subtitle"}:
            continue  # FFmpeg has no decoders for data and attachments
        context = stream.codec_context
        name = "unknown" if context is None else str(context.codec.canonical_name)
        if name not in _STREAMS and not name.startswith("pcm_"):
            return name
    return None


_NO_MOVIES: Final = frozenset(
    {b"jp2 ", b"jpx ", b"jxl ", b"mif1", b"msf1", b"heic", b"heix", b"hevc", b"hevx", b"avif", b"avis"}
)
"""Brands with which an ISO file is something else. FFmpeg reads HEIF and AVIF from release 7 on, and not all of it."""


def _is_mov(head: bytes) -> bool:
    """A first box of a known type and of a size it can have; unless that is JPEG 2000 or JPEG XL, or the movie says
    that its track is an MPEG stream, for both of which FFmpeg's score is 5; or pictures.
    """
    if int.from_bytes(head[:4], "big") < 8 or head[4:8] not in {b"ftyp", b"moov", b"mdat"}:
        return False
    return head[8:12] not in _NO_MOVIES and b"mhlrMPEG" not in head


def _is_matroska(head: bytes) -> bool:
    """An EBML header that lies in the first bytes and names one of the two document types (RFC 8794, 4 and 11)."""
    if head[:4] != b"\x1a\x45\xdf\xa3" or len(head) < 5 or not head[4]:
        return False
    width = 9 - head[4].bit_length()
    size = int.from_bytes(head[4 : 4 + width], "big") & (1 << 7 * width) - 1
    body = head[4 + width : 4 + width + size]
    return len(body) == size <= 1024 and (b"matroska" in body or b"webm" in body)


def _is_wav(head: bytes) -> bool:
    """RIFF whose first chunk is "fmt "; its size ends, as a text, all before it. Scores 99: there is a
    cousin, ACT, which scores 100 and holds another codec than PyAV will have found.
    """
    return head[:4] == b"RIFF" and head[8:16] == b"WAVEfmt " and head[17:20] == b"\0\0\0"


def _is_flac(head: bytes) -> bool:
    """STREAMINFO of its one size, with blocks and a rate that can be (RFC 9639, 8.2)."""
    least, most = int.from_bytes(head[8:10], "big"), int.from_bytes(head[10:12], "big")
    rate = int.from_bytes(head[18:21], "big") >> 4
    return head[:4] == b"fLaC" and head[4:8] in {b"\0\0\0\x22", b"\x80\0\0\x22"} and 16 <= least <= most and rate > 0


def _is_ogg(head: bytes) -> bool:
    return head[:5] == b"OggS\0" and head[5:6] <= b"\x07" and len(head) > 5


_CHECKS: Final[Mapping[str, Callable[[bytes], bool]]] = MappingProxyType(
    {"mov": _is_mov, "matroska": _is_matroska, "wav": _is_wav, "flac": _is_flac, "ogg": _is_ogg}
)

__all__ = ["NAME", "is_certain", "load", "open_track", "other_codec", "reject_torchcodec_request", "require_installed"]
