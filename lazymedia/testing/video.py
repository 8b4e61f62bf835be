"""Encoded videos made on the spot whose every frame says which it is, so that a test can tell which frames it got."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
from numpy import typing as npt

if TYPE_CHECKING:
    import av
    from av.video.stream import VideoStream

Frame = npt.NDArray[np.uint8]

BITS: Final = 16
_COLUMNS: Final = 8
_DARK, _LIGHT = 16, 235

CONTAINERS: Final = {
    "mp4": "mp4",
    "mov": "mov",
    "mkv": "matroska",
    "webm": "webm",
    "ts": "mpegts",
    "mpg": "mpeg",
    "avi": "avi",
    "flv": "flv",
    "ogg": "ogg",
    "gif": "gif",
}
"""Containers by the names they are asked for under, and what FFmpeg calls them."""

_AUDIO: Final = {"webm": "libopus", "ogg": "libopus", "avi": "mp2", "ts": "mp2", "mpg": "mp2"}
_QUIET: Final[dict[str, dict[str, str]]] = {
    "libx264": {"preset": "veryfast", "crf": "18"},
    "libx265": {"preset": "ultrafast", "crf": "18", "x265-params": "log-level=none:pools=1:frame-threads=1"},
    "libsvtav1": {"preset": "12", "crf": "20"},
    "libvpx-vp9": {"deadline": "realtime", "cpu-used": "8", "crf": "20"},
    "libvpx": {"deadline": "realtime", "cpu-used": "8", "crf": "10"},
}


def make_video(
    frames: int = 30,
    width: int = 128,
    height: int = 64,
    *,
    codec: str = "libx264",
    container: str = "mp4",
    fps: int | Fraction = 25,
    gop: int = 12,
    b_frames: int = 2,
    times: Sequence[float] | None = None,
    rotation: int = 0,
    mirrored: bool = False,
    audio: bool = False,
    pixel_format: str = "yuv420p",
    transfer: int | None = None,
    options: Mapping[str, str] | None = None,
    container_options: Mapping[str, str] | None = None,
    seed: int = 0,
) -> bytes:
    """An encoded clip. Decoded and turned upright, each frame gives its number to `read_frame_number`.

    Args:
        frames: How many.
        width: Pixels, upright. Blocks of the code want 8 pixels each: 64 or more.
        height: Pixels, upright; 32 or more.
        codec: FFmpeg's name of an encoder: "libx264", "libx265", "mpeg4", "libvpx", "libvpx-vp9", "libsvtav1" …
        container: One of `CONTAINERS`.
        fps: Frames per second.
        gop: Frames from one key frame to the next, at most.
        b_frames: B-frames in a row, at most.
        times: Seconds at which each frame is shown, for a variable rate; replaces ``fps`` as to time. May begin below
            zero.
        rotation: Degrees counterclockwise, a multiple of 90, by which the display matrix turns the stored picture.
        mirrored: Whether the stored picture is mirrored, left to right, and the display matrix undoes that.
        audio: Whether a track of sound is there too.
        pixel_format: FFmpeg's name, such as "yuv420p10le".
        transfer: Colour transfer by the code points of ITU-T H.273, such as 16 for PQ.
        options: For the encoder, over those that make it quick and quiet.
        container_options: For the muxer, such as ``{"movflags": "frag_keyframe+empty_moov"}``.
        seed: Another seed, another background.
    """
    import av

    buffer = io.BytesIO()
    with av.open(buffer, "w", format=CONTAINERS[container], options=dict(container_options or {})) as output:
        rate = Fraction(fps)
        added = output.add_stream(codec, rate=rate, options={**_QUIET.get(codec, {}), **(options or {})})
        stream = cast("VideoStream", added)
        turned = rotation % 180 == 90
        stream.width, stream.height = (height, width) if turned else (width, height)
        stream.pix_fmt = pixel_format
        context = stream.codec_context
        context.gop_size, context.max_b_frames, context.thread_count = gop, b_frames, 1
        tick = 1 / rate if times is None else Fraction(1, 1000)
        context.time_base = tick
        if transfer is not None:
            context.color_trc = transfer
        if rotation or mirrored:
            stream.set_display_rotation(rotation, hflip=mirrored)
        sound = output.add_stream(_AUDIO.get(container, "aac"), rate=48_000) if audio else None
        for number, drawn in enumerate(_drawn(frames, width, height, seed)):
            # The matrix turns first and mirrors then, so that the other way round undoes it.
            stored = np.rot90(drawn[:, ::-1] if mirrored else drawn, -(rotation // 90))
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(stored), format="rgb24")
            frame.time_base = tick
            frame.pts = number if times is None else round(times[number] * 1000)
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
        if sound is not None:
            for block in _tone(av, frames / float(rate)):
                output.mux(cast("Any", sound).encode(block))
            output.mux(cast("Any", sound).encode(None))
    return buffer.getvalue()


def draw_frame(number: int, width: int = 128, height: int = 64, *, seed: int = 0) -> Frame:
    """The picture of frame ``number`` before it is encoded, RGB (H, W, 3): the code above, a moving texture below."""
    random = np.random.default_rng(seed)
    tile = random.integers(0, 256, (8, 8, 3), dtype=np.uint8).repeat(8, axis=0).repeat(8, axis=1)
    rows, columns = np.mgrid[:height, :width]
    picture: Frame = tile[(rows + number) % 64, (columns + 2 * number) % 64]
    for bit in range(BITS):
        row, column = divmod(bit, _COLUMNS)
        block = _block(row, column, width, height)
        picture[block] = _LIGHT if number >> bit & 1 else _DARK
    return picture


def read_frame_number(rgb: Frame) -> int:
    """The number that a decoded frame (H, W, 3), upright and of any size, carries."""
    height, width = rgb.shape[:2]
    number = 0
    for bit in range(BITS):
        row, column = divmod(bit, _COLUMNS)
        number |= int(rgb[_block(row, column, width, height)].mean() > 128) << bit
    return number


def read_frame_numbers(frames: Frame) -> list[int]:
    """`read_frame_number` of each of (N, H, W, 3)."""
    return [read_frame_number(frame) for frame in frames]


def _block(row: int, column: int, width: int, height: int) -> tuple[slice, slice]:
    top, bottom = row * height // 4, (row + 1) * height // 4
    return slice(top, bottom), slice(column * width // _COLUMNS, (column + 1) * width // _COLUMNS)


def _drawn(frames: int, width: int, height: int, seed: int) -> Iterator[Frame]:
    for number in range(frames):
        yield draw_frame(number, width, height, seed=seed)


def _tone(av_: Any, seconds: float) -> Iterator[av.AudioFrame]:
    samples = np.sin(np.arange(int(seconds * 48_000)) * (2 * np.pi * 440 / 48_000)).astype(np.float32) * 0.5
    pcm = (samples * 32767).astype(np.int16)
    for start in range(0, len(pcm), 1024):
        frame = av_.AudioFrame.from_ndarray(pcm[None, start : start + 1024], format="s16", layout="mono")
        frame.sample_rate, frame.pts = 48_000, start
        frame.time_base = Fraction(1, 48_000)
        yield frame


__all__ = ["CONTAINERS", "draw_frame", "make_video", "read_frame_number", "read_frame_numbers"]
