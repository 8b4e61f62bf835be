"""From the text of a URL to encoded bytes, and from those to a reference. No codec is known here.

* `connector`: `MediaConnector`, which owns the connections and the limiters of one server; `registry`: connectors by
  name
* `policy`: URLs, domains and addresses that are allowed; `http_rules`: messages, ranges, freshness and further tries.
  Neither waits for anything
* `sources`: data URLs and local files; `transport`: connections to checked addresses, and limits on them
* `download`: redirects, statuses, further tries; `body`, `body_buffer`: how a body is read; `single_flight`: one
  download for all fetches of a URL
* `disk_cache`: downloads kept from one run to the next
* `owned`: why a fetch that is cancelled, however often, leaves nothing behind
"""

from __future__ import annotations

from lazymedia.fetch.connector import MediaConnector
from lazymedia.fetch.disk_cache.cache import DownloadCache
from lazymedia.fetch.disk_cache.entry import CachedDownload
from lazymedia.fetch.registry import get_connector, register_connector
from lazymedia.fetch.transport.guarded import GuardedTransport
from lazymedia.fetch.transport.sharing import one_request
from lazymedia.public import publish

__all__ = [
    "CachedDownload",
    "DownloadCache",
    "GuardedTransport",
    "MediaConnector",
    "get_connector",
    "one_request",
    "register_connector",
]

publish(__name__)
