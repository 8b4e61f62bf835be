"""What a medium is: bytes, identity, deferred decode.

* `spec`: decode settings as one value, and the key derived from payload and spec
* `ref`: `MediaRef`, decoded once when asked
* `stopping`: `checkpoint`, by which a long decode learns that nobody wants it any more
* `io`: `MediaIO`, which makes references; one file for each codec beside it (`image`, `raw`)

Core: plain synchronous Python that knows no event loop.
"""

from __future__ import annotations

from lazymedia.media.io import MediaIO
from lazymedia.media.ref import MediaRef
from lazymedia.media.spec import DecodeSpec, derive_media_key, shared_payload_digest
from lazymedia.media.stopping import DecodeStopped, checkpoint

__all__ = [
    "DecodeSpec",
    "DecodeStopped",
    "MediaIO",
    "MediaRef",
    "checkpoint",
    "derive_media_key",
    "shared_payload_digest",
]
