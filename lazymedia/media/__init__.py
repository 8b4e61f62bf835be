"""Encoded media as references that know their identity and decode when asked.

* `spec`: decode settings as one value, and the key derived from payload and spec
* `ref`: `MediaRef`, decoded once when asked
* `stopping`: `checkpoint`, by which a long decode learns that nobody wants it any more
* `system_ffmpeg`: torchcodec, and what it may be handed
* `kept`: what an owner of references keeps for its decoders; `cores`: how many cores one decode may use
* `io`: `MediaIO`, which makes references; beside it `image`, `video`, `audio` and `raw`

Core: no event loop is known here.
"""

from __future__ import annotations

from lazymedia.media.io import MediaIO
from lazymedia.media.kept import Kept, kept_by
from lazymedia.media.ref import MediaRef
from lazymedia.media.spec import DecodeSpec, begin_payload_digest, derive_media_key, shared_payload_digest
from lazymedia.media.stopping import DecodeStopped, checkpoint
from lazymedia.public import publish

__all__ = [
    "DecodeSpec",
    "DecodeStopped",
    "Kept",
    "MediaIO",
    "MediaRef",
    "begin_payload_digest",
    "checkpoint",
    "derive_media_key",
    "kept_by",
    "shared_payload_digest",
]

publish(__name__)
