"""Containers that hold more packets, bytes, cues, programs, chunks or boxes than a payload of their size has."""

from __future__ import annotations

import io
import struct
import time
import zlib
from collections.abc import Callable
from fractions import Fraction

import av
import numpy as np
import pytest

from benchmarks.worst_cases import matroskas, mp4s
from benchmarks.worst_cases.avifs import box
from benchmarks.worst_cases.oggs import checksum
from lazymedia.errors import UnprocessableMediaError
from lazymedia.media.audio import AudioMediaIO
from lazymedia.media.containers.matroska import check_cues
from lazymedia.media.containers.mpegts import MAX_PROGRAMS, check_programs
from lazymedia.media.mp4_tables import check_tables
from lazymedia.media.video import VideoMediaIO
from lazymedia.testing import make_audio, make_image
from lazymedia.testing.video import make_video
from tests.cpu import cpu_seconds_below
from tests.media.torchcodec_here import load_or_skip

SIZE = (64, 48)
PCM = matroskas.audio_track(b"A_PCM/INT/LIT", 16_000, 1)
PCM_8 = matroskas.audio_track(b"A_PCM/INT/LIT", 16_000, 1, depth=8)


def picture() -> bytes:
    return make_image(*SIZE, format="JPEG")


def jpegs(*blocks: bytes, extra: bytes = b"") -> bytes:
    return matroskas.movie(matroskas.video_track(b"V_MJPEG", SIZE, extra), matroskas.cluster(0, blocks))


def laced(data: bytes, time: int = 0) -> bytes:
    """256 frames of the same length."""
    return matroskas.block(b"\xff" + data, time, 0x84)


def cues(count: int, *, order: int = 1, name: str = "BB") -> bytes:
    points = (
        matroskas.element(
            name,
            matroskas.number("B3", number if order > 0 else count - number),
            matroskas.element("B7", matroskas.number("F7", 1), matroskas.number("F1", number)),
        )
        for number in range(count)
    )
    return matroskas.element("1C53BB6B", *points)


def with_cues(track: bytes, content: bytes, *parts: bytes) -> bytes:
    return matroskas.movie(track, *parts, matroskas.cluster(0, [matroskas.block(content)]))


def section(table: int, body: bytes, *, version: int = 0, number: int = 0) -> bytes:
    """ISO/IEC 13818-1, 2.4.4.3."""
    head = struct.pack(">BHHBBB", table, 0xB000 | len(body) + 9, 1, 0xC1 | version << 1, number, number)
    return head + body + struct.pack(">L", checksum(head + body, 0xFFFFFFFF))


def in_packets(pid: int, data: bytes, *, first: int = 0) -> bytes:
    """Sections behind a pointer, in as many packets as that takes."""
    data = b"\0" + data
    parts = [data[at : at + 184] for at in range(0, len(data), 184)]
    return b"".join(
        struct.pack(">BHB", 0x47, pid | (0x4000 if not number else 0), 0x10 | first + number & 15)
        + part.ljust(184, b"\xff")
        for number, part in enumerate(parts)
    )


def associations(count: int, *, first: int = 1, each: int = 40) -> bytes:
    """A table of programs, in sections of so many each."""
    tables: list[bytes] = []
    for start in range(first, first + count, each):
        numbers = range(start, min(start + each, first + count))
        rows = b"".join(struct.pack(">HH", number, 0xE000 | 0x1E00) for number in numbers)
        tables.append(in_packets(0, section(0, rows, number=start // each & 255), first=len(tables)))
    return b"".join(tables)


def descriptions(count: int) -> bytes:
    """The names of services. ETSI EN 300 468, 5.2.3 and 6.2.33."""
    row = struct.pack(">BHBB", 0xFF, 0x8005, 0x48, 3) + b"\1\0\0"
    rows = [struct.pack(">H", 1_000 + number) + row for number in range(count)]
    parts = [rows[at : at + 80] for at in range(0, count, 80)]
    return b"".join(in_packets(0x11, section(0x42, b"\0\1\xff" + b"".join(part))) for part in parts)


def shared(size: int) -> bytes:
    return matroskas.compression(3, bytes(size))


def shared_samples() -> bytes:
    """Noise, so that a key frame is large, a thousand times."""
    clip = make_video(1, 128, 64, codec="libx264", b_frames=0, options={"qp": "0"})
    start = clip.index(b"stsd") - 4
    entry = clip[start + 16 : start + int.from_bytes(clip[start : start + 4])]
    with av.open(io.BytesIO(clip), "r") as source:
        packet = b"".join(bytes(packet) for packet in source.demux(video=0) if packet.size).ljust(20_000, b"\0")
    return mp4s.Track(entry, packet, 1_000, 1_000, len(packet), shown=(128, 64)).movie()


def chunks_of_a_sample() -> bytes:
    entry = box(b"raw ", bytes(6), struct.pack(">HHHLHHHHL", 1, 0, 0, 0, 1, 8, 0, 0, 16_000 << 16))
    return mp4s.Track(entry, b"\x80", 80_000, chunks=80_000, scale=16_000).movie()


VIDEO: dict[str, tuple[Callable[[], bytes], str]] = {
    "Matroska, blocks of a byte": (
        lambda: jpegs(matroskas.block(picture()), *[matroskas.block(b"\0", 1, 0)] * 10_000),
        "packets at most",
    ),
    "Matroska, laced": (
        lambda: jpegs(matroskas.block(picture()), *[laced(bytes(256), 1)] * 200),
        "packets at most",
    ),
    "Matroska, a shared beginning": (
        lambda: jpegs(*[matroskas.block(b"")] * 2_000, extra=matroskas.compression(3, picture().ljust(100_000, b"\0"))),
        "bytes at most",
    ),
    "Matroska, zlib": (
        lambda: jpegs(
            *[matroskas.block(zlib.compress(picture().ljust(4 << 20, b"\0")))] * 40, extra=matroskas.compression(0)
        ),
        "bytes at most",
    ),
    "Matroska, cues that descend": (
        lambda: with_cues(matroskas.video_track(b"V_MJPEG", SIZE), picture(), cues(40_000, order=-1)),
        "cues at most",
    ),
    "Matroska, cues in several elements": (
        lambda: with_cues(matroskas.video_track(b"V_MJPEG", SIZE), picture(), *[cues(3_000, order=-1)] * 12),
        "cues at most",
    ),
    "MP4, samples that share bytes": (
        lambda: mp4s.Track(
            mp4s.jpeg_entry(SIZE), picture().ljust(100_000, b"\0"), 2_000, 2_000, 100_000, shown=SIZE
        ).movie(),
        "bytes at most",
    ),
    "MP4, H.264 samples that share bytes": (shared_samples, "bytes at most"),
    "MP4, boxes": (lambda: box(b"ftyp", b"isom") + box(b"free") * 20_000, "boxes allowed"),
    "MPEG-TS, programs": (lambda: associations(2_000) + make_video(3, container="ts"), "128 programs"),
    "MPEG-TS, programs behind": (lambda: make_video(3, container="ts") + associations(2_000), "128 programs"),
    "MPEG-TS, a long table": (lambda: make_video(3, container="ts") + associations(253, each=253), "128 programs"),
    "MPEG-TS, services": (lambda: make_video(3, container="ts") + descriptions(400), "128 programs"),
    "MPEG-TS, programs out of step": (
        lambda: make_video(3, container="ts") + b"\0" * 77 + associations(2_000),
        "128 programs",
    ),
}

AUDIO: dict[str, tuple[Callable[[], bytes], str]] = {
    "MP4, samples": (lambda: mp4s.Track(mp4s.aac_entry(b"\x14\x08", 16_000, 1), b"", 2_000_000).movie(), "samples"),
    "MP4, edits": (
        lambda: mp4s.Track(
            mp4s.aac_entry(b"\x14\x08", 16_000, 1), bytes(800), 800, edits=[(800, 0, 1 << 16)] * 400
        ).movie(),
        "edits repeat",
    ),
    "MOV, chunks of a sample": (chunks_of_a_sample, "chunks of sound"),
    "Matroska, samples laced": (
        lambda: matroskas.movie(PCM_8, matroskas.cluster(0, [laced(b"\x80" * 256)] * 600)),
        "more packets",
    ),
    "Matroska, a shared beginning": (
        lambda: matroskas.movie(
            matroskas.audio_track(b"A_AAC", 16_000, 1, matroskas.element("63A2", b"\x14\x08"), shared(100_000)),
            matroskas.cluster(0, [matroskas.block(b"")] * 2_000),
        ),
        "more bytes",
    ),
    "Matroska, cues that descend": (lambda: with_cues(PCM, bytes(320), cues(40_000, order=-1)), "cues at most"),
    "MPEG-TS, programs": (lambda: associations(2_000) + make_audio(1, format="TS"), "128 programs"),
}


@pytest.mark.parametrize(
    ("modality", "kind"), [*(("video", kind) for kind in VIDEO), *(("audio", kind) for kind in AUDIO)]
)
def test_what_holds_more_than_a_payload_of_its_size_is_rejected(modality: str, kind: str) -> None:
    """Within two CPU seconds for each megabyte."""
    make, words = (VIDEO if modality == "video" else AUDIO)[kind]
    data = make()
    reader = VideoMediaIO(num_frames=2) if modality == "video" else AudioMediaIO()

    with (
        cpu_seconds_below(0.5 + 2 * len(data) / 1e6),
        pytest.raises(UnprocessableMediaError, match=words) as caught,
    ):
        reader.load_bytes(data)

    assert (caught.value.modality, caught.value.status_hint) == (modality, 422)


@pytest.mark.parametrize("kind", ["Matroska, samples laced", "Matroska, cues that descend", "MOV, chunks of a sample"])
def test_what_torchcodec_reads_is_counted_too(kind: str) -> None:
    load_or_skip()
    make, words = AUDIO[kind]

    with pytest.raises(UnprocessableMediaError, match=words):
        AudioMediaIO(audio_backend="torchcodec").load_bytes(make())


def zlib_of_pictures() -> bytes:
    return jpegs(
        *(matroskas.block(zlib.compress(picture()), number * 40) for number in range(3)),
        extra=matroskas.compression(0),
    )


def stripped() -> bytes:
    """As mkvmerge writes it: what all packets begin with is stored once."""
    data = picture()
    blocks = (matroskas.block(data[4:], number * 40) for number in range(3))
    return jpegs(*blocks, extra=matroskas.compression(3, data[:4]))


def tags(kind: bytes, body: bytes, *, order: int) -> bytes:
    """An FLV of 150,000 tags, each of which comes behind the last one, or before it."""
    size, end = len(body).to_bytes(3), struct.pack(">L", 11 + len(body))
    times = (number.to_bytes(3) for number in range(150_000)[::order])
    return b"FLV\x01\x05\0\0\0\x09" + bytes(4) + b"".join(kind + size + at + bytes(4) + body + end for at in times)


@pytest.mark.parametrize("modality", ["video", "audio"])
def test_tags_of_an_flv_that_descend_take_no_more_time_than_others(modality: str) -> None:
    """FFmpeg sorts its index of them: 200,000 of sound took more than a minute."""
    kind, body = (b"\x09", b"\x12\0") if modality == "video" else (b"\x08", b"\x2e\0")
    reader = VideoMediaIO(num_frames=2) if modality == "video" else AudioMediaIO()
    taken = []
    for order in (1, -1):
        data = tags(kind, body, order=order)
        start = time.process_time()
        with pytest.raises(UnprocessableMediaError):
            reader.load_bytes(data)
        taken.append(time.process_time() - start)

    assert taken[1] < 2 * taken[0] + 0.1


FINE: dict[str, Callable[[], bytes]] = {
    "Matroska, zlib": zlib_of_pictures,
    "Matroska, a shared beginning": stripped,
    "Matroska, cues in order": lambda: with_cues(
        matroskas.video_track(b"V_MJPEG", SIZE), picture(), cues(3_000), matroskas.cluster(0, [])
    ),
    "MPEG-TS, programs": lambda: make_video(3, container="ts") + associations(MAX_PROGRAMS - 1, first=2),
    "MPEG-TS, one table again and again": lambda: make_video(3, container="ts") + associations(40) * 500,
    "MPEG-TS, services": lambda: make_video(3, container="ts") + descriptions(100),
}


@pytest.mark.parametrize("kind", FINE)
def test_what_real_files_hold_is_read(kind: str) -> None:
    frames, _ = VideoMediaIO().load_bytes(FINE[kind]())

    assert len(frames) >= 1


def tone(samples: int) -> np.ndarray[tuple[int], np.dtype[np.int16]]:
    return (np.sin(np.arange(samples) / 9) * 9_000).astype("<i2")


PACKETS = {
    "blocks of 20 ms": lambda data: [matroskas.block(data[at : at + 640], at // 32) for at in range(0, len(data), 640)],
    "laced, 8 frames of 5 ms": lambda data: [
        matroskas.block(b"\x07" + data[at : at + 1_280], at // 32, 0x84) for at in range(0, len(data), 1_280)
    ],
}


@pytest.mark.parametrize("kind", PACKETS)
def test_uncompressed_sound_in_a_matroska_is_read(kind: str) -> None:
    """Five seconds, longer than what goes frame by frame anyway."""
    samples = tone(80_000)
    data = matroskas.movie(PCM, matroskas.cluster(0, PACKETS[kind](samples.tobytes())))

    decoded, rate = AudioMediaIO().load_bytes(data)

    assert rate == 16_000
    np.testing.assert_array_equal(decoded, samples.astype(np.float32) / 32_768)


def test_uncompressed_sound_of_ten_minutes_in_a_mov_is_read() -> None:
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mov") as target:
        stream = target.add_stream("pcm_u8", rate=8_000, layout="mono")
        for number in range(599 * 50):
            packet = av.Packet(b"\x80" * 160)
            packet.pts = packet.dts = 160 * number
            packet.time_base, packet.stream = Fraction(1, 8_000), stream
            target.mux(packet)

    assert len(AudioMediaIO().load_bytes(buffer.getvalue())[0]) == 599 * 8_000


@pytest.mark.parametrize("damage", [b"", b"\x1c\x53\xbb\x6b", b"\x1c\x53\xbb\x6b\0", b"\x1c\x53\xbb\x6b\xff\xbb\x01"])
def test_cues_that_are_cut_off_cost_nothing(damage: bytes) -> None:
    check_cues(with_cues(PCM, bytes(320)) + damage, "audio")


def test_bytes_that_look_like_cues_are_none() -> None:
    """The id of cues in the middle of sound, whose bytes then all look like times."""
    check_cues(with_cues(PCM, b"\x1c\x53\xbb\x6b\xff" + b"\xb3" * 100_000), "audio")


@pytest.mark.parametrize("cut", range(1, 188, 17))
def test_a_table_of_programs_that_is_cut_off_costs_nothing(cut: int) -> None:
    check_programs(associations(40)[:-cut], "video")


def test_fragments_of_one_frame_each_have_as_many_boxes_as_they_need() -> None:
    options = {"movflags": "frag_every_frame+empty_moov+default_base_moof"}

    check_tables(make_video(2_000, 32, 32, container_options=options), "video")
