"""HEIF with HEVC, as telephones write it: size, tiles, orientation and coded size by its boxes, the pixels by
pillow-heif.

The picture is the primary item of the ``meta`` box, coded in one piece (``hvc1``) or as a grid of tiles (ISO/IEC
23008-12, 6.6.2.3); alpha is an auxiliary item. Sequences and bursts are read for that picture. Other codecs and
derivations are not read. Only ``irot`` and ``imir`` turn it, as in an AVIF, and libheif applies them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from lazymedia.media.cancellation import checkpoint
from lazymedia.media.image import items
from lazymedia.media.image.coded_size import CodedPart, check_coded, hevc_chroma_and_depth, hevc_size
from lazymedia.media.image.header import FormatHeader, check_count, check_size
from lazymedia.media.image.items import children
from lazymedia.media.image.memory import CodecMemory, stored_bytes
from lazymedia.media.isobmff import Span

if TYPE_CHECKING:
    from lazymedia.limits import Limits
    from lazymedia.media.image.exif import Metadata
    from lazymedia.media.image.pixels import StoredPixels

_MAX_TILES: Final = 512
"""Tiles of a grid; a phone's picture has 48."""
_CHROMA: Final = (0.0, 0.5, 1.0, 2.0)
"""Samples of colour for each of brightness, by chroma_format_idc."""


@dataclass(frozen=True, slots=True)
class HeifHeader(FormatHeader):
    """Attributes beyond `FormatHeader`'s.

    orientation: irot and imir, as an EXIF orientation. The decoder applies it.
    exif: The EXIF item's content.
    memory: What `decode` allocates.
    """

    orientation: int
    exif: Span | None
    memory: CodecMemory

    def metadata(self, data: bytes) -> Metadata:
        return items.metadata(data, self.exif)

    def find_orientation(self, data: bytes) -> int:  # noqa: ARG002  # it was read with the header
        return self.orientation

    def codec_memory(self) -> CodecMemory:
        return self.memory

    def decode(self, data: bytes, limits: Limits) -> StoredPixels:
        """The primary picture, by libheif. Pillow's registry of formats stays as it is."""
        from pillow_heif import HeifFile

        from lazymedia.media.image.pixels import StoredPixels, blank

        opened = HeifFile(data, remove_stride=False)
        frame = opened[opened.primary_index]
        width, height = frame.size
        check_size(width, height, limits)
        checkpoint()
        pixels = frame.data
        width, height = frame.size  # which may have changed
        mode, stride = frame.mode, frame.stride
        del opened, frame  # and with them the decoder's memory
        check_size(width, height, limits)
        image = blank(mode, (width, height))
        image.frombytes(pixels, "raw", (mode, stride))
        return StoredPixels(image)


def read_header(data: bytes, limits: Limits) -> HeifHeader | None:
    """The header of a HEIF. None where the picture is missing, or coded in a way that is not read.

    Raises:
        UnprocessableMediaError: More boxes, items or tiles than allowed, or a part that is over a limit.
    """
    try:
        return _read_header(data, limits)
    except (IndexError, struct.error, KeyError):
        return None


def _read_header(data: bytes, limits: Limits) -> HeifHeader | None:
    top = children(data, (0, len(data)), limits)
    found = items.read(data, top[b"meta"], limits)
    properties = found.properties[found.primary]
    size = items.size(data, properties)
    if size is None:
        return None
    check_size(*size, limits)
    parts = _coded_items(data, found, found.primary, limits)
    alphas = _alpha_items(data, found)
    for alpha in alphas:
        parts += _coded_items(data, found, alpha, limits)
    configurations = {item: _configuration(data, found.properties[item]) for item in parts}
    # Parts of one configuration are checked together, and all of them for their number and size.
    sizes = {item: partial(hevc_size, configuration) for item, configuration in configurations.items()}
    coded = [CodedPart(found.spans[item], sizes[item]) for item in parts]
    if not check_coded(data, coded, size, limits):
        return None
    memory = _memory(configurations[parts[0]], alpha=bool(alphas))
    width, height = _clean_aperture(data, properties, size)
    orientation = items.orientation(data, properties)
    return HeifHeader("HEIF", width, height, memory.mode, orientation, found.exif(), memory)


def _coded_items(data: bytes, found: items.Items, item: int, limits: Limits) -> list[int]:
    """The coded items of which an item consists, each as often as it is used. KeyError where one is of another kind."""
    kind, _ = found.kinds[item]
    if kind == b"hvc1":
        return [item]
    if kind != b"grid":
        raise KeyError(kind)
    tiles = [
        tile for kind, source, targets in found.references if kind == b"dimg" and source == item for tile in targets
    ]
    check_count(len(tiles), "tiles", _MAX_TILES)
    ((start, _),) = found.spans[item]
    if len(tiles) != (data[start + 2] + 1) * (data[start + 3] + 1):
        raise KeyError(b"dimg")
    sides = 4 if data[start + 1] & 1 else 2
    width, height = (int.from_bytes(data[at : at + sides]) for at in (start + 4, start + 4 + sides))
    check_size(width, height, limits)
    if any(found.kinds[tile][0] != b"hvc1" for tile in tiles):
        raise KeyError(b"hvc1")
    return tiles


def _alpha_items(data: bytes, found: items.Items) -> list[int]:
    """The items that are alpha of the primary one."""
    auxiliary = [source for kind, source, targets in found.references if kind == b"auxl" and found.primary in targets]
    return [item for item in auxiliary if _is_alpha(data, found.properties.get(item, []))]


def _is_alpha(data: bytes, properties: list[items.Property]) -> bool:
    names = [data[slice(*span)] for kind, span in properties if kind == b"auxC"]
    return any(b"alpha" in name or b"auxid:1" in name for name in names)


def _configuration(data: bytes, properties: list[items.Property]) -> bytes:
    spans = [span for kind, span in properties if kind == b"hvcC"]
    if len(spans) != 1:
        raise KeyError(b"hvcC")
    return data[slice(*spans[0])]


def _memory(configuration: bytes, *, alpha: bool) -> CodecMemory:
    """The mode in which libheif makes it. The codec holds planes, and twice what they become."""
    chroma, bits = hevc_chroma_and_depth(configuration)
    planes = (1.0 + _CHROMA[chroma] + alpha) * (1 if bits == 8 else 2)
    mode = "RGB" if chroma else "L" if bits == 8 or alpha else "I;16"
    mode += "A" * alpha
    made = 2 if mode == "I;16" else len(mode)
    return CodecMemory(
        mode, alpha, extra=planes + 2 * made - stored_bytes(mode), copies_payload=True, applies_orientation=True
    )


def _clean_aperture(data: bytes, properties: list[items.Property], size: tuple[int, int]) -> tuple[int, int]:
    """Width and height of the clean aperture (``clap``), where there is one."""
    for kind, (start, stop) in properties:
        if kind == b"clap" and stop - start >= 32:
            across, wide, down, high = struct.unpack_from(">LLLL", data, start)
            if wide and high and 0 < across // wide <= size[0] and 0 < down // high <= size[1]:
                return across // wide, down // high
    return size


__all__ = ["HeifHeader", "read_header"]
