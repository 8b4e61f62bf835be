"""What stands behind a false match of a container's signature is counted like all else."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable

import av
import pytest

from benchmarks.worst_cases import matroskas, oggs
from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import DEFAULT_LIMITS
from lazymedia.media.audio import AudioMediaIO
from lazymedia.media.containers import check
from lazymedia.media.containers.matroska import has_encodings
from lazymedia.testing import make_audio
from tests.cpu import cpu_seconds_below
from tests.media.ogg_pages import packed, sheet_of, sheets
from tests.media.tagged import id3, in_riff, notes, tagged
from tests.media.test_container_claims import PCM, cues, in_packets, section

CUES, TRACKS = b"\x1c\x53\xbb\x6b", b"\x16\x54\xae\x6b"
MANY = DEFAULT_LIMITS.max_metadata_entries * 2


def seek_head(name: bytes) -> bytes:
    """The id of a part, and behind it an element whose id reads as a length of 5,036 bytes."""
    place = matroskas.element("53AC", b"\0\x10")
    return matroskas.element("114D9B74", matroskas.element("4DBB", matroskas.element("53AB", name), place))


def with_cues(head: bytes, many: bytes) -> bytes:
    return matroskas.movie(PCM, many, matroskas.cluster(0, [matroskas.block(bytes(320))]), head=head)


def within_other_cues() -> bytes:
    """A short element of cues that ends within the first point of the others."""
    many = cues(40_000, order=-1)
    return with_cues(CUES + b"\x84", many)


def ogg_behind_overlaps() -> bytes:
    """Pages that say that they are long lie one in the other, and comments come behind them."""
    false = (b"OggS" + bytes(22) + b"\xff" + b"\xff" * 8) * 1_100
    return make_audio(0.5, 48_000, format="OPUS") + false + oggs.opus(50, b"\xf8", 960, tags=oggs.comments(40_000))


def ogg_around_false_pages() -> bytes:
    """Comments in small pages; between them pages of another stream that hold what looks like a page of this one."""
    clip = tagged(make_audio(0.5, 48_000, format="OPUS"), "ogg", {f"k{number:05}": "v" for number in range(MANY)})
    first, *others = sheets(clip)
    false = b"OggS" + struct.pack("<BBqLLLB", 0, 0, 0, first.serial, 7, 0, 1) + b"\1x"
    spread = [first]
    for sheet in others:
        start = 0
        for number, row in enumerate(sheet.table):
            part = sheet.body[start : start + row]
            start += row
            spread += [
                type(sheet)(sheet.flags if not number else 1, -1, sheet.serial, len(spread), bytes([row]), part),
                sheet_of([false], 99, len(spread)),
            ]
    return packed(spread)


def programs_around_false_ones() -> bytes:
    """A table of 253 programs, and between each two packets of it another, in which an empty table seems to begin."""
    rows = b"".join(struct.pack(">HH", number, 0xFE00) for number in range(1, 254))
    packets = in_packets(0, section(0, rows))
    false = (b"\x47\x1f\xff\x10" + b"\xff" * 9 + b"\x47\x40\x00\x10\x00\x00\xb0\x00").ljust(188, b"\xff")
    return b"".join(packets[at : at + 188] + false for at in range(0, len(packets), 188)) + make_audio(1, format="TS")


def flv(count: int) -> bytes:
    return tagged(make_audio(0.5, 44_100, format="MP3"), "flv", {f"k{number:05}": "v" for number in range(count)})


def flv_from_elsewhere() -> bytes:
    """The first tag begins behind 100 bytes of nothing, as the header says."""
    data = flv(MANY)
    return data[:5] + struct.pack(">L", 109) + bytes(100) + data[9:]


def flv_behind_damage() -> bytes:
    """A tag that says that it is long; FFmpeg finds the next one byte by byte."""
    data = flv(MANY)
    return data[:13] + b"\x08\x0f\xff\xff" + bytes(20) + data[13:]


def rf64() -> bytes:
    """Notes behind samples whose length only the first chunk has. EBU Tech 3306."""
    sound = make_audio(0.5, 16_000, format="WAV")
    body = sound[sound.index(b"data") + 8 :]
    size = struct.pack("<4sLQQQL", b"ds64", 28, 0, len(body), 0, 0)
    content = notes(MANY)
    return (
        b"RF64\xff\xff\xff\xffWAVE"
        + size
        + sound[12 : sound.index(b"data")]
        + (b"data\xff\xff\xff\xff" + body)
        + (b"LIST" + struct.pack("<L", len(content)) + content)
    )


def notes_behind_a_list() -> bytes:
    """A list in whose content a chunk says that it is long."""
    sound = make_audio(0.5, 16_000, format="WAV")
    return in_riff(in_riff(sound, b"LIST", notes(MANY)), b"LIST", b"adtldata\xff\xff\xff\x7f")


EVASIONS: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "cues behind a seek head": (
        "matroska",
        lambda: with_cues(seek_head(CUES), cues(40_000, order=-1)),
        "cues at most",
    ),
    "cues behind their id in empty space": (
        "matroska",
        lambda: with_cues(matroskas.element("EC", CUES + b"\xff"), cues(40_000, order=-1)),
        "cues at most",
    ),
    "cues that begin in shorter ones": ("matroska", within_other_cues, "cues at most"),
    "OGG comments behind pages within pages": ("ogg", ogg_behind_overlaps, "within each other"),
    "OGG comments around false pages": ("ogg", ogg_around_false_pages, "entries at most"),
    "MPEG-TS programs around false tables": ("mpegts", programs_around_false_ones, "128 programs"),
    "FLV whose first tag is not the usual place": ("flv", flv_from_elsewhere, "entries at most"),
    "FLV behind damage": ("flv", flv_behind_damage, "entries at most"),
    "WAV notes behind a list": ("wav", notes_behind_a_list, "entries at most"),
    "RF64 notes behind the samples": ("wav", rf64, "entries at most"),
}


@pytest.mark.parametrize("name", EVASIONS)
def test_a_false_match_hides_nothing(name: str) -> None:
    demuxer, make, words = EVASIONS[name]
    data = make()

    with pytest.raises(UnprocessableMediaError, match=words):
        check(data, demuxer, DEFAULT_LIMITS, "audio")
    with pytest.raises(UnprocessableMediaError, match=words):
        AudioMediaIO().load_bytes(data)


@pytest.mark.parametrize(
    "name",
    ["FLV whose first tag is not the usual place", "WAV notes behind a list", "RF64 notes behind the samples"],
)
def test_ffmpeg_reads_what_would_be_hidden(name: str) -> None:
    demuxer, make, _ = EVASIONS[name]

    with av.open(io.BytesIO(make()), "r", format=demuxer) as container:
        for _ in container.demux():
            pass
        assert len(container.metadata) > DEFAULT_LIMITS.max_metadata_entries


@pytest.mark.parametrize("distance", [0, 4_900, 5_020, 5_030, 6_000])
def test_compressed_tracks_behind_a_seek_head_are_found(distance: int) -> None:
    """Wherever what looks like the length of the tracks in the seek head ends."""
    track = matroskas.audio_track(b"A_PCM/INT/LIT", 16_000, 1, matroskas.compression(3, b"x"))
    head = seek_head(TRACKS) + matroskas.element("EC", bytes(distance))

    assert has_encodings(matroskas.movie(track, matroskas.cluster(0, []), head=head))
    assert not has_encodings(matroskas.movie(PCM, matroskas.cluster(0, []), head=head))


def nested_tags(count: int) -> bytes:
    """Tags whose frames of one name hold further tags."""
    frame = b"PRIV" + struct.pack(">LH", 12, 0) + b"a\0" + b"ID3\4\0\0\x7f\x7f\x7f\x7f"
    return b"ID3\4\0\0\x7f\x7f\x7f\x7f" + frame * count


MALICE: dict[str, tuple[str, Callable[[], bytes]]] = {
    "ids of cues": ("matroska", lambda: with_cues(b"", (CUES + b"\xff") * 200_000)),
    "empty cues": ("matroska", lambda: with_cues(b"", (CUES + b"\x80") * 200_000)),
    "ids of cues before empty space": ("matroska", lambda: with_cues(b"", (CUES + b"\x81" + b"\xec\x80") * 150_000)),
    "empty tags in a row": ("aac", lambda: make_audio(0.5, format="AAC") + b"ID3\4\0\0\0\0\0\0" * 100_000),
    "tags within tags": ("aac", lambda: make_audio(0.5, format="AAC") + nested_tags(45_000)),
    "scripts within scripts": (
        "flv",
        lambda: flv(1) + b"\x02\0\x0aonMetaData\x0a\xff\xff\xff\xff" * 60_000,
    ),
}


@pytest.mark.parametrize("name", MALICE)
def test_to_look_behind_every_match_takes_no_longer_than_the_bytes_warrant(name: str) -> None:
    demuxer, make = MALICE[name]
    data = make()

    with cpu_seconds_below(0.5 + 2 * len(data) / 1e6):
        try:
            check(data, demuxer, DEFAULT_LIMITS, "audio")
        except UnprocessableMediaError as exc:
            assert exc.modality == "audio"  # either is right, within the time


@pytest.mark.parametrize("count", [1, 300])
def test_a_tag_before_each_segment_is_no_excess(count: int) -> None:
    """As the segments of HLS have them, put together."""
    clip = (id3({"a": "b"}) + make_audio(0.5, format="AAC")) * count

    check(clip, "aac", DEFAULT_LIMITS, "audio")
