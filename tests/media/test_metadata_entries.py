"""Files with as many tags and chapters as are allowed decode; those with more are rejected before FFmpeg reads them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from benchmarks.worst_cases import matroskas, oggs
from lazymedia.cli import main
from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import DEFAULT_LIMITS, Limits
from lazymedia.media.audio import AudioMediaIO
from lazymedia.media.containers import check as check_headers
from lazymedia.media.containers.vorbis import SETUP, book_entries
from lazymedia.media.video import VideoMediaIO
from lazymedia.testing import make_audio, make_video
from tests.cpu import cpu_seconds_below
from tests.media.hearing import decode, refusal
from tests.media.ogg_pages import packed, sheet_of, sheets
from tests.media.tagged import id3, in_riff, notes, tagged
from tests.media.torchcodec_here import load_or_skip

MOST = DEFAULT_LIMITS.max_metadata_entries

Tags = Mapping[str, str]
Maker = Callable[[Tags], bytes]


def sound(format_: str, rate: int = 16_000) -> bytes:
    return make_audio(0.5, rate, format=format_)


def with_chapters(tags: Tags) -> bytes:
    """A Matroska with chapters in place of the empty space that its header has."""
    clip = make_video(8, container="mkv")
    start = clip.index(b"\xec", clip.index(b"\x11\x4d\x9b\x74"))
    return clip[:start] + matroskas.chapters(len(tags)) + clip[start:]


def with_nested_tags(tags: Tags) -> bytes:
    """All within one tag, whose name is part of theirs."""
    inner = (matroskas.element("67C8", matroskas.element("45A3", name.encode())) for name in tags)
    outer = matroskas.element("67C8", matroskas.element("45A3", b"all"), *inner)
    clip = tagged(sound("FLAC"), "matroska", {})
    at = clip.index(b"\x12\x54\xc3\x67")
    return clip[:at] + matroskas.element("1254C367", matroskas.element("7373", outer)) + clip[at:]


AUDIO: dict[str, tuple[str, Maker]] = {
    "MP3": ("mp3", lambda tags: tagged(sound("MP3"), "mp3", tags)),
    "MP3 with a tag of version 2.3": ("mp3", lambda tags: tagged(sound("MP3"), "mp3", tags, id3v2_version="3")),
    "MP3 with two tags": (
        "mp3",
        lambda tags: id3(dict(list(tags.items())[:40])) + id3(dict(list(tags.items())[40:])) + sound("MP3"),
    ),
    "AAC": ("aac", lambda tags: tagged(sound("AAC"), "adts", tags, write_id3v2="1")),
    "AAC with an APE tag": ("aac", lambda tags: tagged(sound("AAC"), "adts", tags, write_apetag="1")),
    "AAC with a tag between frames": ("aac", lambda tags: sound("AAC") + id3(tags) + sound("AAC")),
    "FLAC": ("flac", lambda tags: tagged(sound("FLAC"), "flac", tags)),
    "FLAC behind a tag": ("flac", lambda tags: id3(tags) + sound("FLAC")),
    "Opus": ("ogg", lambda tags: tagged(sound("OPUS", 48_000), "ogg", tags)),
    "Vorbis": ("ogg", lambda tags: oggs.vorbis(4, 1, packets=100, comments=oggs.comments(len(tags)))),
    "FLAC in OGG": ("ogg", lambda tags: tagged(sound("FLAC"), "ogg", tags)),
    "M4A": ("mov", lambda tags: tagged(sound("M4A"), "ipod", tags, movflags="use_metadata_tags")),
    "MP4 in fragments": (
        "mov",
        lambda tags: tagged(sound("M4A"), "mp4", tags, movflags="use_metadata_tags+frag_keyframe+empty_moov"),
    ),
    "Matroska": ("matroska", lambda tags: tagged(sound("FLAC"), "matroska", tags)),
    "WebM": ("matroska", lambda tags: tagged(sound("WEBM"), "webm", tags)),
    "AIFF": ("aiff", lambda tags: tagged(sound("AIFF"), "aiff", tags, write_id3v2="1")),
    "FLV": ("flv", lambda tags: tagged(sound("MP3", 44_100), "flv", tags)),
    "WAV": ("wav", lambda tags: in_riff(sound("WAV"), b"LIST", notes(len(tags)))),
    "WAV with a tag": ("wav", lambda tags: in_riff(sound("WAV"), b"id3 ", id3(tags))),
}
VIDEO: dict[str, tuple[str, Maker]] = {
    "MP4": ("mov", lambda tags: tagged(make_video(8), "mp4", tags, movflags="use_metadata_tags")),
    "Matroska": ("matroska", lambda tags: tagged(make_video(8), "matroska", tags)),
    "Matroska with chapters": ("matroska", with_chapters),
    "FLV": ("flv", lambda tags: tagged(make_video(8), "flv", tags)),
    "AVI": ("avi", lambda tags: in_riff(make_video(8, container="avi", codec="mpeg4"), b"LIST", notes(len(tags)))),
    "OGG": ("ogg", lambda tags: tagged(make_video(8, container="webm", codec="libvpx"), "ogg", tags)),
}
ROWS = [("audio", name) for name in AUDIO] + [("video", name) for name in VIDEO]
FEW = 12
"""Entries that muxers add of themselves, and those that FFmpeg makes of others or leaves out (of FLV)."""


def made(modality: str, name: str, count: int) -> tuple[str, bytes]:
    demuxer, make = (AUDIO if modality == "audio" else VIDEO)[name]
    return demuxer, make({f"k{number:05}": "v" for number in range(count)})


def reader(modality: str, limits: Limits = DEFAULT_LIMITS) -> AudioMediaIO | VideoMediaIO:
    return AudioMediaIO(limits=limits) if modality == "audio" else VideoMediaIO(num_frames=2, limits=limits)


@pytest.mark.parametrize(("modality", "name"), ROWS)
def test_as_many_entries_as_are_allowed_decode(modality: str, name: str) -> None:
    _, data = made(modality, name, MOST - FEW)
    ref: Any = reader(modality).load_bytes_ref(data)

    assert ref.probe() is not None
    assert len(ref.decode()[0]) > 0


@pytest.mark.parametrize(("modality", "name"), ROWS)
def test_more_entries_are_rejected(modality: str, name: str) -> None:
    _, data = made(modality, name, 2 * MOST)
    ref: Any = reader(modality).load_bytes_ref(data)

    for attempt in (ref.decode, lambda: reader(modality).load_bytes(data)):
        with pytest.raises(UnprocessableMediaError, match=f"{MOST} entries at most") as caught:
            attempt()
        assert (caught.value.modality, caught.value.status_hint) == (modality, 422)


def test_to_reject_very_many_entries_takes_no_time() -> None:
    clip = oggs.opus(50, b"\xf8", 960, tags=oggs.comments(40_000))

    with cpu_seconds_below(1):  # FFmpeg takes more than ten
        assert f"{MOST} entries" in refusal(clip)


@pytest.mark.parametrize(("modality", "name"), ROWS)
def test_the_count_is_that_of_ffmpeg(modality: str, name: str) -> None:
    demuxer, data = made(modality, name, 300)

    with av.open(io.BytesIO(data), "r", format=demuxer) as container:
        for _ in container.demux():
            pass
        found = max(len(container.metadata), *(len(stream.metadata) for stream in container.streams))
        found = max(found, len(container.chapters()))
    assert found >= 300
    check_headers(data, demuxer, Limits(max_metadata_entries=found + FEW), modality)
    with pytest.raises(UnprocessableMediaError):
        check_headers(data, demuxer, Limits(max_metadata_entries=found - FEW), modality)


@pytest.mark.parametrize(
    ("modality", "name"), [("audio", "M4A"), ("audio", "Opus"), ("audio", "MP3"), ("video", "MP4"), ("video", "FLV")]
)
def test_a_header_with_too_many_entries_is_rejected_by_a_probe_too(modality: str, name: str) -> None:
    ref: Any = reader(modality).load_bytes_ref(made(modality, name, 2 * MOST)[1])

    with pytest.raises(UnprocessableMediaError, match=f"{MOST} entries at most"):
        ref.probe()


@pytest.mark.parametrize(("modality", "name"), [("audio", "M4A"), ("audio", "Vorbis"), ("video", "Matroska")])
def test_torchcodec_does_not_get_them_either(modality: str, name: str) -> None:
    load_or_skip()
    _, data = made(modality, name, 2 * MOST)
    backend: Any = (
        AudioMediaIO(audio_backend="torchcodec") if modality == "audio" else VideoMediaIO(video_backend="torchcodec")
    )

    with pytest.raises(UnprocessableMediaError, match=f"{MOST} entries at most"):
        backend.load_bytes(data)


def test_the_command_line_shows_no_header_of_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "song.mp3"
    path.write_bytes(made("audio", "MP3", 2 * MOST)[1])

    assert main(["probe", str(path), "--modality", "audio", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["header"] is None


@pytest.mark.parametrize(
    ("modality", "name"),
    [("audio", "MP3"), ("audio", "Opus"), ("audio", "M4A"), ("video", "Matroska"), ("audio", "FLV")],
)
def test_long_names_count_as_several_entries(modality: str, name: str) -> None:
    demuxer, make = (AUDIO if modality == "audio" else VIDEO)[name]
    long = make({f"{number:0200}": "v" for number in range(MOST // 4)})
    short = make({f"{number:020}": "v" for number in range(MOST // 4)})

    check_headers(short, demuxer, DEFAULT_LIMITS, modality)
    with pytest.raises(UnprocessableMediaError):
        check_headers(long, demuxer, DEFAULT_LIMITS, modality)


def test_names_of_nested_tags_count_with_those_around_them() -> None:
    check_headers(with_nested_tags(dict.fromkeys(map(str, range(200)), "")), "matroska", DEFAULT_LIMITS, "audio")
    with pytest.raises(UnprocessableMediaError):
        check_headers(with_nested_tags(dict.fromkeys(map(str, range(600)), "")), "matroska", DEFAULT_LIMITS, "audio")


@pytest.mark.parametrize(
    "clip",
    [
        id3({"a": "b"}) + sound("MP3"),
        id3({"a": "b"})[:6] + b"\0\0\x7f\x00" + id3({"a": "b"})[10:] + bytes(16_256 - 13) + sound("MP3"),
        tagged(sound("OPUS", 48_000), "ogg", {"PICTURE": "x" * 500_000}),
        tagged(sound("M4A"), "ipod", {"comment": "x" * 500_000}),
        tagged(sound("FLAC"), "matroska", {"comment": "x" * 500_000}),
    ],
    ids=["one", "padded", "long text in Opus", "long text in M4A", "long text in Matroska"],
)
def test_padding_and_long_values_are_no_entries(clip: bytes) -> None:
    assert len(decode(clip)) > 0


def test_recordings_in_a_row_may_each_have_tags_and_none_may_have_too_many() -> None:
    def songs(*counts: int) -> bytes:
        return b"".join(made("audio", "Opus", count)[1] for count in counts)

    assert len(decode(songs(300, 300, 300))) == 3 * len(decode(songs(300)))
    assert f"{MOST} entries" in refusal(songs(1, 1, 600))


def test_comments_are_found_on_whatever_pages_they_lie() -> None:
    """Each page holds 255 bytes of the packet, and pages of another stream lie between."""
    clip = made("audio", "Vorbis", 600)[1]
    first, *others = sheets(clip)
    spread = [first]
    for sheet in others:
        start = 0
        for number, row in enumerate(sheet.table):
            part = sheet.body[start : start + row]
            start += row
            spread += [
                type(sheet)(sheet.flags if not number else 1, -1, sheet.serial, len(spread), bytes([row]), part),
                sheet_of([b"x"], 99, len(spread)),
            ]
    assert f"{MOST} entries" in refusal(packed(spread))


@pytest.mark.parametrize("behind_clusters", [False, True], ids=["before the clusters", "behind them, by a seek head"])
@pytest.mark.parametrize("damage", [b"", b"\0\0\0"], ids=["undamaged", "behind damage"])
def test_tags_of_matroska_are_found_where_ffmpeg_finds_them(*, behind_clusters: bool, damage: bytes) -> None:
    tags = matroskas.tags(600)
    seek = matroskas.element("4DBB", matroskas.element("53AB", tags[:4]), matroskas.element("53AC", (0).to_bytes(4)))
    clusters = matroskas.cluster(0, [matroskas.block(b"\x80" * 160, number * 10) for number in range(8)])
    track = matroskas.audio_track(b"A_PCM/INT/LIT", 16_000, 1, depth=8)

    def movie(place: int) -> bytes:
        head = matroskas.element("114D9B74", seek[:-4] + place.to_bytes(4)) if behind_clusters else tags
        return matroskas.movie(track, clusters, tags if behind_clusters else b"", head=damage + head)

    data = movie(0)
    data = movie(data.rindex(tags) - data.index(b"\x15\x49\xa9\x66"))

    with av.open(io.BytesIO(data), format="matroska") as container:
        assert len(container.metadata) == 600
    assert f"{MOST} entries" in refusal(data)


def test_code_books_are_counted() -> None:
    for bits, books in ((4, 1), (10, 16), (14, 128)):
        assert book_entries(oggs.vorbis_headers(bits, books)[2]) == books << bits
    clip = sound("OGG")
    # libvorbis has books without a word for some entries: the count reaches the last one.
    assert 3_000 < book_entries(clip, clip.index(SETUP)) < 20_000


@pytest.mark.parametrize("count", [1, 64])
def test_code_books_that_take_far_longer_than_their_bytes_are_rejected(count: int) -> None:
    clip = b"".join(oggs.vorbis(14, 128 // count * 2, serial=number + 1) for number in range(count))

    assert "code books" in refusal(clip)


def test_short_recordings_in_a_row_are_few() -> None:
    assert len(decode(b"".join(oggs.vorbis(4, 1, serial=number) for number in range(30)))) > 0
    assert "recordings" in refusal(b"".join(oggs.vorbis(4, 1, serial=number) for number in range(100)))


def test_empty_packets_are_few() -> None:
    clip = oggs.vorbis(4, 1, packets=400)
    empty = oggs.page([b""] * 255, 1, 5, 51_200)

    assert np.array_equal(decode(clip + empty * 5), decode(clip))
    assert "more packets" in refusal(clip + empty * 100)
