"""The units of which a packet of H.264 or HEVC consists.

Comes in: a packet's bytes, or a stream's parameters. Goes out: units, and how they are told apart. Never here: what a
unit holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

TYPE: Final = 0x9F
"""The bits of the first byte of H.264's units that tell the type, and one that is never set; ITU-T H.264, 7.3.1."""


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


def behind_lengths(data: bytes, length_bytes: int) -> Iterator[bytes]:
    """Units behind their lengths, as in MP4 and Matroska; the last may end early."""
    start = 0
    while start < len(data):
        size = int.from_bytes(data[start : start + length_bytes])
        yield data[start + length_bytes : start + length_bytes + size]
        start += length_bytes + size


__all__ = ["TYPE", "behind_lengths", "behind_start_codes", "length_bytes"]
