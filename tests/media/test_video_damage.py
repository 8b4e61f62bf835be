"""Damaged videos give what is whole, and say so, or an error: never another exception, never an endless decode."""

from __future__ import annotations

import random
import struct

import av
import numpy as np
import pytest

from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import Limits
from lazymedia.media.video import VideoMediaIO
from lazymedia.media.video.io import Video
from lazymedia.testing.video import make_video, read_frame_numbers
from tests.media import videos
from tests.media.videos import broken_packet

ALL = VideoMediaIO(sampling="all")


@pytest.mark.parametrize("codec", ["libx264", "mpeg4", "libvpx-vp9"])
def test_a_broken_frame_in_the_middle_is_left_out_and_its_index_too(codec: str) -> None:
    data = broken_packet(make_video(30, codec=codec, container="mkv", b_frames=0, gop=5), 14)

    frames, metadata = ALL.load_bytes(data)

    assert metadata.total_num_frames == 30
    assert 14 not in metadata.frames_indices
    assert {*range(14), *range(15, 30)} >= set(metadata.frames_indices) >= {*range(14), *range(15, 30)} - {15}
    assert len(frames) == len(metadata.frames_indices) == len(metadata.timestamps)
    assert not metadata.do_sample_frames
    whole = [frame_index for frame_index in metadata.frames_indices if not 14 <= frame_index < 20]
    assert [
        number
        for number, frame_index in zip(read_frame_numbers(frames), metadata.frames_indices)
        if frame_index in whole
    ] == whole


def test_a_broken_frame_does_not_spoil_those_that_do_not_depend_on_it() -> None:
    """Whatever is chosen. A decoder's guesses at the frames that follow in its group differ with what it was given."""
    data = broken_packet(make_video(60, container="mkv", gop=20, b_frames=3), 24)
    everything, told = ALL.load_bytes(data)
    by_frame_index = dict(zip(told.frames_indices, everything))

    for count in (3, 7, 11, 20):
        frames, metadata = VideoMediaIO(num_frames=count).load_bytes(data)
        for frame, frame_index in zip(frames, metadata.frames_indices):
            assert 20 <= frame_index < 40 or np.array_equal(frame, by_frame_index[frame_index])


@pytest.mark.parametrize("kept", [0.3, 0.5, 0.7, 0.95])
def test_a_download_that_was_cut_gives_the_frames_that_are_there(kept: float) -> None:
    whole = make_video(60, container="mkv")

    frames, metadata = ALL.load_bytes(whole[: int(len(whole) * kept)])

    assert 0 < len(frames) < 60
    assert read_frame_numbers(frames) == [round(time * 25) for time in metadata.timestamps]
    assert metadata.total_num_frames < 60


def test_an_index_at_the_front_that_promises_more_than_was_kept() -> None:
    """A header of 60 frames over the bytes of fewer (an MP4 made for streaming, then cut)."""
    whole = faststart(make_video(60))

    frames, metadata = ALL.load_bytes(whole[: int(len(whole) * 0.7)])

    assert 0 < len(frames) < 60
    assert read_frame_numbers(frames) == metadata.frames_indices


def faststart(data: bytes) -> bytes:
    """The same MP4 with its moov before its mdat, chunk offsets moved."""
    boxes = {}
    position = 0
    while position < len(data):
        size, kind = struct.unpack_from(">I4s", data, position)
        boxes[kind] = data[position : position + size]
        position += size
    moov = bytearray(boxes[b"moov"])
    place = moov.index(b"stco") + 8
    (count,) = struct.unpack_from(">I", moov, place)
    for entry in range(count):
        at = place + 4 + 4 * entry
        struct.pack_into(">I", moov, at, struct.unpack_from(">I", moov, at)[0] + len(moov))
    return boxes[b"ftyp"] + bytes(moov) + b"".join(boxes[kind] for kind in boxes if kind not in {b"ftyp", b"moov"})


@pytest.mark.parametrize("cut", [1, 100, 0.5])
def test_an_index_at_the_end_that_is_cut_off_is_an_error(cut: float) -> None:
    data = make_video(30)
    kept = data[: -int(cut if cut >= 1 else len(data) * cut) - 700]

    with pytest.raises(UnprocessableMediaError) as caught:
        ALL.load_bytes(kept)
    assert caught.value.modality == "video"


def test_a_video_of_which_no_frame_decodes_is_an_error_with_the_decoders_own_as_its_cause() -> None:
    data = make_video(1, container="mkv", codec="libvpx-vp9")

    with pytest.raises(UnprocessableMediaError, match="no frame") as caught:
        ALL.load_bytes(broken_packet(data, 0))
    assert isinstance(caught.value.__cause__, av.FFmpegError)


@pytest.mark.parametrize("kind", ["H.264, B-pyramid", "H.264, MPEG-TS", "HEVC, open GOP", "VP9", "AV1", "MPEG-4, AVI"])
def test_random_damage_gives_frames_or_an_error(kind: str) -> None:
    whole = videos.clip(kind, 30)
    rng = random.Random(kind)
    limits = Limits(max_video_frame_pixels=1_000_000, max_video_frames=64, max_video_walk_frames=500)
    io_ = VideoMediaIO(num_frames=5, limits=limits)
    outcomes = set()
    for _ in range(40):
        data = bytearray(whole)
        for _ in range(rng.choice((1, 4, 40))):
            data[rng.randrange(len(data))] = rng.randrange(256)
        kept = bytes(data[: rng.choice((len(data), rng.randrange(len(data))))])
        try:
            frames, metadata = io_.load_bytes(kept)
        except UnprocessableMediaError as error:
            outcomes.add("error")
            assert len(str(error)) <= 300
        else:
            outcomes.add("frames")
            assert 0 < len(frames) == len(metadata.frames_indices) <= 5
            assert np.isfinite([metadata.fps, metadata.duration, *metadata.timestamps]).all()
    assert "frames" in outcomes


@pytest.mark.parametrize("kind", ["H.264, B-pyramid", "H.264, MPEG-TS", "HEVC, closed GOP", "VP9", "MPEG-4"])
def test_what_damage_leaves_does_not_depend_on_the_number_of_threads(kind: str) -> None:
    """A decoder that met a broken frame may show later ones otherwise, and which it meets is a matter of threads."""
    whole = videos.clip(kind)
    rng = random.Random(kind)
    compared = 0
    for _ in range(25):
        data = bytearray(whole)
        for _ in range(8):
            data[rng.randrange(len(data) // 8, len(data))] = rng.randrange(256)
        one, *others = (decoded(bytes(data), threads) for threads in (1, 2, 4))
        for other in others:
            if one is None or other is None:
                assert one is other
                continue
            assert one[1] == other[1]
            assert np.array_equal(one[0], other[0])
            compared += 1
    assert compared


def decoded(data: bytes, threads: int) -> Video | None:
    try:
        return VideoMediaIO(num_frames=6, decoder_threads=threads).load_bytes(data)
    except UnprocessableMediaError:
        return None
