"""Chunks of WAV, AVI and AIFF. Multimedia Programming Interface and Data Specifications 1.0, chapter 2."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from lazymedia.limits import Limits
from lazymedia.media.containers.entries import Entries, check_entries
from lazymedia.media.containers.id3 import id3_entries


def check(data: bytes, limits: Limits, modality: str) -> None:
    """Reject a file with too many notes or entries of tags."""
    check_entries(_entries(data), data, limits, modality)


def _entries(data: bytes) -> Entries:
    for name, start, size in chunks(data):
        if name == b"INFO":
            yield from (("notes", 0) for _ in chunks(data, start, start + size))
        elif name in {b"id3 ", b"ID3 "}:
            yield from id3_entries(data, start)


def chunks(data: bytes, position: int = 12, stop: int | None = None) -> Iterator[tuple[bytes, int, int]]:
    """The name of each chunk, where its body begins, and the size that it declares, up to the frames of an AVI.

    Of a list the name is its type. In an AVI, the content of a list that holds no notes follows. The size of the
    samples of an RF64 is the one in its first chunk (EBU Tech 3306).
    """
    order = "<" if data[:4] in {b"RIFF", b"RF64"} else ">"
    stop = len(data) if stop is None else min(stop, len(data))
    is_avi = data[8:12] == b"AVI "
    long: int | None = None
    while position + 8 <= stop:
        name, size = struct.unpack_from(f"{order}4sI", data, position)
        position += 8
        if name == b"ds64" and data[:4] == b"RF64" and position + 16 <= stop:
            (long,) = struct.unpack_from("<Q", data, position + 8)
        skipped = long if name == b"data" and long is not None else size
        if name in {b"LIST", b"RIFF"}:
            name = data[position : position + 4]
            if name == b"movi":
                return
            skipped = 4 if is_avi and name != b"INFO" else size
            position, size, skipped = position + 4, max(size - 4, 0), max(skipped - 4, 0)
        yield name, position, size
        position += skipped + (skipped & 1)


__all__ = ["check", "chunks"]
