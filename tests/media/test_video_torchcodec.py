"""torchcodec gives the frames that PyAV gives, bit for bit, or an error; and opens nothing that it could mistake."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import DEFAULT_LIMITS, Limits
from lazymedia.media import system_ffmpeg
from lazymedia.media.cancellation import DecodeStopped, stopping_when
from lazymedia.media.video import PacketIndexCache, VideoMediaIO
from lazymedia.media.video.index import PacketIndex
from lazymedia.media.video.torchcodec_reader import reading
from lazymedia.testing.audio import make_audio
from lazymedia.testing.video import make_video, read_frame_number, read_frame_numbers
from tests.media import videos
from tests.media.mp4_files import joined
from tests.media.stops import After
from tests.media.test_video_reported import ODD, odd
from tests.media.test_video_safety import BAIT, PLAYLISTS
from tests.media.torchcodec_here import load_or_skip

BY_PYAV = ("ts", "avi", "flv", "gif")
"""Containers that FFmpeg could take for another, or that store no times."""

_VP9: dict[str, Any] = {"codec": "libvpx-vp9", "container": "webm", "b_frames": 0}

SHAPES: dict[str, dict[str, Any]] = {
    "odd size": {**_VP9, "width": 321, "height": 181},
    "odd, small": {**_VP9, "width": 65, "height": 33},
    "no multiple of 32": {"width": 322, "height": 180},
    "cropped": {"width": 130, "height": 66},
    "HEVC, 10 bits": {"codec": "libx265", "pixel_format": "yuv420p10le"},
    "4:2:2": {"pixel_format": "yuv422p"},
    "4:4:4": {"pixel_format": "yuv444p"},
    "planar RGB": {"codec": "libx264rgb", "pixel_format": "rgb24"},
    "full range": {
        "codec": "mjpeg",
        "container": "mov",
        "pixel_format": "yuvj420p",
        "b_frames": 0,
        "options": {"strict": "-1"},
    },
    "BT.709": {"options": {"x264-params": "colormatrix=bt709:colorprim=bt709:transfer=bt709"}},
    "BT.601, full range": {"options": {"x264-params": "colormatrix=smpte170m:fullrange=on"}},
    "a variable rate": {"times": [number * 0.05 for number in range(5)] + [1.0 + number for number in range(3)]},
    "an edit list": {"times": [-0.4 + number / 25 for number in range(30)], "gop": 30},
    "negative times": {"times": [-0.4 + number / 25 for number in range(30)], "container": "mkv"},
    "sound beside it": {"audio": True},
    **{
        f"turned by {turn}{', mirrored' * mirrored}": {"rotation": turn, "mirrored": mirrored}
        for turn in (0, 90, 180, 270)
        for mirrored in (False, True)
    },
}
"""What may make a frame come out otherwise, as arguments of `make_video`."""


@pytest.fixture(scope="module", autouse=True)
def torchcodec() -> None:
    load_or_skip()


def by_torchcodec(**settings: Any) -> VideoMediaIO:
    return VideoMediaIO(video_backend="torchcodec", **settings)


def assert_same(data: bytes, backend: str = "torchcodec", **settings: Any) -> None:
    frames, metadata = VideoMediaIO(**settings).load_bytes(data)
    ref = by_torchcodec(**settings).load_bytes_ref(data)
    same_frames, same_metadata = ref.decode()

    assert ref.spec.settings["video_backend"] == backend
    assert same_metadata == replace(metadata, video_backend=backend)
    assert np.array_equal(same_frames, frames)


@pytest.mark.parametrize("wanted", [{"sampling": "all"}, {"num_frames": 5}, {"num_frames": 7, "decoder_threads": 3}])
@pytest.mark.parametrize("kind", videos.KINDS)
def test_every_kind_of_video_has_the_same_frames(kind: str, wanted: dict[str, Any]) -> None:
    container = videos.KINDS[kind].get("container", "mp4")

    assert_same(videos.clip(kind), "pyav" if container in BY_PYAV else "torchcodec", **wanted)


@pytest.mark.parametrize("kind", [kind for kind in ODD if kind.startswith(("fields", "both", "VP9", "fragments"))])
def test_fields_and_headers_that_count_wrongly_are_the_same(kind: str) -> None:
    frames, metadata = VideoMediaIO(sampling="all").load_bytes(odd(kind))
    same_frames, same_metadata = by_torchcodec(sampling="all").load_bytes(odd(kind))

    assert replace(same_metadata, video_backend="pyav") == metadata
    assert np.array_equal(same_frames, frames)


@pytest.mark.parametrize("shape", SHAPES)
def test_sizes_colours_and_turns_are_the_same(shape: str) -> None:
    assert_same(make_video(**{"frames": len(SHAPES[shape].get("times", range(4))), **SHAPES[shape]}), sampling="all")


@pytest.mark.parametrize("container", ["mp4", "mkv"])
@pytest.mark.parametrize(
    "options",
    [{"bf": "3", "b_strategy": "0"}, {"x264-params": "open-gop=1", "b_strategy": "0"}],
    ids=["closed", "open"],
)
def test_a_seek_lands_on_the_frame_that_is_wanted(container: str, options: dict[str, str]) -> None:
    data = make_video(120, container=container, gop=10, b_frames=3, options=options)

    for frame_index in range(3, 120, 13):
        with reading(data, DEFAULT_LIMITS, threads=1) as reader:
            frames, loaded = reader.read(reader.scan(), [frame_index])

        assert loaded == [frame_index]
        assert read_frame_number(frames[0]) == frame_index
        assert reader.decoded <= 25, "two groups at most, and what it takes to see the first frame"


def test_a_seek_that_lands_late_is_noticed_and_read_from_the_head(monkeypatch: pytest.MonkeyPatch) -> None:
    """The container is made to land at its last key frame."""
    data = make_video(60, gop=10)
    monkeypatch.setattr(PacketIndex, "key_time", lambda self, position: self.key_pts[-1])

    with reading(data, DEFAULT_LIMITS, threads=1) as reader:
        frames, loaded = reader.read(reader.scan(), [25, 33])

    assert loaded == [25, 33]
    assert read_frame_numbers(frames) == [25, 33]


def test_frames_repeat_where_they_are_asked_for_twice() -> None:
    assert_same(make_video(5), sampling="glm4v", fps=25)


@pytest.mark.parametrize("codec", ["libx264", "mpeg4"])
def test_a_broken_frame_is_left_out(codec: str) -> None:
    data = videos.broken_packet(make_video(30, codec=codec, container="mkv", b_frames=0, gop=5), 14)

    frames, metadata = by_torchcodec(sampling="all").load_bytes(data)

    assert metadata.total_num_frames == 30
    assert {*range(14), *range(20, 30)} <= set(metadata.frames_indices) <= {*range(14), *range(15, 30)}
    sound = [frame_index for frame_index in metadata.frames_indices if not 14 <= frame_index < 20]
    told = zip(read_frame_numbers(frames), metadata.frames_indices)
    assert [number for number, frame_index in told if frame_index in sound] == sound


@pytest.mark.parametrize("kept", [0.3, 0.7])
def test_a_download_that_was_cut_gives_the_frames_that_are_there(kept: float) -> None:
    whole = make_video(60, container="mkv")

    assert_same(whole[: int(len(whole) * kept)], sampling="all")


@pytest.mark.parametrize(
    "shifted",
    [lambda pts: pts + 1, lambda pts: pts + 512, lambda pts: pts * 2],
    ids=["by a tick", "by a frame", "stretched"],
)
def test_times_that_are_not_the_indexs_are_an_error_and_never_another_frame(shifted: Callable[[int], int]) -> None:
    with reading(make_video(20), DEFAULT_LIMITS, threads=1) as reader:
        index = reader.scan()
        assert index.pts[1] - index.pts[0] == 512
        other = replace(index, pts=type(index.pts)("q", map(shifted, index.pts)))

        with pytest.raises(UnprocessableMediaError, match="other times"):
            reader.read(other, [3])


def test_fewer_frames_in_the_index_than_there_are_is_an_error() -> None:
    with reading(make_video(20), DEFAULT_LIMITS, threads=1) as reader:
        index = reader.scan()

        with pytest.raises(UnprocessableMediaError, match="other times"):
            reader.read(replace(index, pts=index.pts[:-1], positions=index.positions[:-1]), [3])


def test_frames_without_times_of_their_own_are_refused() -> None:
    with reading(make_video(5), DEFAULT_LIMITS, threads=1) as reader:
        with pytest.raises(UnprocessableMediaError, match="cannot be distinguished"):
            reader.read(replace(reader.scan(), timed=False), [3])


@pytest.mark.parametrize(("transfer", "name"), [(16, "PQ"), (18, "HLG")])
def test_hdr_is_refused(transfer: int, name: str) -> None:
    data = make_video(2, pixel_format="yuv420p10le", transfer=transfer)

    with pytest.raises(UnprocessableMediaError, match=f"HDR, {name}"):
        by_torchcodec().load_bytes(data)


def test_a_size_that_changes_in_the_middle_is_refused() -> None:
    clips = (make_video(12, *size, container="ts") for size in ((128, 64), (192, 96)))
    data = videos.joined(*clips, container="matroska")

    for backend in ("pyav", "torchcodec"):
        with pytest.raises(UnprocessableMediaError, match="size of the video's frames changes"):
            VideoMediaIO(sampling="all", video_backend=backend).load_bytes(data)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (Limits(max_video_frame_pixels=100), "128 x 64"),
        (Limits(max_video_walk_frames=10), "would have to be decoded"),
        (Limits(max_request_decoded_bytes=1000), "take 147456 bytes"),
        (Limits(max_video_seconds=1), "last 1 seconds"),
    ],
    ids=["size", "walk", "memory", "duration"],
)
def test_limits_hold(limits: Limits, words: str) -> None:
    with pytest.raises(UnprocessableMediaError, match=words) as caught:
        by_torchcodec(num_frames=6, limits=limits).load_bytes(make_video(60))

    assert caught.value.__cause__ is None


def test_a_track_of_a_codec_that_is_not_known_keeps_torchcodec_away() -> None:
    """FFmpeg tries the decoder of every track when it opens a container."""
    buffer = io.BytesIO()
    with (
        av.open(buffer, "w", format="matroska") as output,
        av.open(io.BytesIO(make_video(5, b_frames=0)), "r") as source,
    ):
        target = output.add_stream_from_template(source.streams.video[0])
        noise: Any = output.add_stream("tta", rate=48_000)
        for packet in source.demux(video=0):
            if packet.dts is not None:
                packet.stream = target
                output.mux(packet)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 2 * 4096), np.int16), format="s16", layout="stereo")
        frame.rate = 48_000
        output.mux(noise.encode(frame))
        output.mux(noise.encode(None))

    with pytest.raises(UnprocessableMediaError, match="codec tta beside the video"):
        by_torchcodec().load_bytes(buffer.getvalue())
    assert len(VideoMediaIO().load_bytes(buffer.getvalue())[0]) == 5


@pytest.mark.parametrize("head", ["mp4", "mkv", "ts", "avi"])
@pytest.mark.parametrize("kind", ["ffconcat", "HLS", "SDP", "DASH"])
def test_a_playlist_behind_the_magic_of_a_video_opens_nothing(
    head: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bait = tmp_path / BAIT
    bait.write_bytes(make_video(3, container="ts"))
    os.utime(bait, (1, 1))

    for kept in (12, 600):
        data = make_video(3, container=head)[:kept] + b"\n" + PLAYLISTS[kind].encode()
        with pytest.raises(UnprocessableMediaError):
            by_torchcodec().load_bytes(data)

    assert bait.stat().st_atime == 1


def test_a_stream_that_ffmpeg_takes_for_a_session_description_is_pyavs() -> None:
    """SDP among the first packets: FFmpeg, left to itself, opens that (score 50) instead of the video behind it."""
    packet = b"\x47\x1f\xff\x10" + PLAYLISTS["SDP"].encode().ljust(184, b"\xff")
    data = (packet * 3).ljust(2200, b"\n") + make_video(30, container="ts", audio=True)

    ref = by_torchcodec(num_frames=2).load_bytes_ref(data)
    frames, metadata = ref.decode()

    assert ref.spec.settings["video_backend"] == metadata.video_backend == "pyav"
    assert read_frame_numbers(frames) == [0, 29]
    with pytest.raises(RuntimeError, match="Could not open"):
        system_ffmpeg.open_track(data, 0)


def test_what_is_no_video_is_the_payloads_fault() -> None:
    for data in (b"", b"\0" * 100, make_audio(0.1, format="M4A"), make_video(3)[:700]):
        with pytest.raises(UnprocessableMediaError) as caught:
            by_torchcodec().load_bytes(data)
        assert caught.value.modality == "video"


def test_a_video_that_was_joined_without_a_new_encode_is_the_same() -> None:
    """Or refused, where its halves have other colours."""
    one, more = videos.clip("H.264, B-pyramid"), "cabac=0:8x8dct=0:ref=2:chroma-qp-offset=6"

    assert_same(joined(one, make_video(60, seed=2, options={"x264-params": more}), one), num_frames=7)
    with pytest.raises(UnprocessableMediaError, match="stored in different ways"):
        by_torchcodec(num_frames=7).load_bytes(joined(one, make_video(60, options={"x264-params": "fullrange=on"})))


@pytest.mark.parametrize("packets", [0, 3, 25, 90])
def test_a_decode_that_nobody_wants_ends_between_packets(packets: int) -> None:
    """The first checks are the scan's; more than 60 packets are torchcodec's own."""
    check = After(packets)
    data = make_video(60, container="mkv")
    with stopping_when(check), pytest.raises(DecodeStopped):
        by_torchcodec(sampling="all").load_bytes(data)

    assert check.calls == packets + 1


def test_an_index_is_kept_and_serves_both_backends() -> None:
    cache = PacketIndexCache()
    data = make_video(30)

    VideoMediaIO(num_frames=3, index_cache=cache).load_bytes(data)
    by_torchcodec(num_frames=3, index_cache=cache).load_bytes_ref(data).decode()
    by_torchcodec(num_frames=4, index_cache=cache).load_bytes(data)

    assert cache.scans == 1


def test_backends_have_keys_of_their_own_and_what_falls_to_pyav_has_its_key() -> None:
    film, stream = make_video(3), make_video(3, container="ts")

    assert by_torchcodec().load_bytes_ref(film).key != VideoMediaIO().load_bytes_ref(film).key
    assert by_torchcodec().load_bytes_ref(stream).key == VideoMediaIO().load_bytes_ref(stream).key
    assert by_torchcodec().get_decode_spec().settings["video_backend"] == "torchcodec"
