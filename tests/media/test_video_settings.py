"""What a `VideoMediaIO` is asked for, what its spec and metadata say, its cache of indexes, and how it stops."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from av.packet import Packet
from av.video.stream import VideoStream

from lazymedia.errors import PayloadTooLargeError, UnprocessableMediaError
from lazymedia.limits import DEFAULT_LIMITS, Limits
from lazymedia.media.cancellation import DecodeStopped, checkpoint, stopping_when
from lazymedia.media.video import PacketIndexCache, VideoMediaIO, VideoMetadata
from lazymedia.media.video.container import Opened, packets_of
from lazymedia.media.video.index import PacketIndex
from lazymedia.media.video.parallel import run_all
from lazymedia.media.video.reader import reading
from lazymedia.media.video.sampling import Clip
from lazymedia.media.video.scan import scan
from lazymedia.testing import make_image
from lazymedia.testing.video import make_video, read_frame_numbers
from tests.media.stops import After


def test_importing_loads_no_codec() -> None:
    code = (
        "import sys, lazymedia.media.video as video; video.VideoMediaIO().load_bytes_ref(b'x');"
        " sys.exit(any(name in sys.modules for name in ('av', 'numpy', 'torch')))"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_spec_is_resolved() -> None:
    assert VideoMediaIO().get_decode_spec().settings == {
        "num_frames": 32,
        "fps": None,
        "sampling": "uniform",
        "min_frames": None,
        "max_frames": None,
        "frame_multiple": 1,
        "video_backend": "pyav",
    }


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({}, {"num_frames": 32}),
        ({"num_frames": -1}, {"sampling": "all"}),
        ({"video_backend": None}, {"video_backend": "pyav"}),
        ({"video_backend": "auto"}, {"video_backend": "pyav"}),
        ({"fps": 2}, {"fps": 2.0}),
        ({"decoder_threads": 4}, {}),
        ({"index_cache": PacketIndexCache()}, {}),
    ],
)
def test_equal_wishes_have_equal_keys(one: dict[str, Any], other: dict[str, Any]) -> None:
    keys = {VideoMediaIO(**wishes).load_bytes_ref(b"payload").key for wishes in (one, other)}

    assert len(keys) == 1


@pytest.mark.parametrize(
    "wishes",
    [
        {"num_frames": 8},
        {"fps": 2.0},
        {"sampling": "all"},
        {"sampling": "fps", "fps": 2.0},
        {"sampling": "fps", "fps": 2.0, "max_frames": 8},
        {"sampling": "fps", "fps": 2.0, "frame_multiple": 2},
    ],
)
def test_other_wishes_have_other_keys(wishes: dict[str, Any]) -> None:
    assert VideoMediaIO(**wishes).load_bytes_ref(b"payload").key != VideoMediaIO().load_bytes_ref(b"payload").key


@pytest.mark.parametrize(
    "wishes",
    [
        {"num_frames": 0},
        {"num_frames": -2},
        {"num_frames": 2.0},
        {"num_frames": True},
        {"num_frames": "8"},
        {"fps": 0},
        {"fps": -1.0},
        {"fps": float("nan")},
        {"fps": float("inf")},
        {"fps": True},
        {"fps": "2"},
        {"sampling": "auto"},
        {"sampling": ""},
        {"sampling": ["all"]},
        {"fps": 1e300},
        {"video_backend": "opencv"},
        {"min_frames": 0},
        {"max_frames": 0},
        {"frame_multiple": 0},
        {"decoder_threads": 0},
    ],
)
def test_settings_that_mean_nothing_are_refused(wishes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(wishes))} must be"):
        VideoMediaIO(**wishes)


@pytest.mark.parametrize("name", ["num_frames", "max_frames", "min_frames"])
def test_more_frames_than_the_limit_are_refused_before_there_is_a_payload(name: str) -> None:
    with pytest.raises(UnprocessableMediaError, match="17 frames of a video are wanted; 16 are allowed"):
        VideoMediaIO(**{name: 17}, limits=Limits(max_video_frames=16))  # type: ignore[arg-type]  # one of three


@pytest.mark.parametrize("wishes", [{"num_frames": -1}, {"sampling": "all"}, {"sampling": "fps", "fps": 25}])
def test_all_frames_of_a_video_that_has_more_than_the_limit_are_refused(wishes: dict[str, Any]) -> None:
    data = make_video(17)

    with pytest.raises(UnprocessableMediaError, match="17 frames of a video are wanted; 16 are allowed"):
        VideoMediaIO(**wishes, limits=Limits(max_video_frames=16)).load_bytes(data)


def test_the_default_number_stays_within_the_limit() -> None:
    assert VideoMediaIO(limits=Limits(max_video_frames=16)).get_decode_spec().settings["num_frames"] == 16


def test_a_payload_over_the_limit_is_refused_unread() -> None:
    with pytest.raises(PayloadTooLargeError):
        VideoMediaIO(limits=Limits(max_video_bytes=3)).load_bytes_ref(b"1234")


@pytest.mark.parametrize(
    ("default", "runtime", "merged"),
    [
        ({"num_frames": 16}, {"fps": 2}, {"fps": 2}),
        ({"fps": 2}, {"num_frames": 16}, {"num_frames": 16}),
        ({"fps": 2, "num_frames": 8}, {"num_frames": 16}, {"num_frames": 16}),
        ({"fps": 2}, {"num_frames": 16, "fps": 1}, {"num_frames": 16, "fps": 1}),
        ({"fps": 2}, {"sampling": "all"}, {"fps": 2, "sampling": "all"}),
        ({"sampling": "qwen3_vl", "fps": 2}, {"num_frames": 16}, {"sampling": "qwen3_vl", "num_frames": 16}),
        ({"sampling": "glm4v", "fps": 2}, {"num_frames": 16}, {"num_frames": 16}),
        ({"sampling": "glm4v", "fps": 2}, {"fps": 1}, {"sampling": "glm4v", "fps": 1}),
        ({"sampling": "all"}, {"fps": 1}, {"fps": 1}),
        ({"sampling": "all"}, {"fps": 1, "sampling": "all"}, {"fps": 1, "sampling": "all"}),
        (None, None, {}),
    ],
)
def test_naming_one_of_number_and_rate_removes_the_other_from_the_defaults(
    default: dict[str, Any] | None, runtime: dict[str, Any] | None, merged: dict[str, Any]
) -> None:
    assert VideoMediaIO.merge_kwargs(default, runtime) == merged


@pytest.mark.parametrize("name", ["limits", "index_cache", "decoder_threads"])
def test_what_is_the_operators_is_refused_by_name(name: str) -> None:
    with pytest.raises(UnprocessableMediaError, match=name):
        VideoMediaIO.merge_kwargs({name: 1}, {name: 2})


def test_metadata_tell_what_was_loaded() -> None:
    frames, metadata = VideoMediaIO(num_frames=4).load_bytes(make_video(50, fps=25))

    assert dict(metadata) == {
        "total_num_frames": 50,
        "fps": 25.0,
        "duration": 2.0,
        "frames_indices": [0, 16, 32, 49],
        "timestamps": pytest.approx([0, 16 / 25, 32 / 25, 49 / 25]),
        "width": 128,
        "height": 64,
        "video_backend": "pyav",
        "do_sample_frames": False,
    }
    assert read_frame_numbers(frames) == metadata.frames_indices


def test_metadata_read_as_a_mapping_and_cannot_be_changed() -> None:
    _, metadata = VideoMediaIO().load_bytes(make_video(2))

    assert isinstance(metadata, Mapping)
    assert metadata["fps"] == metadata.fps == metadata.get("fps")
    assert metadata == VideoMetadata(**metadata)
    with pytest.raises(KeyError):
        metadata["get"]
    with pytest.raises(AttributeError):
        metadata.fps = 1.0  # type: ignore[misc]  # that it fails is the point


def test_metadata_give_the_arguments_of_hugging_faces_own_class() -> None:
    """A rate that is not known is None there: their class divides by it."""
    theirs = pytest.importorskip("transformers.video_utils").VideoMetadata
    _, metadata = VideoMediaIO(num_frames=4).load_bytes(make_video(50, fps=25))
    _, still = VideoMediaIO().load_bytes(make_image(format="WEBP"))

    made = theirs(**metadata.to_hf())

    assert dict(made) == metadata.to_hf()
    assert (made.total_num_frames, made.fps, made.duration) == (50, 25.0, 2.0)
    assert (made.width, made.height, made.video_backend) == (128, 64, "pyav")
    assert made.timestamps == pytest.approx(metadata.timestamps)
    assert theirs(**still.to_hf()).fps is None
    metadata.to_hf()["frames_indices"].clear()  # a processor may change what it is given
    assert metadata.frames_indices == [0, 16, 32, 49]


@pytest.mark.parametrize("name", ["Qwen2VLVideoProcessor", "Qwen3VLVideoProcessor", "SmolVLMVideoProcessor"])
def test_a_video_processor_of_hugging_face_takes_them(name: str) -> None:
    pytest.importorskip("torchvision")
    transformers = pytest.importorskip("transformers")
    frames, metadata = VideoMediaIO(num_frames=4).load_bytes(make_video(50, fps=25))

    made = getattr(transformers, name)()(
        videos=[frames.transpose(0, 3, 1, 2)],
        video_metadata=[metadata.to_hf()],
        do_sample_frames=False,
        return_metadata=True,
        return_tensors="pt",
    )

    (used,) = made["video_metadata"]
    assert (list(used.frames_indices), used.fps, used.total_num_frames) == ([0, 16, 32, 49], 25.0, 50)


@pytest.mark.parametrize(("wanted", "loaded"), [(32, True), (5, True), (4, False)])
def test_a_processor_may_sample_only_where_every_frame_was_loaded(wanted: int, *, loaded: bool) -> None:
    frames, metadata = VideoMediaIO(num_frames=wanted).load_bytes(make_video(5))

    assert metadata.do_sample_frames is loaded
    assert len(frames) == min(wanted, 5)


def test_a_video_of_one_frame_is_a_video() -> None:
    frames, metadata = VideoMediaIO(num_frames=8).load_bytes(make_video(1, codec="mpeg4"))

    assert read_frame_numbers(frames) == metadata.frames_indices == [0]
    assert metadata.duration == pytest.approx(0.04)


def test_a_second_decode_of_a_payload_does_not_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    scans: list[Opened] = []

    def counted(opened: Opened) -> PacketIndex:
        scans.append(opened)
        return scan(opened)

    monkeypatch.setattr("lazymedia.media.video.reader.scan", counted)
    cache = PacketIndexCache()
    data = make_video(50)

    first = VideoMediaIO(num_frames=4, index_cache=cache).load_bytes_ref(data).decode()
    second = VideoMediaIO(num_frames=7, index_cache=cache).load_bytes_ref(bytes(bytearray(data))).decode()
    VideoMediaIO(num_frames=7, index_cache=cache).load_bytes(data)

    assert (len(scans), cache.scans, len(cache)) == (1, 1, 1)
    assert read_frame_numbers(first[0]) == [0, 16, 32, 49]
    assert read_frame_numbers(second[0]) == second[1].frames_indices


def index_of(frames: int) -> PacketIndex:
    with reading(make_video(frames, codec="mpeg4"), DEFAULT_LIMITS) as opened:
        return opened.scan()


def test_the_cache_gives_up_what_was_used_longest_ago() -> None:
    index = index_of(10)
    cache = PacketIndexCache(index.nbytes * 2)

    cache.put(b"a", index)
    cache.put(b"b", index)
    assert cache.get(b"a") is index
    cache.put(b"c", index)

    assert [cache.get(key) is not None for key in (b"a", b"b", b"c")] == [True, False, True]
    assert cache.held_bytes == index.nbytes * 2


def test_an_index_holds_no_more_than_it_says_once_it_was_used() -> None:
    """Lists of seconds, kept with it, would take twice as much as all the rest."""
    index = index_of(400)
    VideoMediaIO(num_frames=4)._choose(Clip(index.times, index.fps, index.duration))

    held = [value for value in vars(index).values() if hasattr(value, "__len__")]
    assert sum(sys.getsizeof(value) for value in held) < 1.2 * index.nbytes
    assert not any(isinstance(value, list) for value in held)


def test_an_index_larger_than_the_cache_is_not_kept() -> None:
    cache = PacketIndexCache(10)

    cache.put(b"a", index_of(10))

    assert (len(cache), cache.held_bytes) == (0, 0)


def test_many_threads_share_a_cache() -> None:
    clips = [make_video(12, seed=seed, codec="mpeg4") for seed in range(4)]
    io = VideoMediaIO(num_frames=3, index_cache=PacketIndexCache(2000))

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(io.load_bytes, clips * 8))

    assert all(read_frame_numbers(frames) == [0, 5, 11] for frames, _ in results)
    assert io._cache is not None
    assert io._cache.held_bytes <= 2000


@pytest.mark.parametrize("packets", [1, 5, 20])
@pytest.mark.parametrize("cached", [False, True])
def test_a_stop_ends_a_decode_at_the_next_packet(packets: int, *, cached: bool) -> None:
    """Whether it scans or decodes; and what it had open is closed."""
    data = make_video(300, codec="mpeg4")
    cache = PacketIndexCache()
    io = VideoMediaIO(sampling="all", index_cache=cache)
    if cached:
        io.load_bytes(data)
    check = After(packets)
    with stopping_when(check), pytest.raises(DecodeStopped):
        io.load_bytes(data)

    assert check.calls == packets + 1


def test_a_stop_ends_the_threads_of_a_decode_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are held at their first packets until the thread that waits for them is stopped at its sixth check."""
    data = make_video(600, codec="mpeg4")
    io = VideoMediaIO(num_frames=20, index_cache=PacketIndexCache(), decoder_threads=3)
    io.load_bytes(data)
    before, here, stopped = threading.active_count(), threading.get_ident(), threading.Event()
    check = After(5)

    def stop() -> None:
        try:
            check()
        except DecodeStopped:
            stopped.set()
            raise

    def held(opened: Opened) -> Iterator[Packet[VideoStream]]:
        assert threading.get_ident() == here or stopped.wait(30)
        yield from packets_of(opened)

    monkeypatch.setattr("lazymedia.media.video.reader.packets_of", held)
    with stopping_when(stop), pytest.raises(DecodeStopped):
        io.load_bytes(data)

    assert threading.active_count() == before


def test_a_fault_in_one_thread_is_the_decodes_fault() -> None:
    """It stops the others, and none is left running."""
    started = threading.Event()

    def fails() -> None:
        started.wait()
        raise ValueError("of one part")

    def goes_on() -> None:
        started.set()
        while True:
            checkpoint()

    def waits() -> None:
        started.wait()

    with pytest.raises(ValueError, match="of one part"):
        run_all(waits, [fails, goes_on])


def test_a_stopped_decode_can_be_run_again() -> None:
    data = make_video(30)
    stop = threading.Event()
    stop.set()

    def check() -> None:
        if stop.is_set():
            raise DecodeStopped

    ref = VideoMediaIO(num_frames=3).load_bytes_ref(data)
    with stopping_when(check), pytest.raises(DecodeStopped):
        ref.decode()
    stop.clear()

    assert ref.decode()[1].frames_indices == [0, 14, 29]


@pytest.mark.parametrize(
    ("settings", "frames"),
    [
        ({"num_frames": 3}, 3),
        ({"num_frames": 3, "sampling": "glm4v"}, None),
        ({"num_frames": 3, "sampling": "all"}, None),
    ],
)
def test_memory_is_estimated_only_where_the_number_decides(settings: dict[str, Any], frames: int | None) -> None:
    """A number that a policy does not read would let a request understate itself."""
    ref = VideoMediaIO(**settings).load_bytes_ref(make_video(20))

    assert ref.decoded_bytes == (None if frames is None else frames * 128 * 64 * 3)
