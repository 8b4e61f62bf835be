"""Requests cancelled while a real video or clip is being decoded: the decode ends at the packet or block that it has
come to, its threads with it, and nothing keeps its bytes.
"""

from __future__ import annotations

import gc
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from typing import Any

import pytest

from lazymedia.media.audio import AudioMediaIO, resample
from lazymedia.media.cancellation import DecodeStopped, checkpoint
from lazymedia.media.ref import MediaRef
from lazymedia.media.video import PacketIndexCache, VideoMediaIO
from lazymedia.testing.audio import make_audio
from lazymedia.testing.quiet import assert_quiet
from lazymedia.testing.video import make_video
from tests.pipeline.cancelling import running, some_ticks, ways
from tests.pipeline.clips import as_picture, picture_ref
from tests.pipeline.support import WAIT, caching, hf_processor, reached, request

pytestmark = pytest.mark.every_loop

MEDIA = "lazymedia.media."


@cache
def clip(kind: str) -> bytes:
    if kind == "video":
        return make_video(400, codec="mpeg4", gop=10)
    return make_audio(16, 48_000, 2, format=kind)


@pytest.fixture(autouse=True, scope="module")
def _quick_collections() -> Iterator[None]:
    """Leave what was there before out of collections: model libraries make each take a third of a second."""
    hf_processor()
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def stretch_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "lazymedia-stretch"]


class Payload(bytes):
    """Bytes that tell when nothing holds them any more."""

    freed: threading.Event

    def __del__(self) -> None:
        self.freed.set()


class Gate:
    """Stands in for `checkpoint` in one module: the n-th call of every thread waits to be let go. Threads that a decode
    started go on when that decode has been stopped.

    Attributes:
        calls: By thread.
        stopped: Calls that ended the decode, by thread.
        reached: Set when as many threads as were asked for wait.
    """

    def __init__(self, at: int, threads: int) -> None:
        self._at = at
        self._threads = threads
        self._lock = threading.Lock()
        self._opened = threading.Event()
        self._one_stopped = threading.Event()
        self.calls: Counter[int] = Counter()
        self.stopped: Counter[int] = Counter()
        self.reached = threading.Event()

    def open(self) -> None:
        self._opened.set()

    def __call__(self) -> None:
        me = threading.get_ident()
        with self._lock:
            self.calls[me] += 1
            held = self.calls[me] >= self._at
            if sum(count >= self._at for count in self.calls.values()) == self._threads:
                self.reached.set()
        if held:
            assert self._opened.wait(WAIT)
            if threading.current_thread() in stretch_threads():
                assert self._one_stopped.wait(WAIT)
        try:
            checkpoint()
        except DecodeStopped:
            self.stopped[me] += 1
            self._one_stopped.set()
            raise


@dataclass(frozen=True)
class Case:
    """One way to decode.

    Attributes:
        payload: What.
        ref: Its reference, as an item.
        place: The module whose packets or blocks are counted.
        at: At which of them the decode is held.
        threads: That decode at once.
    """

    payload: str
    ref: Callable[[bytes], MediaRef[Any]]
    place: str
    at: int = 4
    threads: int = 1


def indexed(threads: int, payload: bytes) -> MediaRef[Any]:
    """A video whose packets have been read before, so that all that is counted is decoded."""
    index_cache = PacketIndexCache()
    VideoMediaIO(num_frames=1, index_cache=index_cache).load_bytes(payload)
    return picture_ref(VideoMediaIO(num_frames=20, index_cache=index_cache, decoder_threads=threads), payload)


def resampled_afterwards(payload: bytes) -> MediaRef[Any]:
    transform = resample(16_000)
    return as_picture(AudioMediaIO().load_bytes_ref(payload).map(transform, **transform.settings()))


def resampled_on_the_way(payload: bytes) -> MediaRef[Any]:
    return as_picture(MediaRef(partial(AudioMediaIO().load_bytes_resampled, payload, resample(16_000)), payload))


CASES = {
    "video, its packets being read": Case("video", partial(picture_ref, VideoMediaIO()), "video.container"),
    "video, one thread": Case("video", partial(indexed, 1), "video.container"),
    "video, two threads": Case("video", partial(indexed, 2), "video.container", threads=2),
    "sound by FFmpeg, many frames at a time": Case("M4A", partial(picture_ref, AudioMediaIO()), "audio.ffmpeg_graph"),
    "an MP3, many frames at a time": Case("MP3", partial(picture_ref, AudioMediaIO()), "audio.ffmpeg_graph"),
    "sound by FFmpeg, being copied": Case("OPUS", partial(picture_ref, AudioMediaIO()), "audio.ffmpeg_graph", at=1),
    "sound by FFmpeg, frame by frame": Case("MKV", partial(picture_ref, AudioMediaIO()), "audio.ffmpeg_frames"),
    "sound by soundfile": Case("FLAC", partial(picture_ref, AudioMediaIO()), "audio.soundfile_reader"),
    "sound resampled afterwards": Case("FLAC", resampled_afterwards, "audio.transforms"),
    "sound resampled on the way": Case("FLAC", resampled_on_the_way, "audio.transforms"),
    "sound resampled on the way, held among many frames": Case("M4A", resampled_on_the_way, "audio.ffmpeg_graph"),
    "sound resampled on the way, held at a packet": Case("MKV", resampled_on_the_way, "audio.ffmpeg_frames"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_a_decode_is_stopped_where_it_is_and_its_bytes_are_freed(
    case: Case, anyio_backend: tuple[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    for native in ways(anyio_backend):
        payload = Payload(clip(case.payload))
        payload.freed = freed = threading.Event()
        ref = case.ref(payload)
        gate = Gate(case.at, case.threads)
        async with caching() as processor:
            with monkeypatch.context() as patch:
                patch.setattr(import_module(MEDIA + case.place), "checkpoint", gate)

                async def apply(processor: Any = processor, ref: Any = ref) -> Any:
                    return await processor.apply(request(processor, [ref]))

                async with running(apply, native) as request_:
                    await reached(gate.reached)
                    assert len(stretch_threads()) == case.threads - 1
                    request_.cancel()
                    await some_ticks()
                    assert not request_.ended.is_set(), "its thread still works"
                    gate.open()
                    await request_.ended.wait()

            assert request_.was_cancelled
            assert stretch_threads() == []
            assert processor.statistics().running_decodes == 0
            assert_quiet(processor)
            assert list(gate.stopped.values()) == [1] * case.threads
            if case.threads == 1:
                assert list(gate.calls.values()) == [case.at]
            del apply, ref, payload, request_
            gc.collect()
            assert freed.is_set()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_the_next_request_for_what_was_cancelled_decodes_all_of_it(
    case: Case, anyio_backend: tuple[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was given up half-way left nothing behind that a later decode could find."""
    payload = clip(case.payload)
    expected = case.ref(payload).decode()
    native = ways(anyio_backend)[0]
    ref, gate = case.ref(payload), Gate(case.at, case.threads)
    async with caching() as processor:
        with monkeypatch.context() as patch:
            patch.setattr(import_module(MEDIA + case.place), "checkpoint", gate)

            async def apply() -> Any:
                return await processor.apply(request(processor, [ref]))

            async with running(apply, native) as request_:
                await reached(gate.reached)
                request_.cancel()
                gate.open()

        assert request_.was_cancelled
        result = await processor.apply(request(processor, [ref]))

        assert result.cached == {"image": [False]}
        assert ref.decode().tobytes() == expected.tobytes()
