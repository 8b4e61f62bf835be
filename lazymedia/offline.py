"""The synchronous faces: for scripts, notebooks and worker threads, with no event loop in sight."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from anyio.from_thread import start_blocking_portal

from lazymedia.contexts import asynccontextmanager
from lazymedia.fetch import MediaConnector
from lazymedia.media.audio import AudioMediaIO
from lazymedia.media.image import ImageMediaIO
from lazymedia.media.video import VideoMediaIO
from lazymedia.owners import BlockingCalls, apart, open_blocking_calls, shutting_down
from lazymedia.public import publish

if TYPE_CHECKING:
    from lazymedia.media.io import MediaIO
    from lazymedia.media.ref import MediaRef
    from lazymedia.processing import MultiModalInputs, RequestPlan
    from lazymedia.renderer import Renderer

T = TypeVar("T")
O = TypeVar("O")  # noqa: E741  # the owner that the loop holds


class _OwnLoop(Generic[O]):
    """An asynchronous owner, opened in a loop of its own. Calls may come from any number of threads.

    Args:
        open_owner: Opens the owner, within the loop.
        backend: ``"trio"`` or ``"asyncio"``.
    """

    def __init__(self, open_owner: Callable[[], AbstractAsyncContextManager[O]], backend: str) -> None:
        self._open_owner = open_owner
        self._backend = backend
        self._stack = ExitStack()
        self._is_entered = False
        self._calls: BlockingCalls | None = None
        self._owner: O | None = None

    def __enter__(self) -> Self:
        if self._is_entered:
            raise RuntimeError(f"a {type(self).__name__} is entered once")
        self._is_entered = True
        apart(self._enter)
        return self

    def _enter(self) -> None:
        with ExitStack() as stack:
            portal = stack.enter_context(start_blocking_portal(self._backend))
            self._calls, self._owner = stack.enter_context(portal.wrap_async_context_manager(self._open()))
            self._stack = stack.pop_all()

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[tuple[BlockingCalls, O]]:
        # The owner is left first, and ends the calls that are still under way.
        async with open_blocking_calls(type(self).__name__) as calls, self._open_owner() as owner:
            yield calls, owner

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._calls is not None and self._calls.home.process != os.getpid():
            return  # forked: the loop and its thread are the parent's to end
        apart(partial(self._stack.__exit__, exc_type, exc, traceback))
        self._owner = None

    def _run(self, call: Callable[[O], Awaitable[T]]) -> T:
        """Await a call in the loop; see `BlockingCalls.run`."""
        calls, owner = self._calls, self._owner
        if calls is None:
            raise RuntimeError(f"enter the {type(self).__name__} first: with {type(self).__name__}(...) as ...")
        if owner is None:
            raise shutting_down(type(self).__name__)
        return calls.run(call, owner)


class SyncMediaConnector(_OwnLoop[MediaConnector]):
    """`MediaConnector` without await: ``with SyncMediaConnector(...) as media: ref = media.fetch_image(url,
    image_io)``.

    Args:
        connector: The class of connector, for one that was registered.
        backend: The event loop that runs it.
        **options: See `MediaConnector`.
    """

    def __init__(
        self, *, connector: type[MediaConnector] = MediaConnector, backend: str = "trio", **options: Any
    ) -> None:
        super().__init__(partial(_open, connector(**options)), backend)

    def fetch_image(self, url: str, media_io: MediaIO[T]) -> MediaRef[T]:
        """See `MediaConnector.fetch_image`."""
        return self._run(lambda media: media.fetch_image(url, media_io))

    def fetch_video(self, url: str, media_io: MediaIO[T]) -> MediaRef[T]:
        """See `MediaConnector.fetch_video`."""
        return self._run(lambda media: media.fetch_video(url, media_io))

    def fetch_audio(self, url: str, media_io: MediaIO[T]) -> MediaRef[T]:
        """See `MediaConnector.fetch_audio`."""
        return self._run(lambda media: media.fetch_audio(url, media_io))

    def fetch_video_and_audio(
        self, url: str, video_io: MediaIO[Any], audio_io: MediaIO[Any]
    ) -> tuple[MediaRef[Any], MediaRef[Any]]:
        """See `MediaConnector.fetch_video_and_audio`."""
        return self._run(lambda media: media.fetch_video_and_audio(url, video_io, audio_io))

    def load_from_url(self, url: str, media_io: MediaIO[T], *, fetch_timeout: float | None = None) -> MediaRef[T]:
        """See `MediaConnector.load_from_url`."""
        return self._run(lambda media: media.load_from_url(url, media_io, fetch_timeout=fetch_timeout))


def _open(connector: MediaConnector) -> AbstractAsyncContextManager[MediaConnector]:
    return connector


class SyncRenderer(_OwnLoop["Renderer"]):
    """`open_renderer` without await: ``with SyncRenderer(processor) as renderer: result =
    renderer.render_chat(messages)``.

    Safe to share among threads; their requests run concurrently.

    Args:
        processor: See `open_renderer`.
        backend: The event loop that runs it.
        **options: See `open_renderer`.
    """

    def __init__(self, processor: object, *, backend: str = "trio", **options: Any) -> None:
        super().__init__(partial(_open_renderer, processor, options), backend)

    def render_chat(self, messages: Iterable[Any], **options: Any) -> MultiModalInputs:
        """See `Renderer.render_chat`."""
        return self._run(lambda renderer: renderer.render_chat(messages, **options))

    def plan_chat(self, messages: Iterable[Any], **options: Any) -> RequestPlan:
        """See `Renderer.plan_chat`."""
        return self._run(lambda renderer: renderer.plan_chat(messages, **options))

    def render(self, prompt: str, mm_data: Mapping[str, object], **options: Any) -> MultiModalInputs:
        """See `Renderer.render`."""
        return self._run(lambda renderer: renderer.render(prompt, mm_data, **options))


def _open_renderer(processor: object, options: dict[str, Any]) -> AbstractAsyncContextManager[Renderer]:
    from lazymedia.renderer import open_renderer

    return open_renderer(processor, **options)


def fetch_image(url: str, *, media_io: MediaIO[Any] | None = None, backend: str = "trio", **options: Any) -> Any:
    """Fetch and decode one picture, for scripts and notebooks.

    Args:
        url: An http, https, data or file URL.
        media_io: The decoder; `ImageMediaIO` with its defaults where None.
        backend: The event loop that runs the fetch.
        **options: See `MediaConnector`, for example ``allowed_local_media_path``.

    Returns:
        What the decoder gives: by default an upright RGB PIL image.

    Raises:
        LazyMediaError: It cannot be fetched or decoded.
    """
    if media_io is None:
        media_io = ImageMediaIO(limits=options.get("limits"))
    return _decoded(SyncMediaConnector.fetch_image, url, media_io, backend, options)


def fetch_video(url: str, *, media_io: MediaIO[Any] | None = None, backend: str = "trio", **options: Any) -> Any:
    """Fetch one video and decode frames of it; see `fetch_image`.

    Returns:
        What the decoder gives: by default ``(frames, metadata)`` with up to 32 frames spread over the video, uint8
        (N, H, W, 3), upright RGB, and a `VideoMetadata`.
    """
    if media_io is None:
        media_io = VideoMediaIO(limits=options.get("limits"))
    return _decoded(SyncMediaConnector.fetch_video, url, media_io, backend, options)


def fetch_audio(url: str, *, media_io: MediaIO[Any] | None = None, backend: str = "trio", **options: Any) -> Any:
    """Fetch and decode one clip of audio; see `fetch_image`.

    Returns:
        What the decoder gives: by default ``(samples, Hz)``, float32 (N,), mono at the clip's own rate.
    """
    if media_io is None:
        media_io = AudioMediaIO(limits=options.get("limits"))
    return _decoded(SyncMediaConnector.fetch_audio, url, media_io, backend, options)


def _decoded(
    fetch: Callable[[SyncMediaConnector, str, MediaIO[Any]], MediaRef[Any]],
    url: str,
    media_io: MediaIO[Any],
    backend: str,
    options: dict[str, Any],
) -> Any:
    with SyncMediaConnector(backend=backend, **options) as media:
        return fetch(media, url, media_io).decode()


__all__ = ["SyncMediaConnector", "SyncRenderer", "fetch_audio", "fetch_image", "fetch_video"]

publish(__name__)
