"""What the header of a WAV, AIFF or FLAC (in OGG too) says, read without a codec library.

It shows two things: that a clip is over a limit, before a library sees it; and whether libsndfile is to read it, which
depends on the codec and not on the container alone. No number here is certain: each of them may be wrong.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from lazymedia.media.audio.formats import AIFF, FLAC, OGG_FLAC, WAV, Format, behind_ogg_page
from lazymedia.media.audio.info import AudioInfo
from lazymedia.media.audio.mpeg_audio import behind_id3

_CHUNKS: Final = 64
"""Chunks of a WAV or AIFF that are read, empty ones and unknown ones among them."""
_IN_OGG: Final = 9
"""Bytes before a FLAC in OGG: its own mark, a version, and the number of headers. RFC 9639, section 10.1."""
_STREAMINFO: Final = 26
"""Bytes of a FLAC up to the length: its mark, a block's header, and the block until there."""
_DEPTHS: Final = {8, 16, 24}
"""Bits of a FLAC's samples that libsndfile reads."""

_INTEGERS, _FLOATS, _EXTENSIBLE = 1, 3, 0xFFFE
_COMPANDED: Final = {6, 7}
_ADPCM: Final = {2, 0x11}
"""Tags of a WAV. RFC 2361, appendix A; 0xFFFE names the codec further on (Microsoft, WAVEFORMATEXTENSIBLE)."""
_WIDTHS: Final = {_INTEGERS: {8, 16, 24, 32}, _FLOATS: {32, 64}}
_LISTS: Final = {b"smpl": (28, 36), b"cue ": (0, 4)}
_ROW: Final = 24
"""Chunks with rows of 24 bytes: where their number stands, and how many bytes come before them."""
_UNKNOWN_SIZE: Final = 0x7FFFF000
"""Sizes from here on are those that programs write which cannot know the size, as into a pipe."""

_AIFC: Final = (
    {b"NONE", b"sowt", b"twos", b"raw ", b"in24", b"42ni", b"in32", b"23ni"}
    | {b"fl32", b"FL32", b"fl64", b"FL64"}
    | {b"ulaw", b"ULAW", b"alaw", b"ALAW"}
)
"""Codecs of an AIFF-C that libsndfile reads and that are no compression to speak of."""


@dataclass(frozen=True, slots=True)
class Header:
    """A header that could be read.

    Attributes:
        info: Its `samples` are those that the payload can hold, where that is fewer than declared.
        declared: Samples per channel as declared; None where it is not.
        by_libsndfile: Whether libsndfile reads this codec in this container.
    """

    info: AudioInfo
    declared: int | None
    by_libsndfile: bool


def read_header(data: bytes, kind: Format) -> Header | None:
    """The header; None where it cannot be read or the format has none that is read here."""
    if kind == FLAC:
        start = behind_id3(data)
        return _flac(data[start : start + _STREAMINFO], bare=start == 0)
    if kind == OGG_FLAC:
        start = behind_ogg_page(data) + _IN_OGG
        return _flac(data[start : start + _STREAMINFO], bare=False)
    if kind == WAV:
        return _wav(data)
    return _aiff(data) if kind == AIFF else None


def _flac(data: bytes, *, bare: bool) -> Header | None:
    """STREAMINFO, which comes first: 20 bits of rate, 3 of channels - 1, 5 of depth - 1, 36 of samples (0: unknown).
    RFC 9639, section 8.2.
    """
    if data[:4] != b"fLaC" or len(data) < _STREAMINFO or data[4] & 0x7F:
        return None
    bits = int.from_bytes(data[18:26], "big")
    samples = bits & (1 << 36) - 1 or None
    info = AudioInfo(bits >> 44, (bits >> 41 & 7) + 1, samples)
    return Header(info, samples, bare and (bits >> 36 & 31) + 1 in _DEPTHS)


def _chunks(data: bytes, order: str) -> Iterator[tuple[bytes, int, int]]:
    """The name of each chunk, where its body begins, and the size that it declares."""
    position = 12
    for _ in range(_CHUNKS):
        if position + 8 > len(data):
            return
        name, size = struct.unpack_from(f"{order}4sI", data, position)
        yield name, position + 8, size
        position += 8 + size + (size & 1)


def _wav(data: bytes) -> Header | None:
    """Multimedia Programming Interface and Data Specifications 1.0, chapter 3; EBU Tech 3306 for RF64."""
    order = ">" if data[:4] == b"RIFX" else "<"
    layout: tuple[int, int, int, int] | None = None
    sound: tuple[int, int] | None = None
    readable = True
    for name, body, size in _chunks(data, order):
        if name == b"fmt " and body + 16 <= len(data) and layout is None:
            tag, channels, rate, bits = struct.unpack_from(f"{order}HHI6xH", data, body)
            if tag == _EXTENSIBLE and size >= 26 and body + 26 <= len(data):
                (tag,) = struct.unpack_from(f"{order}H", data, body + 24)
            layout = tag, channels, rate, bits
            readable &= sound is None
        elif name == b"data" and sound is None:
            sound = body, size
        elif name in _LISTS:
            readable &= _is_whole_list(data, order, body, size, *_LISTS[name])
    if layout is None:
        return None
    tag, channels, rate, bits = layout
    if tag not in {_INTEGERS, _FLOATS} | _COMPANDED | _ADPCM:
        return None  # a codec that has a header of its own, such as MPEG audio, FLAC or AC-3
    readable &= tag in _COMPANDED | _ADPCM or bits in _WIDTHS.get(tag, ())
    frame = 0 if tag in _ADPCM else channels * bits // 8
    if sound is None or not frame:
        return Header(AudioInfo(rate, channels, None), None, readable)
    body, size = sound
    declared = None if size >= _UNKNOWN_SIZE else size // frame
    return Header(AudioInfo(rate, channels, min(size, len(data) - body) // frame), declared, readable)


def _is_whole_list(data: bytes, order: str, body: int, size: int, count_at: int, head: int) -> bool:
    """Whether a chunk holds as many rows as it says. libsndfile refuses the file or loses samples where it does not."""
    if size < head or body + head > len(data):
        return False
    (count,) = struct.unpack_from(f"{order}I", data, body + count_at)
    return bool(size >= head + _ROW * count)


def _aiff(data: bytes) -> Header | None:
    """Audio Interchange File Format AIFF-C, draft of 26 August 1991, sections 3 and 4."""
    common: tuple[int, int, int] | None = None
    codec = b"NONE"
    share = 1, 1
    for name, body, size in _chunks(data, ">"):
        if name == b"COMM" and size >= 18 and body + 18 <= len(data):
            channels, declared, _, exponent, mantissa = struct.unpack_from(">HIHHQ", data, body)
            rate = mantissa >> 0x3FFF + 63 - exponent if 0x3FFF <= exponent <= 0x3FFF + 63 else 0
            common = rate, channels, declared
            codec = data[body + 18 : body + 22] if data[8:12] == b"AIFC" else codec
        elif name == b"SSND" and size > 0:
            share = min(size, len(data) - body), size
    if common is None:
        return None
    rate, channels, declared = common
    return Header(AudioInfo(rate, channels, declared * share[0] // share[1]), declared, codec in _AIFC)


__all__ = ["Header", "read_header"]
