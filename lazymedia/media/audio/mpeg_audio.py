"""Headers of MPEG audio frames and of the tags before them, as far as the format of a payload is found by them."""

from __future__ import annotations

from typing import Final

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


__all__ = ["behind_id3", "declared_samples", "frame_size", "kind_of"]
