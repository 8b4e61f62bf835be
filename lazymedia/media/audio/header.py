"""What the header of a WAV or FLAC (in OGG too) says, so that an impossible clip is refused before a library sees it.

Comes in: a payload of a known format. Goes out: an `AudioHeader`, or None where the header cannot be read or the format
is left to its decoder. Never here: a codec library, or a number that is believed: all of them may lie.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lazymedia.media.audio.formats import FLAC, OGG_FLAC, WAV, Format, behind_ogg_page

_CHUNKS: Final = 64
"""Chunks of a WAV that are walked in search of its samples."""
_IN_OGG: Final = 9
"""Bytes before a FLAC in OGG: its own mark, a version, and the number of headers. RFC 9639, section 10.1."""
_STREAMINFO: Final = 26
"""Bytes of a FLAC up to the length: its mark, a block's header, and the block until there."""
_MPEG: Final = {0x50, 0x55}
"""Tags of a WAV whose samples are MPEG audio: layers I and II, layer III. RFC 2361, appendix A."""


@dataclass(frozen=True, slots=True)
class AudioHeader:
    """A header that could be read.

    Attributes:
        rate: Hz.
        channels: As stored.
        samples: Per channel, as declared and, in a WAV, as far as the payload can hold them; None where not told.
    """

    rate: int
    channels: int
    samples: int | None


def read_header(data: bytes, kind: Format) -> AudioHeader | None:
    """What the header tells; None where it tells nothing here."""
    if kind == FLAC:
        return _flac(data)
    if kind == OGG_FLAC:
        start = behind_ogg_page(data) + _IN_OGG
        return _flac(data[start : start + _STREAMINFO])
    if kind == WAV:
        told = _wav(data)
        return None if told is None or told.tag in _MPEG else told.header
    return None


def mpeg_in_wav(data: bytes) -> slice | None:
    """Where the MPEG audio in a WAV lies; None where there is other sound in it."""
    told = _wav(data)
    return (told.samples or slice(0)) if told is not None and told.tag in _MPEG else None


def _flac(data: bytes) -> AudioHeader | None:
    """STREAMINFO, which comes first: 20 bits of rate, 3 of channels - 1, 5 of depth - 1, 36 of samples (0: unknown)."""
    if data[:4] != b"fLaC" or len(data) < _STREAMINFO or data[4] & 0x7F:
        return None
    bits = int.from_bytes(data[18:26], "big")
    return AudioHeader(bits >> 44, (bits >> 41 & 7) + 1, bits & (1 << 36) - 1 or None)


@dataclass(frozen=True, slots=True)
class _Wav:
    header: AudioHeader
    tag: int
    samples: slice | None


def _wav(data: bytes) -> _Wav | None:
    if data[:4] not in {b"RIFF", b"RIFX"}:
        return None

    def number(start: int, size: int) -> int:
        return int.from_bytes(data[start : start + size], "little" if data[:4] == b"RIFF" else "big")

    position, layout = 12, None
    for _ in range(_CHUNKS):
        if position + 8 > len(data):
            break
        name, size = data[position : position + 4], number(position + 4, 4)
        body = position + 8
        if name == b"fmt " and body + 16 <= len(data):
            layout = number(body + 4, 4), number(body + 2, 2), number(body + 14, 2), number(body, 2)
        elif name == b"data" and layout is not None:
            rate, channels, bits, tag = layout
            frame = channels * bits // 8
            # Only uncompressed samples (1: integers, 3: floats, 0xFFFE: either) have a size that tells their number.
            plain = tag in {1, 3, 0xFFFE} and frame > 0
            there = min(size, len(data) - body)
            return _Wav(AudioHeader(rate, channels, there // frame if plain else None), tag, slice(body, body + there))
        position = body + size + (size & 1)
    return None if layout is None else _Wav(AudioHeader(layout[0], layout[1], None), layout[3], None)


__all__ = ["AudioHeader", "mpeg_in_wav", "read_header"]
