"""Payloads that lie, name files, or are no video: each an error of the payload's, before it costs anything."""

from __future__ import annotations

import io
import os
import re
import socket
import struct
import tracemalloc
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import Limits
from lazymedia.media.ffmpeg import open_container
from lazymedia.media.mp4_tables import MAX_SAMPLES, check_tables
from lazymedia.media.video import VideoMediaIO
from lazymedia.media.video.container import CODECS, identify
from lazymedia.testing import make_image
from lazymedia.testing.video import make_video
from tests.cpu import cpu_seconds_below
from tests.media import mp4_files, videos

BAIT = "bait.ts"

PLAYLISTS = {
    "ffconcat": f"ffconcat version 1.0\nfile '{BAIT}'\n",
    "ffconcat, many": "ffconcat version 1.0\n" + f"file '{BAIT}'\n" * 100_000,
    "HLS": f"#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n{BAIT}\n#EXT-X-ENDLIST\n",
    "HLS, file": f"#EXTM3U\n#EXTINF:10,\nfile:///{BAIT}\n#EXT-X-ENDLIST\n",
    "HLS, concat": f"#EXTM3U\n#EXTINF:10,\nconcat:{BAIT}|{BAIT}\n#EXT-X-ENDLIST\n",
    "HLS, subfile": f"#EXTM3U\n#EXTINF:10,\nsubfile,,start,0,end,9,,:{BAIT}\n#EXT-X-ENDLIST\n",
    "DASH": f'<?xml version="1.0"?><MPD><Period><BaseURL>{BAIT}</BaseURL></Period></MPD>',
    "SDP": "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 41234 RTP/AVP 96\n",
    "SMIL": f'<smil><body><video src="{BAIT}"/></body></smil>',
    "M3U": f"{BAIT}\n",
    "vobsub": "# VobSub index file, v7\nid: en, index: 0\n",
}


def refusal(data: bytes, limits: Limits | None = None) -> UnprocessableMediaError:
    with pytest.raises(UnprocessableMediaError) as caught:
        VideoMediaIO(limits=limits).load_bytes(data)
    error = caught.value
    assert (error.modality, error.status_hint) == ("video", 422)
    assert len(str(error)) <= 300
    assert not re.search(r"0x[0-9a-f]{6}|/|BytesIO|<none>", str(error))
    return error


@pytest.mark.parametrize("kind", PLAYLISTS)
def test_a_playlist_opens_nothing(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused by its first bytes; the file it names, which is there and playable, is not read, and no socket is
    opened.
    """
    monkeypatch.chdir(tmp_path)
    bait = tmp_path / BAIT
    bait.write_bytes(make_video(3, container="ts"))
    os.utime(bait, (1, 1))
    descriptors = Path("/proc/self/fd")
    before = set(descriptors.iterdir())

    error = refusal(PLAYLISTS[kind].encode())

    assert "not a supported video format" in str(error)
    assert bait.stat().st_atime == 1
    assert set(descriptors.iterdir()) == before


@pytest.mark.parametrize("head", ["mp4", "mkv", "ts", "avi", "flv"])
@pytest.mark.parametrize("kind", ["ffconcat", "HLS", "SDP"])
def test_a_playlist_behind_the_magic_of_a_video_opens_nothing(
    head: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / BAIT).write_bytes(make_video(3, container="ts"))
    monkeypatch.setattr(socket, "socket", None)
    magic = make_video(3, container=head)[: 600 if head == "ts" else 12]

    refusal(magic + b"\n" + PLAYLISTS[kind].encode())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"no video at all, whatever it may be called" * 20,
        make_image(format="JPEG"),
        make_image(format="PNG"),
        b"\0\0\0\1\x67\x42\0\x1e" * 50,  # a raw H.264 stream has no container
        b"RIFF\0\0\0\0WAVEfmt ",
    ],
)
def test_what_is_no_video_is_refused_by_its_first_bytes(data: bytes) -> None:
    assert identify(data) is None
    assert "not a supported video format" in str(refusal(data))


def sound(container: str, codec: str) -> bytes:
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=container) as output:
        stream = output.add_stream(codec, rate=48_000)
        assert isinstance(stream, av.AudioStream)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.int16), format="s16", layout="mono")
        frame.sample_rate = 48_000
        output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return buffer.getvalue()


@pytest.mark.parametrize(("container", "codec"), [("mp4", "aac"), ("matroska", "aac"), ("ogg", "libopus")])
def test_sound_alone_is_no_video(container: str, codec: str) -> None:
    assert "no video stream" in str(refusal(sound(container, codec)))


def test_a_cover_picture_is_no_video() -> None:
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mp4") as output:
        audio = output.add_stream("aac", rate=48_000)
        cover = output.add_stream("mjpeg", rate=1)
        assert isinstance(audio, av.AudioStream)
        assert isinstance(cover, av.VideoStream)
        cover.width, cover.height, cover.pix_fmt = 64, 64, "yuvj420p"
        cover.disposition = av.stream.Disposition.attached_pic
        packet = av.Packet(make_image(64, 64, format="JPEG"))
        packet.stream, packet.pts, packet.dts = cover, 0, 0
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.int16), format="s16", layout="mono")
        frame.sample_rate = 48_000
        sounds = [*audio.encode(frame), *audio.encode(None)]
        output.start_encoding()
        output.mux(packet)
        output.mux(sounds)

    assert "no video stream" in str(refusal(buffer.getvalue()))


@pytest.mark.parametrize(
    ("codec", "pixel_format"), [("ffv1", "yuv420p"), ("rawvideo", "yuv420p"), ("jpeg2000", "yuv420p")]
)
def test_a_codec_that_is_not_allowed_never_runs(codec: str, pixel_format: str) -> None:
    data = make_video(2, codec=codec, container="mkv", pixel_format=pixel_format, b_frames=0)

    assert codec not in CODECS
    assert "codec is not supported" in str(refusal(data))


@pytest.mark.parametrize(("transfer", "name"), [(16, "PQ"), (18, "HLG")])
@pytest.mark.parametrize("container", ["mp4", "mkv", "ts"])
def test_hdr_is_refused_with_its_name(transfer: int, name: str, container: str) -> None:
    data = make_video(2, pixel_format="yuv420p10le", transfer=transfer, container=container)

    assert f"HDR, {name}" in str(refusal(data))


@pytest.mark.parametrize("container", ["mp4", "mkv", "ts"])
def test_a_frame_over_the_limit_is_refused_by_the_header(container: str) -> None:
    data = make_video(2, 640, 480, container=container)

    assert "may have 300000 pixels" in str(refusal(data, Limits(max_video_frame_pixels=300_000)))


def test_a_frame_at_the_limit_is_decoded() -> None:
    data = make_video(2, 642, 482)

    VideoMediaIO(limits=Limits(max_video_frame_pixels=642 * 482)).load_bytes(data)


@pytest.mark.parametrize(("first", "second"), [((128, 64), (256, 128)), ((256, 128), (128, 64))])
def test_a_size_that_changes_in_the_middle_is_an_error(first: tuple[int, int], second: tuple[int, int]) -> None:
    data = videos.joined(*(make_video(12, *size, container="ts") for size in (first, second)))

    assert "changes in its middle" in str(refusal(data))


def test_a_size_that_grows_over_the_limit_never_gets_its_memory() -> None:
    data = videos.joined(*(make_video(12, *size, container="ts") for size in ((128, 64), (1920, 1088))))

    assert "1920 x 1088" in str(refusal(data, Limits(max_video_frame_pixels=10_000)))


def test_frames_that_take_more_memory_than_allowed_are_refused() -> None:
    data = make_video(30)

    assert "take 737280 bytes" in str(refusal(data, Limits(max_request_decoded_bytes=700_000)))


def test_a_walk_that_is_longer_than_allowed_is_refused_before_it_begins() -> None:
    data = make_video(50, gop=50)

    assert "49 frames would have to be decoded" in str(refusal(data, Limits(max_video_walk_frames=40)))
    VideoMediaIO(num_frames=1, limits=Limits(max_video_walk_frames=40)).load_bytes(data)


def test_a_video_that_lasts_longer_than_allowed_is_refused() -> None:
    """By its timestamps: a jump of twenty-seven years in a file of two seconds."""
    data = make_video(4, times=[0, 0.1, 0.2, 27 * 365 * 86400.0], container="mkv", b_frames=0)

    assert "may last 14400 seconds" in str(refusal(data))


def test_more_streams_than_allowed_are_refused() -> None:
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mp4") as output:
        streams = [output.add_stream("mpeg4", rate=25) for _ in range(20)]
        for stream in streams:
            assert isinstance(stream, av.VideoStream)
            stream.width, stream.height, stream.pix_fmt = 64, 64, "yuv420p"
        for stream in streams:
            assert isinstance(stream, av.VideoStream)
            output.mux(stream.encode(av.VideoFrame(64, 64, "yuv420p")))
            output.mux(stream.encode(None))

    refusal(buffer.getvalue())


def box(kind: bytes, *content: bytes) -> bytes:
    body = b"".join(content)
    return struct.pack(">I4s", len(body) + 8, kind) + body


def patched(kind: bytes, offset: int, value: int) -> bytes:
    """A good MP4 in which four bytes behind a box's type are replaced."""
    data = bytearray(make_video(10))
    struct.pack_into(">I", data, data.index(kind) + 4 + offset, value)
    return bytes(data)


@pytest.mark.parametrize("kind", [b"stts", b"ctts", b"stsc", b"stco", b"stss"])
@pytest.mark.parametrize("count", [1_000_000, 2**32 - 1])
def test_a_table_that_claims_more_than_it_holds_is_refused_before_the_demuxer_sees_it(kind: bytes, count: int) -> None:
    assert f"{kind.decode()} table claims more" in str(refusal(patched(kind, 4, count)))


@pytest.mark.parametrize("count", [MAX_SAMPLES + 1, 50_000_000, 2**32 - 1])
def test_samples_of_one_fixed_size_cost_no_memory(count: int) -> None:
    """Twelve bytes that made FFmpeg allocate 600 MiB."""
    data = bytearray(patched(b"stsz", 4, 1))
    struct.pack_into(">I", data, data.index(b"stsz") + 12, count)
    tracemalloc.start()

    error = refusal(bytes(data))

    assert "samples allowed" in str(error)
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


def test_a_run_of_fragments_without_bytes_is_refused() -> None:
    run = box(b"trun", struct.pack(">III", 0, 2**32 - 1, 0))
    data = make_video(5, container_options={"movflags": "frag_keyframe+empty_moov"})

    assert "samples allowed" in str(refusal(data + box(b"moof", box(b"traf", run))))


def test_boxes_nested_without_end_are_refused() -> None:
    nested = b""
    for _ in range(1_000):
        nested = box(b"trak", nested)

    assert "nested too deep" in str(refusal(box(b"ftyp", b"isom\0\0\0\0") + box(b"moov", nested)))


def test_very_many_boxes_are_refused() -> None:
    with pytest.raises(UnprocessableMediaError, match="boxes allowed"):
        check_tables(box(b"ftyp") + box(b"free") * 100_001, "video")


@pytest.mark.parametrize("parent", [b"udta", b"hoov", b"wave", b"tref"])
def test_samples_hidden_in_an_unusual_place_are_found(parent: bytes) -> None:
    table = box(b"stsz", struct.pack(">III", 0, 1, 2**32 - 1))

    assert "samples allowed" in str(refusal(box(b"ftyp", b"isom") + box(b"moov", box(parent, table))))
    meta = box(b"meta", b"\0\0\0\0", box(b"hdlr", b"\0" * 24), table)
    assert "samples allowed" in str(refusal(box(b"ftyp", b"isom") + box(b"moov", meta)))


def test_a_compressed_header_is_refused() -> None:
    assert "compressed" in str(refusal(box(b"ftyp", b"qt  ") + box(b"moov", box(b"cmov", b"x" * 20))))


def test_claims_are_refused_when_the_reference_is_made() -> None:
    with pytest.raises(UnprocessableMediaError, match="table claims more"):
        VideoMediaIO().load_bytes_ref(patched(b"stts", 4, 2**32 - 1))


@pytest.mark.parametrize(("wishes", "expected"), [({"num_frames": 5}, 5 * 128 * 64 * 3), ({"sampling": "all"}, None)])
def test_memory_is_estimated_from_the_header(wishes: dict[str, Any], expected: int | None) -> None:
    assert VideoMediaIO(**wishes).load_bytes_ref(make_video(9)).decoded_bytes == expected


@pytest.mark.parametrize(
    "tail", [b"", b"\0", b"\0\0\0\1mdat", b"\0\0\0\0mdat", b"\0\0\0\2mdat", b"\0\0\0\1mdat" + b"\xff" * 8]
)
def test_a_box_of_an_odd_size_ends_the_look_at_tables(tail: bytes) -> None:
    check_tables(box(b"ftyp", b"isom") + tail, "video")


def test_a_title_that_is_not_utf_8_is_no_obstacle() -> None:
    buffer = io.BytesIO()
    with av.open(io.BytesIO(make_video(3)), "r") as source, av.open(buffer, "w", format="mp4") as output:
        output.metadata["title"] = "a title of letters"
        stream = output.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            if packet.dts is not None:
                packet.stream = stream
                output.mux(packet)
    data = buffer.getvalue().replace(b"a title of", b"\xed\xff title of"[:10])
    with pytest.raises(UnicodeDecodeError):
        av.open(io.BytesIO(data))

    frames, _ = VideoMediaIO().load_bytes(data)

    assert len(frames) == 3


def test_of_several_streams_the_default_one_is_taken() -> None:
    """FFmpeg's rule, not the first."""
    buffer = io.BytesIO()
    clips = [make_video(6, 64, 32, seed=1), make_video(6, 128, 64)]
    with av.open(buffer, "w", format="matroska") as output:
        sources = [av.open(io.BytesIO(data), "r") for data in clips]
        targets = [output.add_stream_from_template(source.streams.video[0]) for source in sources]
        targets[0].disposition = av.stream.Disposition(0)
        targets[1].disposition = av.stream.Disposition.default
        for source, target in zip(sources, targets):
            for packet in source.demux(video=0):
                if packet.dts is not None:
                    packet.stream = target
                    output.mux(packet)
            source.close()

    frames, metadata = VideoMediaIO().load_bytes(buffer.getvalue())

    assert frames.shape == (6, 64, 128, 3)
    assert (metadata.width, metadata.height) == (128, 64)


def sharing(samples: int, *, edits: int = 0) -> bytes:
    """An MP4 in which so many samples of one byte are the same ones, and edits show all of them again and again."""
    clip = make_video(3, codec="mpeg4", b_frames=0)
    per_chunk = 1000
    chunks = samples // per_chunk
    place = clip.index(b"mdat") + 4
    tables = {
        b"stsz": struct.pack(">III", 0, 1, samples),
        b"stts": struct.pack(">IIII", 0, 1, samples, 512),
        b"stsc": struct.pack(">IIIII", 0, 1, 1, per_chunk, 1),
        b"stco": struct.pack(f">II{chunks}I", 0, chunks, *[place] * chunks),
    }
    for name, content in tables.items():
        clip = mp4_files.with_table(clip, name, mp4_files.box(name, content))
    if edits:
        content = struct.pack(">II", 0, edits) + struct.pack(">IiI", samples * 512, 0, 1 << 16) * edits
        clip = with_edits(clip, mp4_files.box(b"elst", content))
    return clip


def with_edits(clip: bytes, new: bytes) -> bytes:
    start = clip.index(b"elst") - 4
    size = int.from_bytes(clip[start : start + 4])
    changed = bytearray(clip[:start] + new + clip[start + size :])
    for parent in (b"moov", b"trak", b"edts"):
        place = clip.index(parent) - 4
        struct.pack_into(">I", changed, place, struct.unpack_from(">I", clip, place)[0] + len(new) - size)
    return bytes(changed)


@pytest.mark.parametrize(
    ("samples", "edits", "words"),
    [(1_900_000, 0, "samples allowed for its size"), (10_000, 1_000, "edits repeat"), (10_000, 5_000, "edits repeat")],
)
def test_tables_that_name_the_same_bytes_again_cost_nothing(samples: int, edits: int, words: str) -> None:
    """Ten kilobytes took 21 seconds and 618 MiB, or 700 MiB for edits."""
    data = sharing(samples, edits=edits)

    with cpu_seconds_below(1):
        assert words in str(refusal(data))


def test_a_thousand_samples_that_share_bytes_are_read_all_the_same() -> None:
    check_tables(sharing(1_000, edits=2), "video")


@pytest.mark.parametrize(("codec", "layout"), [("pcm_s16le", "stereo"), ("pcm_s16be", "stereo"), ("pcm_u8", "mono")])
def test_uncompressed_sound_beside_a_video_has_as_many_samples_as_it_likes(codec: str, layout: str) -> None:
    """Fifty seconds at 48 kHz: 2.4 million, of which FFmpeg's index has some hundred chunks."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mov") as target:
        pictures = target.add_stream("mpeg4", rate=10)
        pictures.width, pictures.height, pictures.pix_fmt = 64, 48, "yuv420p"
        sound = target.add_stream(codec, rate=48_000, layout=layout)
        for number in range(20):
            frame = av.VideoFrame.from_ndarray(np.full((48, 64, 3), 10 * number, np.uint8), format="rgb24")
            frame.pts, frame.time_base = number, Fraction(1, 10)
            target.mux(pictures.encode(frame))
        target.mux(pictures.encode(None))
        bytes_a_second = 48_000 * (4 if layout == "stereo" else 1)
        for second in range(50):
            packet = av.Packet(bytes(bytes_a_second))
            packet.pts = packet.dts = 48_000 * second
            packet.time_base, packet.stream = Fraction(1, 48_000), sound
            target.mux(packet)

    assert VideoMediaIO(num_frames=2).load_bytes(buffer.getvalue())[1].total_num_frames == 20


def test_a_track_that_only_calls_itself_sound_is_counted() -> None:
    data = sharing(1_900_000).replace(b"vide", b"soun")

    assert "samples allowed for its size" in str(refusal(data))


@pytest.mark.parametrize(
    "demuxer", ["concat", "hls", "dash", "sdp", "image2", "lavfi", "webm_dash_manifest", "rtsp", ""]
)
def test_no_other_demuxer_can_be_opened(demuxer: str) -> None:
    """These open files and addresses that a payload names."""
    with pytest.raises(ValueError, match="not allowed"):
        open_container(b"ffconcat version 1.0", demuxer, "video", container_options={})
