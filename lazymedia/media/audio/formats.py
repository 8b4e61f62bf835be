"""Which audio format a payload is, by its own bytes; and the headers of MPEG audio, by which that is found.

File names and declared media types are not used: both come with the payload, and a demuxer that trusts either opens
what it should not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from lazymedia.media import formats

_TAG_TRIES: Final = 4
"""Tags that are skipped in one place; taggers that prepend a second one exist."""

_RATES: Final = {3: (44_100, 48_000, 32_000), 2: (22_050, 24_000, 16_000), 0: (11_025, 12_000, 8_000)}
"""Hz by version bits (3: MPEG-1, 2: MPEG-2, 0: MPEG-2.5) and rate bits; ISO/IEC 11172-3, 13818-3."""
_KBITS: Final = {
    (3, 3): (32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448),
    (3, 2): (32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (3, 1): (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (2, 3): (32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256),
    (2, 2): (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    (2, 1): (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
"""kbit/s by version (2.5 as 2) and layer bits (3: I, 2: II, 1: III), for bit rate indices 1 to 14; the same source."""


_FIELDS: Final = (4, 4, 100, 4)
"""Bytes of the fields of Xing's tag: frames, bytes, table, quality. Each is there if its flag is set."""
_DROPPED: Final = 21
"""Where LAME's part of the tag has the numbers of samples to drop, 12 bits each."""


def frame_size(header: bytes) -> int | None:
    """Bytes of the MPEG audio frame with this header; None where it is none, or of free format."""
    if len(header) < 4 or header[0] != 0xFF or header[1] & 0xE0 != 0xE0:
        return None
    version, layer = header[1] >> 3 & 3, header[1] >> 1 & 3
    index, rate_index, padding = header[2] >> 4, header[2] >> 2 & 3, header[2] >> 1 & 1
    if version == 1 or layer == 0 or not 1 <= index <= 14 or rate_index == 3:
        return None
    bits = 1000 * _KBITS[version or 2, layer][index - 1]
    rate = _RATES[version][rate_index]
    if layer == 3:
        return (12 * bits // rate + padding) * 4
    return (72 if layer == 1 and version != 3 else 144) * bits // rate + padding


def kind_of(header: bytes) -> tuple[object, ...]:
    """What stays the same in all frames of a recording: sync, version and layer; rate; whether there is one channel."""
    return *(byte & mask for byte, mask in zip(header, (0xFF, 0xFE, 0x0C))), header[3:] >= b"\xc0"


def declared_samples(data: bytes) -> int | None:
    """Samples per channel by the tag in the first frame (Xing's, with LAME's numbers of samples to drop at both ends);
    None where there is no such tag. It counts one recording, where several follow each other.
    """
    start = behind_id3(data)
    header = data[start : start + 4]
    if frame_size(header) is None:
        return None
    is_mono, is_first = header[3] >> 6 == 3, header[1] >> 3 & 3 == 3
    tag = start + 4 + ((17 if is_mono else 32) if is_first else (9 if is_mono else 17))  # behind the side information
    flags = int.from_bytes(data[tag + 4 : tag + 8], "big")
    if data[tag : tag + 4] not in {b"Xing", b"Info"} or not flags & 1:
        return None
    lame = tag + 8 + sum(size for bit, size in enumerate(_FIELDS) if flags >> bit & 1)
    dropped = int.from_bytes(data[lame + _DROPPED : lame + _DROPPED + 3], "big")
    frames = int.from_bytes(data[tag + 8 : tag + 12], "big")
    return max(frames * (1152 if is_first else 576) - (dropped >> 12) - (dropped & 0xFFF), 0)


def behind_id3(data: bytes) -> int:
    """Where the ID3v2 tags at the start end."""
    start = 0
    for _ in range(_TAG_TRIES):
        if data[start : start + 3] != b"ID3" or len(data) < start + 10:
            break
        footer = 10 if data[start + 5] & 0x10 else 0
        start += 10 + _of_seven_bits(data[start + 6 : start + 10]) + footer
    return start


def _of_seven_bits(four: bytes) -> int:
    size = 0
    for byte in four:
        size = size << 7 | byte & 0x7F
    return size


Backend: TypeAlias = Literal["soundfile", "pyav", "torchcodec"]


@dataclass(frozen=True, slots=True)
class Format:
    """A container that is read here.

    Attributes:
        name: What errors call it.
        demuxer: FFmpeg's name of it, the only one that PyAV opens it with.
        sndfile: libsndfile's names of it; none where libsndfile is not given it. It is given WAV, AIFF and FLAC only:
            of libvorbis 1.3.7, which it reads OGG with, a header of 196 bytes overflows the stack, and libmpg123
            prints a line to stderr for each damaged frame.
        declared_length: Whether the header's length can be believed as far as to reject a clip for it. In MP3, ADTS and
            their like it is a guess from the bit rate.
        joinable: Whether a recording may begin in the middle of a frame, so that what comes before the first whole one
            is no damage.
    """

    name: str
    demuxer: str
    sndfile: frozenset[str] = frozenset()
    declared_length: bool = False
    joinable: bool = False


WAV: Final = Format("WAV", "wav", frozenset({"WAV", "WAVEX", "RF64"}), declared_length=True)
FLAC: Final = Format("FLAC", "flac", frozenset({"FLAC"}), declared_length=True)
AIFF: Final = Format("AIFF", "aiff", frozenset({"AIFF"}), declared_length=True)
OGG: Final = Format("OGG", "ogg", declared_length=True)
OGG_FLAC: Final = Format("OGG FLAC", "ogg", declared_length=True)
MP3: Final = Format("MP3", "mp3")
MP4: Final = Format("MP4", "mov", declared_length=True)
MATROSKA: Final = Format("Matroska or WebM", "matroska", declared_length=True)
AVI: Final = Format("AVI", "avi", declared_length=True)
FLV: Final = Format("FLV", "flv")
ADTS: Final = Format("AAC", "aac", joinable=True)
AMR: Final = Format("AMR", "amr")
MPEG_PS: Final = Format("MPEG program stream", "mpeg", joinable=True)
MPEG_TS: Final = Format("MPEG transport stream", "mpegts", joinable=True)

SUPPORTED: Final = "WAV, FLAC, OGG, MP3, AIFF, MP4, M4A, MOV, WebM, Matroska, AAC, AMR, MPEG, AVI, FLV"
"""For error texts."""

_BY_SIGNATURE: Final = {
    formats.WAV: WAV,
    formats.AVI: AVI,
    formats.AIFF: AIFF,
    formats.MP4: MP4,
    formats.FLAC: FLAC,
    formats.MATROSKA: MATROSKA,
    formats.AMR: AMR,
    formats.FLV: FLV,
    formats.MPEG_PS: MPEG_PS,
}
_FLAC_IN_OGG: Final = b"\x7fFLAC"
"""How the first packet begins. RFC 9639, section 10.1."""

_SEARCH: Final = 1 << 16
"""Bytes behind a tag in which an MPEG frame must begin; FFmpeg searches about as far."""
_TAGS: Final = {b"TA", b"ID", b"AP"}
"""How tags behind a frame begin."""
_IN_A_ROW: Final = 3
"""Frames in a row without which a payload that begins with no tag is no MPEG audio: two of them occur by chance in a
program file."""
_OTHERS: Final = (
    *(b"GIF8", b"\x89PNG", b"\xff\xd8\xff", b"BM", b"II*\0", b"MM\0*", b"8BPS", b"DDS ", b"qoif", b"\x76\x2f\x31\x01"),
    *(b"RIFF", b"RIFX", b"RF64", b"FORM", b"FRM8", b"OggS", b"fLaC", b"FLV", b"\x30\x26\xb2\x75", b".RMF", b".snd"),
    *(
        b"caff",
        b"MThd",
        b"wvpk",
        b"MAC ",
        b"TTA1",
        b"MPCK",
        b"MP+",
        b"DSD ",
        b"IMPM",
        b"Extended Module",
        b"Creative V",
    ),
    *(b"\x7fELF", b"MZ", b"\xca\xfe\xba\xbe", b"\xfe\xed\xfa\xce", b"\xfe\xed\xfa\xcf", b"\xce\xfa\xed\xfe"),
    *(b"\xcf\xfa\xed\xfe", b"\0asm", b"dex\n", b"!<arch>", b"#!", b"SQLite format 3"),
    *(b"PK\3\4", b"PK\5\6", b"Rar!", b"7z\xbc\xaf", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"MSCF"),
    *(b"xar!", b"07070", b"\xed\xab\xee\xdb", b"%PDF", b"%!PS", b"{\\rtf", b"\xd0\xcf\x11\xe0", b"<!", b"<?", b"<svg"),
    *(b"<html", b"<HTML", b"OTTO", b"wOFF", b"wOF2", b"ttcf", b"#EXTM3U", b"ffconcat"),
)
"""How other formats begin: pictures, other sound, programs, archives, documents, fonts. Each of them may contain what
looks like MPEG audio, or is."""
_PACKET: Final = 188
"""Bytes of an MPEG-TS packet."""


def sniff(data: bytes) -> Format | None:
    """The format of a payload; None where it is none that is read here. Looks at some 64 KiB at most."""
    if formats.OGG.matches(data):
        return OGG_FLAC if data.startswith(_FLAC_IN_OGG, behind_ogg_page(data)) else OGG
    known = formats.identify(data, _BY_SIGNATURE)
    return _by_packets(data) if known is None else _BY_SIGNATURE[known]


def behind_ogg_page(data: bytes) -> int:
    """Where the first packet of an OGG begins: behind a header, and a table as long as its byte 26 declares."""
    return 27 + int.from_bytes(data[26:27])


def _by_packets(data: bytes) -> Format | None:
    """Formats that are a sequence of packets, without a header before them."""
    if data[:1] == b"G" and all(data[at : at + 1] == b"G" for at in (_PACKET, 2 * _PACKET)):
        return MPEG_TS
    start = behind_id3(data)
    if data.startswith(b"fLaC", start):
        return FLAC
    return None if data.startswith(_OTHERS, start) else _mpeg_audio(data, start, _IN_A_ROW if start == 0 else 1)


def _mpeg_audio(data: bytes, start: int, least: int) -> Format | None:
    """MP3 (any layer) or ADTS, by the first frames that follow each other.

    Args:
        data: The payload.
        start: Where to begin.
        least: Frames that must follow each other. With 1, a frame that another one or a tag follows, or that ends the
            payload.
    """
    stop = min(len(data), start + _SEARCH)
    position = data.find(b"\xff", start, stop)
    while position >= 0:
        if _follow_each_other(data, position, least):
            return ADTS if _is_adts(data[position : position + 7]) else MP3
        position = data.find(b"\xff", position + 1, stop)
    return None


def _follow_each_other(data: bytes, position: int, least: int) -> bool:
    first = data[position : position + 7]
    for _ in range(least):
        header = data[position : position + 7]
        size = _size(header)
        if size is None or _kind(header) != _kind(first):
            return False
        position += size
    following = data[position : position + 2]
    return least > 1 or not following or (following[0] == 0xFF and following[1:] >= b"\xe0") or following in _TAGS


def _is_adts(header: bytes) -> bool:
    return len(header) == 7 and header[1] & 0xF6 == 0xF0


def _kind(header: bytes) -> tuple[object, ...]:
    """What stays the same in all frames of a recording; of ADTS the fixed header (ISO/IEC 13818-7, 6.2.1)."""
    return (header[:3], header[3] & 0xF0) if _is_adts(header) else kind_of(header)


def _size(header: bytes) -> int | None:
    if not _is_adts(header):
        return frame_size(header)
    size = (header[3] & 3) << 11 | header[4] << 3 | header[5] >> 5
    return size if size >= 7 and header[2] >> 2 & 15 < 13 else None


__all__ = [
    "SUPPORTED",
    "Backend",
    "Format",
    "behind_id3",
    "behind_ogg_page",
    "declared_samples",
    "frame_size",
    "kind_of",
    "sniff",
]
