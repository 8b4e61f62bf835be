"""What is known of a video or a clip before it is decoded, and that it is what the decode then tells."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from lazymedia import MediaRef, PacketIndexCache, ReleasedError, UnprocessableMediaError
from lazymedia.limits import DEFAULT_LIMITS, Limits
from lazymedia.media.audio import AudioMediaIO
from lazymedia.media.image import ImageHeader, ImageMediaIO
from lazymedia.media.video import VideoMediaIO, VideoMetadata
from lazymedia.media.video.container import open_video
from lazymedia.media.video.upright import shown_size
from lazymedia.parse.video import parse_video_data
from lazymedia.testing import make_audio, make_image, make_video
from tests.media import videos
from tests.media.videos import broken_packet

TURNED: dict[str, dict[str, Any]] = {
    "by a quarter": {"rotation": 90},
    "by a half": {"rotation": 180},
    "by three quarters": {"rotation": 270},
    "by a quarter and mirrored": {"rotation": 90, "mirrored": True},
    "by a quarter, fragmented": {"rotation": 90, "container_options": {"movflags": "frag_keyframe+empty_moov"}},
    "by a quarter, QuickTime": {"rotation": 90, "container": "mov"},
}


@pytest.mark.parametrize("kind", videos.KINDS)
def test_it_equals_what_the_decode_tells(kind: str) -> None:
    ref = VideoMediaIO(num_frames=7).load_bytes_ref(videos.clip(kind))

    outline = ref.outline()

    assert not ref.is_decoded
    assert outline == ref.decode()[1]


@pytest.mark.parametrize("turn", TURNED)
def test_sizes_are_those_of_upright_frames(turn: str) -> None:
    ref = VideoMediaIO().load_bytes_ref(make_video(3, 96, 64, **TURNED[turn]))

    outline = ref.outline()

    assert outline is not None
    frames, metadata = ref.decode()
    assert (outline.width, outline.height) == (metadata.width, metadata.height) == (frames.shape[2], frames.shape[1])


def test_a_turn_of_the_whole_movie_is_left_to_the_decode() -> None:
    data = bytearray(make_video(3))
    matrix = data.index(b"mvhd") + 4 + 36
    data[matrix : matrix + 4] = (-1 << 16).to_bytes(4, "big", signed=True)

    assert VideoMediaIO().load_bytes_ref(bytes(data)).outline() is None


def test_a_matroska_with_a_projection_is_left_to_the_decode() -> None:
    data = make_video(3, codec="libvpx-vp9", container="webm")
    head = data.index(b"\x1f\x43\xb6\x75")
    roll = b"\x76\x70\x87\x76\x75\x84" + struct.pack(">f", 90)

    def behind(void: bytes) -> VideoMetadata | None:
        """An element that is to be skipped holds these bytes."""
        element = b"\xec" + bytes([0x80 + len(void)]) + void
        return VideoMediaIO().load_bytes_ref(data[:head] + element + data[head:]).outline()

    assert VideoMediaIO().load_bytes_ref(data).outline() is not None
    assert behind(roll) is None
    for words in (b"deja vu", b"vu vp", b"vp9"):  # which are the numbers of the two elements, as text
        assert behind(words) is not None


def test_padding_before_the_tracks_of_a_matroska_hides_no_projection() -> None:
    """It may hold what looks like the first cluster."""
    data = make_video(3, codec="libvpx-vp9", container="webm")
    tracks, head = data.index(b"\x16\x54\xae\x6b"), data.index(b"\x1f\x43\xb6\x75")
    padding, roll = b"\xec\x84\x1f\x43\xb6\x75", b"\xec\x85\x76\x70\x82\x76\x75"
    padded = data[:tracks] + padding + data[tracks:]
    head += len(padding)

    with open_video(data, DEFAULT_LIMITS) as opened:
        assert shown_size(padded, opened) == (128, 64)
        assert shown_size(padded[:head] + roll + padded[head:], opened) is None


def test_looking_and_decoding_read_the_packets_once() -> None:
    cache = PacketIndexCache()
    items = parse_video_data([VideoMediaIO(index_cache=cache).load_bytes_ref(make_video(50))], needs_metadata=True)
    assert items is not None

    assert items.get_metadata(0) == items.get_metadata(0)
    assert items.get_frame_size(0) == (128, 64)
    assert not items.get_raw(0).is_decoded  # type: ignore[attr-defined]  # a reference
    assert items.get(0)[1] == items.get_metadata(0)
    assert cache.scans == 1


def test_once_decoded_it_is_what_was_loaded() -> None:
    """A frame in the middle is broken."""
    ref = VideoMediaIO(sampling="all").load_bytes_ref(broken_packet(make_video(30, codec="libx264", gop=10), 14))
    items = parse_video_data([ref])
    assert items is not None

    told = items.get_metadata(0)
    loaded = items.get_frames(0)

    assert told is not None
    now = items.get_metadata(0)
    assert now is not None
    assert len(now["frames_indices"]) == len(loaded)
    assert set(now["frames_indices"]) < set(told["frames_indices"])


def test_limits_and_damage_are_told_there_too() -> None:
    long = VideoMediaIO(limits=Limits(max_video_seconds=0.5)).load_bytes_ref(make_video(50))
    junk = VideoMediaIO().load_bytes_ref(b"\x1a\x45\xdf\xa3" + bytes(100))

    with pytest.raises(UnprocessableMediaError, match=r"0\.5 seconds"):
        long.outline()
    with pytest.raises(UnprocessableMediaError):
        junk.outline()


def test_an_index_kept_for_others_is_held_against_ones_own_limit() -> None:
    cache, data = PacketIndexCache(), make_video(50)
    VideoMediaIO(index_cache=cache).load_bytes(data)
    strict = VideoMediaIO(index_cache=cache, limits=Limits(max_video_seconds=0.5))

    with pytest.raises(UnprocessableMediaError, match=r"0\.5 seconds"):
        strict.load_bytes(data)
    assert cache.scans == 1


def test_forks_keep_it_and_mapped_and_released_references_have_none() -> None:
    ref = MediaRef(lambda: "media", b"payload", probe=lambda: "outline")
    fork, mapped = ref.fork(), ref.map(str.upper)
    ref.release()

    assert fork.outline() == "outline"
    assert mapped.outline() is None
    assert ref.outline() is None
    with pytest.raises(ReleasedError):
        ref.decode()


def test_a_decoder_with_a_way_of_its_own_has_none() -> None:
    class Cropping(VideoMediaIO):
        def load_bytes(self, data: bytes) -> Any:
            frames, metadata = super().load_bytes(data)
            return frames[:, :10], metadata

    ref = Cropping(index_cache=PacketIndexCache()).load_bytes_ref(make_video(3))

    assert ref.outline() is None
    assert ref.decode()[0].shape[1] == 10


@pytest.mark.parametrize(
    ("format_", "samples"),
    [
        ("WAV", 88_200),
        ("FLAC", 88_200),
        ("AIFF", 88_200),
        ("OGG", 88_200),
        ("OGA", None),
        ("M4A", 88_200),
        ("MP3", None),
    ],
)
def test_clips_tell_their_rate_channels_and_length(format_: str, samples: int | None) -> None:
    """An MP3's length is a guess from its bit rate, which is not passed on; FFmpeg writes none into a FLAC in OGG."""
    ref = AudioMediaIO().load_bytes_ref(make_audio(2, 44_100, 2, format=format_))

    told = ref.outline()

    assert told is not None
    assert not ref.is_decoded
    assert (told.rate, told.channels, told.samples) == (44_100, 2, samples)


def test_what_is_no_clip_has_no_outline_and_a_broken_header_is_told() -> None:
    assert AudioMediaIO().load_bytes_ref(b"hello").outline() is None
    with pytest.raises(UnprocessableMediaError, match="Matroska"):
        AudioMediaIO().load_bytes_ref(b"\x1a\x45\xdf\xa3" + bytes(100)).outline()
    with pytest.raises(UnprocessableMediaError, match="no audio"):
        AudioMediaIO().load_bytes_ref(make_video(3)).outline()


@pytest.mark.parametrize(("at", "size"), [(12, 4), (10, 2)], ids=["rate", "channels"])
def test_a_clip_of_no_rate_or_no_channels_has_a_broken_header(at: int, size: int) -> None:
    data = bytearray(make_audio(0.1))
    start = data.index(b"fmt ") + at
    data[start : start + size] = bytes(size)

    with pytest.raises(UnprocessableMediaError, match="no rate or no channels"):
        AudioMediaIO().load_bytes_ref(bytes(data)).outline()


def grown(data: bytes, *boxes: bytes, by: bytes) -> bytes:
    """An MP4 whose boxes, each inside the one before, are longer, with more bytes at the end of the last."""
    spoilt = bytearray(data)
    for kind in boxes:
        start = data.index(kind) - 4
        size = int.from_bytes(data[start : start + 4], "big")
        spoilt[start : start + 4] = (size + len(by)).to_bytes(4, "big")
    spoilt[start + size : start + size] = by
    return bytes(spoilt)


def movie(data: bytes) -> bytes:
    start = data.index(b"moov") - 4
    return data[start : start + int.from_bytes(data[start : start + 4], "big")]


@pytest.mark.parametrize("rotation", [0, 90])
def test_a_track_header_with_more_bytes_than_it_needs(rotation: int) -> None:
    ref = VideoMediaIO().load_bytes_ref(
        grown(make_video(3, rotation=rotation), b"moov", b"trak", b"tkhd", by=b"\0" * 16)
    )

    assert ref.outline() == ref.decode()[1]


@pytest.mark.parametrize("rotation", [0, 90])
def test_a_second_movie_is_left_to_the_decode(rotation: int) -> None:
    ref = VideoMediaIO().load_bytes_ref(make_video(3, rotation=rotation) + movie(make_video(3, rotation=90 - rotation)))

    assert ref.outline() is None
    assert ref.decode()[1].total_num_frames == 3


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "AVIF", "BMP"])
def test_the_outline_of_a_picture_is_its_header(kind: str) -> None:
    ref = ImageMediaIO().load_bytes_ref(make_image(30, 20, format=kind))
    header = ref.outline()

    assert isinstance(header, ImageHeader)
    assert (header.format, header.upright_size, ref.is_decoded) == (kind, (30, 20), False)
    assert header.upright_size == ref.decode().size


def test_what_is_no_picture_has_no_outline() -> None:
    for payload in (b"hello", b"\x89PNG\r\n\x1a\n"):
        assert ImageMediaIO().load_bytes_ref(payload).outline() is None
