"""Which way is up, where frames tell it themselves: JPEGs with EXIF, stored as a video."""

from __future__ import annotations

import io
from fractions import Fraction
from typing import Any

import av
import numpy as np
import pytest
from PIL import Image

from lazymedia.errors import UnprocessableMediaError
from lazymedia.media.image import ImageMediaIO
from lazymedia.media.video import VideoMediaIO
from lazymedia.testing.video import draw_frame

TURNS = {1: "not at all", 3: "by a half", 6: "by a quarter", 8: "by three quarters"}


def jpeg(number: int, orientation: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    buffer = io.BytesIO()
    Image.fromarray(draw_frame(number)).save(buffer, "JPEG", quality=95, exif=exif)
    return buffer.getvalue()


def film(*pictures: bytes, container: str = "avi") -> bytes:
    """JPEGs of 128 x 64 as the frames of a video, as they are."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=container) as output:
        stream: Any = output.add_stream("mjpeg", rate=25)
        stream.width, stream.height, stream.pix_fmt = 128, 64, "yuvj420p"
        stream.codec_context.time_base = Fraction(1, 25)
        output.start_encoding()
        for number, picture in enumerate(pictures):
            packet = av.Packet(picture)
            packet.stream, packet.pts, packet.dts, packet.duration = stream, number, number, 1
            packet.time_base, packet.is_keyframe = Fraction(1, 25), True
            output.mux(packet)
    return buffer.getvalue()


@pytest.mark.parametrize("container", ["avi", "mov", "matroska"])
@pytest.mark.parametrize("orientation", TURNS, ids=TURNS.values())
def test_exif_turns_the_frames_of_motion_jpeg(orientation: int, container: str) -> None:
    pictures = [jpeg(number, orientation) for number in range(3)]
    ref = VideoMediaIO().load_bytes_ref(film(*pictures, container=container))

    outline = ref.outline()

    frames, metadata = ref.decode()
    assert outline is None or outline == metadata
    assert (metadata.height, metadata.width) == frames.shape[1:3]
    for frame, picture in zip(frames, pictures, strict=True):
        as_picture = np.asarray(ImageMediaIO(output="array").load_bytes(picture))
        assert np.abs(frame.astype(int) - as_picture).mean() < 8  # another converter, and the same way up


def test_each_frame_is_turned_by_its_own_matrix() -> None:
    pictures = [jpeg(number, orientation) for number, orientation in enumerate((1, 3, 1))]

    frames, _ = VideoMediaIO().load_bytes_ref(film(*pictures)).decode()

    for frame, picture in zip(frames, pictures, strict=True):
        as_picture = np.asarray(ImageMediaIO(output="array").load_bytes(picture))
        assert np.abs(frame.astype(int) - as_picture).mean() < 8


def test_a_turn_that_changes_the_size_in_the_middle_is_refused() -> None:
    data = film(jpeg(0, 1), jpeg(1, 6))

    with pytest.raises(UnprocessableMediaError, match="size of the video's frames changes"):
        VideoMediaIO().load_bytes_ref(data).decode()
