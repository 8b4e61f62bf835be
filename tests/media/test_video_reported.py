"""Videos that made other readers fail, as users of such readers reported them, and what becomes of each here."""

from __future__ import annotations

import gc
import io
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import DEFAULT_LIMITS
from lazymedia.media.audio import AudioMediaIO
from lazymedia.media.video import PacketIndexCache, VideoMediaIO
from lazymedia.media.video.reader import reading
from lazymedia.testing import make_image
from lazymedia.testing.audio import make_audio, sound
from lazymedia.testing.video import CONTAINERS, make_video, read_frame_numbers
from tests.media import odd_clips, videos
from tests.media.test_video_damage import faststart

ALL = VideoMediaIO(sampling="all")

FRAGMENTS = {"movflags": "frag_keyframe+empty_moov"}

ODD: dict[str, Callable[[], bytes]] = {
    "fields, MPEG-TS": odd_clips.in_fields,
    "fields, MPEG-TS, High profile": partial(odd_clips.in_fields, high=True),
    "fields, Matroska": partial(odd_clips.in_fields, container="mkv"),
    "fields, MP4": partial(odd_clips.in_fields, container="mp4"),
    "fields, FLV": partial(odd_clips.in_fields, container="flv"),
    "fields, one key frame": partial(odd_clips.in_fields, gop=12, container="mkv"),
    "both fields in one packet": partial(odd_clips.in_fields, apart=False, container="mp4"),
    "fields of MPEG-2": partial(
        make_video, 12, codec="mpeg2video", container="ts", options={"flags": "+ilme+ildct"}, b_frames=1
    ),
    "fields of HEVC, each a frame": partial(
        make_video,
        12,
        codec="libx265",
        container="ts",
        b_frames=0,
        options={"x265-params": f"{videos.X265}:interlace=tff"},
    ),
    "packed B-frames, AVI": partial(odd_clips.packed, 12),
    "Sorenson H.263, FLV, sound": partial(make_video, 12, codec="flv", container="flv", b_frames=0, audio=True),
    "H.264, FLV, sound": partial(make_video, 12, container="flv", audio=True),
    "MPEG-1, program stream, sound": partial(make_video, 12, codec="mpeg1video", container="mpg", audio=True),
    "AV1, Matroska": partial(make_video, 12, codec="libsvtav1", container="mkv", b_frames=0),
    "VP9, live WebM": partial(
        make_video, 12, codec="libvpx-vp9", container="webm", b_frames=0, container_options={"live": "1"}
    ),
    "fragments, sound": partial(make_video, 12, audio=True, container_options=FRAGMENTS),
    "two programs": lambda: odd_clips.programs(
        odd_clips.program(1, frames=12, audio=True), odd_clips.program(2, frames=12, width=256, height=128)
    ),
}
"""Ways of storing twelve frames that their headers count wrongly, or not at all."""


@cache
def odd(kind: str) -> bytes:
    return ODD[kind]()


@pytest.mark.parametrize("kind", ODD)
def test_frames_are_counted_right_and_equal_a_linear_decode(kind: str) -> None:
    frames, metadata = ALL.load_bytes(odd(kind))

    assert read_frame_numbers(frames) == metadata.frames_indices == list(range(12))
    assert metadata.total_num_frames == 12
    assert metadata.fps == pytest.approx(25)
    assert metadata.duration == pytest.approx(12 / 25)
    assert metadata.timestamps == pytest.approx([number / 25 for number in range(12)], abs=0.002)
    assert np.array_equal(frames, np.stack(videos.linear(odd(kind))))


@pytest.mark.parametrize("kind", ODD)
def test_chosen_frames_are_those_that_were_asked_for_from_a_kept_index_and_by_two_threads_too(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Frames before and after the asked ones are passed over, sought or skipped."""
    monkeypatch.setattr("lazymedia.media.video.reader.SEEK_WORTH", 0)
    everything = videos.linear(odd(kind))
    index_cache = PacketIndexCache()

    for count in (1, 2, 5):
        for reader in (
            VideoMediaIO(num_frames=count),
            VideoMediaIO(num_frames=count, index_cache=index_cache),
            VideoMediaIO(num_frames=count, decoder_threads=2),
        ):
            frames, metadata = reader.load_bytes(odd(kind))

            assert len(metadata.frames_indices) == count
            assert np.array_equal(
                frames, np.stack([everything[frame_index] for frame_index in metadata.frames_indices])
            )
    assert index_cache.scans == 1
    for frame_index in range(12):
        with reading(odd(kind), DEFAULT_LIMITS) as opened:
            frames, loaded = opened.read(opened.scan(), [frame_index])
        assert loaded == [frame_index]
        assert np.array_equal(frames[0], everything[frame_index])


def test_a_frame_of_two_fields_costs_two_packets_and_no_key_frame_before_its_own() -> None:
    with reading(odd("fields, MPEG-TS"), DEFAULT_LIMITS) as opened:
        index = opened.scan()
        opened.read(index, [9])

        assert opened.decoded == 4  # key frame 8 and frame 9
    assert (index.packets, index.total, len(index.key_positions)) == (24, 12, 3)


def without(data: bytes, container: str, *lost: int) -> bytes:
    """The same video without some of its packets."""
    buffer = io.BytesIO()
    with (
        av.open(io.BytesIO(data), "r") as source,
        av.open(buffer, "w", format=CONTAINERS[container]) as output,
    ):
        stream = output.add_stream_from_template(source.streams.video[0])
        packets = [packet for packet in source.demux(video=0) if packet.size]
        for number, packet in enumerate(packets):
            if number not in lost:
                packet.stream = stream
                output.mux(packet)
    return buffer.getvalue()


@pytest.mark.parametrize("lost", [(8,), (9,), (10,), (9, 10), (23,)])
@pytest.mark.parametrize("container", ["ts", "mkv"])
def test_a_field_that_was_lost_shifts_no_other_frame(container: str, lost: tuple[int, ...]) -> None:
    """Its other half may be shown, left out or repeated; all others have their own numbers and times."""
    data = without(odd_clips.in_fields(container=container), container, *lost)

    frames, metadata = ALL.load_bytes(data)

    assert metadata.total_num_frames == 12
    assert read_frame_numbers(frames) == metadata.frames_indices
    assert metadata.timestamps == pytest.approx(
        [frame_index / 25 for frame_index in metadata.frames_indices], abs=0.022
    )
    assert np.array_equal(frames, np.stack(videos.linear(data)))
    assert {0, 1, 2, 3, 8, 9, 10} <= set(metadata.frames_indices)


@pytest.mark.parametrize(
    ("codec", "container"),
    [
        *(("libx264", container) for container in ("mp4", "mov", "mkv", "ts", "avi", "flv")),
        *(("libx265", "mp4"), ("libsvtav1", "mp4"), ("libvpx-vp9", "webm"), ("libvpx", "webm")),
        *(("mpeg4", "avi"), ("mpeg2video", "mpg"), ("flv", "flv")),
    ],
)
def test_a_single_frame_is_a_video_in_every_container(codec: str, container: str) -> None:
    frames, metadata = VideoMediaIO(num_frames=8).load_bytes(
        make_video(1, codec=codec, container=container, b_frames=0)
    )

    assert read_frame_numbers(frames) == metadata.frames_indices == [0]
    assert (metadata.total_num_frames, metadata.timestamps, metadata.do_sample_frames) == (1, [0.0], True)
    assert metadata.duration == pytest.approx(1 / 25, abs=0.002)


def test_fewer_frames_than_asked_for_are_all_there_and_told() -> None:
    frames, metadata = VideoMediaIO(num_frames=32).load_bytes(make_video(5))

    assert read_frame_numbers(frames) == metadata.frames_indices == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("codec", ["libx264", "libx265", "mpeg4", "libvpx-vp9"])
@pytest.mark.parametrize("wanted", [8, 33])
def test_indices_and_times_are_those_of_the_frames_handed_over(codec: str, wanted: int) -> None:
    data = make_video(100, codec=codec, container="mkv", b_frames=0 if codec == "libvpx-vp9" else 2)

    frames, metadata = VideoMediaIO(num_frames=wanted).load_bytes(data)

    assert read_frame_numbers(frames) == metadata.frames_indices
    assert len(frames) == wanted
    assert metadata.timestamps == pytest.approx(
        [frame_index / metadata.fps for frame_index in metadata.frames_indices], abs=0.002
    )


PLAIN = {
    "MPEG-4, 4:2:0": ("mpeg4", "mkv", "yuv420p"),
    "VP9, 4:2:0": ("libvpx-vp9", "webm", "yuv420p"),
    "H.264, 4:4:4": ("libx264", "mp4", "yuv444p"),
}


@pytest.mark.parametrize("size", [(33, 17), (321, 241)])
@pytest.mark.parametrize("kind", PLAIN)
def test_the_last_column_and_row_of_an_odd_size_are_of_the_same_colour(kind: str, size: tuple[int, int]) -> None:
    codec, container, pixel_format = PLAIN[kind]
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=CONTAINERS[container]) as output:
        stream: Any = output.add_stream(codec, rate=25)
        stream.width, stream.height, stream.pix_fmt = *size, pixel_format
        picture = np.full((size[1], size[0], 3), (200, 60, 30), np.uint8)
        for _ in range(2):
            output.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        output.mux(stream.encode(None))

    frames, _ = ALL.load_bytes(buffer.getvalue())

    assert frames.shape == (2, size[1], size[0], 3)
    assert np.abs(frames.astype(int) - (200, 60, 30)).max() <= 3


def initialisation() -> bytes:
    """What a player fetches first of a video in segments: all of its header and none of its frames."""
    whole = make_video(5, audio=True, container_options=FRAGMENTS)
    return whole[: whole.index(b"moof") - 4]


def before_its_frames(codec: str = "libx264") -> bytes:
    whole = faststart(make_video(20, codec=codec, b_frames=0))
    return whole[: whole.index(b"mdat") + 4]


NOTHING: dict[str, tuple[Callable[[], bytes], str]] = {
    "a header without tracks": (odd_clips.header_without_tracks, "no video stream"),
    "the header of a video in segments": (initialisation, "no frame that can be read"),
    "a header that counts frames, cut before them": (before_its_frames, "no frame that can be read"),
    "a header that counts AV1 frames, cut before them": (
        lambda: before_its_frames("libsvtav1"),
        "no frame that can be read",
    ),
    "no bytes": (lambda: b"", "not a supported video format"),
    "sound with a cover": (
        lambda: odd_clips.muxed(("aac", sound(0.2, 48_000), 0), container="mp4", cover=make_image(format="JPEG")),
        "no video stream",
    ),
    "an MP3 with a cover": (
        lambda: odd_clips.behind_cover(make_audio(0.2, 44_100, format="MP3")),
        "not a supported video format",
    ),
    "a stream without a container": (lambda: raw("h264"), "not a supported video format"),
}


def raw(format_: str) -> bytes:
    buffer = io.BytesIO()
    with (
        av.open(io.BytesIO(make_video(3, container="ts")), "r") as source,
        av.open(buffer, "w", format=format_) as output,
    ):
        stream = output.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            if packet.size:
                packet.stream = stream
                output.mux(packet)
    return buffer.getvalue()


@pytest.mark.parametrize("what", NOTHING)
def test_a_payload_without_a_frame_is_an_error_and_not_an_empty_video(what: str) -> None:
    make, message = NOTHING[what]

    with pytest.raises(UnprocessableMediaError, match=message) as caught:
        ALL.load_bytes(make())
    assert (caught.value.modality, caught.value.status_hint) == ("video", 422)


@pytest.mark.parametrize("container", ["mp4", "mkv", "ts", "avi"])
def test_a_hole_in_the_middle_costs_frames_near_it_and_none_far_away(container: str) -> None:
    """Two hundred bytes of zeros: everything from there on was lost to others, or the decode never ended."""
    data = bytearray(make_video(50, container=container, gop=10))
    middle = len(data) // 2
    data[middle : middle + 200] = bytes(200)

    frames, metadata = ALL.load_bytes(bytes(data))

    numbers = read_frame_numbers(frames)
    assert numbers[:8] == list(range(8))
    assert numbers[-8:] == list(range(42, 50))
    assert len(frames) == len(metadata.frames_indices) == len(metadata.timestamps)


def with_video_behind_sound(*, cover: bool) -> bytes:
    """Sound is stream 0; a picture, where there is one, comes before the video too."""
    buffer = io.BytesIO()
    with av.open(io.BytesIO(make_video(6)), "r") as source, av.open(buffer, "w", format="mp4") as output:
        audio: Any = output.add_stream("aac", rate=48_000, layout="mono")
        picture: Any = output.add_stream("mjpeg", rate=1) if cover else None
        video = output.add_stream_from_template(source.streams.video[0])
        silence = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
        silence.sample_rate = 48_000
        sounds = [*audio.encode(silence), *audio.encode(None)]
        if picture is not None:
            picture.width, picture.height, picture.pix_fmt = 64, 48, "yuvj420p"
            picture.disposition = av.stream.Disposition.attached_pic
            output.start_encoding()
            art = av.Packet(make_image(format="JPEG"))
            art.stream, art.pts, art.dts = picture, 0, 0
            output.mux(art)
        for sound_ in sounds:
            output.mux(sound_)
        for packet in source.demux(video=0):
            if packet.size:
                packet.stream = video
                output.mux(packet)
    return buffer.getvalue()


@pytest.mark.parametrize("cover", [False, True])
def test_the_video_is_found_by_its_type_behind_sound_and_pictures(*, cover: bool) -> None:
    data = with_video_behind_sound(cover=cover)
    with av.open(io.BytesIO(data), "r") as container:
        assert container.streams[0].type == "audio"

    frames, _ = ALL.load_bytes(data)

    assert read_frame_numbers(frames) == list(range(6))


@pytest.mark.parametrize("first", [(128, 64), (256, 128)])
def test_of_two_programs_that_are_alike_the_one_named_first_is_taken(first: tuple[int, int]) -> None:
    second = (384 - first[0], 192 - first[1])
    sizes = [dict(zip(("width", "height"), size)) for size in (first, second)]
    data = odd_clips.programs(*(odd_clips.program(number + 1, frames=12, **size) for number, size in enumerate(sizes)))

    frames, _ = ALL.load_bytes(data)

    assert frames.shape == (12, first[1], first[0], 3)
    assert read_frame_numbers(frames) == list(range(12))


def test_hundreds_of_good_and_bad_clips_leave_no_descriptor_and_no_memory() -> None:
    """Containers that were not closed, those of failed decodes above all, kept both."""
    clip = make_video(12, codec="mpeg4", audio=True)
    bad = [
        clip[:-900],
        clip[: len(clip) // 2],
        b"\0\0\0\x20ftypisom" + bytes(64),
        make_video(2, codec="ffv1", container="mkv"),
    ]
    decoders: list[Any] = [VideoMediaIO(num_frames=3), AudioMediaIO()]

    def decode(times: int) -> None:
        for number in range(times):
            for decoder in decoders:
                decoder.load_bytes(clip)
                with pytest.raises(UnprocessableMediaError):
                    decoder.load_bytes(bad[number % len(bad)])
        gc.collect()

    decode(40)
    descriptors, resident = len(list(Path("/proc/self/fd").iterdir())), resident_bytes()
    decode(210)

    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors
    assert resident_bytes() - resident < 20 << 20


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
