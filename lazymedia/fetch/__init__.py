"""Transport: from the text of a URL to encoded bytes, and from those to a reference. Knows no codec.

* `connector`: `MediaConnector`, which owns the connections and the limiters of one server
* `registry`: connectors of your own, by name
* `url`: one parse with one meaning; `domains`, `address`: whom a URL may name, and where that may lead
* `resolve`: a name becomes checked addresses; `guarded`: an httpx2 transport to those and no others, over connections
  of `pool`; `client`: requests through it or through a caller's client; `http_logs`: what HTTP libraries log of them
* `download`: redirects, statuses, further tries (`retries`, `ranges`); `body`, `pace`: how a body comes; `arriving`,
  `digests`: what is done with it meanwhile; `flights`: one download for all who want it; `slots`: how many at once;
  `sharing`: for which request
* `data_url`, `local_file`: the sources without a network; `making`: a reference of what any source gave
* `disk_cache`: downloads kept from one run to the next; `freshness` has HTTP's rules for them, `cache_entry`,
  `cache_folder` and `cache_budget` the form of a file, the folder, and how much of it stays; `cached` asks it
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
