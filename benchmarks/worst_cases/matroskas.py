"""Matroskas by hand: any number of blocks, cues and tags in a few bytes each. RFC 9559, whose element ids these are."""

from __future__ import annotations

import struct
from collections.abc import Iterable


def element(name: str, *parts: bytes) -> bytes:
    """An element with the shortest length that holds its content."""
    body = b"".join(parts)
    width = next(width for width in range(1, 9) if len(body) < (1 << 7 * width) - 1)
    return bytes.fromhex(name) + (1 << 7 * width | len(body)).to_bytes(width) + body


def number(name: str, value: int) -> bytes:
    """An element that holds an unsigned number."""
    return element(name, value.to_bytes(max(1, -(-value.bit_length() // 8))))


def video_track(codec: bytes, size: tuple[int, int], *extra: bytes) -> bytes:
    """A track of pictures."""
    sizes = element("E0", number("B0", size[0]), number("BA", size[1]))
    return element("AE", number("D7", 1), number("73C5", 1), number("83", 1), element("86", codec), sizes, *extra)


def audio_track(codec: bytes, rate: int, channels: int, *extra: bytes, depth: int = 16) -> bytes:
    """A track of sound."""
    sound = element("E1", element("B5", struct.pack(">d", rate)), number("9F", channels), number("6264", depth))
    return element("AE", number("D7", 1), number("73C5", 1), number("83", 2), element("86", codec), sound, *extra)


def compression(kind: int, settings: bytes = b"") -> bytes:
    """What packets are compressed by: 0 for zlib, 3 for a beginning that all of them share."""
    rules = element("5034", number("4254", kind), element("4255", settings) if settings else b"")
    return element("6D80", element("6240", number("5031", 0), number("5032", 1), number("5033", 0), rules))


def block(data: bytes, time: int = 0, flags: int = 0x80) -> bytes:
    """A SimpleBlock of track 1, ``time`` from its cluster's on."""
    return element("A3", struct.pack(">BhB", 0x81, time, flags), data)


def cluster(time: int, blocks: Iterable[bytes]) -> bytes:
    """Blocks behind a time."""
    return element("1F43B675", number("E7", time), *blocks)


def movie(track: bytes, *parts: bytes, head: bytes = b"") -> bytes:
    """A file: a track, ``head`` before it, and what comes behind."""
    info = element("1549A966", number("2AD7B1", 1_000_000))
    start = element("1A45DFA3", element("4282", b"matroska"), number("4287", 4), number("4285", 2))
    return start + element("18538067", info, head, element("1654AE6B", track), *parts)


def tags(count: int) -> bytes:
    """Tags of the whole file, each of another name."""
    simple = (element("67C8", element("45A3", b"K%d" % one), element("4487", b"v")) for one in range(count))
    return element("1254C367", element("7373", element("63C0"), *simple))


def chapters(count: int) -> bytes:
    """Chapters, each numbered lower than the last one."""
    atoms = (
        element("B6", number("73C4", count - one), number("91", one), number("92", one + 1)) for one in range(count)
    )
    return element("1043A770", element("45B9", *atoms))


__all__ = [
    "audio_track",
    "block",
    "chapters",
    "cluster",
    "compression",
    "element",
    "movie",
    "number",
    "tags",
    "video_track",
]
