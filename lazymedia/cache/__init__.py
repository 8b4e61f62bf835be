"""Processed outputs, kept between requests.

* `lru`: `ProcessorCache`, least recently used first out, bounded by bytes; pins for hits that a request counts on
* `handing_out`: how arrays leave a cache so that callers cannot change what it holds

Core: no event loop is known here. A pair of caches that stay mirrored between processes will
stand here beside `lru`.
"""

from __future__ import annotations

from lazymedia.cache.lru import CacheStats, Entry, Pin, ProcessorCache
from lazymedia.public import publish

__all__ = ["CacheStats", "Entry", "Pin", "ProcessorCache"]

publish(__name__)
