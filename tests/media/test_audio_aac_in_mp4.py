"""AAC in an MP4, decoded many frames at a time: the same samples as packet by packet, whatever the file is."""

from __future__ import annotations

import io
import os
import random
import struct
from collections.abc import Callable
from typing import Final

import av
import numpy as np
import pytest

from lazymedia.media.audio import feed, mp4_aac, piped
from lazymedia.media.audio.aac_in_matroska import AacInMatroska
from lazymedia.testing.audio import make_audio
from lazymedia.testing.video import make_video
from tests.media.audio_clips import with_packet
from tests.media.many_at_a_time import by_packets, checks, load, outcome
from tests.media.mp4_files import box, patched, remuxed, with_wide_places

pytestmark = pytest.mark.skipif(not piped.is_possible(), reason="needs pipes that tell how much they hold")

MUTANTS: Final = 5_000 if os.environ.get("LAZYMEDIA_LONG_TESTS") else 250


CLIP: Final = make_audio(18, 48_000, 2, format="M4A")
"""844 frames: 14 calls, the last of which is short."""
SHORT: Final = make_audio(1.2, 16_000, 1, format="M4A")

USUAL: Final[dict[str, Callable[[], bytes]]] = {
    "mono": lambda: make_audio(3, 16_000, 1, format="M4A"),
    "stereo": lambda: CLIP,
    "5.1": lambda: make_audio(2, 48_000, 6, format="MP4"),
    "three frames": lambda: make_audio(0.04, 48_000, 2, format="M4A"),
    "a low rate": lambda: make_audio(9, 8_000, 2, format="MP4"),
    "a high rate": lambda: make_audio(3, 96_000, 2, format="M4A"),
    "tables first": lambda: remuxed(CLIP, movflags="faststart"),
    "no edit": lambda: remuxed(CLIP, use_editlist="0"),
    "a film": lambda: make_video(200, audio=True),
    "a film in chunks": lambda: remuxed(make_video(200, audio=True), movflags="faststart"),
    "wide places": lambda: with_wide_places(SHORT),
    "an edit that begins in the third frame": lambda: patched(SHORT, b"elst", 12, ">I", 2_500),
    "an edit that primes nothing": lambda: patched(SHORT, b"elst", 8, ">II", 1_280, 0),
}


@pytest.mark.parametrize("what", USUAL)
def test_the_usual_is_decoded_many_frames_at_a_time_to_the_same_samples(what: str) -> None:
    clip = USUAL[what]()
    track = mp4_aac.find(clip)

    assert track is not None
    assert checks(clip) <= 4 + track.frames // 16
    assert np.array_equal(load(clip), by_packets(load, clip))


def _with_words(clip: bytes, words: bytes) -> bytes:
    movie = clip[clip.index(b"moov") + 4 :]
    return box(b"moov", movie + box(b"udta", words))


def two_tracks() -> bytes:
    """The same sound twice."""
    made = io.BytesIO()
    with av.open(io.BytesIO(SHORT), "r") as source, av.open(made, "w", format="mp4") as target:
        stream = source.streams.audio[0]
        copies = [target.add_stream_from_template(stream) for _ in range(2)]
        for packet in source.demux(stream):
            if packet.dts is not None:
                data, times = bytes(packet), (packet.pts, packet.dts, packet.time_base)
                for copy in copies:
                    again = av.Packet(data)
                    again.pts, again.dts, again.time_base = times
                    again.stream = copy
                    target.mux(again)
    return made.getvalue()


END_OF_FRAME: Final = b"\xe0"
"""How a frame without a channel begins: nothing comes out of it."""


@pytest.mark.parametrize("frames", [1, 2, 63, 64, 65, 300])
@pytest.mark.parametrize("in_a_chunk", [1, 7, 300])
def test_ffmpeg_is_handed_the_frames_as_they_are(frames: int, in_a_chunk: int) -> None:
    """Whatever their sizes are, and wherever they lie."""
    rng = np.random.default_rng(frames)
    sizes = rng.choice([1, 2, 100, 8_191, 8_192], frames)
    wanted = [rng.bytes(size) for size in sizes]
    chunks = [b"".join(wanted[start : start + in_a_chunk]) for start in range(0, frames, in_a_chunk)]
    places = 5 + np.cumsum([0, *(len(chunk) + 5 for chunk in chunks)])[:-1]
    whole, rest = divmod(frames, in_a_chunk)
    runs = np.array([row for row in ((whole, in_a_chunk), (1, rest)) if all(row)])
    data = b"".join(b"apart" + chunk for chunk in chunks)
    track = mp4_aac.AacTrack(48_000, 2, 0, frames, 8_192, b"\x11\x90", data, sizes.astype(">u4"), places, runs)

    made = io.BytesIO(b"".join(AacInMatroska(track).pieces(64 << 10)))
    with av.open(made, "r", format="matroska") as container:
        packets = [packet for packet in container.demux() if packet.size]

    assert [bytes(packet) for packet in packets] == [*wanted, wanted[0]]
    assert made.tell() <= sum(map(len, wanted)) + 8_192 + 2 * frames + 64 * (2 + frames // 64) + 200


UNUSUAL: Final[dict[str, Callable[[], bytes]]] = {
    "fragments": lambda: remuxed(CLIP, movflags="frag_keyframe+empty_moov", frag_duration="1000000"),
    "QuickTime": lambda: remuxed(CLIP, "mov"),
    "what may be fragments": lambda: CLIP + box(b"moof", b""),
    "two headers": lambda: CLIP + CLIP[CLIP.index(b"moov") - 4 :],
    "a time scale of its own": lambda: patched(SHORT, b"mdhd", 12, ">I", 48_000),
    "a length that is not that of its frames": lambda: patched(SHORT, b"mdhd", 16, ">I", 1 << 31),
    "frames that come too soon": lambda: CLIP.replace(b"\0\0\4\0\0\0\0\1", b"\0\0\3\xc0\0\0\0\1", 1),
    "frames that come too late": lambda: CLIP.replace(b"\0\0\4\0\0\0\0\1", b"\0\0\7\x80\0\0\0\1", 1),
    "an edit that ends early": lambda: patched(SHORT, b"elst", 8, ">I", 500),
    "an edit that begins late": lambda: patched(SHORT, b"elst", 12, ">I", 17_000),
    "a gap before the sound": lambda: patched(SHORT, b"elst", 12, ">i", -1),
    "an edit at twice the speed": lambda: patched(SHORT, b"elst", 16, ">I", 2 << 16),
    "samples in another file": lambda: patched(SHORT, b"url ", 0, ">I", 0),
    "an empty frame": lambda: patched(SHORT, b"stsz", 12 + 4 * 7, ">I", 0),
    "more frames than there are chunks for": lambda: patched(SHORT, b"stsc", 12, ">I", 3),
    "an edit of the last frame": lambda: patched(SHORT, b"elst", 12, ">I", 19 * 1024 + 5),
    "edits in the wrong place": lambda: CLIP[: CLIP.index(b"moov") - 4] + _with_words(CLIP, b"elst" + bytes(20)),
    "a priming told in words": lambda: CLIP[: CLIP.index(b"moov") - 4] + _with_words(CLIP, b"iTunSMPB"),
    "two tracks of sound": two_tracks,
}


@pytest.mark.parametrize("what", UNUSUAL)
def test_whatever_is_unusual_is_left_to_the_demuxer(what: str) -> None:
    clip = UNUSUAL[what]()

    assert mp4_aac.find(clip) is None
    assert outcome(clip) == by_packets(outcome, clip)


@pytest.mark.parametrize("first", [END_OF_FRAME, b"\xff" * 64], ids=["nothing", "damage"])
@pytest.mark.parametrize("number", [0, 1, 63, 64, 127, 128, 500, 843])
def test_a_frame_of_nothing_or_of_damage_comes_to_the_same(number: int, first: bytes) -> None:
    clip = with_packet(CLIP, number, first)

    assert mp4_aac.find(clip) is not None
    assert outcome(clip) == by_packets(outcome, clip)


def test_junk_behind_the_last_frame_comes_to_the_same() -> None:
    """FFmpeg looks at the rest of a packet when it has given out what came first."""
    sizes = CLIP.index(b"stsz") + 16
    number = int.from_bytes(CLIP[sizes - 4 : sizes])
    place = sizes + 4 * (number - 1)
    size = int.from_bytes(CLIP[place : place + 4])
    end = CLIP.index(b"moov") - 4
    for junk in (b"\xa0\x01", b"\xff\xf1\x50\x80", b"\x00\x00", b"\xe0" * 5):
        clip = bytearray(CLIP[:end] + junk + CLIP[end:])
        struct.pack_into(">I", clip, place + len(junk), size + len(junk))
        mdat = clip.index(b"mdat") - 4
        struct.pack_into(">I", clip, mdat, int.from_bytes(clip[mdat : mdat + 4]) + len(junk))

        assert mp4_aac.find(bytes(clip)) is not None
        assert outcome(bytes(clip)) == by_packets(outcome, bytes(clip))


def test_a_header_of_countless_boxes_is_not_read_to_its_end() -> None:
    tracks = box(b"trak", b"".join(box(b"tkhd", bytes(4)) for _ in range(50))) * 50
    assert mp4_aac.find(box(b"ftyp", b"") + box(b"moov", box(b"mvhd", bytes(100)) + tracks)) is None


def test_a_file_that_ends_early_comes_to_the_same() -> None:
    clip = remuxed(CLIP, movflags="faststart")
    track = mp4_aac.find(clip)
    assert track is not None
    rng = random.Random(3)

    for end in (len(clip) - 1, *(rng.randrange(len(clip) // 3, len(clip)) for _ in range(10))):
        assert outcome(clip[:end]) == by_packets(outcome, clip[:end])


@pytest.mark.parametrize("where", ["header", "sound"])
def test_damage_comes_to_the_same(where: str) -> None:
    """Of one or two channels: what a damaged frame lacks of more is silence here, and packet by packet what a frame
    before it held.
    """
    rng = random.Random(where)
    clips = [SHORT, make_audio(1.3, 44_100, 2, format="MP4")]
    alike = 0
    for _ in range(MUTANTS):
        clip = bytearray(rng.choice(clips))
        header = clip.index(b"moov")
        part = range(header, len(clip)) if where == "header" else range(clip.index(b"mdat") + 4, header)
        for _ in range(rng.choice([1, 2, 8])):
            clip[rng.choice(part)] = rng.choice([0, 255, rng.randrange(256)])
        got = outcome(bytes(clip))
        assert got == by_packets(outcome, bytes(clip))
        alike += mp4_aac.find(bytes(clip)) is not None
    assert alike > MUTANTS // 4


@pytest.mark.parametrize("size", [1 << 17, 1 << 18])
@pytest.mark.parametrize("what", USUAL)
def test_a_pipe_is_never_empty_while_ffmpeg_reads(what: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that found too little would take that for the end."""
    monkeypatch.setattr(feed, "_PIPE", (size, size))
    track = mp4_aac.find(USUAL[what]())
    assert track is not None

    with piped.opened(AacInMatroska(track)) as blocks:
        assert sum(block.shape[1] for block in blocks) == track.frames * mp4_aac.FRAME


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    outcome(with_packet(CLIP, 500, b"\xff" * 64))
    load(CLIP)

    assert capfd.readouterr() == ("", "")
