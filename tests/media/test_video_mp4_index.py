"""The index of an MP4 by its tables: the one that a scan of all packets finds, whatever the file is."""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Final, TypeAlias

import pytest
from av.packet import Packet
from av.video.stream import VideoStream

from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import DEFAULT_LIMITS
from lazymedia.media.cancellation import DecodeStopped, stopping_when
from lazymedia.media.video import mp4_index
from lazymedia.media.video.container import Opened, open_video, packets_of
from lazymedia.media.video.index import PacketIndex
from lazymedia.media.video.reader import reading
from lazymedia.media.video.scan import learn, scan
from lazymedia.testing.video import make_video, read_frame_number
from tests.media import videos
from tests.media.mp4_files import box, joined, patched, remuxed, with_table, with_wide_places
from tests.media.stops import After

Learnt: TypeAlias = "dict[str, object] | str | None"
"""An index, a refusal, or none."""

MUTANTS: Final = 20_000 if os.environ.get("LAZYMEDIA_LONG_TESTS") else 400

PLAIN: Final = videos.clip("H.264, B-pyramid")
"""Sixty frames in five groups."""


def x264(**options: str) -> bytes:
    return make_video(60, b_frames=3, options={"x264-params": ":".join(f"{name}={options[name]}" for name in options)})


def uneven() -> bytes:
    return make_video(60, b_frames=3, times=[number / 25 + (0.01 if number % 3 else 0) for number in range(60)])


PREDICTED: Final = make_video(60, b_frames=0, options={"refs": "1"})
"""Each frame refers to the one before it only."""


def unmarked(clip: bytes) -> bytes:
    """Frame 30 calls its slice an intra one: it begins with 1 011, no longer with 1 00110."""
    with open_video(clip, DEFAULT_LIMITS) as opened:
        place = opened.stream.index_entries[30].pos + 5
    assert clip[place] >> 2 == 0b100110
    return clip[:place] + bytes([0b10110000 | clip[place] & 15]) + clip[place + 1 :]


USUAL: Final[dict[str, Callable[[], bytes]]] = {
    "H.264": lambda: PLAIN,
    "H.264 without B-frames": lambda: videos.clip("H.264, no B-frames"),
    "H.264 of 10 bits": lambda: videos.clip("H.264, 10 bits"),
    "H.264 of key frames": lambda: make_video(20, gop=1, b_frames=0),
    "H.264 of one reference": lambda: PREDICTED,
    "H.264 with intra pictures": lambda: unmarked(make_video(60, b_frames=0, options={"refs": "4"})),
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


@pytest.mark.parametrize("what", USUAL)
def test_the_tables_of_the_usual_tell_what_a_scan_finds(what: str) -> None:
    clip = USUAL[what]()

    assert by_tables(clip) == by_scan(clip)


def by_tables(clip: bytes) -> Learnt:
    return _learnt(clip, lambda opened: _told(clip, opened))


def _told(clip: bytes, opened: Opened) -> PacketIndex | None:
    claim = mp4_index.claimed(clip, opened)
    return None if claim is None else claim.borne_out(opened)


def by_scan(clip: bytes) -> Learnt:
    return _learnt(clip, scan)


def by_any_way(clip: bytes) -> Learnt:
    return _learnt(clip, lambda opened: learn(clip, opened, DEFAULT_LIMITS))


def _learnt(clip: bytes, how: Callable[[Opened], PacketIndex | None]) -> Learnt:
    try:
        with open_video(clip, DEFAULT_LIMITS) as opened:
            index = how(opened)
            return None if index is None else asdict(index)
    except UnprocessableMediaError as refusal:
        return str(refusal)


def key_frames_of_the_table(clip: bytes, *numbers: int) -> bytes:
    """Others are called key frames: as many as were."""
    return patched(clip, b"stss", 8, f">{len(numbers)}I", *numbers)


def with_a_table_twice(clip: bytes) -> bytes:
    """The times of display again, where FFmpeg finds them too."""
    start = clip.index(b"ctts") - 4
    table = clip[start : start + int.from_bytes(clip[start : start + 4])]
    return with_table(clip, b"ctts", table * 2)


def delimited(clip: bytes) -> bytes:
    """The first unit of frame 30 calls itself a delimiter: its packet is not what it seems."""
    with open_video(clip, DEFAULT_LIMITS) as opened:
        place = opened.stream.index_entries[30].pos
    changed = bytearray(clip)
    changed[place + 4] = 9
    return bytes(changed)


def with_words(clip: bytes, words: bytes) -> bytes:
    start = clip.index(b"moov") - 4
    return clip[:start] + box(b"moov", clip[start + 8 :] + box(b"udta", words))


def with_a_length(clip: bytes, number: int, length: int) -> bytes:
    """The first unit of a packet claims another length."""
    with open_video(clip, DEFAULT_LIMITS) as opened:
        place = opened.stream.index_entries[number].pos
    return clip[:place] + struct.pack(">I", length) + clip[place + 4 :]


UNUSUAL: Final[dict[str, Callable[[], bytes]]] = {
    "fragments": lambda: videos.clip("H.264, fragmented"),
    "what may be fragments": lambda: PLAIN + box(b"moof", b""),
    "QuickTime": lambda: make_video(60, container="mov"),
    "Matroska": lambda: videos.clip("H.264, Matroska"),
    "AV1, whose frames may be hidden": lambda: videos.clip("AV1"),
    "fields": lambda: videos.clip("H.264, interlaced"),
    "key frames that are refreshed bit by bit": lambda: make_video(60, b_frames=0, options={"intra-refresh": "1"}),
    "key frames by a message": lambda: videos.clip("H.264, open GOP"),
    "messages with times": lambda: x264(**{"nal-hrd": "vbr", "vbv-maxrate": "500", "vbv-bufsize": "500"}),
    "delimiters": lambda: x264(aud="1"),
    "a delimiter in one packet": lambda: delimited(PLAIN),
    "pictures that FFmpeg calls key frames, and the table does not": lambda: unmarked(PREDICTED),
    "one group": lambda: make_video(60, gop=60),
    "key frames called otherwise": lambda: key_frames_of_the_table(PLAIN, 1, 14, 25, 37, 49),
    "a key frame that is none": lambda: key_frames_of_the_table(PLAIN, 1, 12, 25, 37, 49),
    "a key frame that is not told": lambda: key_frames_of_the_table(PLAIN, 1, 25, 37, 49, 49),
    "a key frame too short for its unit": lambda: with_a_length(PLAIN, 24, 1 << 20),
    "hidden by an edit": lambda: make_video(60, times=[number / 25 - 0.4 for number in range(60)]),
    "an edit that ends early": lambda: patched(PLAIN, b"elst", 8, ">I", 500),
    "an edit of nothing": lambda: patched(PLAIN, b"elst", 12, ">i", -1),
    "times of display for other frames": lambda: patched(PLAIN, b"ctts", 8, ">I", 2),
    "times of display twice": lambda: with_a_table_twice(PLAIN),
    "a time of display far away": lambda: patched(PLAIN, b"ctts", 12, ">i", -(1 << 29)),
    "two frames at a time": lambda: patched(PLAIN, b"ctts", 20, ">I", 1024),
    "parameters that change": lambda: joined(PLAIN, videos.clip("H.264, no B-frames")),
    "words too long to be looked through": lambda: with_words(PLAIN, bytes(3 << 20)),
    "samples in another file": lambda: patched(PLAIN, b"url ", 0, ">I", 0),
    "a file that ends early": lambda: remuxed(PLAIN, movflags="faststart")[:-300],
}


@pytest.mark.parametrize("what", UNUSUAL)
def test_whatever_is_unusual_is_scanned(what: str) -> None:
    clip = UNUSUAL[what]()

    assert not isinstance(by_tables(clip), dict)
    assert by_any_way(clip) == by_scan(clip)


@pytest.mark.parametrize("where", [b"moov", b"stbl", b"mdat"])
def test_damage_comes_to_the_same(where: bytes) -> None:
    rng = random.Random(where)
    clips = [PLAIN, videos.clip("HEVC, open GOP"), make_video(60, audio=True), uneven()]
    told = 0
    for _ in range(MUTANTS):
        clip = bytearray(rng.choice(clips))
        start = clip.index(where)
        part = range(start, start + int.from_bytes(clip[start - 4 : start]) - 4)
        for _ in range(rng.choice([1, 2, 8])):
            clip[rng.choice(part)] = rng.choice([0, 255, rng.randrange(256)])
        mutant = bytes(clip)
        assert by_any_way(mutant) == by_scan(mutant)
        told += isinstance(by_tables(mutant), dict)
    assert told > MUTANTS // 20


@pytest.mark.parametrize(("limit", "most"), [("_MOST", 59), ("_MOST_KEYS", 4)])
def test_what_takes_long_to_hold_against_the_tables_is_scanned(
    limit: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(by_tables(PLAIN), dict)
    monkeypatch.setattr(mp4_index, limit, most)

    assert by_tables(PLAIN) is None
    assert by_any_way(PLAIN) == by_scan(PLAIN)


def test_few_packets_are_read_of_the_usual() -> None:
    """Eight at the head and the twelve of the last group; a scan reads sixty, and one check more is a table's."""
    checks: list[None] = []
    with stopping_when(lambda: checks.append(None)), open_video(PLAIN, DEFAULT_LIMITS) as opened:
        learn(PLAIN, opened, DEFAULT_LIMITS)

    assert len(checks) < 30


@pytest.mark.parametrize("allowed", [0, 1, 5, 15])
def test_a_decode_that_nobody_wants_ends_while_tables_are_read(allowed: int) -> None:
    with (
        open_video(PLAIN, DEFAULT_LIMITS) as opened,
        stopping_when(After(allowed)),
        pytest.raises(DecodeStopped),
    ):
        learn(PLAIN, opened, DEFAULT_LIMITS)


@pytest.mark.parametrize("what", USUAL)
def test_a_seek_lands_on_the_key_frame_itself(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of packets that are not decoded, none is read; nor is the container opened again."""
    monkeypatch.setattr("lazymedia.media.video.reader.SEEK_WORTH", 0)
    read: list[object] = []

    def counted(opened: Opened) -> Iterator[Packet[VideoStream]]:
        for packet in packets_of(opened):
            read.append(packet)
            yield packet

    monkeypatch.setattr("lazymedia.media.video.reader.packets_of", counted)
    clip = USUAL[what]()
    with reading(clip, DEFAULT_LIMITS) as reader:
        index = reader.scan()
        rank = index.rank_of(index.key_pts[-1])
        assert rank is not None
        frames, ranks = reader.read(index, [rank])

    assert ranks == [rank]
    assert read_frame_number(frames[0]) == rank
    assert len(read) <= 1 + (what in {"an uneven rate", "an edit that begins later"}) * 20
