"""Downloads through the disk cache: it is asked first, revalidated, and filled.

A cached download is checked against the rules of today: the URL before the cache is asked, and each URL that the
download went through, with the address that answered then. A download is stored once a reference was made of it, so
that nothing is stored that a decoder rejected. The fetch does not wait for the disk.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, final

from anyio import CapacityLimiter

from lazymedia.errors import LazyMediaError, NotAllowedError
from lazymedia.fetch.body_buffer import BodyBuffer, too_large
from lazymedia.fetch.disk_cache.cache import CachedDownload, DownloadCache
from lazymedia.fetch.download import Downloaded, Downloader
from lazymedia.fetch.http_rules.ranges import Conditions
from lazymedia.fetch.policy.address import Address, AddressPolicy, literal_address
from lazymedia.fetch.policy.url import HttpUrl, parse_url
from lazymedia.limits import Limits
from lazymedia.media import DecoderCaches, Payload
from lazymedia.nursery import Child
from lazymedia.worker import run_in_thread

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

_MAX_STORING: Final = 8
"""Downloads that are being stored. While there are so many, others are not cached: each holds a payload."""

_UNKNOWN: Final = "-"
"""Where an address would stand."""


@final
class CachedDownloads:
    """Args:
    downloader: What downloads.
    policy: What may be dialled. It is asked about the addresses that a download came from; a name is not resolved here.
    knows_addresses: Whether the downloader's transport reports them. Otherwise only what a URL itself shows is checked.
    cache: What was downloaded before.
    nursery: Where downloads are stored.
    threads: For the disk.
    limits: On URLs.
    caches: The connector's, for its decoders.
    """

    def __init__(
        self,
        downloader: Downloader,
        policy: AddressPolicy,
        cache: DownloadCache,
        nursery: TaskGroup,
        threads: CapacityLimiter,
        limits: Limits,
        *,
        caches: DecoderCaches | None = None,
        knows_addresses: bool,
    ) -> None:
        self._downloader = downloader
        self._policy = policy
        self._cache = cache
        self._nursery = nursery
        self._threads = threads
        self._limits = limits
        self._caches = caches
        self._knows_addresses = knows_addresses
        self._storing = 0

    async def download(self, url: HttpUrl, buffer: BodyBuffer, *, time_left: Callable[[], float]) -> Downloaded:
        """What the cache has, if it is fresh or its server says that it still holds; otherwise a download.

        Raises:
            LazyMediaError: What `Downloader.download` raises.
        """
        self._check(url)
        cached = await run_in_thread(partial(self._cache.get, url.text), self._threads)
        source = None if cached is None else self._allowed_source(cached)
        if cached is None or source is None:
            return await self._downloader.download(url, buffer, time_left=time_left)
        if not cached.is_fresh(time.time()):
            downloaded = await self._downloader.download(
                url,
                buffer,
                conditions=Conditions(source, tuple(cached.conditions)),
                time_left=time_left,
            )
            if not downloaded.is_unchanged:
                return downloaded
            refresh = partial(self._cache.refresh, cached, downloaded.headers, downloaded.redirects)
            await run_in_thread(refresh, self._threads)
        if len(cached.data) > buffer.max_bytes:
            raise too_large(buffer.max_bytes)
        return Downloaded(Payload(cached.data, caches=self._caches), source, (), from_cache=True)

    def keep(self, url: HttpUrl, downloaded: Downloaded) -> None:
        """Store a download of which a reference was made, once, however many were made."""
        if downloaded.from_cache or next(downloaded.storers) or self._storing >= _MAX_STORING:
            return
        self._storing += 1
        Child(self._nursery, self._store, url, downloaded)

    async def _store(self, url: HttpUrl, downloaded: Downloaded) -> None:
        put = partial(
            self._cache.put,
            url.text,
            downloaded.payload.data,
            final_url=downloaded.url.text,
            headers=downloaded.headers,
            redirects=downloaded.redirects,
            way=[f"{address or _UNKNOWN} {url.scheme}://{url.netloc}/" for url, address in downloaded.way],
        )
        try:
            await run_in_thread(put, self._threads)
        except LazyMediaError:
            pass  # no thread could be started; another time
        finally:
            self._storing -= 1

    def _check(self, url: HttpUrl, address: Address | None = None) -> None:
        """Check a URL against the rules, and the address that answered for it where that is known."""
        self._downloader.check_host(url)
        address = address or literal_address(url.host)
        if address is None:
            self._policy.check_lookup(url.host, url.port)
        else:
            self._policy.check(url.host, url.port, [address])

    def _allowed_source(self, cached: CachedDownload) -> HttpUrl | None:
        """Where a download came from, if it might come from there today."""
        try:
            source = self._parsed(cached.final_url)
            self._check(source)
            for hop in cached.way:
                address, _, url = hop.partition(" ")
                if address != _UNKNOWN:
                    self._check(self._parsed(url), ip_address(address))
                elif self._knows_addresses:  # stored over a caller's client, which may connect anywhere
                    return None
                else:
                    self._check(self._parsed(url))
        except (LazyMediaError, ValueError):
            return None  # asking its URL anew will show
        return source

    def _parsed(self, text: str) -> HttpUrl:
        url = parse_url(text, max_length=self._limits.max_url_length)
        if not isinstance(url, HttpUrl):
            raise NotAllowedError
        return url


__all__ = ["CachedDownloads"]
