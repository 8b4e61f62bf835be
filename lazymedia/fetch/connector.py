"""`MediaConnector`: from a URL of any scheme to a reference, within the operator's rules.

Entering it makes what it owns: connections, the limiters of lookups, of files and of keys. Leaving it ends what still
downloads, and closes them.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Self, TypeAlias, TypeVar, final

from anyio import AsyncContextManagerMixin, CapacityLimiter

from lazymedia.contexts import asynccontextmanager
from lazymedia.errors import FetchTimeoutError, NotAllowedError
from lazymedia.fetch.body_buffer import ByteBudget
from lazymedia.fetch.disk_cache.cache import DownloadCache
from lazymedia.fetch.disk_cache.cached_downloads import CachedDownloads
from lazymedia.fetch.download import Downloaded, Downloader
from lazymedia.fetch.policy.address import AddressPolicy
from lazymedia.fetch.policy.domains import DomainRules
from lazymedia.fetch.policy.url import DataUrl, FileUrl, HttpUrl, parse_url
from lazymedia.fetch.registry import register_connector
from lazymedia.fetch.single_flight import SingleFlight
from lazymedia.fetch.sources.data_url import DataPayload
from lazymedia.fetch.sources.local_file import LocalRoot
from lazymedia.fetch.transport.base import Transport
from lazymedia.fetch.transport.client import ClientTransport
from lazymedia.fetch.transport.guarded import make_ssl_context, open_transport
from lazymedia.fetch.transport.own_addresses import own_addresses
from lazymedia.fetch.transport.resolve import Resolver
from lazymedia.limits import DEFAULT_LIMITS, Limits
from lazymedia.media import DecoderCaches, MediaIO, MediaRef, Payload, check_made, make_ref
from lazymedia.nursery import Ending, frees_when_cancelled, open_nursery, run_owned
from lazymedia.owners import Home, shutting_down
from lazymedia.worker import run_in_thread

T = TypeVar("T")
V = TypeVar("V")
A = TypeVar("A")
Decoders: TypeAlias = Sequence[MediaIO[Any]]

_FILE_THREADS: Final = 8
_SHORT: Final = 64 << 10
"""Bytes that are hashed on the loop where nothing else is to be done: some 50 microseconds."""


@register_connector("http")
class MediaConnector(AsyncContextManagerMixin):
    """Fetches media for one server: ``async with MediaConnector(...) as media``.

    To serve another scheme or store, override `load_from_url`, through which every fetch goes, or single ``fetch_*``
    methods; `build_ref` turns bytes of your own into a reference.

    Args:
        allowed_local_media_path: The folder below which file URLs may be read. None rejects all file URLs.
        allowed_media_domains: Hosts that URLs may name, such as ``"example.com"``, ``"*.example.com"`` (sub-domains) or
            ``"example.com:443"``. None allows any host, no entry allows none. Addresses are checked in any case.
        denied_media_domains: Hosts that URLs may not name, in the same form, whatever is allowed. Two entries deny
            a host with its sub-domains, ``"example.com"`` and ``"*.example.com"``.
        allowed_networks: Otherwise rejected networks, as CIDR texts such as ``"10.1.0.0/16"``. Hosts that are wholly
            inside may use any port and need no domain (``localhost``). Metadata services of clouds, and this machine's
            own addresses other than loopback, must be named one by one, with /32 or /128.
        allowed_ports: Ports of all other hosts.
        client: An httpx2 or httpx AsyncClient of yours, which stays yours to close. Rules about URLs, domains and ports
            hold for it. What names resolve to is out of sight, so that every name counts as a public host, and to which
            addresses it connects is up to you.
        trust_client: Says that this is understood.
        download_cache: Keeps downloads on disk, and saves those that it has. None keeps none.
        limits: Sizes, times and counts; see `Limits`.

    Raises:
        TypeError: A setting of the wrong type. The operator's fault, as are the next.
        ValueError: A malformed setting; or a client without ``trust_client=True``.
    """

    def __init__(
        self,
        *,
        allowed_local_media_path: str | os.PathLike[str] | None = None,
        allowed_media_domains: Iterable[str] | None = None,
        denied_media_domains: Iterable[str] = (),
        allowed_networks: Iterable[str] = (),
        allowed_ports: Iterable[int] = (80, 443),
        client: object = None,
        trust_client: bool = False,
        download_cache: DownloadCache | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._limits = DEFAULT_LIMITS if limits is None else limits
        self._root = None if allowed_local_media_path is None else LocalRoot(allowed_local_media_path)
        self._domains = DomainRules.of(allowed_media_domains, denied_media_domains)
        self._policy = AddressPolicy.of(allowed_networks, allowed_ports)
        if client is not None and not trust_client:
            raise ValueError("a client of your own connects to any address; pass trust_client=True if that is safe")
        self._client = None if client is None else ClientTransport(client, self._policy, self._limits)
        if download_cache is not None and not isinstance(download_cache, DownloadCache):
            raise TypeError(f"download_cache must be a DownloadCache, not {type(download_cache).__name__}")
        self._cache = download_cache
        self._caches = DecoderCaches()
        self._entered: _Entered | None = None
        self._is_in_use = self._was_left = False

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncIterator[Self]:
        if self._is_in_use:
            raise RuntimeError(
                f"this {type(self).__name__} is open already; give it one async with block, around all use"
            )
        self._is_in_use = True
        try:
            async with self._open():
                yield self
        finally:
            self._is_in_use = False

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[None]:
        files, keys = CapacityLimiter(_FILE_THREADS), CapacityLimiter(os.cpu_count() or 1)
        async with AsyncExitStack() as stack:
            transport: Transport | None = self._client
            policy = self._policy
            if transport is None:
                policy = replace(policy, own=await run_in_thread(own_addresses, files))
                transport = await stack.enter_async_context(self._open_transport(policy, files))
            downloader = Downloader(transport, self._domains, self._limits, caches=self._caches)
            nursery = await stack.enter_async_context(open_nursery())
            budget = ByteBudget(self._limits.max_downloading_bytes)
            cached = None
            if self._cache is not None:
                cached = CachedDownloads(
                    *(downloader, policy, self._cache, nursery, files, self._limits),
                    caches=self._caches,
                    knows_addresses=self._client is None,
                )
            flights = SingleFlight(nursery, cached or downloader, budget, keys)
            self._entered = entered = _Entered(downloader, cached, flights, budget, Ending(), files, keys, Home.here())
            try:
                yield
            finally:
                self._entered, self._was_left = None, True
                await run_owned(entered.ending.come, shield=True)

    @property
    def is_open(self) -> bool:
        """Whether the connector is inside its block, and fetches."""
        return self._entered is not None

    def check_open(self) -> None:
        """Do nothing where the connector fetches.

        Raises:
            OverloadedError: It is being left, or was.
            RuntimeError: It was never entered, or was in another loop, thread or process. The caller's fault.
        """
        _ = self._owned

    @asynccontextmanager
    async def _open_transport(self, policy: AddressPolicy, files: CapacityLimiter) -> AsyncIterator[Transport]:
        ssl_context = await run_in_thread(make_ssl_context, files)  # reads the machine's certificates
        async with open_transport(Resolver(policy, limits=self._limits), self._limits, ssl_context) as transport:
            yield transport

    async def fetch_image(self, url: str, media_io: MediaIO[T]) -> MediaRef[T]:
        """A reference to the picture at ``url``, within ``limits.image_timeout``. Raises what `load_from_url` does."""
        return await self._loaded(url, media_io, self._limits.image_timeout)

    async def fetch_video(self, url: str, media_io: MediaIO[T]) -> MediaRef[T]:
        """A reference to the video at ``url``, within ``limits.video_timeout``. Raises what `load_from_url` does."""
        return await self._loaded(url, media_io, self._limits.video_timeout)

    async def fetch_audio(self, url: str, media_io: MediaIO[T]) -> MediaRef[T]:
        """A reference to the audio at ``url``, within ``limits.audio_timeout``. Raises what `load_from_url` does."""
        return await self._loaded(url, media_io, self._limits.audio_timeout)

    @frees_when_cancelled
    async def fetch_video_and_audio(
        self, url: str, video_io: MediaIO[V], audio_io: MediaIO[A]
    ) -> tuple[MediaRef[V], MediaRef[A]]:
        """References to the video at ``url`` and to its sound, from one download, one read or one base64 decode.

        The payload is held once and hashed once. The smaller byte cap of the two and ``limits.video_timeout`` apply.
        Raises what `load_from_url` does. Where a subclass overrides that, the audio is read from the payload of the
        reference that it returns.
        """
        if type(self).load_from_url is MediaConnector.load_from_url:
            self.check_open()
            video_ref, audio_ref = await self._load(url, (video_io, audio_io), self._limits.video_timeout)
            return video_ref, audio_ref
        video_ref = await self._loaded(url, video_io, self._limits.video_timeout)
        return video_ref, await run_in_thread(partial(make_ref, audio_io, video_ref.payload), self._owned.keys)

    async def _loaded(self, url: str, media_io: MediaIO[T], seconds: float) -> MediaRef[T]:
        """`load_from_url`, which may be a subclass's."""
        ref = await self.load_from_url(url, media_io, fetch_timeout=seconds)
        return check_made(f"{type(self).__name__}.load_from_url", ref)

    @frees_when_cancelled
    async def load_from_url(self, url: str, media_io: MediaIO[T], fetch_timeout: float | None = None) -> MediaRef[T]:
        """A reference to the media at ``url``; nothing is decoded. All ``fetch_*`` go through here.

        Args:
            url: An http, https, data or file URL.
            media_io: What decodes it later. Its byte cap holds, and `Limits.max_download_bytes` beside it.
            fetch_timeout: Seconds for everything that waits for the network, name lookups and redirects included. None
                takes the limit for ``media_io.modality``.

        Raises:
            BadUrlError: The text of the URL. The client's fault, as the next three.
            NotAllowedError: The operator's rules about hosts, addresses, ports and files.
            PayloadTooLargeError: More encoded bytes than a cap allows.
            UnprocessableMediaError: The server has no such media, or the payload is empty.
            UpstreamError: The other server is broken or cannot be reached.
            FetchTimeoutError: The time is up.
            OverloadedError: This process is out of threads or file descriptors, or the connector is being left, or was.
            RuntimeError: The connector was never entered, or was in another loop, thread or process. The caller's
                fault.
            TypeError: ``media_io`` made something that is no `MediaRef`. Its author's fault.
            Exception: Whatever else ``media_io`` raised.
        """
        self.check_open()
        seconds = self._default_timeout(media_io) if fetch_timeout is None else fetch_timeout
        (ref,) = await self._load(url, (media_io,), seconds)
        return ref

    @frees_when_cancelled
    async def build_ref(self, data: bytes, media_io: MediaIO[T]) -> MediaRef[T]:
        """A reference to a payload that is already here, keyed in a worker thread. For subclasses.

        Raises:
            TypeError: ``media_io`` made something that is no `MediaRef`.
        """
        return await run_in_thread(partial(make_ref, media_io, Payload(data, caches=self._caches)), self._owned.keys)

    async def _load(self, url: str, decoders: Decoders, seconds: float) -> tuple[MediaRef[Any], ...]:
        """A reference for each decoder, all to the same payload."""
        owned = self._owned
        source = parse_url(url, max_length=self._limits.max_url_length)
        caps = (decoder.get_max_bytes() for decoder in decoders)
        max_bytes = min([self._limits.max_download_bytes, *(cap for cap in caps if cap is not None)])
        match source:
            case HttpUrl():
                max_bytes = min(max_bytes, self._limits.max_downloading_bytes)
                downloaded = await _download(owned, source, max_bytes, seconds, decoders)
                refs = await self._load_download(owned, downloaded, decoders)
                if owned.cached is not None and self._entered is owned:
                    owned.cached.keep(source, downloaded)
                return refs
            case DataUrl():
                return await run_in_thread(partial(self._load_data_url, source, max_bytes, decoders), owned.keys)
            case FileUrl():
                return await run_in_thread(partial(self._load_file, source, max_bytes, decoders), owned.files)

    async def _load_download(
        self, owned: _Entered, downloaded: Downloaded, decoders: Decoders
    ) -> tuple[MediaRef[Any], ...]:
        payload = downloaded.payload
        if len(payload.data) <= _SHORT and all(decoder.reads_quickly for decoder in decoders):
            return _make_refs(decoders, payload)  # a thread would take longer
        return await run_in_thread(partial(_make_refs, decoders, payload), owned.keys)

    def _load_data_url(self, url: DataUrl, max_bytes: int, decoders: Decoders) -> tuple[MediaRef[Any], ...]:
        content = DataPayload.parse(url, max_bytes)
        payload: Payload | None = None
        refs = []
        for decoder in decoders:
            if content.is_base64 and decoder.reads_base64(content.media_type):
                ref = decoder.load_base64_ref(content.media_type, content.symbols())
                refs.append(check_made(type(decoder).__name__, ref))
            else:
                payload = payload or Payload(content.decode(max_bytes), caches=self._caches)
                refs.append(make_ref(decoder, payload))
        return tuple(refs)

    def _load_file(self, url: FileUrl, max_bytes: int, decoders: Decoders) -> tuple[MediaRef[Any], ...]:
        if self._root is None:
            raise NotAllowedError
        return _make_refs(decoders, Payload(self._root.read(url, max_bytes), caches=self._caches))

    @property
    def _owned(self) -> _Entered:
        if self._entered is None:
            if self._was_left:
                raise shutting_down("connector")
            raise RuntimeError(f"{type(self).__name__} fetches inside its async with block only")
        self._entered.home.check(type(self).__name__)
        return self._entered

    def _default_timeout(self, media_io: MediaIO[Any]) -> float:
        match media_io.modality:
            case "image":
                return self._limits.image_timeout
            case "audio":
                return self._limits.audio_timeout
            case _:
                return self._limits.video_timeout


@final
@dataclass(frozen=True, slots=True)
class _Entered:
    """What a connector owns between entering and leaving."""

    downloader: Downloader
    cached: CachedDownloads | None
    flights: SingleFlight
    budget: ByteBudget
    ending: Ending
    files: CapacityLimiter
    keys: CapacityLimiter
    home: Home


async def _download(owned: _Entered, url: HttpUrl, max_bytes: int, seconds: float, decoders: Decoders) -> Downloaded:
    with owned.ending.move_on_after(seconds):
        return await owned.flights.fetch(url, max_bytes, decoders)
    if owned.ending.has_come:
        raise shutting_down("connector")
    raise FetchTimeoutError(f"the fetch did not end within {seconds:g} s")


def _make_refs(decoders: Decoders, payload: Payload) -> tuple[MediaRef[Any], ...]:
    return tuple(make_ref(decoder, payload) for decoder in decoders)


__all__ = ["MediaConnector"]
