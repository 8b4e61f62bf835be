"""The size of the pictures that an AV1 or HEVC stream codes, and the limits on it.

The container only declares a size. libavif scales whatever it decodes to that size, and libheif allocates what the
stream says: without this, a file of two kilobytes that declares 64 x 64 would cost what 16384 x 16384 costs.

AV1 Bitstream & Decoding Process Specification, 5.3 (units) and 5.5 (sequence header). ITU-T H.265, 7.3.1 (units) and
7.3.2.2 (sequence parameter set); ISO/IEC 14496-15, 8.3.3.1 (configuration, ``hvcC``).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from lazymedia.media.image.header import check_count, check_size, rejected

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazymedia.limits import Limits
    from lazymedia.media.isobmff import Span

_SEQUENCE_HEADER: Final = 1
"""Type of an AV1 unit."""
_MAX_AV1_UNITS: Final = 1024
"""A picture has a handful, or one for each of its tiles."""
_SEQUENCE_PARAMETER_SET: Final = 33
"""Type of an HEVC unit."""
_MAX_HEVC_UNITS: Final = 4096
"""A tile is one; a picture of many slices has some hundred."""
_HEADER_BYTES: Final = 256
"""Of one header or parameter set. The size stands within the first hundred, even with 32 operating points of AV1 or
seven layers of HEVC profiles."""
_MAX_PARTS: Final = 512
"""Coded parts: the tiles of a picture and of its alpha. A phone's picture has 48 tiles."""
_SUM: Final = 4
"""How many times a picture's pixels all coded parts may have: the picture, its alpha, a thumbnail, a gain map."""
_SMALL: Final = 1 << 20
"""Pixels: a smaller picture counts as large as this. Tiles at its edges may stick out."""


class CodedPart(NamedTuple):
    """A picture, tile or alpha that is decoded on its own.

    Attributes:
        spans: Where its content lies, piece by piece.
        coded_size: Reads width and height from its content; None for unknown.
    """

    spans: list[Span]
    coded_size: Callable[[bytes | memoryview], tuple[int, int] | None]


def check_coded(data: bytes, parts: list[CodedPart], size: tuple[int, int], limits: Limits) -> bool:
    """Check the sizes that are coded, whatever the file declares; False where the size of a part is unknown.

    Args:
        data: The payload.
        parts: Each coded part, as often as it is decoded.
        size: Width and height of the picture.
        limits: Those on pictures apply to each part. The sums are limited because each part is decoded on its own.

    Raises:
        UnprocessableMediaError: A part that is over a limit, too many parts, or parts that are too much together.
    """
    check_count(len(parts), "coded parts", _MAX_PARTS)
    pixels = size[0] * size[1]
    # Equal tiles, or layers of one picture, may share their bytes, which are then read once for each.
    if sum(stop - start for part in parts for start, stop in part.spans) > 2 * len(data) + pixels // 2:
        raise rejected("the parts of a picture share more bytes than its size explains")
    view = memoryview(data)
    allowed = _SUM * min(max(pixels, _SMALL), limits.max_image_pixels)
    total = 0
    for part in parts:
        first, *others = (view[slice(*span)] for span in part.spans)
        coded = part.coded_size(b"".join([first, *others]) if others else first)
        if coded is None:
            return False
        check_size(*coded, limits)
        if coded[0] * coded[1] > max(pixels * 11 // 10, _SMALL):  # codecs round sides up
            raise rejected("one of the parts of a picture codes more pixels than the picture has")
        total += coded[0] * coded[1]
    if total > allowed:
        raise rejected(f"the parts of a picture of this size may have {allowed} pixels at most")
    return True


def av1_size(stream: bytes | memoryview) -> tuple[int, int] | None:
    """The largest width and height among the sequence headers of AV1; None where there is none, or a unit is malformed.

    Args:
        stream: A sample or an item.
    """
    try:
        sizes = _av1_sizes(stream)
    except (IndexError, ValueError):
        return None
    return _largest(sizes)


def hevc_size(configuration: bytes, stream: bytes | memoryview) -> tuple[int, int] | None:
    """The largest width and height among the sequence parameter sets of HEVC; None where there is none, a unit is
    malformed or cut off, or there are too many.

    Args:
        configuration: The content of an ``hvcC`` box.
        stream: An item.
    """
    try:
        units = [*_configured_sets(configuration), *_sent_sets(stream, (configuration[21] & 3) + 1)]
        return _largest([_hevc_frame_size(unit) for unit in units])
    except (IndexError, struct.error, ValueError):
        return None


def hevc_chroma_and_depth(configuration: bytes) -> tuple[int, int]:
    """chroma_format_idc (0: grey, 1: 4:2:0, 2: 4:2:2, 3: 4:4:4) and bits of a sample, by an ``hvcC`` box."""
    return configuration[16] & 3, (configuration[17] & 7) + 8


def _largest(sizes: list[tuple[int, int]]) -> tuple[int, int] | None:
    return (max(width for width, _ in sizes), max(height for _, height in sizes)) if sizes else None


class _Bits:
    """Reads numbers from bits. IndexError where they end before."""

    __slots__ = ("_left", "_value")

    def __init__(self, data: bytes) -> None:
        self._value = int.from_bytes(data)
        self._left = 8 * len(data)

    def take(self, count: int) -> int:
        self._left -= count
        if self._left < 0:
            raise IndexError
        return self._value >> self._left & ((1 << count) - 1)

    def exponential(self) -> int:
        """An Exp-Golomb number: ITU-T H.265, 9.2; AV1, 4.10.3 (uvlc). Decoders differ from 32 zeros on."""
        zeros = 0
        while not self.take(1):
            zeros += 1
            if zeros == 32:
                raise ValueError("no number is so long")
        return (1 << zeros) - 1 + self.take(zeros)


def _av1_sizes(stream: bytes | memoryview) -> list[tuple[int, int]]:
    sizes: list[tuple[int, int]] = []
    position = 0
    for _ in range(_MAX_AV1_UNITS):
        if position >= len(stream):
            return sizes
        header = stream[position]
        position += 2 if header & 0x04 else 1  # obu_extension_flag
        if header & 0x02:  # obu_has_size_field
            size, position = _leb128(stream, position)
        else:
            size = len(stream) - position
        if header & 0x80:  # obu_forbidden_bit
            raise ValueError("not an AV1 unit")
        if header >> 3 & 0x0F == _SEQUENCE_HEADER:
            sizes.append(_av1_frame_size(_Bits(bytes(stream[position : position + min(size, _HEADER_BYTES)]))))
        position += size
    raise ValueError("too many units")


def _leb128(stream: bytes | memoryview, position: int) -> tuple[int, int]:
    value = 0
    for index, byte in enumerate(stream[position : position + 8]):
        value |= (byte & 0x7F) << 7 * index
        if not byte & 0x80:
            return value, position + index + 1
    raise ValueError("no number is so long")


def _av1_frame_size(bits: _Bits) -> tuple[int, int]:
    bits.take(4)  # seq_profile, still_picture
    if bits.take(1):  # reduced_still_picture_header
        bits.take(5)
    else:
        _skip_operating_points(bits)
    width_bits, height_bits = bits.take(4) + 1, bits.take(4) + 1
    return bits.take(width_bits) + 1, bits.take(height_bits) + 1


def _skip_operating_points(bits: _Bits) -> None:
    delay_bits = 0
    if bits.take(1):  # timing_info_present_flag
        bits.take(64)
        if bits.take(1):  # equal_picture_interval
            bits.exponential()
        if bits.take(1):  # decoder_model_info_present_flag
            delay_bits = bits.take(5) + 1
            bits.take(42)
    display_delay = bits.take(1)
    for _ in range(bits.take(5) + 1):
        bits.take(12)
        if bits.take(5) > 7:  # seq_level_idx: from here on a tier follows
            bits.take(1)
        if delay_bits and bits.take(1):
            bits.take(2 * delay_bits + 1)
        if display_delay and bits.take(1):
            bits.take(4)


def _configured_sets(configuration: bytes) -> list[bytes]:
    """The sequence parameter sets of an ``hvcC`` box."""
    found: list[bytes] = []
    position = 23
    for _ in range(configuration[22]):
        kind = configuration[position] & 0x3F
        (count,) = struct.unpack_from(">H", configuration, position + 1)
        position += 3
        for _ in range(count):
            (length,) = struct.unpack_from(">H", configuration, position)
            if kind == _SEQUENCE_PARAMETER_SET:
                found.append(configuration[position + 2 : position + 2 + min(length, _HEADER_BYTES)])
            position += 2 + length
    return found


def _sent_sets(stream: bytes | memoryview, length_bytes: int) -> list[bytes]:
    """The sequence parameter sets among the units of a stream, which each follow their length."""
    found: list[bytes] = []
    position = 0
    for _ in range(_MAX_HEVC_UNITS):
        if position == len(stream) and position:
            return found
        length = int.from_bytes(stream[position : position + length_bytes])
        position += length_bytes
        if position + length > len(stream):  # libheif would make a picture of what is there
            raise ValueError("a unit that ends early")
        if stream[position] >> 1 & 0x3F == _SEQUENCE_PARAMETER_SET:
            found.append(bytes(stream[position : position + min(length, _HEADER_BYTES)]))
        position += length
    raise ValueError("too many units")


def _hevc_frame_size(unit: bytes) -> tuple[int, int]:
    bits = _Bits(unit[2:].replace(b"\0\0\3", b"\0\0"))  # emulation_prevention_three_byte
    bits.take(4)  # sps_video_parameter_set_id
    layers = bits.take(3)
    bits.take(1)
    bits.take(96)  # the general profile and level
    present = [(bits.take(1), bits.take(1)) for _ in range(layers)]
    if layers:
        bits.take(2 * (8 - layers))
    for profile, level in present:
        bits.take(88 * profile + 8 * level)
    bits.exponential()  # sps_seq_parameter_set_id
    if bits.exponential() == 3:  # chroma_format_idc
        bits.take(1)
    width, height = bits.exponential(), bits.exponential()
    if not width or not height:
        raise ValueError("a picture without pixels")
    return width, height


__all__ = ["CodedPart", "av1_size", "check_coded", "hevc_chroma_and_depth", "hevc_size"]
