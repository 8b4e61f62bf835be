"""All media of one request, fetched at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, final

import anyio
import anyio.lowlevel

from lazymedia.errors import LazyMediaError, PayloadTooLargeError
from lazymedia.fetch.transport.sharing import one_request
from lazymedia.media.io import MediaIO
from lazymedia.media.ref import MediaRef
from lazymedia.nursery import Child

if TYPE_CHECKING:
    from lazymedia.chat.messages import MediaPart
    from lazymedia.fetch import MediaConnector

_FETCHES: Final = {"image": "fetch_image", "video": "fetch_video", "audio": "fetch_audio"}


async def fetch_parts(
    connector: MediaConnector, parts: Sequence[MediaPart], media_io: Callable[[str], MediaIO[Any]], max_bytes: int
) -> dict[str, list[object]]:
    """The items of each modality, in request order: references for URLs, objects as they came, None for a bare UUID.

    A failure ends every fetch that comes later in the request, since none of those could be the first failure; earlier
    ones are waited for, since one of them could.

    Args:
        connector: What fetches.
        parts: The media parts of a request, in order.
        media_io: The decoder of a modality.
        max_bytes: Encoded bytes that all items together may have. So many fetches run at once as could have that many
            between them, each at its decoder's cap.

    Raises:
        PayloadTooLargeError: All items together have more bytes. Names no item: which one goes over depends on which
            comes first.
        LazyMediaError: The first failure in request order, with modality and index.
    """
    indices: dict[str, int] = {}
    fetches: list[_Fetch] = []
    decoders = {part.modality: media_io(part.modality) for part in parts if part.url is not None}
    total = _Total(max_bytes, decoders.values())
    for part in parts:
        index = indices[part.modality] = indices.get(part.modality, -1) + 1
        call = None
        if part.url is not None:
            call = _bound(connector, _FETCHES[part.modality], part.url, decoders[part.modality])
        fetches.append(_Fetch(part, index, call, total))
    if any(part.url is not None for part in parts):
        with one_request():  # which tasks started inside inherit
            async with anyio.create_task_group() as nursery:
                children: list[Child] = []
                for position, fetch in enumerate(fetches):
                    children.append(Child(nursery, fetch.run, position, children))
    await anyio.lowlevel.checkpoint()
    total.reject_excess()
    failure = next((fetch.failure for fetch in fetches if fetch.failure is not None), None)
    if failure is not None:
        try:
            raise failure
        finally:
            del failure, fetch, fetches  # a frame that holds what it raised keeps it from being freed
    items: dict[str, list[object]] = {}
    for fetch in fetches:
        items.setdefault(fetch.part.modality, []).append(fetch.item)
    return items


def _bound(
    connector: MediaConnector, method: str, url: str, media_io: MediaIO[Any]
) -> Callable[[], Awaitable[MediaRef[Any]]]:
    async def fetch() -> MediaRef[Any]:
        ref = await getattr(connector, method)(url, media_io)
        if not isinstance(ref, MediaRef):  # a connector from outside
            raise TypeError(f"{type(connector).__name__}.{method} made a {type(ref).__name__} where a MediaRef belongs")
        return ref

    return fetch


@final
class _Total:
    """Encoded bytes of one request: those that have come, and a bound on those that are under way."""

    def __init__(self, cap: int, decoders: Iterable[MediaIO[Any]]) -> None:
        largest = max((decoder.get_max_bytes() or cap for decoder in decoders), default=cap)
        self.under_way = anyio.CapacityLimiter(max(1, cap // max(1, largest)))
        self._cap = cap
        self._bytes = 0

    def add(self, size: int) -> None:
        self._bytes += size

    @property
    def is_exceeded(self) -> bool:
        return self._bytes > self._cap

    def reject_excess(self) -> None:
        if self.is_exceeded:
            raise PayloadTooLargeError(f"the request's media have more than the {self._cap} bytes allowed together")


@final
class _Fetch:
    """One item on its way. Records what becomes of it and raises nothing but a cancellation."""

    def __init__(
        self, part: MediaPart, index: int, call: Callable[[], Awaitable[MediaRef[Any]]] | None, total: _Total
    ) -> None:
        self.part = part
        self.item: object = part.media
        self.failure: Exception | None = None
        self._index = index
        self._call = call
        self._total = total

    async def run(self, position: int, children: Sequence[Child]) -> None:
        """Fetch in ``children[position]``. A failure cancels the children behind it, and too many bytes all of them."""
        if self._call is None:
            return
        try:
            async with self._total.under_way:
                ref = await self._call()
            self._total.add(len(ref.data))
            self.item = ref
        except LazyMediaError as exc:
            self.failure = exc.at(self.part.modality, self._index)
        except Exception as exc:  # noqa: BLE001  # raised by fetch_parts, as itself, once it is known to be the first
            self.failure = exc
        ended = children if self._total.is_exceeded else children[position + 1 :] if self.failure is not None else ()
        for child in ended:
            child.cancel()


__all__ = ["fetch_parts"]
