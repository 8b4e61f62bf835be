"""Downloads that a cache on disk may save: asked first, asked about, and filled.

Comes in: an `HttpUrl`. Goes out: a `Downloaded`, from the disk or from its server. Never here: how entries are kept, or
how long (`disk_cache`, `freshness`), or a byte of a transfer (`download`).

The rules of today hold for what was downloaded under those of yesterday: a URL is held against them before the cache is
asked, and so is the one that the download came from in the end. A download is stored when somebody has made a reference
of it, and not before, so that nothing is stored that was refused; and beside the fetch, which does not wait for a disk.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, final

from anyio import CapacityLimiter

from lazymedia.errors import LazyMediaError
from lazymedia.fetch.address import AddressPolicy
from lazymedia.fetch.arriving import ArrivingPayload
from lazymedia.fetch.caps import too_large
from lazymedia.fetch.disk_cache import CachedDownload, DownloadCache
from lazymedia.fetch.download import Downloaded, Downloader
from lazymedia.fetch.ranges import Conditions
from lazymedia.fetch.transport import literal_address
from lazymedia.fetch.url import HttpUrl, parse_url
from lazymedia.hops import Child, run_in_thread
from lazymedia.limits import Limits

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

_MAX_STORING: Final = 8
"""Downloads that are being stored. While there are so many, others are not kept: each holds a payload."""


@final
class CachedDownloads:
    """Args:
    downloader: What downloads.
    policy: What may be dialled. Only what a URL itself shows is judged here; names are resolved when they are dialled.
    cache: What was downloaded before.
    nursery: Where downloads are stored.
    threads: For the disk.
    limits: On URLs.
    """

    def __init__(
        self,
        downloader: Downloader,
        policy: AddressPolicy,
        cache: DownloadCache,
        nursery: TaskGroup,
        threads: CapacityLimiter,
        limits: Limits,
    ) -> None:
        self._downloader = downloader
        self._policy = policy
        self._cache = cache
        self._nursery = nursery
        self._threads = threads
        self._limits = limits
        self._storing = 0

    async def download(self, url: HttpUrl, arriving: ArrivingPayload, time_left: Callable[[], float]) -> Downloaded:
        """What the cache has, if it is fresh or its server says that it still holds; otherwise a download.

        Raises:
            LazyMediaError: What `Downloader.download` raises.
        """
        self._admit(url)
        kept = await run_in_thread(partial(self._cache.get, url.text), self._threads)
        source = None if kept is None else self._admitted(kept)
        if kept is None or source is None:
            return await self._downloader.download(url, arriving.max_bytes, arriving=arriving, time_left=time_left)
        if not kept.is_fresh(time.time()):
            downloaded = await self._downloader.download(
                url,
                arriving.max_bytes,
                arriving=arriving,
                conditions=Conditions(source, tuple(kept.conditions)),
                time_left=time_left,
            )
            if not downloaded.is_unchanged:
                return downloaded
            refresh = partial(self._cache.refresh, kept, downloaded.headers, downloaded.redirects)
            await run_in_thread(refresh, self._threads)
        if len(kept.data) > arriving.max_bytes:
            raise too_large(arriving.max_bytes)
        return Downloaded(kept.data, source, (), is_kept=True)

    def keep(self, url: HttpUrl, downloaded: Downloaded) -> None:
        """Store a download of which a reference was made, once, however many were made."""
        if downloaded.is_kept or next(downloaded.takers) or self._storing >= _MAX_STORING:
            return
        self._storing += 1
        Child(self._nursery, self._store, url, downloaded)

    async def _store(self, url: HttpUrl, downloaded: Downloaded) -> None:
        put = partial(
            self._cache.put,
            url.text,
            downloaded.data,
            final_url=downloaded.url.text,
            headers=downloaded.headers,
            redirects=downloaded.redirects,
        )
        try:
            await run_in_thread(put, self._threads)
        except LazyMediaError:
            pass  # no thread could be started; another time
        finally:
            self._storing -= 1

    def _admit(self, url: HttpUrl) -> None:
        self._downloader.admit(url)
        address = literal_address(url.host)
        if address is None:
            self._policy.admit_lookup(url.host, url.port)
        else:
            self._policy.admit(url.host, url.port, [address])

    def _admitted(self, kept: CachedDownload) -> HttpUrl | None:
        """Where a download came from, if it might come from there today."""
        try:
            source = parse_url(kept.final_url, max_length=self._limits.max_url_length)
            if isinstance(source, HttpUrl):
                self._admit(source)
                return source
        except LazyMediaError:
            pass  # asking its URL anew will tell
        return None


__all__ = ["CachedDownloads"]
