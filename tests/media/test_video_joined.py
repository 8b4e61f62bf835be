"""Videos that were joined without a new encode: parameters of the decoder change on the way."""

from __future__ import annotations

import random

import numpy as np
import pytest

from lazymedia.limits import DEFAULT_LIMITS
from lazymedia.media.video.container import open_video
from lazymedia.media.video.reader import reading
from lazymedia.media.video.scan import scan
from lazymedia.testing.video import make_video
from tests.media import videos
from tests.media.mp4_files import joined

OTHERWISE = {
    "H.264, another range": lambda: make_video(60, b_frames=3, seed=2, options={"x264-params": "fullrange=on"}),
    "H.264, another offset of colours": lambda: make_video(60, options={"x264-params": "chroma-qp-offset=6"}, seed=2),
    "H.264, by other means": lambda: make_video(60, options={"x264-params": "cabac=0:8x8dct=0:ref=2"}, seed=2),
}


@pytest.mark.parametrize("seek_worth", [0, 1 << 30])
@pytest.mark.parametrize("second", OTHERWISE)
def test_parameters_that_change_on_the_way_reach_the_decoder(
    second: str, seek_worth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that were joined without a new encode have several sample descriptions. FFmpeg tells a new one once, with
    the packet where it begins.
    """
    monkeypatch.setattr("lazymedia.media.video.reader.SEEK_WORTH", seek_worth)
    one = videos.clip("H.264, B-pyramid")
    data = joined(one, OTHERWISE[second](), one)
    expected = videos.linear(data)
    assert len(expected) == 180
    rng = random.Random(3)
    for frame_indices in ([100], [179], *(sorted(rng.sample(range(180), 4)) for _ in range(10))):
        with reading(data, DEFAULT_LIMITS) as reader:
            frames, loaded = reader.read(reader.scan(), frame_indices)

        assert loaded == frame_indices
        for frame, frame_index in zip(frames, frame_indices):
            assert np.array_equal(frame, expected[frame_index]), f"frame {frame_index} of {frame_indices}"


def flv_tags(clip: bytes) -> list[bytes]:
    """Header and tags of a Flash Video, each with its length behind it. Video File Format, 10.1, annex E."""
    place, tags = 13, [clip[:13]]
    while place < len(clip):
        size = 11 + int.from_bytes(clip[place + 1 : place + 4]) + 4
        tags.append(clip[place : place + size])
        place += size
    return tags


def test_parameters_that_are_only_told_again_cost_nothing() -> None:
    """As live streams have them before key frames."""
    tags = flv_tags(videos.clip("H.264, FLV"))
    told = next(tag for tag in tags[1:] if tag[0] == 9 and tag[12] == 0)
    shown = [number for number, tag in enumerate(tags) if number and tag[0] == 9 and tag[12] == 1]
    again = b"".join([*tags[: shown[24]], told, *tags[shown[24] :]])
    with open_video(again, DEFAULT_LIMITS) as opened:
        assert [packet.has_sidedata("new_extradata") for packet in opened.container.demux(opened.stream)][24]
    with open_video(again, DEFAULT_LIMITS) as opened:
        assert not scan(opened).changes
    with reading(again, DEFAULT_LIMITS) as reader:
        frames, frame_indices = reader.read(reader.scan(), [40])

        assert reader.decoded < 12
    assert frame_indices == [40]
    assert np.array_equal(frames[0], videos.linear(again)[40])
