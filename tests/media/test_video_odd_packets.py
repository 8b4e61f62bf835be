"""Packets that hold no picture, crops that are not aligned, canvases that no frame covers, and damage: one outcome."""

from __future__ import annotations

import gc
import io
import random
from functools import cache
from typing import Any

import av
import numpy as np
import pytest
from av.bitstream import BitStreamFilterContext
from PIL import Image

from lazymedia.errors import UnprocessableMediaError
from lazymedia.media.video import PacketIndexCache, VideoMediaIO
from lazymedia.testing.video import make_video
from tests.media import videos
from tests.media.test_video_work import chunk, muxed, packets, webp
from tests.media.torchcodec_here import load_or_skip

RED_GREEN_BLUE = [(255, 0, 0), (0, 255, 0), (0, 0, 255)]

EXTENSIONS = {
    "comment": b"!\xfe\x02hi\0",
    "two comments": b"!\xfe\x02hi\0!\xfe\x02ho\0",
    "comment of commas": b"!\xfe\x08,,,,,,,,\0",
    "long comment": b"!\xfe" + (b"\xff" + b"," * 255) * 20 + b"\0",
    "plain text": b"!\x01\x0c" + bytes(4) + b"\4\0\4\0\4\4\1\0" + b"\2hi\0",
    "application": b"!\xff\x0bXMP DataXMP\3abc\0",
    "graphic control": b"!\xf9\x04\0\x32\0\0\0",
    "unknown": b"!\x77\x03abc\0",
}


@cache
def gif() -> bytes:
    pictures = [Image.new("RGB", (16, 16), colour) for colour in RED_GREEN_BLUE]
    buffer = io.BytesIO()
    pictures[0].save(buffer, "GIF", save_all=True, append_images=pictures[1:], duration=100, loop=0)
    return buffer.getvalue()


def controls(data: bytes) -> list[int]:
    """Where the graphic control extensions begin, one before each frame."""
    return [at for at in range(len(data)) if data[at : at + 3] == b"!\xf9\x04"]


@pytest.mark.parametrize("place", ["before the trailer", "before the first frame", "between frames"])
@pytest.mark.parametrize("kind", EXTENSIONS)
def test_an_extension_of_a_gif_is_no_frame(kind: str, place: str) -> None:
    """Counts and times are Pillow's."""
    data = gif()
    at = {"before the trailer": -1, "before the first frame": controls(data)[0], "between frames": controls(data)[1]}
    data = data[: at[place]] + EXTENSIONS[kind] + data[at[place] :]
    with Image.open(io.BytesIO(data)) as opened:
        assert opened.n_frames == 3  # type: ignore[attr-defined]  # of animated formats

    ref = VideoMediaIO(num_frames=2).load_bytes_ref(data)
    header = ref.outline()
    frames, metadata = ref.decode()

    assert header == metadata
    assert (metadata.total_num_frames, metadata.frames_indices) == (3, [0, 2])
    assert metadata.duration == pytest.approx(0.3)
    assert metadata.fps == pytest.approx(10)
    assert [tuple(frame[8, 8]) for frame in frames] == [(255, 0, 0), (0, 0, 255)]


def test_a_gif_of_extensions_alone_is_no_video() -> None:
    data = gif()

    with pytest.raises(UnprocessableMediaError):
        VideoMediaIO().load_bytes(data[: controls(data)[0]] + EXTENSIONS["comment"] + b";")


def test_an_unknown_chunk_of_a_webp_is_no_frame() -> None:
    _, metadata = VideoMediaIO().load_bytes(webp(3, width=16, height=16, extra=chunk(b"ABCD", b"xyz")))

    assert metadata.total_num_frames == 3
    assert metadata.duration == pytest.approx(0.12)


def with_empty_chunks(data: bytes) -> bytes:
    """An AVI without an index, with a chunk of no bytes behind each frame, as recorders write for one they dropped."""
    start = data.index(b"movi") + 4
    end = data.index(b"idx1")
    parts, at = [data[:start]], start
    while at + 8 <= end:
        size = int.from_bytes(data[at + 4 : at + 8], "little")
        parts += [data[at : at + 8 + size + size % 2], b"00dc" + bytes(4)]
        at += 8 + size + size % 2
    return b"".join(parts)


def test_packets_of_no_bytes_are_no_frames() -> None:
    data = with_empty_chunks(make_video(6, codec="mjpeg", container="avi", pixel_format="yuvj420p", b_frames=0))

    frames, metadata = VideoMediaIO(num_frames=-1).load_bytes(data)

    assert (len(frames), metadata.total_num_frames, metadata.frames_indices) == (6, 6, list(range(6)))


@pytest.mark.parametrize("background", [bytes(4), b"\xff" * 4, b"\x1e\x14\x0a\xff"])
@pytest.mark.parametrize("has_alpha", [False, True])
def test_what_no_frame_of_a_webp_covers_is_the_background(background: bytes, *, has_alpha: bool) -> None:
    """White, as in all that is see-through. The colour in the file is not used, as in browsers."""
    data = bytearray(webp(2, width=16, height=16))
    data[data.index(b"VP8X") + 8] |= 0x10 if has_alpha else 0
    data[data.index(b"ANIM") + 8 : data.index(b"ANIM") + 12] = background

    frames, _ = VideoMediaIO().load_bytes(bytes(data))

    assert [tuple(frame[10, 10]) for frame in frames] == [(255, 255, 255)] * 2
    assert [tuple(frame[0, 0]) for frame in frames] == [(9, 9, 9)] * 2


CROPS = [
    "crop_left=10:crop_right=6",
    "crop_left=32:crop_right=6",
    "crop_left=8",
    "crop_left=34:crop_top=10",
    "crop_left=2:crop_top=2:crop_right=2:crop_bottom=2",
    "crop_top=6:crop_bottom=2",
]


@cache
def whole(codec: str) -> bytes:
    options = {"x265-params": videos.X265} if codec == "libx265" else {}
    return make_video(6, width=128, height=64, codec=codec, b_frames=0, options=options)


@cache
def cropped(codec: str, crop: str, muxer: str) -> bytes:
    buffer = io.BytesIO()
    with av.open(io.BytesIO(whole(codec)), "r") as source, av.open(buffer, "w", format=muxer) as target:
        stream = source.streams.video[0]
        copy = target.add_stream_from_template(stream)
        name = "hevc_metadata" if codec == "libx265" else "h264_metadata"
        filter_ = BitStreamFilterContext(f"{name}={crop}", stream, copy)
        for packet in source.demux(stream):
            for changed in filter_.filter(packet) if packet.size else ():
                changed.stream = copy
                target.mux(changed)
    return buffer.getvalue()


@pytest.mark.parametrize("muxer", ["mp4", "matroska", "mpegts"])
@pytest.mark.parametrize("crop", CROPS)
@pytest.mark.parametrize("codec", ["libx264", "libx265"])
def test_a_crop_is_the_streams_own_in_header_and_frames(codec: str, crop: str, muxer: str) -> None:
    """The columns on the right are those that FFmpeg gives where it moves the crop to aligned samples."""
    data = cropped(codec, crop, muxer)
    ref = VideoMediaIO(num_frames=3).load_bytes_ref(data)
    header = ref.outline()
    frames, metadata = ref.decode()

    # What x265 writes into a Matroska header looks like a rotation there, for which only a frame gives the size.
    assert header == metadata or (header is None and muxer == "matroska")
    assert (metadata.height, metadata.width) == frames.shape[1:3]
    taken = dict(part.split("=") for part in crop.split(":"))
    assert metadata.width == 128 - int(taken.get("crop_left", 0)) - int(taken.get("crop_right", 0))
    wanted = [frame[:, -metadata.width :] for frame in videos.linear(data)]
    assert all(
        np.array_equal(frame, wanted[frame_index])
        for frame, frame_index in zip(frames, metadata.frames_indices, strict=True)
    )


@pytest.mark.parametrize("crop", CROPS)
@pytest.mark.parametrize("codec", ["libx264", "libx265"])
def test_torchcodec_gives_the_same_crop(codec: str, crop: str) -> None:
    load_or_skip()
    data = cropped(codec, crop, "mp4")
    frames, metadata = VideoMediaIO(num_frames=3, video_backend="torchcodec").load_bytes(data)

    assert metadata.video_backend == "torchcodec"
    assert np.array_equal(frames, VideoMediaIO(num_frames=3).load_bytes(data)[0])


DAMAGED: dict[str, dict[str, Any]] = {
    "Motion JPEG, AVI": {"codec": "mjpeg", "container": "avi", "pixel_format": "yuvj420p", "b_frames": 0},
    "Motion JPEG, MOV": {"codec": "mjpeg", "container": "mov", "pixel_format": "yuvj420p", "b_frames": 0},
    "H.264, MP4": {"b_frames": 2},
    "H.264, MPEG-TS": {"b_frames": 2, "container": "ts"},
    "HEVC": {"codec": "libx265", "options": {"x265-params": videos.X265}},
    "VP8": {"codec": "libvpx", "container": "webm", "b_frames": 0},
    "VP9": {"codec": "libvpx-vp9", "container": "webm", "b_frames": 0},
    "MPEG-4, AVI": {"codec": "mpeg4", "container": "avi"},
    "MPEG-2, MPEG-TS": {"codec": "mpeg2video", "container": "ts"},
    "GIF": {"codec": "gif", "container": "gif", "pixel_format": "rgb8", "b_frames": 0},
}


@cache
def sound(kind: str) -> bytes:
    return make_video(24, width=160, height=96, **DAMAGED[kind])


def damaged(kind: str, seed: int) -> bytes:
    data, numbers = bytearray(sound(kind)), random.Random(seed)
    first = min(600, len(data) // 4)
    at, length = numbers.randrange(first, len(data)), numbers.randint(1, 60)
    if seed % 3 == 0:
        data[at : at + length] = bytes(len(data[at : at + length]))
    elif seed % 3 == 1:
        data[at : at + length] = b"\xff" * len(data[at : at + length])
    else:
        for _ in range(length // 4 + 1):
            data[numbers.randrange(first, len(data))] = numbers.randrange(256)
    return bytes(data)


def outcome(data: bytes, **settings: Any) -> tuple[bytes, str]:
    """All that a decode gives, or its error."""
    try:
        frames, metadata = VideoMediaIO(**settings).load_bytes(data)
    except UnprocessableMediaError as error:
        return b"", str(error)
    return frames.tobytes(), repr(metadata)


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_damaged_video_has_one_outcome(kind: str) -> None:
    """Whatever was decoded before, in however many threads, and whether its index was kept."""
    for seed in range(12):
        data = damaged(kind, seed)
        cache_ = PacketIndexCache()
        ways: list[dict[str, Any]] = [
            {},
            {"decoder_threads": 1},
            {"decoder_threads": 3},
            {"index_cache": cache_},
            {"index_cache": cache_},
        ]
        assert len({outcome(data, num_frames=5, **way) for way in ways}) == 1, seed


def test_collections_of_garbage_change_no_frame() -> None:
    """Of damaged VP8, parts of a frame are what the memory held that the decoder was given for it."""
    data = damaged("VP8", 10)
    wanted = outcome(data, num_frames=5, decoder_threads=1)
    threshold = gc.get_threshold()
    try:
        for number in (1, 5, 50, 300, 700):
            gc.set_threshold(number)
            assert outcome(data, num_frames=5, decoder_threads=1) == wanted
    finally:
        gc.set_threshold(*threshold)


@pytest.mark.parametrize("kind", ["H.264, MP4", "VP8", "Motion JPEG, AVI"])
def test_no_frame_waits_for_a_collection_of_garbage(kind: str) -> None:
    """Those of 4096 x 2176 have 13 MB each."""
    gc.collect()
    gc.disable()
    try:
        outcome(sound(kind), num_frames=-1, decoder_threads=1)
        outcome(damaged(kind, 1), num_frames=-1, decoder_threads=1)
        assert not [held for held in gc.get_objects() if type(held) is av.VideoFrame]
    finally:
        gc.enable()


@pytest.mark.parametrize("kind", ["Motion JPEG, AVI", "Motion JPEG, MOV"])
def test_of_damaged_motion_jpeg_five_frames_are_those_of_all(kind: str) -> None:
    """A picture that is damaged is left out. Its lower part was whatever had been in memory."""
    left_out = 0
    for seed in range(24):
        data = damaged(kind, seed)
        try:
            every, all_of = VideoMediaIO(num_frames=-1).load_bytes(data)
            some, five = VideoMediaIO(num_frames=5).load_bytes(data)
        except UnprocessableMediaError:
            continue
        by_frame_index = dict(zip(all_of.frames_indices, every, strict=True))
        left_out += all_of.total_num_frames - len(every)
        for frame_index, frame in zip(five.frames_indices, some, strict=True):
            assert np.array_equal(frame, by_frame_index[frame_index]), (seed, frame_index)
    assert left_out


def rewritten(change: Any) -> bytes:
    """Motion JPEG whose pictures are written in another way."""
    options = {"huffman": "default"}
    clip = make_video(6, codec="mjpeg", container="avi", pixel_format="yuvj420p", b_frames=0, options=options)
    buffer = io.BytesIO()
    with av.open(io.BytesIO(clip), "r") as source, av.open(buffer, "w", format="avi") as target:
        stream = source.streams.video[0]
        copy = target.add_stream_from_template(stream)
        for packet in source.demux(stream):
            if packet.size:
                changed = av.Packet(change(bytes(packet)))
                changed.pts, changed.dts, changed.time_base = packet.pts, packet.dts, packet.time_base
                changed.stream, changed.is_keyframe = copy, True
                target.mux(changed)
    return buffer.getvalue()


def without_tables(picture: bytes) -> bytes:
    start = picture.index(b"\xff\xc4")
    return picture[:start] + picture[start + 2 + int.from_bytes(picture[start + 2 : start + 4]) :]


@pytest.mark.parametrize(
    "change",
    [
        lambda picture: picture[:-2],
        lambda picture: picture + bytes(100),
        lambda picture: picture + b"\xff" * 50,
        lambda picture: picture[:-2] + bytes(40),
        lambda picture: picture[:2] + b"\xff\xe0\0\x10AVI1" + bytes(10) + picture[2:],
        lambda picture: picture[:2] + b"\xff\xe1\0\x0cExif\0\0XXXX" + picture[2:],
        lambda picture: picture[:2] + b"\xff\xe2\0\x10ICC_PROFILE\0\1\2" + picture[2:],
        without_tables,
    ],
    ids=["no end", "zeros", "fill bytes", "no end, zeros", "AVI1", "broken EXIF", "broken profile", "no tables"],
)
def test_motion_jpeg_as_cameras_write_it_is_not_damaged(change: Any) -> None:
    assert VideoMediaIO(num_frames=-1).load_bytes(rewritten(change))[1].frames_indices == list(range(6))


def superframe(frames: list[bytes]) -> bytes:
    """VP9 bitstream specification, annex B."""
    marker = bytes([0xC0 | 3 << 3 | len(frames) - 1])
    return b"".join(frames) + marker + b"".join(len(frame).to_bytes(4, "little") for frame in frames) + marker


@pytest.mark.parametrize("good", [True, False])
@pytest.mark.parametrize("broken", range(1, 8))
def test_frames_of_a_superframe_that_do_not_decode_take_no_others_with_them(broken: int, *, good: bool) -> None:
    """Two of them left FFmpeg's decoder full, and every packet behind them was lost."""
    clip = make_video(12, codec="libvpx-vp9", container="webm", b_frames=0)
    contents = list(packets(clip))
    content, is_key = contents[5]
    contents[5] = (superframe([b"\xff" * 20] * broken + [content] * good), is_key)

    frames, metadata = VideoMediaIO(sampling="all").load_bytes(muxed(clip, contents, "webm"))

    assert metadata.frames_indices == [frame_index for frame_index in range(12) if good or frame_index != 5]
    if good:
        np.testing.assert_array_equal(frames, VideoMediaIO(sampling="all").load_bytes(clip)[0])


def test_a_superframe_whose_list_is_wrong_takes_no_others_with_it() -> None:
    clip = make_video(12, codec="libvpx-vp9", container="webm", b_frames=0)
    contents = list(packets(clip))
    content, is_key = contents[5]
    marker = bytes([0xC0 | 3 << 3 | 1])
    contents[5] = (content + marker + b"\xff" * 8 + marker, is_key)

    assert VideoMediaIO(sampling="all").load_bytes(muxed(clip, contents, "webm"))[1].total_num_frames == 12
    assert len(VideoMediaIO(sampling="all").load_bytes(muxed(clip, contents, "webm"))[0]) >= 11
