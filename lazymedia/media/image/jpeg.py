"""The segments of a JPEG: size, layout, where EXIF lies, and how many scans a decoder would have to run.

Comes in: a payload that begins as a JPEG. Goes out: a `JpegOutline`, None for a header that libjpeg would refuse as
well, or a refusal by count. Never here: Pillow, or entropy-coded data beyond its markers.

The walk takes the same steps as libjpeg's marker reader (jdmarker.c), so that the frame it finds is the frame that
libjpeg will decode: garbage between segments is skipped, a second frame header or an unknown marker ends it.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lazymedia.media.image.outline import Metadata, Outline, Span, check_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lazymedia.limits import Limits

_SOS: Final = 0xDA
_ALONE: Final = frozenset({0x00, 0x01, *range(0xD0, 0xD8)})
"""After FF: a stuffed zero, TEM, and restarts. Nothing follows that would have to be skipped."""
_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_PROGRESSIVE: Final = frozenset({0xC2, 0xC6, 0xCA, 0xCE})
_SKIPPED: Final = frozenset({0xC4, 0xCC, 0xDB, 0xDC, 0xDD, 0xFE, *range(0xE0, 0xF0)})
_MODES: Final = {1: "L", 3: "RGB", 4: "CMYK"}
_EXIF: Final = b"Exif\0\0"
_XMP: Final = b"http://ns.adobe.com/xap/1.0/\0"
_FILL: Final = re.compile(rb"\xff+")
_MARKER: Final = re.compile(rb"\xff([^\x00\x01\xd0-\xd7\xff])")


@dataclass(frozen=True, slots=True)
class JpegOutline(Outline):
    """Attributes beyond `Outline`'s.

    exif: The EXIF block.
    xmp: The XMP packet.
    frame: The frame header's marker, which tells how pixels are coded; C0 to C2 in nearly every picture.
    """

    exif: Span | None = None
    xmp: Span | None = None
    frame: int = 0xC0

    def metadata(self, data: bytes) -> Metadata:
        return Metadata(
            None if self.exif is None else data[slice(*self.exif)],
            None if self.xmp is None else data[slice(*self.xmp)],
        )


def outline(data: bytes, limits: Limits) -> JpegOutline | None:
    """The header of a JPEG; of an MPO, the header of its first picture. None where there is none that could be decoded.

    Raises:
        UnprocessableMediaError: More segments than `Limits.max_image_chunks` or scans than `Limits.max_image_scans`.
    """
    try:
        return _outline(data, limits)
    except (IndexError, struct.error):
        return None


def _outline(data: bytes, limits: Limits) -> JpegOutline | None:
    frame: tuple[int, int, int, int] | None = None
    exif = xmp = None
    for marker, start, stop in _segments(data, limits):
        if marker in _FRAMES:
            if frame is not None:
                return None
            height, width, components = struct.unpack_from(">HHB", data, start + 1)
            frame = marker, width, height, components
        elif marker == 0xE1:
            if exif is None and data.startswith(_EXIF, start):
                exif = start + len(_EXIF), stop
            elif xmp is None and data.startswith(_XMP, start):
                xmp = start + len(_XMP), stop
        elif marker == _SOS and frame is not None:
            kind, width, height, components = frame
            if width == 0 or height == 0 or components not in _MODES:
                return None
            if kind in _PROGRESSIVE or data[start] < components:
                _check_scans(data, start - 4, limits)
            return JpegOutline("JPEG", width, height, _MODES[components], exif, xmp, kind)
    return None


def _segments(data: bytes, limits: Limits) -> Iterator[tuple[int, int, int]]:
    """Marker, start and end of each segment's content, up to and with the first scan's header."""
    position = 2
    for _ in range(limits.max_image_chunks):
        position = data.find(b"\xff", position) + 1
        if position == 0:
            return
        marker = data[position]
        if marker == 0xFF:
            position = _after_fill(data, position)
            marker = data[position]
        position += 1
        if marker in _ALONE:
            continue
        start = position + 2
        position += data[position] << 8 | data[position + 1]  # below 2 it is stepped over, here and by libjpeg
        yield marker, start, position
        if marker == _SOS or (marker not in _SKIPPED and marker not in _FRAMES):
            return
    check_count(limits.max_image_chunks + 1, "segments", limits.max_image_chunks)


def _after_fill(data: bytes, position: int) -> int:
    fill = _FILL.match(data, position)
    assert fill is not None
    return fill.end()


def _check_scans(data: bytes, position: int, limits: Limits) -> None:
    """Count the scans of a picture that may have several: each costs libjpeg a pass over all coefficients.

    A picture whose first scan holds all components of a sequential frame can have no second (libjpeg refuses it), so
    it is never counted. Others are first counted generously, by the bytes FF DA anywhere behind the first scan's
    header, which is a few times faster than sha256. Only where that is over the limit are the markers followed one by
    one: FF DA may stand inside a segment (an embedded thumbnail, a table), though never in entropy-coded data.

    Raises:
        UnprocessableMediaError: Over a limit.
    """
    if _pairs(data, position) <= limits.max_image_scans:
        return
    scans = segments = 0
    while (found := _MARKER.search(data, position)) is not None:
        marker = found[1][0]
        position = found.end()
        if marker != _SOS and marker not in _SKIPPED:
            return
        scans += marker == _SOS
        segments += 1
        check_count(scans, "scans", limits.max_image_scans)
        check_count(segments, "segments", limits.max_image_chunks)
        position += int.from_bytes(data[position : position + 2])


def _pairs(data: bytes, start: int) -> int:
    """How often FF DA stands behind ``start``: ten times as fast as `bytes.count`, which is slow for two bytes."""
    import numpy as np

    count = 0
    for first in (start, start + 1):
        words = np.frombuffer(data, "<u2", offset=first, count=(len(data) - first) // 2)
        count += int(np.count_nonzero(words == 0xDAFF))
    return count


__all__ = ["JpegOutline", "outline"]
