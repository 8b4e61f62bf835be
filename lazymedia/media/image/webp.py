"""WebP: canvas and metadata by its chunks, frames by Pillow's codec.

https://developers.google.com/speed/webp/docs/riff_container
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from lazymedia.media.cancellation import checkpoint
from lazymedia.media.image.exif import Metadata, find_orientation
from lazymedia.media.image.header import FormatHeader, check_size
from lazymedia.media.image.memory import CodecMemory

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy import typing as npt
    from PIL.WebPImagePlugin import WebPImageFile

    from lazymedia.limits import Limits
    from lazymedia.media.image.pixels import StoredPixels
    from lazymedia.media.isobmff import Span

_WHITE: Final = (255, 255, 255)
_FLAGS: Final = {b"EXIF": 0x08, b"XMP ": 0x04}
"""In the first byte of a VP8X chunk, for each chunk of metadata."""
_MAX_CHUNKS: Final = 4096
"""Chunks that are searched for metadata."""
_CODEC: Final = 8.0
"""Bytes a pixel: two canvases of libwebp's and the frame that Pillow copies, four each, without the stored pixels."""


@dataclass(frozen=True, slots=True)
class WebpHeader(FormatHeader):
    """Attributes beyond `FormatHeader`'s.

    flags: The first byte of the VP8X chunk; 0 where there is none.
    """

    flags: int = 0

    def metadata(self, data: bytes) -> Metadata:
        """EXIF and XMP, which mostly lie behind the pixels."""
        wanted = {kind for kind, flag in _FLAGS.items() if self.flags & flag}
        found: dict[bytes, bytes] = {}
        for kind, (start, stop) in islice(chunks(data, (12, len(data))), _MAX_CHUNKS if wanted else 0):
            if kind in wanted and kind not in found:
                found[kind] = data[start:stop]
        return Metadata(found.get(b"EXIF"), found.get(b"XMP "))

    def codec_memory(self) -> CodecMemory:
        assert self.mode is not None
        return CodecMemory(self.mode, self.mode == "RGBA", extra=_CODEC, copies_payload=True)

    def decode(self, data: bytes, limits: Limits) -> StoredPixels:
        from lazymedia.media.image.pixels import StoredPixels, blank

        opened = _open(data)
        size, mode = opened.size, opened.mode
        check_size(*size, limits)
        metadata = Metadata(opened.info.get("exif"), opened.info.get("xmp"))
        pixels = _next_canvas(opened)
        del opened  # and with it three times the picture's memory
        if pixels is None:
            raise ValueError("no frame can be decoded")
        checkpoint()
        image = blank("RGBA", size)
        image.frombytes(pixels, "raw", ("RGBA", 0, 1))
        # Without alpha, what no frame of an animation covers is transparent all the same.
        covered = mode == "RGB" and image.getchannel("A").getextrema() == (255, 255)
        return StoredPixels(image.convert("RGB") if covered else image, find_orientation(metadata))


def read_header(data: bytes, _limits: Limits) -> WebpHeader | None:
    """The canvas of a WebP, from its first chunk. libwebp compares the frames with it."""
    kind, body = data[12:16], data[20:30]
    if kind == b"VP8L" and len(body) >= 5 and body[0] == 0x2F:
        bits = int.from_bytes(body[1:5], "little")
        return WebpHeader("WEBP", (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1, "RGBA" if bits >> 28 & 1 else "RGB")
    if len(body) < 10:
        return None
    if kind == b"VP8X":
        width, height = int.from_bytes(body[4:7], "little") + 1, int.from_bytes(body[7:10], "little") + 1
        return WebpHeader("WEBP", width, height, "RGBA" if body[0] & 0x10 else "RGB", body[0])
    if kind == b"VP8 " and body[3:6] == b"\x9d\x01\x2a":
        width, height = (int.from_bytes(body[start : start + 2], "little") & 0x3FFF for start in (6, 8))
        return WebpHeader("WEBP", width, height, "RGB") if width and height else None
    return None


def chunks(data: bytes, span: Span) -> Iterator[tuple[bytes, Span]]:
    """Type and content of each RIFF chunk in a part of the payload; the last may end behind it."""
    position, end = span
    while position + 8 <= end:
        start = position + 8
        size = int.from_bytes(data[position + 4 : start], "little")
        yield data[position : position + 4], (start, start + size)
        position = start + size + (size & 1)


class Animation:
    """Decodes the frames of a WebP, from the first one on. For one thread. Releases the GIL while it decodes a frame.

    The first frame is what the same payload becomes as a picture.

    Args:
        data: The payload.
        size: Width and height of its canvas, as its header has them.
        orientation: How its frames must be turned, 1 to 8 as in EXIF.

    Raises:
        ImportError: This build of Pillow has no WebP codec.
        Exception: Whatever Pillow raises; the payload's fault.
    """

    def __init__(self, data: bytes, size: tuple[int, int], orientation: int) -> None:
        self._opened = _open(data)
        if self._opened.size != size:
            raise ValueError("the header contradicts itself")
        self._orientation = orientation
        self._canvas = b""

    def advance(self) -> None:
        """Decode the next frame over those before it. Nothing is converted yet.

        Raises:
            OSError: It cannot be decoded, or there is none. No later one can be.
        """
        canvas = _next_canvas(self._opened)
        if canvas is None:
            raise OSError("no further frame")
        self._canvas = canvas

    def write(self, target: npt.NDArray[np.uint8]) -> None:
        """Copy the frame that was decoded last, on white and with its orientation applied.

        Args:
            target: uint8 (H, W, 3).
        """
        import numpy as np
        from PIL import Image

        from lazymedia.media.image.convert import flatten
        from lazymedia.media.image.pixels import copy_oriented

        width, height = self._opened.size
        # Also where the file has no alpha: what no frame covers is transparent.
        image = Image.frombuffer("RGBA", (width, height), self._canvas, "raw", "RGBA", 0, 1)
        if image.getchannel("A").getextrema() == (255, 255):
            pixels = np.frombuffer(self._canvas, np.uint8).reshape(height, width, 4)[..., :3]
        else:
            pixels = np.asarray(flatten(image, _WHITE))
        copy_oriented(pixels, self._orientation, target)


class _ShortFirstRead(io.BytesIO):
    """A file whose first read ends early, as any file's may.

    Pillow reads 30 bytes and, when they hold a size, compares it with ``MAX_IMAGE_PIXELS``. Sixteen show the format
    only; the rest is read next, and the size was checked before.
    """

    def read(self, size: int | None = -1, /) -> bytes:
        if self.tell() == 0 and size is not None and size > 16:
            size = 16
        return super().read(size)


def _open(data: bytes) -> WebPImageFile:
    """A WebP of a checked size: of its frames, none is decoded yet."""
    from PIL.WebPImagePlugin import WebPImageFile

    from lazymedia.media.image.pixels import require_codec

    require_codec("webp")
    return WebPImageFile(_ShortFirstRead(data))


def _next_canvas(opened: WebPImageFile) -> bytes | None:
    """The next frame laid over those before it, four bytes a pixel: red, green, blue, alpha. None where there is none,
    or it cannot be decoded; then no later one can be.
    """
    # Of the file class's own ways to a frame, each converts all on the way, or cannot be stopped between them.
    decoder: Any = opened._decoder  # noqa: SLF001
    following = decoder.get_next()
    return None if following is None else following[0]


__all__ = ["Animation", "WebpHeader", "chunks", "read_header"]
