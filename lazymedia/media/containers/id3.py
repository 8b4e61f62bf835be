"""Tags of MP3, AAC and FLAC: ID3v2 and APEv2."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from itertools import islice
from typing import Final

from lazymedia.limits import Limits
from lazymedia.media.containers.entries import READ, Entries, check_entries, vorbis_comments
from lazymedia.media.isobmff import Span

_NAME: Final = 32
_COMMENT_BLOCK: Final = 4


def check_mp3(data: bytes, limits: Limits, modality: str) -> None:
    """Reject an MP3 with too many entries in its tags."""
    check_entries(id3_entries(data, 0), data, limits, modality)


def check_adts(data: bytes, limits: Limits, modality: str) -> None:
    """Reject an AAC with too many entries in its tags."""
    check_entries(_in_adts(data), data, limits, modality)


def check_flac(data: bytes, limits: Limits, modality: str) -> None:
    """Reject a FLAC with too many entries in its tags."""
    check_entries(_in_flac(data), data, limits, modality)


def _in_flac(data: bytes) -> Entries:
    """Tags of MP3 may precede the blocks. RFC 9639, section 8."""
    yield from id3_entries(data, 0)
    tags = max((end for _, end, _ in _id3_tags(data, 0)), default=0)
    mark = data.find(b"fLaC", tags, tags + 14)  # a tag may have a footer of 10 bytes
    position, is_last = mark + 4, mark < 0
    while not is_last and position + 4 <= len(data):
        kind, size = data[position], int.from_bytes(data[position + 1 : position + 4], "big")
        position += 4
        if kind & 0x7F == _COMMENT_BLOCK:
            yield from (("comments", name) for name in vorbis_comments(data, position, position + size))
        position, is_last = position + size, kind > 0x7F


def _in_adts(data: bytes) -> Entries:
    """AAC may have tags of MP3 between frames too (the segments of HLS have), whose entries replace those of the same
    name; and a tag of APE at its end.
    """
    seen: set[bytes] = set()
    for match in re.finditer(rb"ID3[\2-\4]", data):
        for start, end, version in islice(_id3_tags(data, match.start()), 1):  # the next one matches by itself
            for frame in _id3_frames(data, start, end, version):
                yield READ, 0
                content = data[slice(*frame[1])][:_NAME]
                if frame[0] + content not in seen:
                    seen.add(frame[0] + content)
                    yield "tag", _name_bytes(data, *frame)
    yield from _ape(data)


def id3_entries(data: bytes, start: int) -> Entries:
    """Frames of ID3v2; a chapter has frames of its own. ID3v2.4, section 4; ID3v2 Chapter Frame Addendum, 3.1."""
    chapters = []
    for first, end, version in _id3_tags(data, start):
        for frame in _id3_frames(data, first, end, version):
            yield "tag", _name_bytes(data, *frame)
            if frame[0] == b"CHAP":
                chapters.append(frame[1])
    for first, end in chapters:
        inner = data.find(b"\0", first, end) + 1 + 16
        for frame in _id3_frames(data, inner, end, 3) if inner > 16 else ():
            yield first, _name_bytes(data, *frame)


def _id3_tags(data: bytes, position: int) -> Iterator[tuple[int, int, int]]:
    """Where the frames of each tag begin and end, and the version, of tags one behind the other. ID3v2.4, 3.1."""
    while data[position : position + 3] == b"ID3" and position + 10 <= len(data):
        version, flags = data[position + 3], data[position + 5]
        start = position + 10
        end = start + _of_seven_bits(data, position + 6)
        if flags & 0x40 and version != 2 and start + 4 <= len(data):
            start += _of_seven_bits(data, start) + (4 if version == 3 else 0)
        if version in {2, 3, 4}:
            yield start, min(end, len(data)), version
        position = end + (10 if flags & 0x10 else 0)


def _id3_frames(data: bytes, position: int, end: int, version: int) -> Iterator[tuple[bytes, Span, int]]:
    """Name, content and flags of each frame. Some writers of version 2.4 store sizes as those of 2.3 are, which shows
    in what stands behind the frame.
    """
    head = 6 if version == 2 else 10
    while position + head <= end:
        name = data[position : position + (3 if version == 2 else 4)]
        if version == 2:
            size, flags = int.from_bytes(data[position + 3 : position + 6], "big"), 0
        else:
            size, flags = struct.unpack_from(">IH", data, position + 4)
        if version == 4 and size > 0x7F:
            safe = _of_seven_bits(data, position + 4)
            if size >= end - position or _begins_frame(data, position + head + safe):
                size = safe
            elif not _begins_frame(data, position + head + size):
                return
        position += head
        if size > end - position:
            return
        if size:  # what pads a tag is frames of nothing
            yield name, (position, position + size), flags
        position += size


def _begins_frame(data: bytes, position: int) -> bool:
    name = data[position : position + 4]
    return name == bytes(4) or (len(name) == 4 and all(65 <= byte <= 90 or 48 <= byte <= 57 for byte in name))


_COMPRESSED: Final = 0x0088
"""Flags of compressed frames: one of version 2.3, one of 2.4."""
_NAMED: Final = (b"T", b"COM", b"ULT", b"USLT", b"PRIV")
"""Frames that become entries, under a name that their content may begin with."""


def _name_bytes(data: bytes, name: bytes, content: Span, flags: int) -> int:
    start, end = content
    if not name.startswith(_NAMED) or start == end:
        return 0
    if flags & _COMPRESSED:
        return int.from_bytes(data[start : start + 4], "big")  # of what it inflates to
    zeros = b"\0\0" if data[start] in {1, 2} else b"\0"  # by the encoding
    found = data.find(zeros, start + 1, end)
    return (end if found < 0 else found) - start


def _of_seven_bits(data: bytes, start: int) -> int:
    first, second, third, fourth = data[start : start + 4]
    return (first & 0x7F) << 21 | (second & 0x7F) << 14 | (third & 0x7F) << 7 | fourth & 0x7F


def _ape(data: bytes) -> Entries:
    """APEv2, whose footer has the size and number of the fields."""
    footer = len(data) - 32
    if footer < 0 or data[footer : footer + 8] != b"APETAGEX":
        return
    size, fields = struct.unpack_from("<II", data, footer + 12)
    position = len(data) - size
    for _ in range(fields):
        if not 0 <= position <= footer - 8:
            return
        name = data.find(b"\0", position + 8, footer)
        if name < 0:
            return
        yield "ape", name - position - 8
        position = name + 1 + int.from_bytes(data[position : position + 4], "little")


__all__ = ["check_adts", "check_flac", "check_mp3", "id3_entries"]
