"""Videos and sound by every way in: bytes, http under misleading names, files, data URLs, chats, arrays. The way
changes neither what comes out nor its key.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from lazymedia import (
    AudioMediaIO,
    ImageMediaIO,
    MediaConnector,
    MediaIO,
    MediaRef,
    MultiModalDataParser,
    PacketIndexCache,
    UnprocessableMediaError,
    VideoMediaIO,
)
from lazymedia.chat.messages import parse_chat
from lazymedia.testing import MediaServer, Request, Response, make_audio, make_image, make_video
from lazymedia.testing.video import read_frame_numbers
from tests.media import odd_clips
from tests.media.audio_clips import wav

LOOPBACK = ("127.0.0.0/8",)

VIDEOS: dict[str, Callable[[], bytes]] = {
    "a phone's, turned and mirrored": partial(make_video, 9, rotation=90, mirrored=True),
    "at a variable rate": partial(make_video, 9, container="mkv", times=[number**2 / 50 for number in range(9)]),
    "in fields": odd_clips.in_fields,
    "with packed B-frames": odd_clips.packed,
    "of Flash": partial(make_video, 9, codec="flv", container="flv", b_frames=0, audio=True),
    "a download that was cut": lambda: (whole := make_video(40, container="mkv"))[: len(whole) * 2 // 3],
}
SOUNDS: dict[str, Callable[[], bytes]] = {
    "recordings in a row": lambda: make_audio(0.3, format="OGG") + make_audio(0.3, format="OGG", seed=1),
    "a telephone's": odd_clips.amr,
    "of a video": partial(make_video, 9, audio=True),
    "with a cover": lambda: odd_clips.behind_cover(make_audio(0.3, 44_100, 2, format="MP3")),
    "as pipes write it": lambda: wav(bytes(range(200)), channels=2, riff_size=0xFFFFFFFF, data_size=0xFFFFFFFF),
    "of 24 bits": partial(make_audio, 0.3, 44_100, 2, subtype="PCM_24"),
}
NAMES = ("/clip.aac", "/clip.txt?format=m3u8", "/clip")
"""None of which says what it is; a server that calls all of it a playlist."""


def same(one: Any, other: Any) -> bool:
    return np.array_equal(one[0], other[0]) and one[1] == other[1]


@pytest.mark.parametrize("what", [*VIDEOS, *SOUNDS])
async def test_the_way_in_changes_neither_the_media_nor_the_key(what: str, tmp_path: Path) -> None:
    payload = {**VIDEOS, **SOUNDS}[what]()
    decoder: MediaIO[Any] = VideoMediaIO(num_frames=5) if what in VIDEOS else AudioMediaIO()
    straight = decoder.load_bytes_ref(payload)
    media = straight.decode()
    (tmp_path / "clip.sdp").write_bytes(payload)
    text = base64.b64encode(payload).decode()

    async def misnamed(request: Request) -> Response:
        return Response(headers={"Content-Type": "application/vnd.apple.mpegurl"}, body=payload)

    async with (
        MediaServer({name.partition("?")[0]: misnamed for name in NAMES}) as server,
        MediaConnector(allowed_networks=LOOPBACK, allowed_local_media_path=tmp_path) as connector,
    ):
        fetch: Any = connector.fetch_video if what in VIDEOS else connector.fetch_audio
        urls = [
            *map(server.url, NAMES),
            (tmp_path / "clip.sdp").as_uri(),
            f"data:;base64,{text}",
            f"data:text/plain;base64,{text}",
            f"DATA:Audio/WAV;Base64,{text}",
        ]
        for url in urls:
            ref = await fetch(url, decoder)
            assert ref.key == straight.key, url[:40]
            assert ref.spec == straight.spec
            assert same(ref.decode(), media)
        assert sum(server.hits.values()) == len(NAMES)

    restored = pickle.loads(pickle.dumps(straight))
    assert restored.key == straight.key
    assert same(restored.decode(), media)


async def test_bare_base64_and_data_urls_of_one_clip_are_one_clip() -> None:
    """As the API says, and as clients send it in one place or the other."""
    text = base64.b64encode(make_audio(0.2)).decode()
    forms = [
        {"type": "input_audio", "input_audio": {"data": text, "format": "wav"}},
        {"type": "input_audio", "input_audio": {"data": text}},
        {"type": "input_audio", "input_audio": {"data": text, "format": "mp3"}},
        {"type": "input_audio", "input_audio": {"data": f"data:audio/wav;base64,{text}", "format": "wav"}},
        {"type": "input_audio", "input_audio": {"data": f"data:;base64,{text}", "format": "wav"}},
        {"type": "audio_url", "audio_url": {"url": f"data:audio/wav;base64,{text}"}},
        {"type": "audio_url", "audio_url": f"data:;base64,{text}"},
    ]
    parts = parse_chat([{"role": "user", "content": forms}]).parts
    async with MediaConnector() as connector:
        refs = [await connector.fetch_audio(part.url or "", AudioMediaIO()) for part in parts]

    assert len({ref.key for ref in refs}) == 1
    assert {ref.decode()[1] for ref in refs} == {16_000}


async def test_frames_that_come_as_pictures_are_all_there_and_not_sampled_again() -> None:
    pictures = [make_image(64, 48, format="JPEG", seed=seed) for seed in range(3)]
    text = ",".join(base64.b64encode(picture).decode() for picture in pictures)
    async with MediaConnector() as connector:
        ref = await connector.fetch_video(f"data:video/jpeg;base64,{text}", VideoMediaIO(num_frames=2))

    frames, metadata = ref.decode()
    assert np.array_equal(frames, np.stack([np.asarray(ImageMediaIO().load_bytes(picture)) for picture in pictures]))
    assert (metadata.total_num_frames, metadata.frames_indices) == (3, [0, 1, 2])
    assert metadata.do_sample_frames is False


@pytest.mark.parametrize("body", [b"", b"<html>come back later</html>", make_video(9)[:600]])
@pytest.mark.parametrize("modality", ["video", "audio"])
async def test_a_bad_answer_spoils_no_later_one_from_the_same_address(modality: str, body: bytes) -> None:
    """Neither a download nor an index of what was no clip is kept."""
    good, answers = make_video(9, audio=True), [body]
    decoder: Any = VideoMediaIO(index_cache=PacketIndexCache()) if modality == "video" else AudioMediaIO()

    async def answer(request: Request) -> Response:
        return Response(body=answers.pop() if answers else good)

    async with MediaServer({"/clip": answer}) as server, MediaConnector(allowed_networks=LOOPBACK) as connector:
        fetch: Any = getattr(connector, f"fetch_{modality}")
        with pytest.raises(UnprocessableMediaError):
            (await fetch(server.url("/clip"), decoder)).decode()

        ref = await fetch(server.url("/clip"), decoder)

    assert same(ref.decode(), decoder.load_bytes(good))


async def test_another_clip_at_the_same_address_is_another_clip() -> None:
    clips = [make_video(9, seed=seed) for seed in (0, 1)]
    left = list(clips)
    decoder = VideoMediaIO(index_cache=PacketIndexCache())

    async def answer(request: Request) -> Response:
        return Response(body=left.pop(0))

    async with MediaServer({"/clip": answer}) as server, MediaConnector(allowed_networks=LOOPBACK) as connector:
        refs = [await connector.fetch_video(server.url("/clip"), decoder) for _ in clips]

    assert refs[0].key != refs[1].key
    for ref, clip in zip(refs, clips):
        assert same(ref.decode(), VideoMediaIO().load_bytes(clip))


@pytest.mark.parametrize("what", VIDEOS)
def test_frames_handed_in_are_those_of_the_video_they_came_from(what: str) -> None:
    ref: MediaRef[Any] = VideoMediaIO(num_frames=5).load_bytes_ref(VIDEOS[what]())
    frames, metadata = ref.decode()
    pictures = [Image.fromarray(frame) for frame in frames]
    parser = MultiModalDataParser(video_needs_metadata=True)

    items = parser.parse_mm_data({"video": [ref, (frames, metadata), (frames, dict(metadata)), (pictures, metadata)]})
    got = [items["video"].get(index) for index in range(4)]

    for given, told in got:
        assert np.array_equal(np.stack([np.asarray(frame) for frame in given]), frames)
        assert dict(told) == dict(metadata)


@pytest.mark.parametrize("what", SOUNDS)
def test_samples_handed_in_are_those_of_the_clip_they_came_from(what: str) -> None:
    """Mono in one row, in one column and bare, at the rate that the model wants."""
    ref: MediaRef[Any] = AudioMediaIO().load_bytes_ref(SOUNDS[what]())
    samples, rate = ref.decode()
    parser = MultiModalDataParser(target_sr=16_000, target_channels=1)

    items = parser.parse_mm_data({"audio": [ref, (samples, rate), (samples[None], rate), (samples[:, None], rate)]})

    for index in range(1, 4):
        assert np.array_equal(items["audio"].get(index), items["audio"].get(0))
    assert abs(len(items["audio"].get(0)) - len(samples) * 16_000 / rate) <= 0.5


def test_numbers_are_read_back_by_the_way_in_that_is_tested_most() -> None:
    """So that equal media are not equally wrong."""
    frames, metadata = VideoMediaIO(num_frames=5).load_bytes(VIDEOS["a phone's, turned and mirrored"]())

    assert read_frame_numbers(frames) == metadata.frames_indices == [0, 2, 4, 6, 8]
