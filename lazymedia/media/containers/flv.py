"""Script data of an FLV. Adobe Flash Video, annex E.4.4."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import MappingProxyType
from typing import Final

from lazymedia.limits import Limits
from lazymedia.media.containers.entries import READ, Entries, check_entries

_SCRIPTS: Final = re.compile(rb"\x02\0\x0aonMetaData|\x02\0\x0aonCuePoint|\x02\0\x11\|RtmpSampleAccess")
"""How the script data begins that FFmpeg reads, wherever it lies: the first tag may begin anywhere, and behind damage
FFmpeg looks for the next one byte by byte."""
_FIXED: Final = MappingProxyType({0: 8, 1: 1, 5: 0, 6: 0, 11: 10, 13: 0})
"""Bytes of AMF's values of one size, by type. AMF 0 specification, section 2."""
_OBJECT, _MIXED, _ARRAY, _TEXT = 3, 8, 10, 2


def check(data: bytes, limits: Limits, modality: str) -> None:
    """Reject an FLV with too many entries in its script data."""
    check_entries(_entries(data), data, limits, modality)


def _entries(data: bytes) -> Entries:
    """Entries replace those of the same name."""
    seen: set[bytes] = set()
    for match in _SCRIPTS.finditer(data):
        for name in _amf_names(data, match.end(), len(data)):
            yield READ, 0
            if name and name not in seen:
                seen.add(name)
                yield "script", len(name)


def _amf_names(data: bytes, position: int, end: int) -> Iterator[bytes]:
    """The name of each value within a value, up to one that FFmpeg does not read; b"" for one without a name."""
    open_: list[int] = []
    """For each value around this one, how many more it holds without names; -1 where they have names."""
    while position < end:
        kind = data[position]
        yield b""
        position += 1
        if kind in _FIXED:
            position += _FIXED[kind]
        elif kind == _TEXT:
            position += 2 + int.from_bytes(data[position : position + 2], "big")
        elif kind in {_OBJECT, _MIXED}:
            open_.append(-1)
            position += 4 if kind == _MIXED else 0
        elif kind == _ARRAY:
            open_.append(int.from_bytes(data[position : position + 4], "big"))
            position += 4
        else:
            return
        while open_ and position < end:
            if open_[-1] > 0:
                open_[-1] -= 1
                break
            size = int.from_bytes(data[position : position + 2], "big") if open_[-1] < 0 else 0
            if size:
                yield data[position + 2 : position + 2 + size]
                position += 2 + size
                break
            position += 3 if open_.pop() < 0 else 0
        else:
            return


__all__ = ["check"]
