"""Which audio format a payload is, told by its own bytes.

Comes in: a payload. Goes out: a `Format`, or None. Never here: a file name, a declared media type, or a codec library;
both belong to whoever sends the payload, and a demuxer that trusts either opens what it should not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from lazymedia.media.audio.mpeg_audio import behind_id3, frame_size

Backend: TypeAlias = Literal["soundfile", "pyav", "torchcodec"]


@dataclass(frozen=True, slots=True)
class Format:
    """A container that is read here.

    Attributes:
        name: What errors call it.
        backend: What reads it where nothing else was asked for: soundfile for what libsndfile reads, because it leaves
            the interpreter free while it decodes; PyAV for the rest, and for Opus, which it decodes in 0.4 of the time
            and to the same samples in OGG and in WebM. The libsndfile of soundfile's wheels knows no FLAC in OGG.
        demuxer: FFmpeg's name of it, which PyAV is held to.
        sndfile: libsndfile's names of it; none where libsndfile does not read it.
        declared_length: Whether the header's length can be believed as far as to refuse a clip for it. In MP3, ADTS and
            their like it is a guess from the bit rate.
        joinable: Whether a recording may begin in the middle of a frame, so that what comes before the first whole one
            is no damage.
    """

    name: str
    backend: Backend
    demuxer: str
    sndfile: frozenset[str] = frozenset()
    declared_length: bool = False
    joinable: bool = False


WAV: Final = Format("WAV", "soundfile", "wav", frozenset({"WAV", "WAVEX", "RF64"}), declared_length=True)
FLAC: Final = Format("FLAC", "soundfile", "flac", frozenset({"FLAC"}), declared_length=True)
AIFF: Final = Format("AIFF", "soundfile", "aiff", frozenset({"AIFF"}), declared_length=True)
OGG: Final = Format("OGG", "soundfile", "ogg", frozenset({"OGG"}), declared_length=True)
OGG_FLAC: Final = Format("OGG FLAC", "pyav", "ogg", frozenset({"OGG"}))
OPUS: Final = Format("OGG Opus", "pyav", "ogg", frozenset({"OGG"}), declared_length=True)
MP3: Final = Format("MP3", "soundfile", "mp3", frozenset({"MP3", "MPEG"}))
MP4: Final = Format("MP4", "pyav", "mov", declared_length=True)
MATROSKA: Final = Format("Matroska or WebM", "pyav", "matroska", declared_length=True)
AVI: Final = Format("AVI", "pyav", "avi", declared_length=True)
FLV: Final = Format("FLV", "pyav", "flv")
ADTS: Final = Format("AAC", "pyav", "aac", joinable=True)
AMR: Final = Format("AMR", "pyav", "amr")
MPEG_PS: Final = Format("MPEG program stream", "pyav", "mpeg", joinable=True)
MPEG_TS: Final = Format("MPEG transport stream", "pyav", "mpegts", joinable=True)

SUPPORTED: Final = "WAV, FLAC, OGG, MP3, AIFF, MP4, M4A, MOV, WebM, Matroska, AAC, AMR, MPEG, AVI, FLV"
"""For error texts."""

_PREFIXES: Final = (
    (b"fLaC", FLAC),
    (b"RF64", WAV),
    (b"\x1aE\xdf\xa3", MATROSKA),
    (b"#!AMR", AMR),
    (b"FLV\x01", FLV),
    (b"\x00\x00\x01\xba", MPEG_PS),
)
_IN_OGG: Final = ((b"OpusHead", OPUS), (b"\x7fFLAC", OGG_FLAC))
"""How the first packet begins. RFC 7845, section 5.1; the mapping of FLAC into OGG, RFC 9639, section 10.1."""
_BOXES: Final = (b"ftyp", b"moov", b"mdat", b"free", b"wide", b"skip", b"pnot")
"""Types with which an ISO file or a QuickTime movie may begin."""

_SEARCH: Final = 1 << 16
"""Bytes behind a tag in which an MPEG frame must begin; FFmpeg and mpg123 search about as far."""
_TAGS: Final = {b"TA", b"ID", b"AP"}
"""How tags behind a frame begin."""
_PACKET: Final = 188
"""Bytes of an MPEG-TS packet."""


def sniff(data: bytes) -> Format | None:
    """The format of a payload; None where it is none that is read here. Looks at some 64 KiB at most."""
    if data[:4] == b"OggS":
        return next((found for start, found in _IN_OGG if data.startswith(start, behind_ogg_page(data))), OGG)
    return _by_prefix(data[:12]) or _by_packets(data)


def behind_ogg_page(data: bytes) -> int:
    """Where the first packet of an OGG begins: behind a header, and a table of as many bytes as its byte 26 tells."""
    return 27 + int.from_bytes(data[26:27])


def _by_prefix(head: bytes) -> Format | None:
    if head[:4] in {b"RIFF", b"RIFX"}:
        return {b"WAVE": WAV, b"AVI ": AVI}.get(head[8:12])
    if head[:4] == b"FORM" and head[8:12] in {b"AIFF", b"AIFC"}:
        return AIFF
    if head[4:8] in _BOXES:
        return MP4
    return next((found for prefix, found in _PREFIXES if head.startswith(prefix)), None)


def _by_packets(data: bytes) -> Format | None:
    """Formats that are a sequence of packets, without a header before them."""
    if data[:1] == b"G" and all(data[at : at + 1] == b"G" for at in (_PACKET, 2 * _PACKET)):
        return MPEG_TS
    start = behind_id3(data)
    return FLAC if data[start : start + 4] == b"fLaC" else _mpeg_audio(data, start)


def _mpeg_audio(data: bytes, start: int) -> Format | None:
    """MP3 (any layer) or ADTS by the first frame that another one follows, or that ends the payload."""
    stop = min(len(data), start + _SEARCH)
    position = data.find(b"\xff", start, stop)
    while position >= 0:
        header = data[position : position + 7]
        adts = len(header) == 7 and header[1] & 0xF6 == 0xF0
        size = _adts_size(header) if adts else frame_size(header)
        if size is not None:
            following = data[position + size : position + size + 2]
            if not following or (following[0] == 0xFF and following[1:] >= b"\xe0") or following in _TAGS:
                return ADTS if adts else MP3
        position = data.find(b"\xff", position + 1, stop)
    return None


def _adts_size(header: bytes) -> int | None:
    size = (header[3] & 3) << 11 | header[4] << 3 | header[5] >> 5
    return size if size >= 7 and header[2] >> 2 & 15 < 13 else None


__all__ = ["SUPPORTED", "Backend", "Format", "behind_ogg_page", "sniff"]
