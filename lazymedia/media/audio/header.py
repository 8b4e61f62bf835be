"""What is known of a clip without a decode: `AudioInfo`, and how it is read from a payload's header.

The header of a WAV, AIFF or FLAC (in OGG too) is read without a codec library. It shows that a clip is over a limit
before a library sees it, and whether libsndfile is to read it. No number in it is certain.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import islice
from typing import Final

from lazymedia.errors import LazyMediaError
from lazymedia.limits import Limits
from lazymedia.media import containers
from lazymedia.media.audio.bounds import reason, rejection
from lazymedia.media.audio.formats import AIFF, FLAC, OGG_FLAC, WAV, Format, behind_id3, behind_ogg_page, sniff
from lazymedia.media.containers import riff


@dataclass(frozen=True, slots=True)
class AudioInfo:
    """What is known of a clip.

    Before a decode the numbers are those of the header, which may be wrong; the last two are None. After a decode they
    are those of the decoded samples.

    Attributes:
        rate: Hz, of the clip itself, before any resampling.
        channels: Of the clip itself, before they are mixed.
        samples: Per channel, at `rate`. None where the header does not say.
        lost_samples: Samples per channel that are missing because the payload is damaged or cut, at least: as many as
            the time stamps, the declared length or the size of the damaged packets show. 0 for a sound clip, and where
            the format shows no number (an MPEG stream that was cut between two frames, for example).
        errors: Places where the decoder reported an error, or where the payload ends too early. A clip with 0 here and
            in `lost_samples` shows no damage.
    """

    rate: int
    channels: int
    samples: int | None
    lost_samples: int | None = None
    errors: int | None = None


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


def _wav(data: bytes) -> Header | None:
    """Multimedia Programming Interface and Data Specifications 1.0, chapter 3; EBU Tech 3306 for RF64."""
    order = ">" if data[:4] == b"RIFX" else "<"
    layout: tuple[int, int, int, int] | None = None
    sound: tuple[int, int] | None = None
    readable = True
    for name, body, size in islice(riff.chunks(data), _CHUNKS):
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
    """Whether a chunk holds as many rows as it says. libsndfile rejects the file or loses samples where it does not."""
    if size < head or body + head > len(data):
        return False
    (count,) = struct.unpack_from(f"{order}I", data, body + count_at)
    return bool(size >= head + _ROW * count)


def _aiff(data: bytes) -> Header | None:
    """Audio Interchange File Format AIFF-C, draft of 26 August 1991, sections 3 and 4."""
    common: tuple[int, int, int] | None = None
    codec = b"NONE"
    share = 1, 1
    for name, body, size in islice(riff.chunks(data), _CHUNKS):
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


def read_info(data: bytes, limits: Limits) -> AudioInfo | None:
    """Rate, channels and length as the payload's header has them; None for a payload of no known format.

    Raises:
        UnprocessableMediaError: There is no audio in it, or the header cannot be read or is over a limit.
    """
    kind = sniff(data)
    if kind is None:
        return None
    known = read_header(data, kind)
    if known is not None:
        if not known.info.rate or not known.info.channels:
            raise rejection(f"the header of the {kind.name} audio has no rate or no channels")
        return known.info
    containers.check(data, kind.demuxer, limits, "audio")
    try:
        from lazymedia.media.audio import pyav_reader

        return pyav_reader.read_info(data, kind, limits)
    except (LazyMediaError, ImportError, MemoryError):
        raise
    except Exception as exc:
        raise rejection(f"the header of the {kind.name} audio cannot be read: {reason(exc)}") from exc


__all__ = ["AudioInfo", "Header", "read_header", "read_info"]
