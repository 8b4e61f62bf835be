"""The boxes of a HEIF with HEVC, as telephones write it: size, tiles, turns, and the sizes really coded.

The picture is the primary item of the ``meta`` box, coded in one piece (``hvc1``) or as a grid of tiles (ISO/IEC
23008-12, 6.6.2.3); alpha is an auxiliary item. Sequences and bursts are read for that picture. Other codecs and
derivations are not read. Only ``irot`` and ``imir`` turn it, as in an AVIF, and libheif applies them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from lazymedia.media.image import items
from lazymedia.media.image.avif import check_coded
from lazymedia.media.image.coded_size import hevc_chroma_and_depth, hevc_size
from lazymedia.media.image.items import children
from lazymedia.media.image.outline import Metadata, Outline, Span, check_count, check_size

if TYPE_CHECKING:
    from lazymedia.limits import Limits

BRANDS: Final = frozenset({b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"})
_MAX_TILES: Final = 512
"""Tiles of a grid; a phone's picture has 48."""


@dataclass(frozen=True, slots=True)
class HeifOutline(Outline):
    """Attributes beyond `Outline`'s.

    orientation: What irot and imir say, as an EXIF orientation. The decoder applies it.
    exif: The EXIF item's content.
    codec: Bytes a pixel that the codec holds beside the pixels: planes, and twice what they become.
    """

    orientation: int
    exif: Span | None
    codec: float

    def metadata(self, data: bytes) -> Metadata:
        if self.exif is None:
            return Metadata()
        start, stop = self.exif
        return Metadata(exif=data[start + 4 + int.from_bytes(data[start : start + 4]) : stop])


def is_heif(data: bytes) -> bool:
    """Whether a payload's first box names HEIF as its main brand. An AVIF may do so too: see `is_avif` first."""
    return data[4:8] == b"ftyp" and data[8:12] in BRANDS


@cache
def is_available() -> bool:
    """Whether pillow-heif, of the extra "heif", is installed."""
    return find_spec("pillow_heif") is not None


def outline(data: bytes, limits: Limits) -> HeifOutline | None:
    """The header of a HEIF. None where the picture is missing, or coded in a way that is not read.

    Raises:
        UnprocessableMediaError: More boxes, items or tiles than allowed, or a part that is over a limit.
    """
    try:
        return _outline(data, limits)
    except (IndexError, struct.error, KeyError):
        return None


def _outline(data: bytes, limits: Limits) -> HeifOutline | None:
    top = children(data, (0, len(data)), limits)
    found = items.read(data, top[b"meta"], limits)
    mine = found.properties[found.primary]
    size = items.size(data, mine)
    if size is None:
        return None
    check_size(*size, limits)
    parts = _parts(data, found, found.primary, limits)
    alphas = [
        source
        for kind, source, targets in found.references
        if kind == b"auxl" and found.primary in targets and _is_alpha(data, found.properties.get(source, []))
    ]
    for alpha in alphas:
        parts += _parts(data, found, alpha, limits)
    configurations = {item: _configuration(data, found.properties[item]) for item in parts}
    # Parts of one configuration are checked together, and all of them for their number and size.
    sizes = {item: partial(hevc_size, configuration) for item, configuration in configurations.items()}
    if not check_coded(data, [(found.places[item], sizes[item]) for item in parts], size, limits):
        return None
    chroma, bits = hevc_chroma_and_depth(configurations[parts[0]])
    planes = (1.0 + (0.0, 0.5, 1.0, 2.0)[chroma] + bool(alphas)) * (1 if bits == 8 else 2)
    mode = "RGB" if chroma else "L" if bits == 8 or alphas else "I;16"
    mode += "A" * bool(alphas)
    held = 2 if mode == "I;16" else len(mode)
    kept = held if mode in {"L", "I;16"} else 4
    exif, _ = found.exif()
    width, height = _cleaned(data, mine, size)
    orientation = items.orientation(data, mine)
    return HeifOutline("HEIF", width, height, mode, orientation, exif, planes + 2 * held - kept)


def _parts(data: bytes, found: items.Items, item: int, limits: Limits) -> list[int]:
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
    ((start, _),) = found.places[item]
    if len(tiles) != (data[start + 2] + 1) * (data[start + 3] + 1):
        raise KeyError(b"dimg")
    sides = 4 if data[start + 1] & 1 else 2
    width, height = (int.from_bytes(data[at : at + sides]) for at in (start + 4, start + 4 + sides))
    check_size(width, height, limits)
    if any(found.kinds[tile][0] != b"hvc1" for tile in tiles):
        raise KeyError(b"hvc1")
    return tiles


def _configuration(data: bytes, properties: list[items.Property]) -> bytes:
    spans = [span for kind, span in properties if kind == b"hvcC"]
    if len(spans) != 1:
        raise KeyError(b"hvcC")
    return data[slice(*spans[0])]


def _is_alpha(data: bytes, properties: list[items.Property]) -> bool:
    names = [data[slice(*span)] for kind, span in properties if kind == b"auxC"]
    return any(b"alpha" in name or b"auxid:1" in name for name in names)


def _cleaned(data: bytes, properties: list[items.Property], size: tuple[int, int]) -> tuple[int, int]:
    """Width and height of the clean aperture (``clap``), where there is one."""
    for kind, (start, stop) in properties:
        if kind == b"clap" and stop - start >= 32:
            across, wide, down, high = struct.unpack_from(">LLLL", data, start)
            if wide and high and 0 < across // wide <= size[0] and 0 < down // high <= size[1]:
                return across // wide, down // high
    return size


__all__ = ["BRANDS", "HeifOutline", "is_available", "is_heif", "outline"]
