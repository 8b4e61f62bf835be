"""Videos and sound as items of requests: whose fault a bad one is, and when a kept result may be used for another."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import Limits
from lazymedia.media.audio import AudioMediaIO, resample
from lazymedia.media.io import MediaIO
from lazymedia.media.ref import MediaRef
from lazymedia.media.video import PacketIndexCache, VideoMediaIO
from lazymedia.testing.audio import encode, make_audio, sound
from lazymedia.testing.video import make_video
from tests.media import odd_clips
from tests.media.audio_clips import wav
from tests.pipeline.clips import as_picture, picture_ref
from tests.pipeline.support import caching, picture, request

HALF_A_MINUTE = AudioMediaIO(limits=Limits(max_audio_seconds=30))


def half() -> bytes:
    """Of an MP4 whose index comes last."""
    whole = make_video(30, audio=True)
    return whole[: len(whole) // 2]


BAD: dict[str, tuple[MediaIO[Any], Callable[[], bytes]]] = {
    "a video of no bytes": (VideoMediaIO(), lambda: b""),
    "half a video": (VideoMediaIO(), half),
    "a video without tracks": (VideoMediaIO(), odd_clips.header_without_tracks),
    "a cover for a video": (VideoMediaIO(), lambda: odd_clips.behind_cover(make_audio(0.1, 44_100, format="MP3"))),
    "a page of text": (VideoMediaIO(), lambda: b"<html>403</html>"),
    "sound of no bytes": (AudioMediaIO(), lambda: b""),
    "a WAV without samples": (AudioMediaIO(), lambda: wav(b"")),
    "a FLAC without samples": (AudioMediaIO(), lambda: encode(np.empty((0, 1), np.float32), 16_000, format="FLAC")),
    "the sound of a silent video": (AudioMediaIO(), partial(make_video, 5)),
    "the sound of half a video": (AudioMediaIO(), half),
    "recordings in a row that differ": (
        AudioMediaIO(),
        lambda: make_audio(0.2, format="OGG") + make_audio(0.2, channels=2, format="OGG"),
    ),
    "a second more than is allowed": (HALF_A_MINUTE, partial(make_audio, 31, 8_000, format="MP3")),
    "twice as much as is allowed": (HALF_A_MINUTE, partial(make_audio, 65, 8_000, format="M4A")),
}


@pytest.mark.parametrize("what", BAD)
async def test_a_bad_clip_is_its_own_requests_fault_by_its_place_and_the_next_request_works(what: str) -> None:
    """Engines were taken down by one; clients were told of a fault of the server's."""
    decoder, make = BAD[what]
    bad = make()
    async with caching() as processor:
        good = picture_ref(VideoMediaIO(num_frames=2), make_video(3))
        for _ in range(2):  # and nothing of it is kept
            with pytest.raises(UnprocessableMediaError) as caught:
                await processor.apply(request(processor, [good, picture(1), picture_ref(decoder, bad)]))
            assert (caught.value.index, caught.value.status_hint) == (2, 422)
            assert "index 2" in str(caught.value)

        result = await processor.apply(request(processor, [good, picture(1)]))
        assert len(result.mm_kwargs["image"]) == 2


def resampled(rate: int, payload: bytes) -> MediaRef[Any]:
    transform = resample(rate)
    return as_picture(AudioMediaIO().load_bytes_ref(payload).map(transform, **transform.settings()))


VIDEO = make_video(30)
SOUND = encode(sound(0.5, 44_100, 2), 44_100)
INDEX_CACHE = PacketIndexCache()

SETTINGS: dict[str, tuple[Callable[[], MediaRef[Any]], Callable[[], MediaRef[Any]]]] = {
    "frames": (
        lambda: picture_ref(VideoMediaIO(num_frames=4, sampling="fps", fps=2), VIDEO),
        lambda: picture_ref(VideoMediaIO(num_frames=8, sampling="fps", fps=5), VIDEO),
    ),
    "number of frames, of an index that is kept": (
        lambda: picture_ref(VideoMediaIO(num_frames=4, index_cache=INDEX_CACHE), VIDEO),
        lambda: picture_ref(VideoMediaIO(num_frames=1, index_cache=INDEX_CACHE), VIDEO),
    ),
    "rate": (partial(resampled, 16_000, SOUND), partial(resampled, 24_000, SOUND)),
    "library": (
        lambda: picture_ref(AudioMediaIO(audio_backend="soundfile"), SOUND),
        lambda: picture_ref(AudioMediaIO(audio_backend="pyav"), SOUND),
    ),
    "last sample": (
        lambda: picture_ref(AudioMediaIO(), SOUND),
        lambda: picture_ref(AudioMediaIO(), SOUND[:-2] + b"\0\x40"),
    ),
}


@pytest.mark.parametrize("what", SETTINGS)
async def test_one_clip_under_other_settings_is_another_item_and_under_the_same_a_hit_that_equals_the_miss(
    what: str,
) -> None:
    one, other = SETTINGS[what]
    async with caching() as processor:
        miss = await processor.apply(request(processor, [one()]))
        second = await processor.apply(request(processor, [other()]))
        again = one()
        hit = await processor.apply(request(processor, [again]))

        assert [result.cached["image"] for result in (miss, second, hit)] == [[False], [False], [True]]
        assert not again.is_decoded
        assert miss.mm_hashes["image"] == hit.mm_hashes["image"] != second.mm_hashes["image"]
        assert same_features(miss, hit)
        assert same_features(second, await processor.apply(request(processor, [other()], skip_mm_cache=True)))


def same_features(one: Any, other: Any) -> bool:
    left, right = (result.mm_kwargs["image"][0] for result in (one, other))
    return left.keys() == right.keys() and all(np.array_equal(left[name], right[name]) for name in left)
