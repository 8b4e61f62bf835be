"""The frames that are loaded are those of a plain decode of the whole video, bit for bit, whatever is skipped."""

from __future__ import annotations

import random
import struct
from array import array
from dataclasses import replace

import numpy as np
import pytest
from av.video.frame import VideoFrame

from lazymedia.limits import DEFAULT_LIMITS
from lazymedia.media.video import PacketIndexCache, VideoMediaIO
from lazymedia.media.video.container import open_video
from lazymedia.media.video.decode_ranges import DecodeRange, plan, shares
from lazymedia.media.video.frame_sink import FrameSink
from lazymedia.media.video.frames import Converter, Rotation
from lazymedia.media.video.index import PacketIndex
from lazymedia.media.video.reader import SEEK_WORTH, reading
from lazymedia.media.video.scan import scan
from lazymedia.testing.video import draw_frame, make_video, read_frame_number, read_frame_numbers
from tests.media import videos
from tests.media.mp4_files import box, with_table

kinds = pytest.mark.parametrize("kind", videos.KINDS)


@kinds
def test_every_frame_equals_a_linear_decode(kind: str) -> None:
    data = videos.clip(kind)
    expected = videos.linear(data)

    frames, metadata = VideoMediaIO(sampling="all").load_bytes(data)

    assert metadata.frames_indices == list(range(len(expected)))
    assert read_frame_numbers(frames) == list(range(60))
    assert np.array_equal(frames, np.stack(expected))


@kinds
@pytest.mark.parametrize("seek_worth", [SEEK_WORTH, 0])
def test_chosen_frames_equal_a_linear_decode(kind: str, seek_worth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each frame alone, and random choices: passing over, seeking and skipping change no pixel."""
    monkeypatch.setattr("lazymedia.media.video.reader.SEEK_WORTH", seek_worth)
    data = videos.clip(kind)
    expected = videos.linear(data)
    rng = random.Random(7)
    choices = [[frame_index] for frame_index in range(len(expected))]
    choices += [sorted(rng.sample(range(len(expected)), rng.randint(2, 9))) for _ in range(20)]
    with reading(data, DEFAULT_LIMITS) as reader:
        index = reader.scan()

    for frame_indices in choices:
        with reading(data, DEFAULT_LIMITS) as reader:
            frames, loaded = reader.read(index, frame_indices)

        assert loaded == frame_indices
        for frame, frame_index in zip(frames, frame_indices):
            assert np.array_equal(frame, expected[frame_index]), f"frame {frame_index} of {frame_indices}"


@pytest.mark.parametrize("kind", ["H.264, B-pyramid", "HEVC, closed GOP"])
def test_frames_that_no_other_needs_are_left_out(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the skip, the decoder hands out every frame up to the wanted one; with it, fewer."""
    data = videos.clip(kind)
    offered: list[int | None] = []

    class Counted(FrameSink):
        def offer(self, frame: VideoFrame, converter: Converter) -> None:
            offered.append(frame.pts)
            super().offer(frame, converter)

    monkeypatch.setattr("lazymedia.media.video.reader.FrameSink", Counted)
    with reading(data, DEFAULT_LIMITS) as reader:
        index = reader.scan()
        reader.read(index, [11])

    assert len(offered) < 11


def test_the_decoder_is_not_given_what_it_would_leave_out() -> None:
    """To frame 11, the last of its group, the packets of a key frame, of two B-frames and of three others are needed;
    no frame refers to the other four of the ten up to it.
    """
    with reading(videos.clip("H.264, B-pyramid"), DEFAULT_LIMITS) as reader:
        reader.read(reader.scan(), [11])

        assert reader.decoded == 6


MIXTURE = (
    ("yuv420p", 64, 48, "pc"),
    ("yuv420p", 64, 48, "tv"),
    ("yuv420p10le", 64, 48, "tv"),
    ("yuv420p", 66, 50, "tv"),
    ("yuv444p", 66, 50, "tv"),
    ("gray", 66, 50, "pc"),
    ("gbrp", 66, 50, "pc"),
    ("rgb24", 66, 50, "pc"),
)


def test_what_was_converted_before_changes_no_pixel() -> None:
    """A converter keeps its context from frame to frame, whatever kind of frame comes next."""
    noise = np.random.default_rng(3).integers(0, 256, (64, 80, 3), np.uint8)
    frames = []
    for pixel_format, width, height, colour_range in MIXTURE * 2:
        frame = VideoFrame.from_ndarray(noise[:height, :width].copy(), format="rgb24").reformat(format=pixel_format)
        frame.color_range = {"tv": 1, "pc": 2}[colour_range]
        frames.append(frame)
    converter = Converter()

    for frame in [*frames, *reversed(frames)]:
        place = np.empty((frame.height, frame.width, 3), np.uint8)
        converter.write_rgb(frame, Rotation(), place)

        assert np.array_equal(place, frame.to_ndarray(format="rgb24")), frame


def test_a_gap_with_a_key_frame_in_it_is_not_decoded() -> None:
    data = videos.clip("H.264, B-pyramid")
    with reading(data, DEFAULT_LIMITS) as reader:
        index = reader.scan()
        reader.read(index, [0, 48])

        assert reader.decoded == 2


def test_a_stretch_is_not_left_for_a_key_frame_that_was_passed_already() -> None:
    data = make_video(20, gop=4, b_frames=0)
    with reading(data, DEFAULT_LIMITS) as reader:
        index = reader.scan()

    ranges = [(decode_range.start, decode_range.stop) for decode_range in plan(index, [1, 3, 4, 13])]

    assert ranges == [(0, 4), (12, 13)]


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
@pytest.mark.parametrize("mirrored", [False, True])
def test_frames_are_upright(rotation: int, *, mirrored: bool) -> None:
    data = make_video(3, 128, 64, rotation=rotation, mirrored=mirrored)

    frames, metadata = VideoMediaIO(sampling="all").load_bytes(data)

    assert frames.shape == (3, 64, 128, 3)
    assert (metadata.width, metadata.height) == (128, 64)
    assert read_frame_numbers(frames) == [0, 1, 2]
    assert np.abs(frames[1].astype(int) - draw_frame(1)).mean() < 30


@pytest.mark.parametrize("pixel_format", ["yuv420p", "yuv444p"])
@pytest.mark.parametrize(("width", "height"), [(129, 65), (322, 242), (66, 50)])
def test_odd_sizes_have_neither_skew_nor_a_garbled_edge(width: int, height: int, pixel_format: str) -> None:
    if pixel_format == "yuv420p" and width % 2:
        width, height = width + 1, height + 1
    data = make_video(3, width, height, pixel_format=pixel_format)

    frames, _ = VideoMediaIO(sampling="all").load_bytes(data)

    assert frames.shape == (3, height, width, 3)
    assert np.array_equal(frames, np.stack(videos.linear(data)))


def test_deep_colour_is_brought_to_eight_bits_by_swscale() -> None:
    data = make_video(4, codec="libx265", pixel_format="yuv420p10le")

    frames, _ = VideoMediaIO(sampling="all").load_bytes(data)

    assert frames.dtype == np.uint8
    assert np.array_equal(frames, np.stack(videos.linear(data)))


def test_full_range_is_told_from_limited_range() -> None:
    data = make_video(2, codec="mjpeg", container="mov", pixel_format="yuvj420p", b_frames=0, options={"strict": "-1"})

    frames, _ = VideoMediaIO(sampling="all").load_bytes(data)

    assert np.array_equal(frames, np.stack(videos.linear(data)))


@pytest.mark.parametrize("container", ["mp4", "mkv"])
def test_a_variable_rate_is_sampled_by_timestamps(container: str) -> None:
    """Twenty frames in the first second, then one each second."""
    times = [number * 0.05 for number in range(20)] + [1.0 + number for number in range(5)]
    data = make_video(25, times=times, container=container)

    frames, metadata = VideoMediaIO(fps=1, sampling="fps").load_bytes(data)

    assert metadata.frames_indices[:5] == [0, 20, 21, 22, 23]
    assert read_frame_numbers(frames) == metadata.frames_indices
    assert metadata.timestamps[:5] == pytest.approx([0, 1, 2, 3, 4], abs=0.002)


def test_an_edit_list_hides_frames_that_then_do_not_count() -> None:
    """An MP4 whose first frames lie before time 0: they are decoded for the others' sake and never shown."""
    data = make_video(30, times=[-0.4 + number / 25 for number in range(30)], gop=30)

    frames, metadata = VideoMediaIO(num_frames=5).load_bytes(data)

    assert metadata.total_num_frames == 20
    assert read_frame_numbers(frames) == [frame_index + 10 for frame_index in metadata.frames_indices]
    assert metadata.timestamps[0] == 0


def test_negative_timestamps_are_frames_like_others() -> None:
    data = make_video(30, times=[-0.4 + number / 25 for number in range(30)], container="mkv")

    frames, metadata = VideoMediaIO(num_frames=30).load_bytes(data)

    assert read_frame_numbers(frames) == list(range(30))
    assert metadata.timestamps == pytest.approx([number / 25 for number in range(30)], abs=0.002)


@pytest.mark.parametrize("container", ["mp4", "mkv", "ts", "avi", "webm", "flv"])
def test_the_count_is_right_whatever_the_header_says(container: str) -> None:
    codec = "libvpx-vp9" if container == "webm" else "libx264"
    data = make_video(37, container=container, codec=codec, audio=container != "flv")

    frames, metadata = VideoMediaIO(num_frames=4).load_bytes(data)

    assert (metadata.total_num_frames, metadata.fps) == (37, 25.0)
    assert metadata.duration == pytest.approx(37 / 25, abs=0.002)
    assert read_frame_numbers(frames) == metadata.frames_indices == [0, 12, 24, 36]


def test_a_seek_that_lands_late_in_a_transport_stream_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lazymedia.media.video.reader.SEEK_WORTH", 0)
    data = make_video(120, container="ts", gop=10, audio=True)

    for frame_index in range(0, 120, 7):
        frames, metadata = VideoMediaIO(num_frames=1).load_bytes(data)
        assert metadata.frames_indices == [0]
        with reading(data, DEFAULT_LIMITS) as reader:
            index = reader.scan()
            frames, loaded = reader.read(index, [frame_index])

        assert loaded == [frame_index]
        assert read_frame_number(frames[0]) == frame_index


@kinds
@pytest.mark.parametrize("threads", [2, 5])
def test_more_threads_change_no_pixel(kind: str, threads: int) -> None:
    data = videos.clip(kind)

    one, told = VideoMediaIO(num_frames=8).load_bytes(data)
    more, told_of_more = VideoMediaIO(num_frames=8, decoder_threads=threads).load_bytes(data)

    assert told == told_of_more
    assert np.array_equal(one, more)


def test_the_parts_of_threads_are_about_equal() -> None:
    ranges = [DecodeRange(start, start + 9, {}) for start in range(0, 1000, 100)]

    assert [len(share) for share in shares(ranges, 3)] == [4, 3, 3]
    assert [len(share) for share in shares(ranges[:1], 3)] == [1]


def test_repeated_indices_give_repeated_frames() -> None:
    data = make_video(5)

    frames, metadata = VideoMediaIO(sampling="glm4v", fps=25).load_bytes(data)

    assert metadata.frames_indices == [0, 1, 2, 3, 4, 4]
    assert read_frame_numbers(frames) == [0, 1, 2, 3, 4, 4]


def test_a_seek_that_lands_late_is_told_by_the_packet_it_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The container is made to land at its last key frame; what was wanted is then read from the head, once."""
    data = videos.clip("H.264, Matroska")
    with reading(data, DEFAULT_LIMITS) as reader:
        index = reader.scan()
    monkeypatch.setattr("lazymedia.media.video.reader.SEEK_WORTH", 0)
    monkeypatch.setattr(PacketIndex, "seek_times", lambda self, position: (self.key_seeks[-1],))

    with reading(data, DEFAULT_LIMITS) as reader:
        frames, loaded = reader.read(index, [25])

        assert loaded == [25]
        assert reader.decoded <= 3
    assert read_frame_number(frames[0]) == 25


@pytest.mark.parametrize("kind", [kind for kind in videos.KINDS if kind.startswith("HEVC")])
def test_temporal_layers_are_told_from_packets(kind: str) -> None:
    with reading(videos.clip(kind), DEFAULT_LIMITS) as reader:
        assert reader.scan().layered is (kind == "HEVC, temporal layers")


def test_a_unit_of_256_bytes_begins_with_no_start_code() -> None:
    """Its length is written 00 00 01, as a start code is: taken for one, the unit's type was read as its layer."""
    options = {"preset": "fast", "x265-params": f"{videos.X265}:crf=28:keyint=12"}
    data = make_video(40, codec="libx265", b_frames=4, options=options)
    with open_video(data, DEFAULT_LIMITS) as opened:
        starts = [data[entry.pos : entry.pos + 3] for entry in opened.stream.index_entries]

        assert b"\0\0\1" in starts
        assert not scan(opened).layered


@pytest.mark.parametrize("kept", [False, True])
def test_frames_of_one_time_are_told_by_counting(*, kept: bool) -> None:
    """All of the first group are shown at once, as some recorders have it: its key frame's time is the next one's."""
    steps = box(b"stts", struct.pack(">6I", 0, 2, 8, 0, 52, 512))
    data = with_table(make_video(60, gop=5, b_frames=0), b"stts", steps)
    cache = PacketIndexCache()
    io = VideoMediaIO(num_frames=3, index_cache=cache)
    if kept:
        io.load_bytes(data)

    frames, metadata = io.load_bytes(data)

    assert metadata.frames_indices == read_frame_numbers(frames) == [0, 29, 59]


def test_a_time_that_key_frames_share_names_none_of_them() -> None:
    """Edits hide frames and give them the times of others; to which one a seek led is not certain then."""
    with reading(make_video(20, gop=5, b_frames=0), DEFAULT_LIMITS) as reader:
        index = reader.scan()
    first, second, *others = index.key_pts

    twice = replace(index, key_pts=array("q", [first, first, *others]))

    assert index.key_at(first) == 0
    assert index.key_at(second) == 5
    assert twice.key_at(first) is None
    assert twice.key_at(others[0]) == 10


@pytest.mark.parametrize("container", ["mp4", "mkv", "ts"])
def test_a_refresh_over_several_frames_is_waited_for(container: str) -> None:
    """FFmpeg outputs frames before the refresh is complete, where the count of frames starts anew: every 16."""
    data = make_video(90, gop=20, b_frames=0, container=container, options={"intra-refresh": "1"})
    with reading(data, DEFAULT_LIMITS) as reader:
        index = reader.scan()
        whole, _ = reader.read(index, range(90))

    assert index.gradual
    for number in [*range(36, 48), *range(76, 90)]:
        with reading(data, DEFAULT_LIMITS) as reader:
            frames, found = reader.read(reader.scan(), [number])
        assert found == [number]
        assert np.array_equal(frames[0], whole[number]), number


def test_key_frames_that_are_complete_are_none_of_those() -> None:
    for kind in ("H.264, B-pyramid", "H.264, MPEG-TS, open GOP", "H.264, interlaced"):
        with reading(videos.clip(kind), DEFAULT_LIMITS) as reader:
            assert not reader.scan().gradual
