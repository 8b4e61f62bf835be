"""A scan of all packets: what it reads, when it ends, and where a seek by its index lands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pytest
from av.packet import Packet
from av.video.stream import VideoStream

from lazymedia.limits import DEFAULT_LIMITS
from lazymedia.media.cancellation import DecodeStopped, stopping_when
from lazymedia.media.video.container import Opened, open_video, packets_of
from lazymedia.media.video.reader import reading
from lazymedia.media.video.scan import scan
from lazymedia.testing.video import make_video, read_frame_number
from tests.media import videos
from tests.media.mp4_files import patched, remuxed, with_wide_places
from tests.media.stops import After

PLAIN: Final = videos.clip("H.264, B-pyramid")
"""Sixty frames in five groups."""


def uneven() -> bytes:
    return make_video(60, b_frames=3, times=[number / 25 + (0.01 if number % 3 else 0) for number in range(60)])


PREDICTED: Final = make_video(60, b_frames=0, options={"refs": "1"})
"""Each frame refers to the one before it only."""


CLIPS: Final[dict[str, Callable[[], bytes]]] = {
    "H.264": lambda: PLAIN,
    "H.264 without B-frames": lambda: videos.clip("H.264, no B-frames"),
    "H.264 of 10 bits": lambda: videos.clip("H.264, 10 bits"),
    "H.264 of key frames": lambda: make_video(20, gop=1, b_frames=0),
    "H.264 of one reference": lambda: PREDICTED,
    "HEVC": lambda: videos.clip("HEVC, closed GOP"),
    "HEVC, open groups": lambda: videos.clip("HEVC, open GOP"),
    "HEVC, temporal layers": lambda: videos.clip("HEVC, temporal layers"),
    "tables first": lambda: remuxed(make_video(60, audio=True), movflags="faststart"),
    "no edit": lambda: remuxed(PLAIN, use_editlist="0"),
    "display before decode": lambda: remuxed(PLAIN, movflags="negative_cts_offsets"),
    "wide places": lambda: with_wide_places(PLAIN),
    "sound beside": lambda: make_video(60, audio=True),
    "turned": lambda: make_video(60, rotation=90),
    "an uneven rate": uneven,
    "an edit that begins later": lambda: patched(PLAIN, b"elst", 12, ">I", 700),
}


@pytest.mark.parametrize("allowed", [0, 1, 5, 15])
def test_a_decode_that_nobody_wants_ends_while_packets_are_read(allowed: int) -> None:
    with (
        open_video(PLAIN, DEFAULT_LIMITS) as opened,
        stopping_when(After(allowed)),
        pytest.raises(DecodeStopped),
    ):
        scan(opened)


@pytest.mark.parametrize("what", CLIPS)
def test_a_seek_lands_on_the_key_frame_itself(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of packets that are not decoded, none is read; nor is the container opened again."""
    monkeypatch.setattr("lazymedia.media.video.reader.SEEK_WORTH", 0)
    read: list[object] = []

    def counted(opened: Opened) -> Iterator[Packet[VideoStream]]:
        for packet in packets_of(opened):
            read.append(packet)
            yield packet

    monkeypatch.setattr("lazymedia.media.video.reader.packets_of", counted)
    clip = CLIPS[what]()
    with reading(clip, DEFAULT_LIMITS) as reader:
        index = reader.scan()
        frame_index = index.frame_at(index.key_pts[-1])
        assert frame_index is not None
        frames, frame_indices = reader.read(index, [frame_index])

    assert frame_indices == [frame_index]
    assert read_frame_number(frames[0]) == frame_index
    assert len(read) <= 1 + (what in {"an uneven rate", "an edit that begins later"}) * 20
