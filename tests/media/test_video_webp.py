"""Videos of a format for pictures: animated WebP and AVIF, and stills as videos of one frame."""

from __future__ import annotations

import io
import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy import typing as npt
from PIL import Image

from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import Limits
from lazymedia.media.cancellation import DecodeStopped, stopping_when
from lazymedia.media.image import ImageMediaIO
from lazymedia.media.image.webp import Animation
from lazymedia.media.video import POLICIES, PacketIndexCache, VideoMediaIO
from lazymedia.media.video.sampling import Clip, Request
from tests.media import pictures

DURATIONS = [100, 40, 250, 60, 30, 70, 90]
TIMES = [0.0, 0.1, 0.14, 0.39, 0.45, 0.48, 0.55]
ALL = VideoMediaIO(num_frames=-1)


def moving(kind: str = "WEBP", *, mode: str = "RGB", size: tuple[int, int] = (61, 47), **save: Any) -> bytes:
    """Seven frames. Their parts outside a window never change, so that WebP stores the window alone."""
    first = pictures.photo(*size, mode=mode)
    frames = [first]
    for seed in range(1, 7):
        frame = first.copy()
        frame.paste(pictures.photo(20, 16, mode=mode, seed=seed), (2 * seed, seed))
        frames.append(frame)
    save = {"duration": DURATIONS} | save
    return pictures.encode(frames[0], kind, save_all=True, append_images=frames[1:], **save)


PLAIN = moving()
CLIPS: dict[str, bytes] = {
    "lossy": PLAIN,
    "lossless": moving(lossless=True),
    "see-through": moving(mode="RGBA"),
    "lossless and see-through": moving(mode="RGBA", lossless=True, exact=True),
    "with EXIF": moving(exif=b"Exif\0\0" + pictures.orientation_exif(6)),
    "larger than a tile": moving(size=(300, 270)),
}


def starts(data: bytes) -> list[int]:
    """Where the frames' chunks begin."""
    found, at = [], 12
    while at < len(data):
        size = int.from_bytes(data[at + 4 : at + 8], "little")
        found += [at] if data[at : at + 4] == b"ANMF" else []
        at += 8 + size + (size & 1)
    return found


def by_pillow(data: bytes) -> npt.NDArray[np.uint8]:
    """Every frame, laid on white and turned by Pillow's own means."""
    frames = []
    with Image.open(io.BytesIO(data)) as opened:
        for number in range(getattr(opened, "n_frames", 1)):
            opened.seek(number)
            opened.load()
            frame = ImageMediaIO(output="array").convert(opened)
            frames.append(np.asarray(frame))
    return np.stack(frames)


@pytest.mark.parametrize("kind", CLIPS)
def test_every_frame_is_what_pillow_shows(kind: str) -> None:
    frames, metadata = ALL.load_bytes(CLIPS[kind])

    assert frames.dtype == np.uint8
    assert np.array_equal(frames, by_pillow(CLIPS[kind]))
    assert len({frame.tobytes() for frame in frames}) == 7
    assert np.array_equal(frames[0], np.asarray(ImageMediaIO(output="array").load_bytes(CLIPS[kind])))
    assert (metadata.height, metadata.width) == frames.shape[1:3]


def test_what_is_known_of_it_comes_from_its_chunks() -> None:
    ref = VideoMediaIO(num_frames=3).load_bytes_ref(PLAIN)

    assert ref.spec.settings["video_backend"] == "pillow"
    assert ref.decoded_bytes == 3 * 61 * 47 * 3
    frames, metadata = ref.decode()
    assert frames.shape == (3, 47, 61, 3)
    assert dict(metadata) == {
        "total_num_frames": 7,
        "fps": 7 / 0.64,
        "duration": 0.64,
        "frames_indices": [0, 3, 6],
        "timestamps": [0.0, 0.39, 0.55],
        "width": 61,
        "height": 47,
        "video_backend": "pillow",
        "do_sample_frames": False,
    }


@pytest.mark.parametrize("kind", [*CLIPS, "cut off"])
def test_headers_tell_what_a_decode_will(kind: str) -> None:
    data = CLIPS.get(kind, PLAIN[:-300])
    for decoder in (ALL, VideoMediaIO(num_frames=3), VideoMediaIO(sampling="qwen3_vl")):
        ref = decoder.load_bytes_ref(data)
        told = ref.outline()
        assert not ref.is_decoded
        assert told == ref.decode()[1]


def test_a_subclass_that_decodes_in_its_own_way_is_left_to_it() -> None:
    class Own(VideoMediaIO):
        def load_bytes(self, data: bytes) -> Any:
            return "its own"

    ref = Own().load_bytes_ref(PLAIN)
    assert ref.spec.settings["video_backend"] == "pyav"
    assert ref.outline() is None
    media: Any = ref.decode()
    assert media == "its own"


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_applies(policy: str) -> None:
    """Those that repeat a frame repeat its pixels."""
    every, _ = ALL.load_bytes(PLAIN)
    frames, metadata = VideoMediaIO(sampling=policy).load_bytes(PLAIN)

    wanted = POLICIES[policy](Clip(TIMES, 7 / 0.64, 0.64), Request(num_frames=32 if policy == "uniform" else None))
    assert metadata.frames_indices == wanted
    assert metadata.timestamps == [TIMES[frame_index] for frame_index in wanted]
    assert np.array_equal(frames, every[wanted])


def test_a_repeated_frame_is_there_twice() -> None:
    frames, metadata = VideoMediaIO(sampling="glm4v", fps=5).load_bytes(PLAIN)
    assert metadata.frames_indices == [0, 3, 5, 5]
    assert np.array_equal(frames, ALL.load_bytes(PLAIN)[0][[0, 3, 5, 5]])


def test_a_frame_shown_too_shortly_to_be_seen_counts_a_tenth_of_a_second() -> None:
    """As in a browser."""
    _, metadata = ALL.load_bytes(moving(duration=[0, 10, 11, 20, 0, 50, 60]))
    assert metadata.timestamps == [0.0, 0.1, 0.2, 0.211, 0.231, 0.331, 0.381]
    assert metadata.duration == 0.441


def test_an_asked_for_backend_changes_neither_key_nor_frames() -> None:
    default, asked = (VideoMediaIO(video_backend=name).load_bytes_ref(PLAIN) for name in (None, "pyav"))
    assert default.key == asked.key
    assert default.key != VideoMediaIO(num_frames=4).load_bytes_ref(PLAIN).key


def test_a_reference_loads_no_codec_and_a_cache_of_indexes_stays_empty() -> None:
    cache = PacketIndexCache()
    VideoMediaIO(index_cache=cache).load_bytes_ref(PLAIN).decode()
    assert len(cache) == 0
    code = (
        "import sys, lazymedia; data = sys.stdin.buffer.read(); lazymedia.VideoMediaIO().load_bytes_ref(data);"
        " sys.exit(any(name in sys.modules for name in ('av', 'numpy', 'PIL')))"
    )
    assert subprocess.run([sys.executable, "-c", code], input=PLAIN, check=False).returncode == 0


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How often frames are decoded, and converted."""
    calls = {"advance": 0, "write": 0}

    def counting(name: str) -> Callable[..., None]:
        inner = getattr(Animation, name)

        def call(self: Animation, *arguments: Any) -> None:
            calls[name] += 1
            inner(self, *arguments)

        return call

    for name in calls:
        monkeypatch.setattr(Animation, name, counting(name))
    return calls


def test_no_frame_behind_the_last_wanted_one_is_decoded_and_the_wanted_alone_converted(
    counted: dict[str, int],
) -> None:
    _, metadata = VideoMediaIO(sampling="transformers", num_frames=2).load_bytes(PLAIN)
    assert metadata.frames_indices == [0, 3]
    assert counted == {"advance": 4, "write": 2}


def test_a_stop_is_noticed_between_frames(counted: dict[str, int]) -> None:
    def check() -> None:
        if counted["advance"] == 3:
            raise DecodeStopped

    with stopping_when(check), pytest.raises(DecodeStopped):
        ALL.load_bytes(PLAIN)
    assert counted["advance"] == 3


def test_of_a_video_that_is_cut_off_the_whole_frames_stand() -> None:
    every, _ = ALL.load_bytes(PLAIN)
    begin = [*starts(PLAIN), len(PLAIN)]
    for length in range(30, len(PLAIN), 37):
        whole = sum(start <= length for start in begin[1:])
        if whole:
            frames, metadata = ALL.load_bytes(PLAIN[:length])
            assert metadata.frames_indices == list(range(whole))
            assert np.array_equal(frames, every[:whole])
        else:
            with pytest.raises(UnprocessableMediaError, match="no frame that can be read"):
                ALL.load_bytes(PLAIN[:length])


def altered(at: int, content: bytes, data: bytes = PLAIN) -> bytes:
    return data[:at] + content + data[at + len(content) :]


THIRD = starts(PLAIN)[3]
BROKEN: dict[str, bytes] = {
    "garbage for pixels": altered(THIRD + 50, b"\xff" * 120),
    "no picture's signature": altered(THIRD + 24, b"VP9 "),
    "another size than its pixels": altered(THIRD + 14, b"\x01\0\0"),
    "beside the canvas": altered(THIRD + 8, b"\xff\0\0"),
    "a canvas of its own": altered(THIRD + 24, b"VP8X"),
    "longer than the payload": altered(THIRD + 4, b"\xff\xff\xff\xff"),
    "no room for a picture": altered(THIRD + 4, b"\x10\0\0\0"),
    "shorter than its pixels": altered(THIRD + 4, b"\x40\0\0\0"),
    "longer than its pixels": altered(THIRD + 4, bytes((PLAIN[THIRD + 4] + 2,))),
    "pixels longer than the frame": altered(THIRD + 28, b"\xff\xff\xff\xff"),
    "no key frame": altered(THIRD + 32, bytes((PLAIN[THIRD + 32] | 1,))),
    "pixels of which a part is longer than all": altered(THIRD + 34, b"\xff"),
    "a thousand chunks in one": altered(THIRD + 24, b"none\0\0\0\0" * 40),
    "an alpha that is longer than the payload": altered(THIRD + 24, b"ALPH\xf0\xff\xff\xff"),
}


@pytest.mark.parametrize("damage", BROKEN)
def test_before_a_broken_frame_everything_stands(damage: str) -> None:
    every, _ = ALL.load_bytes(PLAIN)
    frames, metadata = ALL.load_bytes(BROKEN[damage])
    assert metadata.frames_indices == [0, 1, 2]
    assert np.array_equal(frames, every[:3])


def test_a_broken_first_frame_is_an_error() -> None:
    data = altered(starts(PLAIN)[0] + 50, b"\xff" * 200)
    with pytest.raises(UnprocessableMediaError, match="no frame of the video can be decoded") as caught:
        ALL.load_bytes(data)
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.modality == "video"


def test_what_lies_behind_the_end_does_not_matter() -> None:
    frames, _ = ALL.load_bytes(PLAIN + b"ANMF\0\0\0\1 anything")
    assert np.array_equal(frames, ALL.load_bytes(PLAIN)[0])


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (Limits(max_video_frame_pixels=61 * 47 - 1), "61 x 47: a frame may have 2866 pixels at most"),
        (Limits(max_video_seconds=0.6), "a video may last 0.6 seconds at most"),
        (Limits(max_video_walk_frames=8), "fewer than 8 chunks"),
    ],
    ids=["pixels", "seconds", "frames on the way"],
)
def test_limits_told_by_chunks_hold_before_there_is_a_decode(limits: Limits, message: str) -> None:
    for load in (VideoMediaIO(limits=limits).load_bytes_ref, VideoMediaIO(limits=limits).load_bytes):
        with pytest.raises(UnprocessableMediaError, match=message) as caught:
            load(PLAIN)
        assert caught.value.modality == "video"


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (Limits(max_video_frames=6), "7 frames of a video are wanted; 6 are allowed"),
        (Limits(max_request_decoded_bytes=60_000), "60207 bytes; 60000 are allowed"),
    ],
)
def test_limits_on_what_is_wanted_hold_before_a_frame_is_decoded(
    limits: Limits, message: str, counted: dict[str, int]
) -> None:
    with pytest.raises(UnprocessableMediaError, match=message):
        VideoMediaIO(num_frames=-1, limits=limits).load_bytes(PLAIN)
    assert counted["advance"] == 0


def test_a_canvas_of_a_gigabyte_is_refused_by_its_header() -> None:
    hostile = altered(24, b"\xff\x3f\0\xff\x3f\0")
    with pytest.raises(UnprocessableMediaError, match="16384 x 16384"):
        VideoMediaIO().load_bytes_ref(hostile)


def test_flips_give_frames_or_the_one_error() -> None:
    randomly = random.Random(5)
    seen = {True: 0, False: 0}
    for _ in range(400):
        data = bytearray(randomly.choice(list(CLIPS.values())[:4]))
        for _ in range(randomly.choice((1, 2, 8))):
            at = randomly.choice(
                (randomly.randrange(len(data)), randomly.randrange(120), randomly.choice(starts(PLAIN)))
            )
            data[min(at, len(data) - 1)] = randomly.randrange(256)
        try:
            frames, metadata = ALL.load_bytes_ref(bytes(data)).decode()
        except UnprocessableMediaError as error:
            assert error.modality == "video"
            assert len(str(error)) <= 300
            seen[False] += 1
        else:
            assert len(frames) == len(metadata.frames_indices) > 0
            seen[True] += 1
    assert min(seen.values()) >= 20, seen


# Stills


STILLS: dict[str, bytes] = {
    "WebP": pictures.encode(pictures.photo(), "WEBP"),
    "see-through WebP": pictures.encode(pictures.photo(mode="RGBA"), "WEBP", lossless=True),
    "WebP with EXIF": pictures.encode(pictures.photo(), "WEBP", exif=b"Exif\0\0" + pictures.orientation_exif(6)),
    "AVIF": pictures.encode(pictures.photo(), "AVIF"),
    "see-through AVIF": pictures.encode(pictures.photo(mode="RGBA"), "AVIF"),
}


@pytest.mark.parametrize("kind", STILLS)
def test_a_still_is_a_video_of_one_frame(kind: str) -> None:
    ref = VideoMediaIO().load_bytes_ref(STILLS[kind])
    frames, metadata = ref.decode()

    picture = np.asarray(ImageMediaIO(output="array").load_bytes(STILLS[kind]))
    assert np.array_equal(frames, picture[None])
    assert ref.spec.settings["video_backend"] == metadata.video_backend == "pillow"
    assert (metadata.total_num_frames, metadata.frames_indices, metadata.timestamps) == (1, [0], [0.0])
    assert (metadata.fps, metadata.duration, metadata.do_sample_frames) == (0.0, 0.0, True)
    assert ref.outline() == metadata
    assert ref.decoded_bytes == frames.nbytes


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", ["WebP", "AVIF"])
def test_of_a_still_every_policy_takes_the_one_frame(kind: str, policy: str) -> None:
    frames, metadata = VideoMediaIO(sampling=policy).load_bytes(STILLS[kind])
    assert set(metadata.frames_indices) == {0}
    assert len(frames) == len(metadata.frames_indices)


@pytest.mark.parametrize("kind", ["WebP", "AVIF"])
def test_a_still_is_held_to_the_limits_of_videos(kind: str) -> None:
    small = VideoMediaIO(limits=Limits(max_video_frame_pixels=1000))
    for load in (small.load_bytes_ref, small.load_bytes):
        with pytest.raises(UnprocessableMediaError, match="may have 1000 pixels") as caught:
            load(STILLS[kind])
        assert caught.value.modality == "video"
    with pytest.raises(UnprocessableMediaError, match="3219 bytes; 3000 are allowed"):
        VideoMediaIO(limits=Limits(max_request_decoded_bytes=3000)).load_bytes(STILLS[kind])


@pytest.mark.parametrize("kind", STILLS)
def test_a_still_that_is_cut_off_is_an_error(kind: str) -> None:
    with pytest.raises(UnprocessableMediaError, match="the only frame of the video") as caught:
        VideoMediaIO().load_bytes(STILLS[kind][:-20])
    assert caught.value.modality == "video"


# AVIF sequences, which PyAV reads


def test_an_animated_avif_is_read_by_its_timestamps() -> None:
    data = moving("AVIF", quality=100, subsampling="4:4:4")
    ref = ALL.load_bytes_ref(data)
    frames, metadata = ref.decode()

    assert ref.spec.settings["video_backend"] == metadata.video_backend == "pyav"
    assert metadata.total_num_frames == 7
    assert metadata.timestamps == pytest.approx(TIMES)
    assert metadata.duration == pytest.approx(0.64)
    assert np.abs(frames.astype(int) - by_pillow(data)).max() <= 2, "two roads from YUV to RGB"
    some, chosen = VideoMediaIO(num_frames=3).load_bytes(data)
    assert chosen.frames_indices == [0, 3, 6]
    assert np.array_equal(some, frames[[0, 3, 6]])


def test_an_animated_avif_with_transparent_frames_is_refused() -> None:
    """The track of its alpha looks like any other video; half of such files would come out as that."""
    for load in (ALL.load_bytes_ref, ALL.load_bytes):
        with pytest.raises(UnprocessableMediaError, match="AVIF with transparent frames"):
            load(moving("AVIF", mode="RGBA"))
