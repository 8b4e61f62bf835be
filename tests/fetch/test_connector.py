"""One connector for every scheme, and the points at which others plug in."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from anyio.from_thread import start_blocking_portal

from lazymedia.errors import (
    DecoderCrashedError,
    NotAllowedError,
    OverloadedError,
    PayloadTooLargeError,
    UnprocessableMediaError,
)
from lazymedia.fetch import MediaConnector, get_connector, register_connector
from lazymedia.limits import Limits
from lazymedia.media import MediaIO, MediaRef, Payload, derive_media_key
from lazymedia.media.raw import RawBytesMediaIO
from lazymedia.testing.server import MediaServer, Request, Response

LOOPBACK = ("127.0.0.0/8",)
PAYLOAD = b"one payload for two decoders"


class RecordingIO(RawBytesMediaIO):
    """Keeps what it was given, and in which thread."""

    def __init__(self, modality: str, cap: int = 1 << 20) -> None:
        super().__init__(modality)
        self._cap = cap
        self.payloads: list[bytes] = []
        self.threads: list[threading.Thread] = []

    def get_max_bytes(self) -> int:
        return self._cap

    def load_bytes(self, data: bytes) -> bytes:
        raise AssertionError("a fetch decodes nothing")

    def load_ref(self, payload: Payload) -> MediaRef[bytes]:
        self.payloads.append(payload.data)
        self.threads.append(threading.current_thread())
        return super().load_ref(payload)


@pytest.fixture
async def server() -> AsyncIterator[MediaServer]:
    async with MediaServer({"/a": PAYLOAD}) as server:
        yield server


@pytest.fixture
async def media(tmp_path: Path) -> AsyncIterator[MediaConnector]:
    async with MediaConnector(allowed_networks=LOOPBACK, allowed_local_media_path=tmp_path) as media:
        yield media


def url_of(scheme: str, server: MediaServer, folder: Path) -> str:
    match scheme:
        case "http":
            return server.url("/a")
        case "file":
            (folder / "a").write_bytes(PAYLOAD)
            return (folder / "a").as_uri()
        case _:
            return f"data:,{PAYLOAD.decode()}"


schemes = pytest.mark.parametrize("scheme", ["http", "file", "data"])


@schemes
@pytest.mark.parametrize("modality", ["image", "video", "audio"])
async def test_a_fetch_makes_a_reference_and_decodes_nothing(
    scheme: str, modality: str, server: MediaServer, media: MediaConnector, tmp_path: Path
) -> None:
    """In a worker thread, because whoever wrote the MediaIO may read the whole payload there."""
    media_io = RecordingIO(modality)
    ref = await getattr(media, f"fetch_{modality}")(url_of(scheme, server, tmp_path), media_io)

    assert ref.data == PAYLOAD
    assert ref.key == derive_media_key(PAYLOAD, media_io.get_decode_spec())
    assert not ref.is_decoded
    assert media_io.threads != [threading.current_thread()]


@schemes
async def test_one_download_serves_video_and_audio(
    scheme: str, server: MediaServer, media: MediaConnector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One request, one read or one decode; one payload in memory; one pass of the hash over it."""
    video_io, audio_io = RecordingIO("video"), RecordingIO("audio")
    hashed: list[int] = []
    sha256 = hashlib.sha256

    def counting(data: bytes = b"") -> Any:
        hashed.append(len(data))
        return sha256(data)

    monkeypatch.setattr(hashlib, "sha256", counting)
    video_ref, audio_ref = await media.fetch_video_and_audio(url_of(scheme, server, tmp_path), video_io, audio_io)
    monkeypatch.undo()

    assert video_io.payloads[0] is audio_io.payloads[0]
    assert video_ref.data is audio_ref.data
    assert len(hashed) == 1
    assert video_ref.key == derive_media_key(PAYLOAD, video_io.get_decode_spec())
    assert audio_ref.key == derive_media_key(PAYLOAD, audio_io.get_decode_spec())
    assert server.hits["/a"] == (scheme == "http")


@schemes
@pytest.mark.parametrize(("video_cap", "audio_cap"), [(10, 1000), (1000, 10)])
async def test_the_smaller_cap_of_two_decoders_holds(  # fixtures
    scheme: str, video_cap: int, audio_cap: int, server: MediaServer, media: MediaConnector, tmp_path: Path
) -> None:
    video_io, audio_io = RecordingIO("video", video_cap), RecordingIO("audio", audio_cap)
    with pytest.raises(PayloadTooLargeError):
        await media.fetch_video_and_audio(url_of(scheme, server, tmp_path), video_io, audio_io)

    assert video_io.payloads == audio_io.payloads == []


async def test_the_second_reference_of_a_shared_download_fails_as_itself(media: MediaConnector) -> None:
    class PickyIO(RecordingIO):
        def load_bytes_ref(self, data: bytes) -> MediaRef[bytes]:
            raise UnprocessableMediaError("no sound in it")

    with pytest.raises(UnprocessableMediaError, match="no sound"):
        await media.fetch_video_and_audio("data:,x", RecordingIO("video"), PickyIO("audio"))


class NoRefIO(RecordingIO):
    def load_bytes_ref(self, data: bytes) -> MediaRef[bytes]:
        return data  # type: ignore[return-value]  # the mistake that a plug-in makes


@schemes
async def test_a_decoder_that_makes_no_reference_is_named(
    scheme: str, server: MediaServer, media: MediaConnector, tmp_path: Path
) -> None:
    url = url_of(scheme, server, tmp_path)
    with pytest.raises(TypeError, match="NoRefIO made a bytes"):
        await media.fetch_image(url, NoRefIO("image"))
    with pytest.raises(TypeError, match="NoRefIO made a bytes"):
        await media.fetch_video_and_audio(url, RecordingIO("video"), NoRefIO("audio"))


@pytest.mark.parametrize(
    ("raised", "seen"),
    [(KeyError("x"), KeyError), (ImportError("codec"), ImportError), (SystemExit(), DecoderCrashedError)],
)
async def test_what_a_decoder_raises_arrives_as_itself(
    raised: BaseException, seen: type[Exception], media: MediaConnector
) -> None:
    """Not in a group, though a nursery ran it; only what is no Exception is replaced, lest it end the server."""

    class RaisingIO(RecordingIO):
        def load_bytes_ref(self, data: bytes) -> MediaRef[bytes]:
            raise raised

    with pytest.raises(seen):
        await media.fetch_image("data:,x", RaisingIO("image"))


async def test_an_error_has_no_group_and_no_url(server: MediaServer, media: MediaConnector) -> None:
    with pytest.raises(UnprocessableMediaError) as caught:
        await media.fetch_image(server.url("/secret-path?token=secret"), RecordingIO("image"))

    assert "secret" not in str(caught.value)
    assert "127.0.0.1" not in str(caught.value)


async def test_a_connector_works_inside_its_block_only() -> None:
    media = MediaConnector()
    with pytest.raises(RuntimeError, match="async with"):
        await media.fetch_image("data:,x", RecordingIO("image"))
    async with media:
        await media.fetch_image("data:,x", RecordingIO("image"))
    with pytest.raises(OverloadedError, match="shutting down"):
        await media.fetch_image("data:,x", RecordingIO("image"))
    async with media:  # and may be entered again
        await media.fetch_image("data:,x", RecordingIO("image"))


async def test_an_exception_of_the_block_passes_as_itself() -> None:
    with pytest.raises(KeyError):
        async with MediaConnector():
            raise KeyError


def test_a_connector_can_be_made_before_any_loop_runs() -> None:
    """Limiters bind to the first loop they meet, so they are made on entering."""
    connector = MediaConnector()

    async def use() -> bytes:
        async with connector as media:
            return (await media.fetch_image("data:,x", RecordingIO("image"))).data

    assert anyio.run(use, backend="asyncio") == b"x"
    assert anyio.run(use, backend="trio") == b"x"


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_synchronous_callers_reach_a_connector_through_a_portal(backend: Literal["asyncio", "trio"]) -> None:
    with start_blocking_portal(backend) as portal, portal.wrap_async_context_manager(MediaConnector()) as media:
        ref = portal.call(media.fetch_image, "data:,x", RecordingIO("image"))
        with pytest.raises(NotAllowedError):
            portal.call(media.fetch_image, "http://127.0.0.1/", RecordingIO("image"))

    assert ref.data == b"x"


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"allowed_media_domains": ["http://example.com"]}, ValueError),
        ({"allowed_media_domains": "example.com"}, TypeError),
        ({"allowed_networks": ["10.0.0.1/8"]}, ValueError),
        ({"allowed_networks": "10.0.0.0/8"}, TypeError),
        ({"allowed_ports": [0]}, ValueError),
        ({"allowed_local_media_path": "/no/such/folder"}, ValueError),
        ({"client": object(), "trust_client": True}, TypeError),
    ],
)
def test_a_wrong_setting_fails_at_construction(settings: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        MediaConnector(**settings)


@pytest.mark.parametrize(
    ("modality", "limit"),
    [("image", "image_timeout"), ("audio", "audio_timeout"), ("video", "video_timeout"), ("x", "video_timeout")],
)
async def test_the_time_for_a_fetch_is_that_of_its_modality(modality: str, limit: str) -> None:
    """The other limits would let this wait for half a minute and more."""
    reached = anyio.Event()

    async def silence(request: Request) -> Response:
        reached.set()
        await anyio.sleep_forever()
        raise AssertionError

    async with (
        MediaServer({"/a": silence}) as server,
        MediaConnector(allowed_networks=LOOPBACK, limits=Limits().tighten(**{limit: 0.05})) as media,
    ):
        with anyio.fail_after(10), pytest.raises(TimeoutError, match=r"0\.05 s"):
            await media.load_from_url(server.url("/a"), RecordingIO(modality))


class StoreConnector(MediaConnector):
    """A store of one's own behind a scheme of one's own."""

    objects = {"store://a": PAYLOAD}  # noqa: RUF012  # of a test

    async def load_from_url(
        self, url: str, media_io: MediaIO[Any], fetch_timeout: float | None = None
    ) -> MediaRef[Any]:
        if url in self.objects:
            return await self.build_ref(self.objects[url], media_io)
        return await super().load_from_url(url, media_io, fetch_timeout)


async def test_a_subclass_serves_a_scheme_of_its_own_through_every_fetch() -> None:
    async with StoreConnector() as media:
        for fetch in (media.fetch_image, media.fetch_video, media.fetch_audio):
            assert (await fetch("store://a", RecordingIO("image"))).data == PAYLOAD
        video_io, audio_io = RecordingIO("video"), RecordingIO("audio")
        await media.fetch_video_and_audio("store://a", video_io, audio_io)

        assert video_io.payloads[0] is audio_io.payloads[0]
        assert (await media.fetch_image("data:,x", RecordingIO("image"))).data == b"x"
        with pytest.raises(NotAllowedError):
            await media.fetch_image("http://127.0.0.1/", RecordingIO("image"))


async def test_a_subclass_that_gives_something_else_is_named() -> None:
    class Bare(MediaConnector):
        async def load_from_url(self, url: str, media_io: MediaIO[Any], fetch_timeout: float | None = None) -> Any:
            return b"bytes"

    async with Bare() as media:
        for fetch in (media.fetch_image, media.fetch_video, media.fetch_audio):
            with pytest.raises(TypeError, match=r"Bare\.load_from_url made a bytes where a MediaRef belongs"):
                await fetch("data:,x", RecordingIO("image"))


def test_connectors_are_known_by_name() -> None:
    assert get_connector("http") is MediaConnector
    assert register_connector("store")(StoreConnector) is StoreConnector
    assert get_connector("store") is StoreConnector
    register_connector("store")(StoreConnector)  # as on a second import
    with pytest.raises(ValueError, match="store"):
        register_connector("store")(MediaConnector)
    with pytest.raises(ValueError, match="http"):
        get_connector("no such connector")
