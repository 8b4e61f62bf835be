"""The units of which a packet of H.264, HEVC, MPEG-1 or MPEG-2 consists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

TYPE: Final = 0x9F
"""The bits of the first byte of H.264's units that hold the type, and one that is never set; ITU-T H.264, 7.3.1."""


SLICED: Final = frozenset({"h264", "hevc", "mpeg1video", "mpeg2video"})
"""Codecs that `pictures` knows."""


def length_bytes(codec: str, parameters: bytes) -> int:
    """Bytes of the length before each unit; 0 where start codes stand there. ISO/IEC 14496-15, 5.3.3.1 and 8.3.3.1.

    Args:
        codec: "h264" or "hevc".
        parameters: The stream's parameter sets, as the container holds them; may be empty.
    """
    if codec == "h264":
        return (parameters[4] & 3) + 1 if len(parameters) > 6 and parameters[0] == 1 else 0
    # FFmpeg takes whatever begins with no start code for the box: early files have other versions of it.
    is_box = len(parameters) > 22 and (parameters[:2] != b"\0\0" or parameters[2] > 1)
    return (parameters[21] & 3) + 1 if is_box else 0


def behind_start_codes(data: bytes) -> Iterator[bytes]:
    """Units behind start codes, as in MPEG-TS; ITU-T H.264, B.1, and H.265, B.2."""
    start = data.find(b"\0\0\1") + 3
    while start >= 3:
        stop = data.find(b"\0\0\1", start)
        yield data[start : stop if stop >= 0 else len(data)]
        start = stop + 3


def pictures(codec: str, data: bytes, lengths: int, size: tuple[int, int], largest: int) -> float:
    """Pictures that the slices of a packet cover at most, if each goes on to the picture's end.

    Slices may overlap, and FFmpeg 8.1 decodes all of them. One of some ten bytes can cover the whole picture. A packet
    may also change the picture's size, so that many slices count as pictures of the largest size.

    Args:
        codec: FFmpeg's name, one of `SLICED`.
        data: The packet.
        lengths: As `length_bytes`.
        size: Width and height of the picture, pixels.
        largest: Pixels that a picture may have.
    """
    if codec == "h264":
        blocks = -(-size[0] // 16) * -(-size[1] // 16)
        firsts = [_first_block(unit) for unit in _units(data, lengths) if unit and unit[0] & TYPE in _SLICES]
        whole = float(len(firsts))
        covered = sum(1 - first / blocks if first < blocks else 1 for first in firsts)
    elif codec == "hevc":
        covered = whole = sum(bool(unit) and unit[0] >> 1 & 0x3F < _FIRST_OTHER for unit in _units(data, lengths))
    else:
        rows = max(1, -(-size[1] // 16))
        found = [begin[-1] - 1 for begin in _ROWS.findall(data)]
        whole = len(found) / rows
        covered = whole if codec == "mpeg2video" else sum(1 - row / rows if row < rows else 1 for row in found)
    return covered if whole <= _MANY else whole * max(1.0, largest / max(1, size[0] * size[1]))


_MANY: Final = 32
"""Slices from which on they count in full."""
_SLICES: Final = frozenset({1, 2, 5})
"""Types of H.264's units that begin a slice; ITU-T H.264, table 7-1."""
_FIRST_OTHER: Final = 32
"""Types of HEVC's units below this hold slices; ITU-T H.265, table 7-1."""
_ROWS: Final = re.compile(rb"\x00\x00\x01[\x01-\xaf]", re.DOTALL)
"""How slices of MPEG-1 and MPEG-2 begin: the last byte is the row of blocks. Those of MPEG-2 end with that row; ITU-T
H.262, 6.1.2 and 6.3.16."""


def _units(data: bytes, lengths: int) -> Iterator[bytes]:
    return behind_lengths(data, lengths) if lengths else behind_start_codes(data)


def _first_block(unit: bytes) -> int:
    """first_mb_in_slice; ITU-T H.264, 7.3.3, and 9.1 for how it is stored."""
    head = unit[1:11].replace(b"\0\0\3", b"\0\0")
    bits = int.from_bytes(head.ljust(8, b"\0")[:8])
    zeros = 64 - bits.bit_length()
    return (bits >> max(0, 63 - 2 * zeros)) - 1


def refreshes_gradually(data: bytes, lengths: int) -> bool:
    """Whether a packet of H.264 begins a refresh that takes several frames: no IDR picture, and a recovery point some
    frames later. ITU-T H.264, 7.3.2.3 and D.1.8.
    """
    for unit in _units(data, lengths):
        if unit and unit[0] & TYPE in _SLICES:
            return False
        if unit and unit[0] & TYPE == _SEI:
            for kind, body in _messages(unit[1:].replace(b"\0\0\3", b"\0\0")):
                if kind == _RECOVERY_POINT and body:
                    return not body[0] & 0x80  # recovery_frame_cnt, of which 0 is one bit that is set
    return False


_SEI: Final = 6
_RECOVERY_POINT: Final = 6
"""Type of a message; the one above is a type of units."""


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Type and content of each message in a unit of supplemental information. ITU-T H.264, 7.3.2.3.1."""
    position = 0
    while position + 2 < len(data):
        numbers = [0, 0]
        for each in range(2):
            while position < len(data) - 1 and data[position] == 0xFF:
                numbers[each] += 0xFF
                position += 1
            numbers[each] += data[position] if position < len(data) else 0
            position += 1
        kind, size = numbers
        yield kind, data[position : position + size]
        position += size


def behind_lengths(data: bytes, length_bytes: int) -> Iterator[bytes]:
    """Units behind their lengths, as in MP4 and Matroska; the last may end early."""
    start = 0
    while start < len(data):
        size = int.from_bytes(data[start : start + length_bytes])
        yield data[start + length_bytes : start + length_bytes + size]
        start += length_bytes + size


__all__ = ["SLICED", "TYPE", "behind_lengths", "behind_start_codes", "length_bytes", "pictures", "refreshes_gradually"]
