"""JPEG: size, layout, metadata and the cost of its scans by its segments, and the pixels by Pillow's codec.

Header fields: ITU-T T.81, annex B. Entropy-coded data is only searched for markers. The walk takes the same steps as
libjpeg's marker reader (jdmarker.c), so that the frame it finds is the frame that libjpeg decodes: garbage between
segments is skipped, a second frame header or an unknown marker ends it.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from lazymedia.media.image.exif import Metadata
from lazymedia.media.image.header import FormatHeader, check_count
from lazymedia.media.image.memory import CodecMemory
from lazymedia.media.isobmff import Span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lazymedia.limits import Limits
    from lazymedia.media.image.pixels import StoredPixels

_SOS: Final = 0xDA
_ALONE: Final = frozenset({0x00, 0x01, *range(0xD0, 0xD8)})
"""After FF: a stuffed zero, TEM, and restarts. Nothing follows that would have to be skipped."""
_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_PROGRESSIVE: Final = frozenset({0xC2, 0xC6, 0xCA, 0xCE})
_LOSSLESS: Final = frozenset({0xC3, 0xC7, 0xCB, 0xCF})
_ARITHMETIC: Final = frozenset({0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF})
_SKIPPED: Final = frozenset({0xC4, 0xCC, 0xDB, 0xDC, 0xDD, 0xFE, *range(0xE0, 0xF0)})
_MODES: Final = {1: "L", 3: "RGB", 4: "CMYK"}
_EXIF: Final = b"Exif\0\0"
_XMP: Final = b"http://ns.adobe.com/xap/1.0/\0"
_FILL: Final = re.compile(rb"\xff+")
_MARKER: Final = re.compile(rb"\xff[^\x00\x01\xd0-\xd7\xff]")

_SIMPLEJPEG_LAYOUTS: Final = {
    # (stored, wanted): simplejpeg's name, channels. Grey out of colours is made by Pillow's formula, and only there.
    ("RGB", "RGB"): ("RGB", 3),
    ("RGB", None): ("RGB", 3),
    ("RGB", "RGBA"): ("RGBA", 4),
    ("L", "RGB"): ("RGB", 3),
    ("L", "RGBA"): ("RGBA", 4),
    ("L", "L"): ("GRAY", 1),
    ("L", None): ("GRAY", 1),
}
_SIMPLEJPEG_FRAMES: Final = frozenset({0xC0, 0xC1, 0xC2})
"""Sequential and progressive, Huffman coded. Whether a library reads arithmetic coding is its builder's choice."""
_SIMPLEJPEG_NS_PER_PIXEL: Final = 30
_SIMPLEJPEG_LEAST_NS: Final = 5_000_000
_SIMPLEJPEG_MOST_NS: Final = 500_000_000
"""A picture whose several scans cost more for each pixel is left to Pillow, but none that costs less than the second
number, and any that costs more than the third: simplejpeg cannot be stopped, and where the library warns of damage at
the end, all was decoded in vain. An ordinary progressive picture takes 16 to 25 ns a pixel."""
_COEFFICIENTS: Final = 128
"""Bytes of a block of 64 samples; libjpeg keeps all of them where a JPEG has several scans."""

# Nanoseconds at most, measured with libjpeg-turbo 3.2 on crafted pictures (2 GHz server core). A pass is one block of
# 64 samples in one scan.
_PIXEL_NS: Final = 12
"""For each pixel, once: inverse transform, smoothing of blocks that are not complete, and colours."""
_PASS_NS: Final = 60
"""For each pass: 40 for a refinement with nothing to refine, 25 for a restart at each block. A scan whose data ends
early costs no less, so that 64 scans fit in a kilobyte. What coded bits cost in addition is far below
`Limits.max_image_ns_per_byte`."""
_LOSSLESS_NS: Final = 100
"""For each 64 samples of a lossless scan."""
_ALWAYS_NS: Final = 50_000_000
"""A cost that no picture is rejected for: small pictures may be coded in any way."""
_DECISION_NS: Final = 4
"""For each decision of the arithmetic decoder. A probable one takes no data: 700 bytes were seen to code 1.8 million
decisions for each thousand blocks."""
_DECISIONS_REFINED: Final = 3
_DECISIONS: Final = 31
"""Decisions for one coefficient at most, in a scan that refines and in one that does not. T.81, F.1.4 and G.1.3: end of
block, zero, sign; then 13 for the category of the magnitude, and 14 bits."""


class _Component(NamedTuple):
    """A component of a frame, and how many blocks it has in one unit (MCU) of an interleaved scan."""

    number: int
    blocks: int


@dataclass(frozen=True, slots=True)
class _Frame:
    """A frame header: its marker, size, components, and how many units (MCUs) an interleaved scan has."""

    marker: int
    width: int
    height: int
    components: tuple[_Component, ...]
    units: int

    @classmethod
    def read(cls, data: bytes, marker: int, start: int) -> _Frame:
        height, width, count = struct.unpack_from(">HHB", data, start + 1)
        fields = [(data[at], data[at + 1] >> 4, data[at + 1] & 15) for at in range(start + 6, start + 6 + 3 * count, 3)]
        components = tuple(_Component(number, across * down) for number, across, down in fields)
        unit_width = 8 * max((1, *(across for _, across, _ in fields)))
        unit_height = 8 * max((1, *(down for _, _, down in fields)))
        return cls(marker, width, height, components, -(-width // unit_width) * -(-height // unit_height))

    def scan_ns(self, data: bytes, start: int) -> int:
        """What a scan costs at most, by its header. A component that the frame lacks counts as the largest one."""
        count = data[start]
        fields = data[start + 1 : start + 4 + 2 * count].ljust(2 * count + 3, b"\0")  # a beginning may end here
        first, last, bits = fields[2 * count :]
        largest = max(component.blocks for component in self.components)
        blocks = sum(self._blocks(number, largest) for number in fields[: 2 * count : 2])
        cost = _LOSSLESS_NS if self.marker in _LOSSLESS else _PASS_NS
        if self.marker in _ARITHMETIC:
            progressive = self.marker in _PROGRESSIVE
            coefficients = max(0, last - first) + 1 if progressive else 64
            refines = progressive and bits >> 4 != 0
            cost += _DECISION_NS * coefficients * (_DECISIONS_REFINED if refines else _DECISIONS)
        return self.units * blocks * cost

    def _blocks(self, number: int, default: int) -> int:
        return max((component.blocks for component in self.components if component.number == number), default=default)


@dataclass(frozen=True, slots=True)
class JpegHeader(FormatHeader):
    """Attributes beyond `FormatHeader`'s.

    exif: The EXIF block.
    xmp: The XMP packet.
    frame: The frame header's marker, which says how pixels are coded; C0 to C2 in nearly every picture.
    blocks: Blocks of 64 samples, all components together.
    scans: Where each scan's header begins, behind its marker, where there may be several.
    cost: Nanoseconds that decoding takes at most, not counting what grows with the number of bytes.
    """

    exif: Span | None = None
    xmp: Span | None = None
    frame: int = 0xC0
    blocks: int = 0
    scans: tuple[int, ...] = ()
    cost: int = 0

    def metadata(self, data: bytes) -> Metadata:
        return Metadata(
            None if self.exif is None else data[slice(*self.exif)],
            None if self.xmp is None else data[slice(*self.xmp)],
        )

    def takes_too_long(self, size: int, limits: Limits) -> bool:
        """By `Limits.max_image_ns_per_pixel` and `Limits.max_image_ns_per_byte`."""
        allowed = limits.max_image_ns_per_pixel * self.width * self.height + limits.max_image_ns_per_byte * size
        return self.cost > max(allowed, _ALWAYS_NS)

    def simplejpeg_layout(self, mode: str | None) -> tuple[str, int] | None:
        if self.frame not in _SIMPLEJPEG_FRAMES:
            return None
        allowed = _SIMPLEJPEG_NS_PER_PIXEL * self.width * self.height
        allowed = min(max(allowed, _SIMPLEJPEG_LEAST_NS), _SIMPLEJPEG_MOST_NS)
        if self.scans and self.cost > allowed:
            return None
        return _SIMPLEJPEG_LAYOUTS.get((self.mode or "", mode))

    def codec_memory(self) -> CodecMemory:
        assert self.mode is not None
        coefficients = _COEFFICIENTS * self.blocks / (self.width * self.height) if self.scans else 0.0
        return CodecMemory(self.mode, extra=coefficients)

    def decode(self, data: bytes, limits: Limits) -> StoredPixels:  # noqa: ARG002  # the header's size is the picture's
        """Four components are taken as inverted, as every program writes them; libjpeg turns YCCK into CMYK."""
        from lazymedia.media.image.pixels import StoredPixels, blank, decode_with, pieces, require_codec

        require_codec("jpg")
        assert self.mode is not None
        image = blank(self.mode, (self.width, self.height))
        # The arithmetic decoder cannot wait for data, so that a part ends where a scan does.
        ends = self.scans or (() if self.frame in _ARITHMETIC else None)
        layout = "CMYK;I" if self.mode == "CMYK" else self.mode
        decode_with("jpeg", (layout, ""), image, pieces(data, ends))
        return StoredPixels(image, self.find_orientation(data))


def read_header(data: bytes, limits: Limits) -> JpegHeader | None:
    """The header of a JPEG; of an MPO, the header of its first picture. None where there is none that could be decoded.

    Raises:
        UnprocessableMediaError: More segments than `Limits.max_image_chunks` or scans than `Limits.max_image_scans`.
    """
    try:
        return _read_header(data, limits)
    except (IndexError, struct.error):
        return None


def _read_header(data: bytes, limits: Limits) -> JpegHeader | None:
    frame: _Frame | None = None
    exif = xmp = None
    for marker, start, stop in _segments(data, limits):
        if marker in _FRAMES:
            if frame is not None:
                return None
            frame = _Frame.read(data, marker, start)
        elif marker == 0xE1:
            if exif is None and data.startswith(_EXIF, start):
                exif = start + len(_EXIF), stop
            elif xmp is None and data.startswith(_XMP, start):
                xmp = start + len(_XMP), stop
        elif marker == _SOS and frame is not None:
            mode = _MODES.get(len(frame.components))
            if frame.width == 0 or frame.height == 0 or mode is None:
                return None
            several = frame.marker in _PROGRESSIVE or data[start] < len(frame.components)
            scans = tuple(_scans(data, start - 4, limits)) if several else (start,)
            cost = _PIXEL_NS * frame.width * frame.height + sum(frame.scan_ns(data, at) for at in scans)
            blocks = frame.units * sum(component.blocks for component in frame.components)
            scans = scans if several else ()
            return JpegHeader("JPEG", frame.width, frame.height, mode, exif, xmp, frame.marker, blocks, scans, cost)
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
        position += data[position] << 8 | data[position + 1]  # below 2 it is skipped, here and by libjpeg
        yield marker, start, position
        if marker == _SOS or (marker not in _SKIPPED and marker not in _FRAMES):
            return
    check_count(limits.max_image_chunks + 1, "segments", limits.max_image_chunks)


def _after_fill(data: bytes, position: int) -> int:
    fill = _FILL.match(data, position)
    assert fill is not None
    return fill.end()


def _scans(data: bytes, position: int, limits: Limits) -> Iterator[int]:
    """Where the header of each scan begins, for a picture that may have several.

    A picture whose first scan holds all components of a sequential frame can have no second (libjpeg rejects it). FF DA
    may stand inside a segment (an embedded thumbnail, a table), though never in entropy-coded data. Markers below C0
    are skipped: libjpeg does so where it looks for a restart, and fails everywhere else.

    Raises:
        UnprocessableMediaError: More than `Limits.max_image_scans` or `Limits.max_image_chunks`.
    """
    scans = segments = 0
    while (found := _MARKER.search(data, position)) is not None:
        position = found.end()
        marker = data[position - 1]
        segments += 1
        check_count(segments, "segments", limits.max_image_chunks)
        if marker < 0xC0:
            continue
        if marker != _SOS and marker not in _SKIPPED:
            return
        content = position + 2
        if marker == _SOS:
            scans += 1
            check_count(scans, "scans", limits.max_image_scans)
            if content + 4 + 2 * data[content : content + 1][0] > len(data):
                return
            yield content
        position += int.from_bytes(data[position : position + 2])


__all__ = ["JpegHeader", "read_header"]
