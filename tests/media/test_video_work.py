"""What a decode may cost: tiny packets of large frames are rejected before one is decoded, and long videos are not."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import av
import pytest
from PIL import Image

from benchmarks.worst_cases import streams
from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import Limits
from lazymedia.media.video import VideoMediaIO
from lazymedia.media.video.container import open_video
from lazymedia.media.video.index import PacketIndex
from lazymedia.media.video.nal import length_bytes, pictures
from lazymedia.media.video.reader import reading
from lazymedia.media.video.scan import scan
from lazymedia.media.video.work import Work
from lazymedia.testing.video import make_video
from tests.cpu import cpu_seconds_below
from tests.media import videos
from tests.media.torchcodec_here import load_or_skip

WIDTH, HEIGHT = 2048, 1088

CODECS: dict[str, tuple[str, str, dict[str, str]]] = {
    "H.264, MP4": ("libx264", "mp4", {"preset": "ultrafast"}),
    "H.264, MPEG-TS": ("libx264", "mpegts", {"preset": "ultrafast"}),
    "H.264, FLV": ("libx264", "flv", {"preset": "ultrafast"}),
    "HEVC": ("libx265", "mp4", {"preset": "ultrafast", "x265-params": videos.X265}),
    "VP8": ("libvpx", "webm", {"deadline": "realtime", "cpu-used": "8"}),
    "VP9": ("libvpx-vp9", "webm", {"deadline": "realtime", "cpu-used": "8"}),
    "AV1": ("libsvtav1", "matroska", {"preset": "10"}),
}
"""MPEG-4, MPEG-1 and MPEG-2, H.263 and their like take a bit for each block that does not move: 2,000 pixels a byte."""


def packets(data: bytes) -> Iterator[tuple[bytes, bool]]:
    with av.open(io.BytesIO(data), "r") as source:
        for packet in source.demux(video=0):
            if packet.size:
                yield bytes(packet), packet.is_keyframe


def muxed(data: bytes, contents: list[tuple[bytes, bool]], muxer: str) -> bytes:
    """These packets as a video with the parameters of another one, 25 a second."""
    buffer = io.BytesIO()
    with av.open(io.BytesIO(data), "r") as source, av.open(buffer, "w", format=muxer) as target:
        stream = source.streams.video[0]
        if muxer == "matroska" and stream.codec_context.name == "libdav1d":
            copy = target.add_stream("libsvtav1", rate=25)
            copy.width, copy.height, copy.pix_fmt = stream.width, stream.height, "yuv420p"
            copy.codec_context.extradata = stream.codec_context.extradata
        else:
            copy = target.add_stream_from_template(stream)
        for number, (content, is_key) in enumerate(contents):
            packet = av.Packet(content)
            packet.pts = packet.dts = number
            packet.time_base = Fraction(1, 25)
            packet.is_keyframe = is_key
            packet.stream = copy
            target.mux(packet)
    return buffer.getvalue()


@cache
def bomb(kind: str, frames: int = 2_500) -> bytes:
    """A grey picture, and then the packet of a frame in which nothing moves again and again."""
    codec, muxer, options = CODECS[kind]
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=muxer) as target:
        stream: Any = target.add_stream(codec, rate=25, options=options)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        stream.codec_context.gop_size, stream.codec_context.max_b_frames = 100, 0
        frame = av.VideoFrame(WIDTH, HEIGHT, "yuv420p")
        for plane in frame.planes:
            plane.update(bytes([128]) * plane.buffer_size)
        for number in range(4):
            frame.pts, frame.time_base = number, Fraction(1, 25)
            target.mux(stream.encode(frame))
        target.mux(stream.encode(None))
    clip = buffer.getvalue()
    first, *others = packets(clip)
    still, _ = min(others, key=lambda packet: len(packet[0]))
    return muxed(clip, [first] + [(still, False)] * (frames - 1), muxer)


def chunk(name: bytes, content: bytes) -> bytes:
    return name + struct.pack("<I", len(content)) + content + b"\0" * (len(content) & 1)


def webp(frames: int, *, width: int = WIDTH, height: int = HEIGHT, extra: bytes = b"") -> bytes:
    """Frames of 2 x 2 pixels on a canvas that is larger."""
    buffer = io.BytesIO()
    Image.new("RGBA", (2, 2), (9, 9, 9, 255)).save(buffer, "WEBP", lossless=True)
    sides = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    place = bytes(6) + (1).to_bytes(3, "little") * 2 + (40).to_bytes(3, "little") + b"\0"
    frame = chunk(b"ANMF", place + buffer.getvalue()[12:])
    content = chunk(b"VP8X", b"\2\0\0\0" + sides) + chunk(b"ANIM", bytes(6)) + (frame + extra) * frames
    return b"RIFF" + struct.pack("<I", len(content) + 4) + b"WEBP" + content


def gif(frames: int, *, width: int = WIDTH, height: int = HEIGHT) -> bytes:
    """Frames of one pixel on a canvas that is larger."""
    control = b"!\xf9\x04\x04\x0a\0\0\0"
    frame = control + b"," + struct.pack("<HHHHB", 0, 0, 1, 1, 0) + b"\2\2\x44\1\0"
    return b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80, 0, 0) + bytes(6) + frame * frames + b";"


BOMBS: dict[str, Callable[[], bytes]] = {kind: (lambda kind=kind: bomb(kind)) for kind in CODECS}  # type: ignore[misc]
BOMBS |= {"WebP": lambda: webp(400), "GIF": lambda: gif(800)}


def allowed_seconds(data: bytes, wanted: int) -> float:
    """Two CPU seconds for each megabyte, one for each ten megapixels that are wanted; and half of one for any video."""
    return 2 * len(data) / 1e6 + wanted * WIDTH * HEIGHT / 1e7 + 0.5


@pytest.mark.parametrize("kind", BOMBS)
def test_frames_without_end_for_two_that_are_wanted_are_rejected_before_one_is_decoded(kind: str) -> None:
    data = BOMBS[kind]()
    with (
        cpu_seconds_below(allowed_seconds(data, 2)),
        pytest.raises(UnprocessableMediaError, match="would have to be decoded") as caught,
    ):
        VideoMediaIO(num_frames=2).load_bytes(data)

    assert (caught.value.modality, caught.value.status_hint) == ("video", 422)
    with pytest.raises(UnprocessableMediaError, match="would have to be decoded"):
        VideoMediaIO(num_frames=2).load_bytes_ref(data).outline()
    if kind not in {"WebP", "GIF"}:
        with reading(data, Limits()) as reader:
            index = reader.scan()
            with pytest.raises(UnprocessableMediaError):
                reader.read(index, [0, index.total - 1])
            assert reader.decoded == 0


@pytest.mark.parametrize("kind", ["H.264, MP4", "VP9", "WebP", "GIF"])
def test_the_first_frame_of_such_a_video_is_decoded(kind: str) -> None:
    """What is rejected is the work, not the file."""
    frames, metadata = VideoMediaIO(num_frames=1).load_bytes(BOMBS[kind]())

    assert frames.shape == (1, HEIGHT, WIDTH, 3)
    assert metadata.frames_indices == [0]


FULL_HD = 1920 * 1080
HONEST: dict[str, tuple[str, int, int, int, int]] = {
    # codec, pixels, frames on the way, frames wanted, bytes
    "ten minutes, a key frame every 250": ("h264", FULL_HD, 32 * 125, 32, 600_000),
    "ten minutes, one key frame": ("h264", FULL_HD, 18_000, 32, 15_100_000),
    "two minutes of a screen, one key frame": ("h264", FULL_HD, 3_600, 32, 150_000),
    "one group of 250 frames": ("h264", FULL_HD, 250, 1, 30_000),
    "a minute at 360p for two frames": ("h264", 640 * 360, 1_800, 2, 150_000),
    "VP9, ten minutes, a key frame every 128": ("vp9", FULL_HD, 32 * 70, 32, 7_500_000),
    "GIF of ten minutes at 10 a second": ("gif", 854 * 480, 6_000, 32, 30_000_000),
    "GIF of a screen, a minute": ("gif", 1280 * 720, 600, 32, 3_000_000),
    "WebP sticker": ("webp", 512 * 512, 200, 8, 300_000),
    "WebP of a screen, a minute": ("webp", 1280 * 720, 600, 32, 1_500_000),
    "a thumbnail's worth, twenty minutes": ("mpeg4", 160 * 120, 36_000, 32, 3_000_000),
}
DISHONEST: dict[str, tuple[str, int, int, int, int]] = {
    "WebP": ("webp", 4096 * 2176, 400, 2, 18_400),
    "GIF": ("gif", 4096 * 2176, 400, 2, 9_200),
    "VP9": ("vp9", 4096 * 2176, 400, 2, 10_000),
    "H.264": ("h264", 4096 * 2176, 400, 2, 20_000),
    "H.264, an hour at a tenth of a frame a second": ("h264", 4096 * 2176, 36_000, 32, 1_700_000),
    "more frames than are allowed": ("mpeg4", 64 * 64, 36_001, 32, 100_000_000),
}


@pytest.mark.parametrize(("what", "honest"), [*((k, True) for k in HONEST), *((k, False) for k in DISHONEST)])
def test_the_rule(what: str, *, honest: bool) -> None:
    codec, pixels, frames, wanted, size = (HONEST if honest else DISHONEST)[what]
    work = Work(codec, pixels, wanted=wanted, payload_bytes=size, limits=Limits())

    assert work.has_room(frames) is honest
    if honest:
        work.add(frames)
    else:
        with pytest.raises(UnprocessableMediaError, match="would have to be decoded"):
            work.add(frames)


@pytest.mark.parametrize(
    "limits",
    [
        {"max_video_walk_pixels": 10**12},
        {"max_video_walk_pixels_per_byte": 10**9},
        {"max_video_walk_pixels_per_pixel": 10**4},
    ],
)
def test_the_operator_may_allow_more(limits: dict[str, Any]) -> None:
    codec, pixels, frames, wanted, size = DISHONEST["H.264"]

    assert Work(codec, pixels, wanted=wanted, payload_bytes=size, limits=Limits(**limits)).has_room(frames)


def test_frames_that_turn_out_larger_are_counted_again() -> None:
    work = Work("h264", 64 * 48, wanted=2, payload_bytes=20_000, limits=Limits())
    work.add(400)
    work.resize(64 * 64)

    with pytest.raises(UnprocessableMediaError, match="would have to be decoded"):
        work.resize(4096 * 2176)


def test_a_header_that_claims_small_frames_changes_nothing() -> None:
    data = bomb("VP8")
    width, height = (bytes([tag, 0x82]) + side.to_bytes(2) for tag, side in ((0xB0, WIDTH), (0xBA, HEIGHT)))
    assert data.count(width) == data.count(height) == 1
    small = data.replace(width, b"\xb0\x82\0\x40").replace(height, b"\xba\x82\0\x30")

    with cpu_seconds_below(allowed_seconds(small, 2)), pytest.raises(UnprocessableMediaError):
        VideoMediaIO(num_frames=2).load_bytes(small)


def index_of(data: bytes) -> PacketIndex:
    with open_video(data, Limits()) as opened:
        return scan(opened)


def test_frames_that_share_a_packet_are_counted() -> None:
    """VP9's superframes, here of eight frames each."""
    clip = make_video(4, codec="libvpx-vp9", container="webm", b_frames=0)
    contents = [(content, is_key) for content, is_key in packets(clip) if content[-1] & 0xE0 != 0xC0]
    assert len(contents) > 1
    assert index_of(clip).hidden == 0

    packed = []
    for content, is_key in contents:
        marker = bytes([0xC0 | 3 << 3 | 7])
        packed.append((content * 8 + marker + len(content).to_bytes(4, "little") * 8 + marker, is_key))
    assert index_of(muxed(clip, packed, "webm")).hidden == 7 * len(contents)


def test_frames_of_av1_that_share_a_packet_are_counted() -> None:
    clip = make_video(4, codec="libsvtav1", container="mkv", b_frames=0)
    contents = list(packets(clip))
    assert index_of(clip).hidden == 0

    packed = [(content * 8, is_key) for content, is_key in contents]
    assert index_of(muxed(clip, packed, "matroska")).hidden == 7 * len(contents)


@pytest.mark.parametrize("container", ["flv", "ts", "mpg"])
def test_opening_decodes_no_frame_where_no_limit_would_reach_the_decoder(container: str) -> None:
    """FFmpeg passes options to the decoders of streams that stand in the header only."""
    codec = "mpeg2video" if container == "mpg" else "libx264"
    clip = make_video(12, container=container, codec=codec)
    with open_video(clip, Limits()) as opened:
        context = opened.stream.codec_context
        assert (context.width, context.height) == (128, 64)
        assert context.pix_fmt is None or codec == "mpeg2video"
    assert VideoMediaIO(num_frames=3).load_bytes(clip)[1].frames_indices == [0, 5, 11]


SLICES: dict[str, tuple[str, str, dict[str, str], float]] = {
    # encoder, muxer, options, and pictures that the slices of an ordinary packet cover at most
    "H.264": ("libx264", "mp4", {"preset": "ultrafast", "x264-params": "slices=2"}, 1.5),
    "H.264, four": ("libx264", "mp4", {"preset": "ultrafast", "x264-params": "slices=4"}, 2.5),
    "H.264, MPEG-TS": ("libx264", "mpegts", {"preset": "ultrafast", "x264-params": "slices=2"}, 1.5),
    "HEVC": ("libx265", "mp4", {"x265-params": f"{videos.X265}:slices=2"}, 2),
    "HEVC, MPEG-TS": ("libx265", "mpegts", {"x265-params": f"{videos.X265}:slices=2"}, 2),
    "MPEG-1": ("mpeg1video", "mpegts", {}, 1),
    "MPEG-2": ("mpeg2video", "mpegts", {}, 1),
}
SIDES = (2048, 256)


@cache
def sliced(kind: str, times: int = 0) -> bytes:
    """Three grey pictures, the last slice of the second one repeated so many times."""
    codec, muxer, options, _ = SLICES[kind]
    clip = streams.encoded(streams.Codec(codec, muxer, options), SIDES, 3)
    contents = list(packets(clip))
    content, is_key = contents[1]
    contents[1] = (content + content[_last_slice(content, by_length=muxer == "mp4") :] * times, is_key)
    return muxed(clip, contents, muxer)


def _last_slice(packet: bytes, *, by_length: bool) -> int:
    if not by_length:
        return packet.rindex(b"\0\0\1")
    start = 0
    while (stop := start + 4 + int.from_bytes(packet[start : start + 4])) < len(packet):
        start = stop
    return start


@pytest.mark.parametrize("backend", ["pyav", "torchcodec"])
@pytest.mark.parametrize("kind", SLICES)
def test_slices_that_cover_each_other_are_counted(kind: str, backend: str) -> None:
    """Some tens of bytes cover half of the picture, or a row of it, and are decoded every time. Of H.264 in MPEG-TS,
    FFmpeg makes a packet of each slice that begins before the last one.
    """
    if backend == "torchcodec":
        load_or_skip()
    data = sliced(kind, 200_000)
    with (
        cpu_seconds_below(1 + 2 * len(data) / 1e6),
        pytest.raises(UnprocessableMediaError, match=r"and slices for [0-9]+ more|packets at most"),
    ):
        VideoMediaIO(num_frames=3, video_backend=backend).load_bytes(data)


@pytest.mark.parametrize("kind", SLICES)
def test_slices_of_one_picture_are_no_more_than_that(kind: str) -> None:
    codec = {"libx264": "h264", "libx265": "hevc"}.get(SLICES[kind][0], SLICES[kind][0])
    with open_video(sliced(kind), Limits()) as opened:
        lengths = length_bytes(codec, opened.stream.codec_context.extradata or b"")
        found = [
            pictures(codec, bytes(packet), lengths, SIDES, 1)
            for packet in opened.container.demux(opened.stream)
            if packet.size
        ]

    assert found == pytest.approx([SLICES[kind][3]] * 3, abs=0.05)
    assert len(VideoMediaIO(num_frames=3).load_bytes(sliced(kind))[0]) == 3


def test_the_first_block_of_a_slice_is_read_behind_emulation_prevention() -> None:
    """ITU-T H.264, 7.4.1.1: a picture of a million blocks, and slices whose number has long runs of zeros."""
    for block in (0, 1, 2, 62, 63, 64, 1_000, 32_767, 65_535, 1 << 19):
        bits = format(block + 1, "b")
        bits = ("0" * (len(bits) - 1) + bits + "1" * 64)[:64]
        body = int(bits, 2).to_bytes(8)
        for low in range(4):
            body = body.replace(b"\0\0" + bytes([low]), b"\0\0\3" + bytes([low]))
        unit = b"\x41" + body

        share = pictures("h264", struct.pack(">L", len(unit)) + unit, 4, (16_384, 16_384), 1)

        assert share == pytest.approx(1 - block / (1 << 20), abs=1e-9)


@pytest.mark.parametrize("kind", ["H.264", "HEVC", "MPEG-2"])
def test_many_slices_count_as_pictures_of_the_largest_size(kind: str) -> None:
    """The header may claim a smaller size than the packet itself."""
    codec = {"libx264": "h264", "libx265": "hevc"}.get(SLICES[kind][0], SLICES[kind][0])
    with open_video(sliced(kind, 1_000), Limits()) as opened:
        lengths = length_bytes(codec, opened.stream.codec_context.extradata or b"")
        _, packet, *_ = (bytes(packet) for packet in opened.container.demux(opened.stream) if packet.size)

    found = pictures(codec, packet, lengths, (64, 64), 1 << 20)

    assert found >= 1_000 / 4 * (1 << 20) / (64 * 64)  # of MPEG-2, four rows are a picture


@pytest.mark.parametrize("slices", [1, 4, 8])
def test_pictures_of_several_slices_have_room(slices: int) -> None:
    """A minute of 1920 x 1080 at 1 Mbit/s, and ten minutes; 32 frames of each."""
    for seconds, frames in ((60, 1_800), (600, 32 * 125)):
        work = Work("h264", FULL_HD, wanted=32, payload_bytes=125_000 * seconds, limits=Limits())
        work.add(frames)
        for _ in range(frames):
            work.add_slices((slices - 1) / 2)
