"""One decoded frame: which way is up, and its pixels as RGB.

A frame belongs to the thread that decoded it: PyAV 18 hangs for good when two threads convert one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy import typing as npt

if TYPE_CHECKING:
    from av.video.frame import VideoFrame

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Rotation:
    """How stored pixels become upright ones: swapped axes first, then flips of rows and columns."""

    swap: bool = False
    flip_rows: bool = False
    flip_columns: bool = False

    def size(self, width: int, height: int) -> tuple[int, int]:
        """Width and height once turned."""
        return (height, width) if self.swap else (width, height)

    def apply(self, pixels: Pixels) -> Pixels:
        """A turned view."""
        turned = pixels.swapaxes(0, 1) if self.swap else pixels
        return turned[:: -1 if self.flip_rows else 1, :: -1 if self.flip_columns else 1]


def rotation_of(frame: VideoFrame) -> Rotation:
    """What the frame's display matrix asks for.

    ``frame.side_data`` is not used: it keeps the frame in a cycle of references (PyAV 18.1), so that its memory goes
    back to the decoder at some later collection of garbage. Motion JPEG, HEVC and VP8 leave parts of a damaged frame as
    that memory was, so that the pixels would depend on the time of the collection.

    PyAV 18 cannot list what goes with a frame once FFmpeg 8 puts a kind there that it has no name for: EXIF of a JPEG,
    views of MV-HEVC, LCEVC. It then gives the angle alone, by which a mirrored picture is turned and not mirrored.
    """
    from av.sidedata.sidedata import SideDataContainer

    side_data_of: Any = SideDataContainer  # the stubs leave out its argument
    try:
        data = side_data_of(frame).get("DISPLAYMATRIX")
    except ValueError:
        return rotation_by(_MATRICES[round(frame.rotation / 90) % 4])
    return Rotation() if data is None else rotation_by([int(part) for part in np.frombuffer(data, dtype=np.int32)])


_MATRICES: Final = ((1, 0, 0, 0, 1), (0, -1, 0, 1, 0), (-1, 0, 0, 0, -1), (0, 1, 0, -1, 0))
"""Display matrices of a turn by no, one, two and three quarters, counterclockwise."""


def rotation_by(matrix: Sequence[int]) -> Rotation:
    """What a display matrix asks for, to the nearest quarter turn, mirroring included.

    Row by row, it takes column x and row y to column ``a*x + c*y`` and row ``b*x + d*y`` (ISO/IEC 14496-12, 6.2.2).
    """
    a, b, _, c, d = matrix[:5]
    if abs(a) >= abs(b):
        return Rotation(flip_rows=d < 0, flip_columns=a < 0)
    return Rotation(swap=True, flip_rows=b < 0, flip_columns=c < 0)


class Converter:
    """Brings frames to RGB, in the thread that asks, by a context of swscale's that is kept from frame to frame: making
    one, with threads of its own, takes longer than the conversion of a small frame. For one thread.
    """

    def __init__(self) -> None:
        from av.video.reformatter import VideoReformatter

        self._reformatter = VideoReformatter()

    def write_rgb(self, frame: VideoFrame, rotation: Rotation, place: Pixels) -> None:
        """Convert a frame to RGB, 8 bits a channel, upright, into ``place`` (H, W, 3).

        The conversion is swscale's, as PyAV's ``to_ndarray(format="rgb24")`` has it, bit for bit.
        """
        rgb = self._reformatter.reformat(frame, format="rgb24", threads=1)
        plane: Any = rgb.planes[0]  # the stubs do not say that it is a buffer
        rows = np.frombuffer(plane, dtype=np.uint8).reshape(-1, plane.line_size)[: rgb.height, : rgb.width * 3]
        place[...] = rotation.apply(rows.reshape(rgb.height, rgb.width, 3))


__all__ = ["Converter", "Pixels", "Rotation", "rotation_by", "rotation_of"]
