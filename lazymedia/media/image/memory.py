"""How much memory a decode takes at its peak, by a picture's header.

A picture passes two stages, and the larger one counts. First its codec holds what it needs beside the stored pixels;
then the stored pixels lie beside the result (`convert.finish`). The figures, here and in the formats' modules, are
bytes a pixel from ``python -m benchmarks.memory_of_pictures`` with Pillow 13 (libjpeg-turbo 3.2, libwebp 1.6, libavif
1.4); a test compares them with a measurement.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from lazymedia.media.image.header import FormatHeader

_STORED: Final = {"1": 1, "L": 1, "P": 1, "I;16": 2, "I;16B": 2}
"""Bytes a pixel of Pillow's modes; four in all others."""
_CHANNELS: Final = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4}
_MARGIN: Final = 1.15
_ALWAYS: Final = 1 << 19
"""Bytes: the strips in which pixels are converted, and what codecs allocate at any size."""


class CodecMemory(NamedTuple):
    """How a codec leaves a picture, and what it allocates for that.

    Attributes:
        mode: Pillow's mode of the pixels.
        alpha: Whether some of them may be transparent.
        mask: Whether a mask for a transparent colour lies beside them, one byte a pixel.
        extra: Bytes a pixel that the codec holds beside them.
        copies_payload: Whether the codec keeps a copy of the payload.
        applies_orientation: Whether the codec leaves the picture upright, within ``extra``.
    """

    mode: str
    alpha: bool = False
    mask: bool = False
    extra: float = 0.0
    copies_payload: bool = False
    applies_orientation: bool = False


def decoded_bytes(data: bytes, header: FormatHeader, mode: str | None, *, as_array: bool) -> int:
    """An estimate of the bytes that decoding takes at its peak, result included and payload not: 1.0 to 1.6 times what
    is measured, for pictures of some megapixels.

    Args:
        data: The payload.
        header: Its header.
        mode: "RGB", "RGBA", "L", or None for the stored one.
        as_array: Whether it becomes an array.
    """
    stored = header.codec_memory()
    kept = stored_bytes(stored.mode) + stored.mask
    result = _result_bytes(stored, mode, as_array=as_array)
    copies = 1 if stored.applies_orientation or header.find_orientation(data) == 1 else 2
    if as_array and header.simplejpeg_layout(mode) and _has_simplejpeg():
        peak = max(stored.extra + result, result * copies)
    else:
        peak = max(stored.extra + kept, kept * copies, kept + result)
    payload = len(data) if stored.copies_payload else 0
    return int(_MARGIN * peak * header.width * header.height) + payload + _ALWAYS


def stored_bytes(mode: str) -> int:
    """Bytes that Pillow takes for a pixel of a mode."""
    return _STORED.get(mode, 4)


@cache
def _has_simplejpeg() -> bool:
    return find_spec("simplejpeg") is not None


def _result_bytes(stored: CodecMemory, mode: str | None, *, as_array: bool) -> int:
    """Bytes a pixel of what is made of the stored pixels; 0 where they are the result."""
    if as_array:
        grey = stored.mode in {"1", "L", "LA", "I", "I;16", "I;16B"}
        return _CHANNELS[mode or ("L" if grey else "RGB") + "A" * stored.alpha]
    if mode is None or (mode == stored.mode and not stored.mask and (not stored.alpha or mode == "RGBA")):
        return 0
    return stored_bytes(mode)


__all__ = ["CodecMemory", "decoded_bytes", "stored_bytes"]
