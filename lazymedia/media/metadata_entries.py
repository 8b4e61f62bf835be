"""The entries of a container's tags and chapters, counted before FFmpeg reads them.

FFmpeg compares the name of each entry with the names of all entries before it (av_dict_set in FFmpeg 8.1), so that
40,000 entries of eleven bytes take more than ten seconds. The functions here yield, for each entry, which table FFmpeg
puts it into and how long its name is. They follow FFmpeg's demuxers where those differ from the formats' documents.
"""

from __future__ import annotations

import re
import struct
import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import Limits
from lazymedia.media.isobmff import Span, boxes
from lazymedia.media.matroska import CHAPTERS, TAGS, TRACKS, elements, parts
from lazymedia.media.ogg_packets import packets
from lazymedia.media.vorbis_books import SETUP, book_entries

Entries: TypeAlias = "Iterator[tuple[Hashable, int]]"
"""For each entry, the table that it belongs to, and the bytes of its name. For each header with code books, `_BOOKS`
and how many entries those have."""

_BOOKS: Final = "code books"
_FEW_IN_BOOKS, _IN_BOOKS_PER_BYTE = 1 << 18, 8
"""Entries of the code books of all Vorbis in a payload: so many, and further ones for each byte. Each costs a tenth of
a microsecond. Encoders write 14,000 in 8 KiB at most."""

_NAME: Final = 32
"""Bytes of a name. A longer one counts as a further entry for each: to compare names takes time for each byte."""


def check_headers(data: bytes, demuxer: str, limits: Limits, modality: str) -> None:
    """Reject a payload whose tags, chapters or code books would take far longer to read than its bytes warrant.

    Takes microseconds for a usual file: they are found by the container's structure, and media data is passed over.

    Args:
        data: The payload.
        demuxer: FFmpeg's name of its container.
        limits: `Limits.max_metadata_entries` is taken from here.
        modality: For the error.

    Raises:
        UnprocessableMediaError: Too many entries. The payload's fault.
    """
    most = limits.max_metadata_entries
    most_in_books = _FEW_IN_BOOKS + _IN_BOOKS_PER_BYTE * len(data)
    found: Counter[Hashable] = Counter()
    for table, size in _ENTRIES[demuxer](data, most) if demuxer in _ENTRIES else ():
        found[table] += size if table == _BOOKS else 1 + size // _NAME
        if table == _BOOKS and found[table] > most_in_books:
            what = "the code books of the Vorbis audio have more entries than are allowed for the payload's size"
            raise UnprocessableMediaError(what, modality=modality)
        if table != _BOOKS and found[table] > most:
            raise UnprocessableMediaError(f"tags and chapters may have {most} entries at most", modality=modality)


def _in_mp3(data: bytes, _most: int) -> Entries:
    yield from _id3(data, 0)


def _in_flac(data: bytes, _most: int) -> Entries:
    """Tags of MP3 may precede the blocks. RFC 9639, section 8."""
    yield from _id3(data, 0)
    tags = max((end for _, end, _ in _id3_tags(data, 0)), default=0)
    mark = data.find(b"fLaC", tags, tags + 14)  # a tag may have a footer of 10 bytes
    position, is_last = mark + 4, mark < 0
    while not is_last and position + 4 <= len(data):
        kind, size = data[position], int.from_bytes(data[position + 1 : position + 4], "big")
        position += 4
        if kind & 0x7F == _COMMENT_BLOCK:
            yield from (("comments", name) for name in _comments(data, position, position + size))
        position, is_last = position + size, kind > 0x7F


_COMMENT_BLOCK: Final = 4


def _in_adts(data: bytes, _most: int) -> Entries:
    """AAC may have tags of MP3 between frames too (the segments of HLS have), whose entries replace those of the same
    name; and a tag of APE at its end.
    """
    seen: set[bytes] = set()
    for match in re.finditer(rb"ID3[\2-\4]", data):
        for start, end, version in _id3_tags(data, match.start()):
            for frame in _id3_frames(data, start, end, version):
                content = data[slice(*frame[1])][:_NAME]
                if frame[0] + content not in seen:
                    seen.add(frame[0] + content)
                    yield "tag", _id3_name(data, *frame)
    yield from _ape(data)


def _id3(data: bytes, start: int) -> Entries:
    """Frames of ID3v2; a chapter has frames of its own. ID3v2.4, section 4; ID3v2 Chapter Frame Addendum, 3.1."""
    chapters = []
    for first, end, version in _id3_tags(data, start):
        for frame in _id3_frames(data, first, end, version):
            yield "tag", _id3_name(data, *frame)
            if frame[0] == b"CHAP":
                chapters.append(frame[1])
    for first, end in chapters:
        inner = data.find(b"\0", first, end) + 1 + 16
        for frame in _id3_frames(data, inner, end, 3) if inner > 16 else ():
            yield first, _id3_name(data, *frame)


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


def _id3_name(data: bytes, name: bytes, content: Span, flags: int) -> int:
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


def _comments(data: bytes, position: int, end: int) -> Iterator[int]:
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


_REPEATABLE: Final = (b"\x7fFLAC", b"fLaC", b"\x80theora", b"\x80daala", b"OVP80", b"\1video", b"\1audio", b"\1text")
"""How streams of an OGG begin whose comments may be in any number of packets; FFmpeg puts them into one table."""
_COMMENT: Final = 6
"""Bytes of a comment at least: its length, a name of one letter, and a sign."""
_BEFORE_COMMENTS: Final = (0, 4, 7, 8)
"""Bytes before the comments, by codec: Speex and CELT; FLAC; Vorbis, Theora, VP8 and OGM; Opus."""


def _in_ogg(data: bytes, most: int) -> Entries:
    """Which packet has comments depends on the codec, so that each is tried. One of another kind has no list that fits
    its length.
    """
    for number, (serial, packet, is_repeatable) in enumerate(packets(data, most * _COMMENT, _REPEATABLE)):
        if packet.startswith(SETUP):
            yield _BOOKS, book_entries(packet)
        for start in _BEFORE_COMMENTS:
            for name in _comments(packet, start, len(packet)):
                yield (serial if is_repeatable else number, start), name


_BOXES: Final = frozenset(
    {b"moov", b"trak", b"mdia", b"minf", b"stbl", b"edts", b"moof", b"traf", b"mvex", b"dinf", b"tref", b"wave"}
    | {b"hoov", b"gmhd", b"clip", b"meta", b"udta", b"ilst"}
)
"""Boxes in which FFmpeg looks for others."""
_MOST_NESTED: Final = 12
"""FFmpeg gives up at ten."""


def _in_mp4(data: bytes, _most: int) -> Entries:
    """Boxes of user data and of lists; names that are listed apart. ISO/IEC 14496-12, 8.10 and 8.11; QuickTime File
    Format, "Metadata".
    """
    spans = [((0, len(data)), b"", 0)]
    while spans:
        span, parent, depth = spans.pop()
        for kind, (start, end) in boxes(data, span):
            if parent in {b"udta", b"ilst"}:
                yield "user data", _item_name(data, start, end) if kind == b"----" else 0
            if kind == b"keys":
                long = (last - first for _, (first, last) in boxes(data, (start + 8, end)))
                yield from (("user data", size - _NAME) for size in long if size >= _NAME)  # in addition to the item
            if kind in _BOXES and depth < _MOST_NESTED:
                # FFmpeg reads on from the handler, wherever that stands.
                inner = max(start, data.find(b"hdlr", start, end) - 4) if kind == b"meta" else start
                spans.append(((inner, end), kind, depth + 1))


def _item_name(data: bytes, start: int, end: int) -> int:
    return sum(last - first for kind, (first, last) in boxes(data, (start, end)) if kind in {b"mean", b"name"})


_SETUP: Final = re.compile(re.escape(SETUP))


def _in_matroska(data: bytes, _most: int) -> Entries:
    spans = parts(data, frozenset({TAGS, CHAPTERS, TRACKS}))
    if sum(end - start for _, (start, end) in spans) > 2 * len(data):  # they overlap, as those of no file do
        yield "tags", sys.maxsize
    for kind, span in spans:
        if kind == TAGS:
            yield from _simple_tags(data, span, 0, 0)
        elif kind == CHAPTERS:
            yield from _chapter_atoms(data, span)
        else:
            for match in _SETUP.finditer(data, *span):
                yield _BOOKS, book_entries(data, match.start())


def _simple_tags(data: bytes, span: Span, above: int, depth: int) -> Entries:
    """Tags within tags have both names, and the language besides. RFC 9559, section 5.1.8."""
    inner, own, is_tag = [], above, False
    for kind, (start, end) in elements(data, span):
        if kind in {b"\x73\x73", b"\x67\xc8"}:
            inner.append((start, end))
        elif kind in {b"\x45\xa3", b"\x44\x7a", b"\x44\x7b"}:
            own, is_tag = own + end - start, True
    if is_tag:
        yield "tags", min(own, 1024)
    if depth < _MOST_NESTED:
        for part in inner:
            yield from _simple_tags(data, part, own, depth + 1)


def _chapter_atoms(data: bytes, span: Span) -> Entries:
    """RFC 9559, section 5.1.7."""
    for kind, edition in elements(data, span):
        if kind == b"\x45\xb9":
            yield from (("chapters", 0) for atom, _ in elements(data, edition) if atom == b"\xb6")


_SCRIPTS: Final = (b"\x02\0\x0aonMetaData", b"\x02\0\x0aonCuePoint", b"\x02\0\x11|RtmpSampleAccess")
"""How the script data begins that FFmpeg reads."""
_FIXED: Final = MappingProxyType({0: 8, 1: 1, 5: 0, 6: 0, 11: 10, 13: 0})
"""Bytes of AMF's values of one size, by type. AMF 0 specification, section 2."""
_OBJECT, _MIXED, _ARRAY, _TEXT = 3, 8, 10, 2


def _in_flv(data: bytes, _most: int) -> Entries:
    """Script data stands anywhere; entries replace those of the same name. Adobe Flash Video, annex E.4.4."""
    seen: set[bytes] = set()
    position = 13
    while position + 11 <= len(data):
        size = int.from_bytes(data[position + 1 : position + 4], "big")
        if data[position] & 0x1F == 18:
            start, end = position + 11, min(position + 11 + size, len(data))
            script = next((len(name) for name in _SCRIPTS if data.startswith(name, start)), 0)
            for name in _amf_names(data, start + script, end) if script else ():
                if name not in seen:
                    seen.add(name)
                    yield "script", len(name)
        position += 15 + size


def _amf_names(data: bytes, position: int, end: int) -> Iterator[bytes]:
    """Names of all values within a value, up to one that FFmpeg does not read."""
    open_: list[int] = []
    """For each value around this one, how many more it holds without names; -1 where they have names."""
    while position < end:
        kind = data[position]
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


def _in_riff(data: bytes, _most: int) -> Entries:
    """Notes of WAV and AVI. Multimedia Programming Interface and Data Specifications 1.0, chapter 2."""
    order = ">" if data[:4] == b"RIFX" else "<"
    for name, start, end in _chunks(data, 12, len(data), order):
        if name == b"INFO":
            yield from (("notes", 0) for _ in _chunks(data, start, end, order))
        elif name in {b"id3 ", b"ID3 "}:
            yield from _id3(data, start)


def _in_aiff(data: bytes, _most: int) -> Entries:
    for name, start, _ in _chunks(data, 12, len(data), ">"):
        if name == b"ID3 ":
            yield from _id3(data, start)


def _chunks(data: bytes, position: int, stop: int, order: str) -> Iterator[tuple[bytes, int, int]]:
    """Chunks up to the frames of an AVI. Of lists the name is that of the list; notes are passed over, and of other
    lists the content follows.
    """
    while position + 8 <= stop:
        name, size = struct.unpack_from(f"{order}4sI", data, position)
        position += 8
        end = min(position + size, stop)
        if name in {b"LIST", b"RIFF"}:
            name = data[position : position + 4]
            position += 4
            if name == b"movi":
                return
            if name != b"INFO":
                yield name, position, end
                continue
        yield name, position, end
        position = end + (size & 1)


_ENTRIES: Final[Mapping[str, Callable[[bytes, int], Entries]]] = MappingProxyType(
    {
        "mp3": _in_mp3,
        "aac": _in_adts,
        "flac": _in_flac,
        "wav": _in_riff,
        "avi": _in_riff,
        "aiff": _in_aiff,
        "ogg": _in_ogg,
        "mov": _in_mp4,
        "matroska": _in_matroska,
        "flv": _in_flv,
    }
)

__all__ = ["check_headers"]
