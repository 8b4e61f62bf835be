"""A clip from its URL to frames and samples, through every face that hands them out."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lazymedia
from lazymedia import (
    AudioMediaIO,
    MediaConnector,
    MediaRef,
    MultiModalDataParser,
    PacketIndexCache,
    UnprocessableMediaError,
    VideoMediaIO,
)
from lazymedia.media.audio import resample
from lazymedia.media.video import reader, scan
from lazymedia.testing import MediaServer, make_audio, make_video
from lazymedia.testing.video import read_frame_numbers

CLIP = make_video(40, audio=True)
SILENT = make_video(10)
LOOPBACK = ("127.0.0.0/8",)


def url_of(scheme: str, server: MediaServer, folder: Path) -> str:
    """Where the clip is, by each way to it; writes the file that one of them names."""
    match scheme:
        case "http":
            return server.url("/clip")
        case "file":
            (folder / "clip").write_bytes(CLIP)
            return (folder / "clip").as_uri()
        case _:
            return f"data:video/mp4;base64,{base64.b64encode(CLIP).decode()}"


@pytest.mark.parametrize("scheme", ["http", "file", "data"])
async def test_one_download_gives_frames_and_samples(
    scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[int] = []
    sha256 = hashlib.sha256

    def counting(data: Any = b"", **options: Any) -> Any:
        hashed.append(len(data))
        return sha256(data, **options)

    async with (
        MediaServer({"/clip": CLIP}) as server,
        MediaConnector(allowed_networks=LOOPBACK, allowed_local_media_path=tmp_path) as media,
    ):
        url = url_of(scheme, server, tmp_path)
        monkeypatch.setattr(hashlib, "sha256", counting)
        video_io = VideoMediaIO(num_frames=4, index_cache=PacketIndexCache())  # keys its index by the payload too
        video, audio = await media.fetch_video_and_audio(url, video_io, AudioMediaIO())
        keys = {video.key, audio.key}
        monkeypatch.undo()
        assert server.hits["/clip"] == (scheme == "http")

    assert len(hashed) == 1
    assert len(keys) == 2
    assert video.data is audio.data
    frames, metadata = video.decode()
    samples, rate = audio.decode()
    assert read_frame_numbers(frames) == metadata.frames_indices == [0, 13, 26, 39]
    assert rate == 48_000
    assert samples.dtype == np.float32


async def test_the_sound_of_a_silent_video_is_an_error_and_its_frames_are_not() -> None:
    async with MediaServer({"/clip": SILENT}) as server, MediaConnector(allowed_networks=LOOPBACK) as media:
        video, audio = await media.fetch_video_and_audio(server.url("/clip"), VideoMediaIO(), AudioMediaIO())

    assert len(video.decode()[0]) == 10
    with pytest.raises(UnprocessableMediaError, match="no audio track"):
        audio.decode()


def test_the_offline_faces_decode(tmp_path: Path) -> None:
    (tmp_path / "clip").write_bytes(CLIP)
    (tmp_path / "sound").write_bytes(make_audio(0.5))

    frames, metadata = lazymedia.fetch_video((tmp_path / "clip").as_uri(), allowed_local_media_path=tmp_path)
    samples, rate = lazymedia.fetch_audio((tmp_path / "sound").as_uri(), allowed_local_media_path=tmp_path)

    assert read_frame_numbers(frames) == metadata["frames_indices"]
    assert (samples.shape, rate) == ((8_000,), 16_000)


def references() -> tuple[MediaRef[Any], MediaRef[Any]]:
    return VideoMediaIO(num_frames=2).load_bytes_ref(CLIP), AudioMediaIO().load_bytes_ref(CLIP)


def test_the_parser_takes_all_three_and_decodes_none() -> None:
    video, audio = references()
    parser = MultiModalDataParser(target_sr=16_000, target_channels=1, video_needs_metadata=True)
    items = parser.parse_mm_data({"video": video, "audio": [audio]})

    assert not video.is_decoded
    assert not audio.is_decoded
    frames, metadata = items["video"].get(0)
    assert read_frame_numbers(frames) == metadata["frames_indices"] == [0, 39]
    samples, rate = audio.decode()
    assert np.array_equal(items["audio"].get(0), resample(16_000)((samples, rate))[0])


def test_a_parser_with_other_settings_gives_other_identities() -> None:
    """Rate and channels are part of what a clip is."""
    keys = set()
    for rate, channels in ((None, None), (16_000, None), (8_000, None), (None, 1)):
        _, audio = references()
        parser = MultiModalDataParser(target_sr=rate, target_channels=channels)
        stored = parser.parse_mm_data({"audio": audio})["audio"].get_raw(0)
        assert isinstance(stored, MediaRef)
        keys.add(stored.key)

    assert len(keys) == 4


@pytest.mark.parametrize("settings", [{"target_sr": 0}, {"target_sr": 1e9}, {"target_channels": 0}])
def test_settings_that_cannot_be_are_refused_when_the_parser_is_made(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="target_"):
        MultiModalDataParser(**settings)


@pytest.mark.parametrize("scheme", ["http", "file", "data"])
async def test_a_connector_keeps_packet_indexes_for_decoders_that_have_no_cache(
    scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request has a decoder of its own, with settings of its own; the packets are read once."""
    scans: list[object] = []

    def counted(*given: Any) -> Any:
        scans.append(given)
        return scan.scan(*given)

    monkeypatch.setattr(reader, "scan", counted)
    async with (
        MediaServer({"/clip": CLIP}) as server,
        MediaConnector(allowed_networks=LOOPBACK, allowed_local_media_path=tmp_path) as media,
    ):
        url = url_of(scheme, server, tmp_path)
        refs = [await media.fetch_video(url, VideoMediaIO(num_frames=frames)) for frames in (4, 7)]
        refs.append((await media.fetch_video_and_audio(url, VideoMediaIO(num_frames=3), AudioMediaIO()))[0])
        own = await media.fetch_video(url, VideoMediaIO(num_frames=5, index_cache=PacketIndexCache()))

    assert [len(ref.decode()[0]) for ref in refs] == [4, 7, 3]
    assert len(scans) == 1
    own.decode()
    assert len(scans) == 2
