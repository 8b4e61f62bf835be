"""FFmpeg decodes from a memory file, many frames at a time: the same samples as frame by frame, and nothing beside."""

from __future__ import annotations

import gc
import io
import os
import random
import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import av
import numpy as np
import pytest

from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import DEFAULT_LIMITS
from lazymedia.media.audio import AudioMediaIO, ffmpeg, ffmpeg_frames, ffmpeg_graph, formats
from lazymedia.media.audio.formats import MP4, sniff
from lazymedia.media.cancellation import DecodeStopped, stopping_when
from lazymedia.testing import make_image
from lazymedia.testing.audio import make_audio, sound
from lazymedia.testing.video import make_video
from tests.media import odd_clips
from tests.media.audio_clips import wav, with_packet
from tests.media.hearing import decode, pitches
from tests.media.hostile_clips import in_matroska
from tests.media.many_at_a_time import frame_by_frame, load, load_and_count, open_files, outcome
from tests.media.mp3_clips import constant, id3v2, layer_two, song, untold
from tests.media.mp4_files import box, patched, remuxed
from tests.media.ogg_pages import Sheet, changed, packed, replace, sheets
from tests.media.stops import After

MUTANTS: Final = 2_000 if os.environ.get("LAZYMEDIA_LONG_TESTS") else 12

needs_memory_files = pytest.mark.skipif(not ffmpeg_graph.is_possible(), reason="needs memory files")


@cache
def clip(format_: str, channels: int = 2) -> bytes:
    """Of many calls, the last of which is short."""
    return make_audio(18, 48_000, channels, format=format_)


def by_ffmpeg(**options: str) -> bytes:
    """Opus by FFmpeg's encoder with options of its own."""
    made = io.BytesIO()
    samples = sound(20, 48_000, 2)
    with av.open(made, "w", format="ogg") as container:
        stream: Any = container.add_stream("libopus", rate=48_000, options=options)
        stream.layout = "stereo"
        frame = av.AudioFrame.from_ndarray(samples.reshape(1, -1), format="flt", layout="stereo")
        frame.sample_rate, frame.pts = 48_000, 0
        for packet in (*stream.encode(frame), *stream.encode(None)):
            container.mux(packet)
    return made.getvalue()


def later(samples: int) -> bytes:
    """As if cut out of a longer recording."""

    def change(_: int, sheet: Sheet) -> Sheet:
        return replace(sheet, granule=sheet.granule + samples if sheet.granule > 0 else 0)

    return changed(clip("OPUS"), change)


def skipping(samples: int) -> bytes:
    """With another pre-skip. RFC 7845, section 5.1."""

    def change(number: int, sheet: Sheet) -> Sheet:
        body = sheet.body[:10] + struct.pack("<H", samples) + sheet.body[12:]
        return replace(sheet, body=body) if number == 0 else sheet

    return changed(clip("OPUS"), change)


LARGE: dict[str, Callable[[], bytes]] = {
    **{
        f"{format_}, {channels} channels": partial(clip, format_, channels)
        for format_ in ("M4A", "MOV", "OGG", "OPUS", "MP3", "WEBM", "AAC", "TS")
        for channels in (1, 2)
    },
    **{f"M4A, {channels} channels": partial(clip, "M4A", channels) for channels in (3, 6, 8)},
    "WEBM, 8 channels": partial(clip, "WEBM", 8),
    "PCM of 24 bits": lambda: make_audio(18, 48_000, 2, format="MOV", subtype="pcm_s24le"),
    "PCM of 8 channels": lambda: make_audio(5, 48_000, 8, format="MOV"),
    "doubles": lambda: make_audio(5, 48_000, 2, format="MOV", subtype="pcm_f64le"),
    "ALAC": lambda: make_audio(5, 48_000, 2, format="M4A", subtype="alac"),
    "AC-3": lambda: odd_clips.muxed(("ac3", sound(10, 48_000), 0)),
    "MP2": lambda: clip("MPEG"),
    "MP3 at a constant bit rate": lambda: constant(10, 44_100, 2),
    "MP3 without a count": lambda: untold(song(440, 20)),
    "layer II": lambda: layer_two() * 2,
    "MP3 behind a cover": lambda: odd_clips.behind_cover(clip("MP3")),
    "MP3 in AVI": lambda: odd_clips.muxed(("libmp3lame", sound(18, 44_100), 0), container="avi", rate=44_100),
    "AAC in Flash": lambda: odd_clips.muxed(("aac", sound(18, 44_100), 0), container="flv", rate=44_100),
    "AMR": lambda: odd_clips.amr(120),
    "a low rate": lambda: make_audio(60, 8_000, 2, format="MP4"),
    "a high rate": lambda: make_audio(8, 96_000, 2, format="M4A"),
    "tables first": lambda: remuxed(clip("M4A"), movflags="faststart"),
    "fragments": lambda: remuxed(clip("M4A"), movflags="frag_keyframe+empty_moov", frag_duration="1000000"),
    "no edit": lambda: remuxed(clip("M4A"), use_editlist="0"),
    "an edit that begins in the third frame": lambda: patched(clip("M4A"), b"elst", 12, ">I", 2_500),
    "an edit that primes nothing": lambda: patched(clip("M4A"), b"elst", 8, ">II", 1_280, 0),
    "a film": lambda: make_video(200, audio=True),
    "a film in Matroska": lambda: make_video(200, container="mkv", audio=True),
    "a film in a transport stream": lambda: make_video(200, container="ts", audio=True),
    "a cover": lambda: odd_clips.muxed(
        ("aac", sound(9, 48_000), 0), container="mp4", cover=make_image(800, 600, format="JPEG")
    ),
    "speech": partial(by_ffmpeg, application="voip", b="32000"),
    "packets of several frames": partial(by_ffmpeg, frame_duration="120"),
    "short frames": partial(by_ffmpeg, application="lowdelay", frame_duration="2.5"),
    "cut out of a longer recording": partial(later, 987_654_321),
    "an encoder that skips less": partial(skipping, 100),
    "an encoder that skips more than a packet": partial(skipping, 3_840),
    "no last page": lambda: packed(sheets(clip("OPUS"))[:-1]),
    "the second track": lambda: odd_clips.muxed(("libopus", sound(9, 48_000), 0), ("libopus", sound(9, 48_000), 1)),
}


FRAME_BY_FRAME = {"layer II", "a film in a transport stream", "AAC in Flash"}
"""Layer II where the container does not say which layer it is: FFmpeg's filter expects the samples of layer III. FLV,
which FFmpeg must not seek in: its filter reads a file that it can seek in."""


@needs_memory_files
@pytest.mark.parametrize("what", LARGE)
def test_many_frames_at_a_time_give_the_same_samples_as_one(what: str) -> None:
    data = LARGE[what]()
    samples, checks = load_and_count(data)
    assert len(data) > 1 << 16

    one_by_one = frame_by_frame(load, data)

    assert np.array_equal(samples, one_by_one)
    assert checks <= 12 + 4 * len(samples) // 21_000 or what in FRAME_BY_FRAME


@pytest.mark.parametrize("format_", ["M4A", "OPUS", "OGG", "MP3", "WEBM", "AAC", "TS", "MKV"])
def test_damage_comes_to_the_same_by_either_way(format_: str) -> None:
    for seed in range(MUTANTS):
        dice = random.Random(seed)
        damaged = bytearray(clip(format_))
        for _ in range(dice.choice((1, 1, 8))):
            at = dice.randrange(len(damaged))
            damaged[at : at + dice.randrange(1, 600)] = dice.randbytes(dice.randrange(1, 600))
        data = bytes(damaged[: dice.randrange(1, len(damaged))] if seed % 3 == 0 else damaged)

        one, other = outcome(data), frame_by_frame(outcome, data)
        if format_ == "MP3":  # what FFmpeg makes of a damaged frame depends on what the memory held before
            one, other = (len(one[1]), one[0]), (len(other[1]), other[0])
        assert one == other, seed


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"max_audio_seconds": 17}, "last 17 seconds"),
        ({"max_audio_decoded_bytes": 6_700_000}, "decode to 6700000 bytes"),
        ({"max_audio_channels": 1}, "2 channels"),
        ({"max_audio_rate": 44_100}, "48000 Hz"),
    ],
)
@pytest.mark.parametrize("format_", ["M4A", "OPUS", "OGG", "MP3", "TS"])
def test_limits_hold(format_: str, limits: dict[str, int], words: str) -> None:
    with pytest.raises(UnprocessableMediaError, match=words) as caught:
        load(clip(format_), **limits)

    assert caught.value.__cause__ is None


def test_a_limit_on_length_ends_a_decode_between_two_calls() -> None:
    """Where no header says how long the clip is."""
    assert ffmpeg.read_track(clip("TS"), sniff_of("TS"), DEFAULT_LIMITS).declared is None
    done = 0

    def check() -> None:
        nonlocal done
        done += 1

    with stopping_when(check), pytest.raises(UnprocessableMediaError, match="last 3 seconds"):
        load(clip("TS"), max_audio_seconds=3)
    assert done < 10


def sniff_of(format_: str) -> Any:
    found = sniff(clip(format_))
    assert found is not None
    return found


# What is opened, and what is closed again


@pytest.fixture(params=["M4A", "OPUS", "MP3"])
def format_(request: pytest.FixtureRequest) -> Iterator[str]:
    """A format whose decodes leave no descriptor open."""
    name = str(request.param)
    load(clip(name))
    gc.collect()
    before = open_files()
    gc.disable()  # what is closed is closed at once
    try:
        yield name
        assert open_files() == before
    finally:
        gc.enable()


@needs_memory_files
def test_no_file_stays_open_whatever_ends_a_decode(format_: str) -> None:
    load(clip(format_))
    outcome(with_packet(clip(format_), 300, b"\xff" * 64))
    outcome(clip(format_)[:100_000])
    for left in range(8):
        with stopping_when(After(left)), pytest.raises(DecodeStopped):
            load(clip(format_))
    errors = []
    for limits in ({"max_audio_seconds": 2}, {"max_audio_amplitude": 0.1}):
        with pytest.raises(UnprocessableMediaError) as caught:
            load(clip(format_), **limits)
        errors.append(caught.value)  # a kept traceback keeps no file
    assert len(errors) == 2


@needs_memory_files
@pytest.mark.parametrize("call", ["memfd_create", "write", "lseek"])
def test_where_the_system_gives_no_memory_it_goes_frame_by_frame(
    format_: str, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise OSError(24, "too many open files")

    want = frame_by_frame(load, clip(format_))
    with monkeypatch.context() as patched_:
        patched_.setattr(os, call, fail)
        samples = load(clip(format_))

    assert np.array_equal(samples, want)


@pytest.mark.parametrize("format_", ["M4A", "OPUS", "MP3"])
def test_decodes_in_many_threads_do_not_meet(format_: str) -> None:
    clips = [make_audio(6, 48_000, 1 + seed % 2, format=format_, seed=seed) for seed in range(4)]
    want = [frame_by_frame(load, one) for one in clips]

    with ThreadPoolExecutor(6) as pool:
        got = list(pool.map(load, clips * 4))

    assert all(np.array_equal(one, other) for one, other in zip(got, want * 4, strict=True))


def test_without_memory_files_one_clip_is_decoded_at_a_time_and_a_waiting_one_can_be_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ffmpeg_graph, "is_possible", lambda: False)
    inside, leave = threading.Event(), threading.Event()
    waiting = threading.Event()

    def hold() -> None:
        inside.set()
        assert leave.wait(30)

    def stop() -> None:
        if inside.is_set():
            waiting.set()
            raise DecodeStopped

    def wait_for_it() -> None:
        with stopping_when(stop):
            load(clip("MP3"))

    def first() -> Any:
        calls = iter(range(100_000))
        with stopping_when(lambda: hold() if next(calls) == 1 else None):
            return load(clip("M4A"))

    with ThreadPoolExecutor(2) as pool:
        running = pool.submit(first)
        assert inside.wait(30)
        stopped = pool.submit(wait_for_it)
        assert waiting.wait(30)
        with pytest.raises(DecodeStopped):
            stopped.result(30)
        assert not running.done()
        leave.set()
        assert len(running.result(30)) >= 18 * 48_000


# What a payload may not reach


def with_reference(path: Path) -> bytes:
    """A movie whose samples lie in another file, by a data reference of type "url ". QuickTime File Format, data
    reference atoms; ISO/IEC 14496-12, 8.7.2.
    """
    inner = make_audio(2, 48_000, 2, format="MOV")
    place = inner.index(b"dref") - 4
    end = place + int.from_bytes(inner[place : place + 4])
    url = box(b"url ", b"\0\0\0\0" + f"file://{path}\0".encode())
    alias = b"\0\0\0\0" + _alias(path)
    new = box(b"dref", b"\0\0\0\0" + struct.pack(">I", 2) + box(b"alis", alias) + url)
    grown = bytearray(inner[:place] + new + inner[end:])
    for name in (b"moov", b"trak", b"mdia", b"minf", b"dinf"):
        at = inner.index(name) - 4
        struct.pack_into(">I", grown, at, int.from_bytes(inner[at : at + 4]) + len(new) - (end - place))
    return bytes(grown)


def _alias(path: Path) -> bytes:
    """A Macintosh alias with the whole path as its entry 18, which FFmpeg follows where it may."""
    name = str(path).encode()
    head = bytearray(150)
    struct.pack_into(">H", head, 6, 2)
    entry = struct.pack(">hH", 18, len(name)) + name + bytes(len(name) & 1)
    return bytes(head) + entry + struct.pack(">hH", -1, 0)


@needs_memory_files
def test_a_movie_whose_samples_lie_in_another_file_does_not_open_it(tmp_path: Path) -> None:
    other = tmp_path / "other.mov"
    other.write_bytes(make_audio(2, 48_000, 2, format="MOV", frequency=1_000))
    data = with_reference(other)
    before = other.stat().st_atime_ns

    for way in (partial(load, data), partial(frame_by_frame, load, data)):
        assert set(pitches(way())) <= {440, 880}
    assert other.stat().st_atime_ns == before


@needs_memory_files
def test_ffmpeg_opens_nothing_that_has_a_name_even_where_a_demuxer_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list of protocols holds on its own: references are followed here, and still find nothing."""
    other = tmp_path / "other.mov"
    other.write_bytes(make_audio(2, 48_000, 2, format="MOV", frequency=1_000))
    data = with_reference(other)
    track = ffmpeg.read_track(data, MP4, DEFAULT_LIMITS)
    following = {**ffmpeg.demuxer_options(MP4), "enable_drefs": "1", "use_absolute_path": "1"}
    monkeypatch.setattr(ffmpeg_graph, "demuxer_options", lambda _: following)

    heard: list[Any] = []
    try:
        with ffmpeg_graph.opened(data, MP4, track) as frames:
            heard += [ffmpeg_graph.as_array(frame, 2)[0] for frame in frames]
    except av.FFmpegError:
        pass

    assert not heard or set(pitches(np.concatenate(heard))) <= {440, 880}


NAMES = {
    "a playlist": b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n",
    "a list of files": b"ffconcat version 1.0\nfile 'secret.wav'\n",
    "a description of a session": b"v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\nm=audio 5004 RTP/AVP 0\r\n",
    "a manifest": b"<?xml version='1.0'?><MPD xmlns='urn:mpeg:dash:schema:mpd:2011'></MPD>",
}


@needs_memory_files
@pytest.mark.parametrize("what", NAMES)
@pytest.mark.parametrize("demuxer", ["mov", "mp3", "ogg", "matroska", "mpegts", "aac", "flv", "wav"])
def test_a_text_that_names_other_files_is_never_demuxed_as_one(what: str, demuxer: str) -> None:
    """Whatever stands in a payload, the demuxer is the one that its first bytes call for."""
    kind = _kind(demuxer)
    track = ffmpeg.Track(0, "aac", 2, False, 0, None, False, False, None)

    with pytest.raises(av.FFmpegError), ffmpeg_graph.opened(NAMES[what] * 400, kind, track) as frames:
        next(frames)


def _kind(demuxer: str) -> Any:
    return next(kind for kind in vars(formats).values() if isinstance(kind, formats.Format) and kind.demuxer == demuxer)


@pytest.mark.parametrize("codec", ["adpcm_swf", "nellymoser"])
def test_a_codec_that_is_not_listed_reaches_neither_way(codec: str) -> None:
    made = odd_clips.muxed((codec, sound(4, 44_100), 0), container="flv", rate=44_100)

    for way in (partial(outcome, made), partial(frame_by_frame, outcome, made)):
        assert f"codec {codec} is not decoded" in str(way())


@needs_memory_files
def test_pictures_and_frames_of_video_are_not_decoded() -> None:
    """FFmpeg logs each decoder that it may not open, on its two openings of a payload."""
    films = {
        "h264": make_video(200, audio=True),
        "vp8": make_video(60, codec="libvpx", container="webm", audio=True),
        "mjpeg": odd_clips.muxed(
            ("aac", sound(9, 48_000), 0), container="mp4", cover=make_image(64, 48, format="JPEG")
        ),
    }
    for codec, film in films.items():
        level = av.logging.get_level()
        av.logging.set_level(av.logging.VERBOSE)
        try:
            with av.logging.Capture() as logs:
                load(film)
        finally:
            av.logging.set_level(level)

        about = [text for _, name, text in logs if name == codec]
        assert about, codec
        assert all("not on whitelist" in text for text in about), codec


def test_the_renewed_decoder_hears_what_comes_behind_damage_that_changed_the_channels() -> None:
    """Junk in AAC may look like a list of 59 channels."""
    data = remuxed(make_audio(8, 48_000, 2, format="MP4"), movflags="faststart")
    at = int(len(data) * 0.2)
    damaged = data[:at] + random.Random(0).randbytes(4_000) + data[at + 4_000 :]

    assert len(decode(damaged)) > 7.5 * 48_000
    assert ffmpeg_frames.CHANGE not in str(outcome(damaged))


def test_a_clip_below_the_size_for_a_memory_file_is_decoded_all_the_same() -> None:
    small = make_audio(1, 48_000, 2, format="M4A")
    assert len(small) < 1 << 16

    assert np.array_equal(load(small), frame_by_frame(load, small))
    assert AudioMediaIO().load_bytes(wav())[1] == 16_000
    assert len(load(id3v2(70_000) + song())) == 96_000


@pytest.mark.parametrize("count", [60, 4_000])
def test_a_packet_of_nothing_ends_no_decode(count: int) -> None:
    """FFmpeg takes one for the end, wherever it stands."""
    packets = [struct.pack("<64h", *range(64))] * count
    packets[count // 2 : count // 2] = [b""]
    data = in_matroska(b"A_PCM/INT/LIT", b"", packets, rate=48_000)

    assert len(load(data)) == 64 * count
    assert len(frame_by_frame(load, data)) == 64 * count
