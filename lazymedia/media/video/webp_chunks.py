"""The chunks of an animated WebP: its frames, how long each is shown, and where damage begins.

libwebp rejects a file that is cut off or in which a frame contradicts its own header. The frames before such a place
can be decoded all the same, once the file's length ends there.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from lazymedia.media.image import webp
from lazymedia.media.video.container import check_frame_size
from lazymedia.media.video.errors import rejection

if TYPE_CHECKING:
    from lazymedia.limits import Limits

_ANIMATED: Final = 0x02
_MAX_PARTS: Final = 16
"""Chunks inside one frame: its alpha, its pixels, and unknown ones."""
_SHORTEST: Final = 10
_DEFAULT: Final = 100
"""Milliseconds. A frame with a duration of at most the first is shown for the second, as in browsers, and as in FFmpeg
for a GIF."""


@dataclass(frozen=True, slots=True)
class AnimationHeader:
    """What the chunks of an animation say.

    Attributes:
        width: Pixels of the canvas, as stored.
        height: Pixels of the canvas, as stored.
        durations: Milliseconds that each frame is shown, of the frames that are whole.
        stop: Offset behind the last of them where damage follows; None where none does.
    """

    width: int
    height: int
    durations: array[int]
    stop: int | None

    def intact(self, data: bytes) -> bytes:
        """The payload, without what is damaged."""
        if self.stop is None:
            return data
        return b"".join((data[:4], (self.stop - 8).to_bytes(4, "little"), memoryview(data)[8 : self.stop]))


def read_animation(data: bytes, limits: Limits) -> AnimationHeader | None:
    """Read the chunks of a WebP. None where its first one is not that of an animation.

    Raises:
        UnprocessableMediaError: A canvas over `Limits.max_video_frame_pixels`, or more chunks than
            `Limits.max_video_walk_frames`: every frame is laid over those before it, so that all have to be decoded.
    """
    canvas = webp.read_header(data, limits)
    if canvas is None or data[12:16] != b"VP8X" or not canvas.flags & _ANIMATED:
        return None
    check_frame_size(canvas.width, canvas.height, limits)
    declared = 8 + int.from_bytes(data[4:8], "little")
    end = min(declared, len(data))
    durations = array("L")
    behind_last = 0
    for count, (kind, (start, stop)) in enumerate(webp.chunks(data, (12, end)), 1):
        if count >= limits.max_video_walk_frames:
            raise rejection(f"a WebP may have fewer than {limits.max_video_walk_frames} chunks")
        if stop > end or (kind == b"ANMF" and not _is_frame(data, start, stop, canvas, limits)):
            return AnimationHeader(canvas.width, canvas.height, durations, behind_last)
        if kind == b"ANMF":
            shown = int.from_bytes(data[start + 12 : start + 15], "little")
            durations.append(shown if shown > _SHORTEST else _DEFAULT)
            behind_last = min(stop + (stop - start) % 2, end)
    return AnimationHeader(canvas.width, canvas.height, durations, behind_last if declared > len(data) else None)


def _is_frame(data: bytes, body: int, stop: int, canvas: webp.WebpHeader, limits: Limits) -> bool:
    """Whether a frame lies on the canvas and its pixels have the size that it says."""
    left, top, width, height = (int.from_bytes(data[body + at : body + at + 3], "little") for at in (0, 3, 6, 9))
    width, height = width + 1, height + 1
    if 2 * left + width > canvas.width or 2 * top + height > canvas.height:
        return False
    pixels = _pixels(data, body + 16, stop)
    if pixels is None:
        return False
    coded = webp.read_header(data[pixels - 12 : min(pixels + 18, stop)], limits)  # as if the file began with this chunk
    return coded is not None and (coded.width, coded.height) == (width, height)


def _pixels(data: bytes, start: int, stop: int) -> int | None:
    """Where the chunk of a frame's pixels begins, if the frame's chunks fill it and libwebp accepts their header."""
    parts = list(islice(webp.chunks(data, (start, stop)), _MAX_PARTS))
    if not 0 < len(parts) < _MAX_PARTS:
        return None
    _, (last_start, last_stop) = parts[-1]
    if not last_stop <= stop <= last_stop + (last_stop - last_start) % 2:
        return None
    kind, (begin, end) = next((part for part in parts if part[0] != b"ALPH"), parts[0])
    tag = int.from_bytes(data[begin : begin + 3], "little")
    if kind in {b"ALPH", b"VP8X"} or (kind == b"VP8 " and not _is_shown_key(tag, end - begin)):
        return None
    return begin - 8


def _is_shown_key(tag: int, size: int) -> bool:
    """Whether VP8's frame tag (RFC 6386, 9.1) is a still's: a key frame, a known profile, shown, and long enough."""
    return not tag & 1 and (tag >> 1 & 7) <= 3 and bool(tag & 0x10) and tag >> 5 < size


__all__ = ["AnimationHeader", "read_animation"]
