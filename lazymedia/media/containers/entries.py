"""The entries of a container's tags and chapters, counted before FFmpeg reads them.

FFmpeg compares the name of each entry with the names of all entries before it (av_dict_set in FFmpeg 8.1), so that
40,000 entries of eleven bytes take more than ten seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from typing import Final, TypeAlias

from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import Limits

Entries: TypeAlias = "Iterator[tuple[Hashable, int]]"
"""For each entry, the table that FFmpeg puts it into, and the bytes of its name. For each header with code books,
`BOOKS` and how many entries those have; for each thing that was read and is no entry of its own, `READ` and 0."""

BOOKS: Final = "code books"
_FEW_IN_BOOKS, _IN_BOOKS_PER_BYTE = 1 << 18, 8
"""Entries of the code books of all Vorbis in a payload: so many, and further ones for each byte. Each costs a tenth of
a microsecond. Encoders write 14,000 in 8 KiB at most."""

READ: Final = "read"
_FEW_READ, _BYTES_PER_READ = 10_000, 7
"""Frames or values that are read to find the entries: so many, and a further one for each of so many bytes. Only where
they lie within each other are there more."""

_NAME: Final = 32
"""Bytes of a name. A longer one counts as a further entry for each: to compare names takes time for each byte."""


def check_entries(entries: Entries, data: bytes, limits: Limits, modality: str) -> None:
    """Reject a payload whose tags, chapters or code books would take far longer to read than its bytes warrant.

    Args:
        entries: What the payload holds.
        data: The payload.
        limits: `Limits.max_metadata_entries` is taken from here.
        modality: For the error.

    Raises:
        UnprocessableMediaError: Too many entries. The payload's fault.
    """
    most = limits.max_metadata_entries
    most_special: dict[Hashable, int] = {
        BOOKS: _FEW_IN_BOOKS + _IN_BOOKS_PER_BYTE * len(data),
        READ: _FEW_READ + len(data) // _BYTES_PER_READ,
    }
    found: Counter[Hashable] = Counter()
    for table, size in entries:
        found[table] += size if table == BOOKS else 1 + size // _NAME
        if found[table] <= most_special.get(table, most):
            continue
        if table == BOOKS:
            what = "the code books of the Vorbis audio have more entries than are allowed for the payload's size"
        else:
            what = f"tags and chapters may have {most} entries at most"
        raise UnprocessableMediaError(what, modality=modality)


def vorbis_comments(data: bytes, position: int, end: int) -> Iterator[int]:
    """The length of the name of each of Vorbis's comments. Vorbis I, section 5.2.1."""
    end = min(end, len(data))
    if position + 8 > end:
        return
    position += 4 + int.from_bytes(data[position : position + 4], "little")
    for _ in range(int.from_bytes(data[position : position + 4], "little") if position + 4 <= end else 0):
        start = position + 8
        position = start - 4
        if start > end:
            return
        size = int.from_bytes(data[position:start], "little")
        if size > end - start:
            return
        name = data.find(b"=", start, start + size)
        if name > start:
            yield name - start
        position += size


__all__ = ["BOOKS", "READ", "Entries", "check_entries", "vorbis_comments"]
