"""The chunks of an animated WebP: how many frames it has, how long each is shown, how far it is whole.

Comes in: a payload that begins as a WebP. Goes out: a `Film`, None for one that is not animated, or a refusal by count
or size. Never here: Pillow, numpy, or a compressed pixel.

libwebp takes no file that is cut off or in which a frame contradicts its own header. What is whole before such a place
can be decoded all the same, once the file's length says that it ends there.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lazymedia.media.image import webp
from lazymedia.media.video.container import check_frame_size
from lazymedia.media.video.faults import refused

if TYPE_CHECKING:
    from lazymedia.limits import Limits

_ANIMATED: Final = 0x02
_MAX_PARTS: Final = 16
"""Chunks inside one frame: its alpha, its pixels, and what no reader knows."""
_SHORT, _USUAL = 10, 100
"""Milliseconds. A frame to be shown no longer than the first is shown for the second, as browsers have it, and as
FFmpeg has it for a GIF."""


@dataclass(frozen=True, slots=True)
class Film:
    """What the chunks tell.

    Attributes:
        width: Pixels of the canvas, as stored.
        height: Pixels of the canvas, as stored.
        durations: Milliseconds that each frame is shown, of the frames that are whole.
        stop: Offset behind the last of them where something broken follows; None where nothing does.
    """

    width: int
    height: int
    durations: array[int]
    stop: int | None

    def whole(self, data: bytes) -> bytes:
        """The payload, without what is broken in it."""
        if self.stop is None:
            return data
        return b"".join((data[:4], (self.stop - 8).to_bytes(4, "little"), memoryview(data)[8 : self.stop]))


def film(data: bytes, limits: Limits) -> Film | None:
    """Walk the chunks of a WebP. None where its first one does not tell of an animation.

    Raises:
        UnprocessableMediaError: A canvas over `Limits.max_video_frame_pixels`, or more chunks than
            `Limits.max_video_walk_frames`: every frame is laid over those before it, so that all have to be decoded.
    """
    canvas = webp.read_header(data, limits)
    if canvas is None or data[12:16] != b"VP8X" or not canvas.flags & _ANIMATED:
        return None
    check_frame_size(canvas.width, canvas.height, limits)
    claimed = 8 + int.from_bytes(data[4:8], "little")
    end = min(claimed, len(data))
    durations = array("L")
    position, behind_last = 12, 0
    for _ in range(limits.max_video_walk_frames):
        if position + 8 > end:
            return Film(canvas.width, canvas.height, durations, behind_last if claimed > len(data) else None)
        kind, size = data[position : position + 4], int.from_bytes(data[position + 4 : position + 8], "little")
        body, stop = position + 8, position + 8 + size
        if stop > end or (kind == b"ANMF" and not _is_frame(data, body, stop, canvas, limits)):
            return Film(canvas.width, canvas.height, durations, behind_last)
        position = stop + (size & 1)
        if kind == b"ANMF":
            shown = int.from_bytes(data[body + 12 : body + 15], "little")
            durations.append(shown if shown > _SHORT else _USUAL)
            behind_last = min(position, end)
    raise refused(f"a WebP may have fewer than {limits.max_video_walk_frames} chunks")


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
    """Where a frame's compressed pixels begin, if the chunks inside it fill it and libwebp will take their header."""
    found = None
    position = start
    for _ in range(_MAX_PARTS):
        if position >= stop:
            return found
        kind, size = data[position : position + 4], int.from_bytes(data[position + 4 : position + 8], "little")
        end = position + 8 + size
        if end > stop:
            return None
        if found is None and kind != b"ALPH":
            tag = int.from_bytes(data[position + 8 : position + 11], "little")
            if kind == b"VP8X" or (kind == b"VP8 " and not _is_shown_key(tag, size)):
                return None
            found = position
        position = end + (size & 1)
    return None


def _is_shown_key(tag: int, size: int) -> bool:
    """Whether VP8's frame tag (RFC 6386, 9.1) is a still's: a key frame, a known profile, shown, and long enough."""
    return not tag & 1 and (tag >> 1 & 7) <= 3 and bool(tag & 0x10) and tag >> 5 < size


__all__ = ["Film", "film"]
