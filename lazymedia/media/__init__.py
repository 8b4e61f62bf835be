"""Encoded media as references that know their identity and decode when asked.

* `spec`: decode settings as one value
* `ref`: `MediaRef`, decoded once when asked
* `cancellation`: `checkpoint`, by which a long decode ends when its request was cancelled
* `containers`: what is counted in a container before FFmpeg opens it
* `system_ffmpeg`: torchcodec, and what it may open
* `payload`: encoded bytes and what their source knows of them; `cpu_budget`: how many cores one decode may use
* `io`: `MediaIO`, which makes references; beside it `image`, `video`, `audio` and `raw`

Core: no event loop is known here.
"""

from __future__ import annotations

from lazymedia.media.cancellation import DecodeStopped, checkpoint
from lazymedia.media.io import MediaIO, check_made, make_ref
from lazymedia.media.payload import DecoderCaches, Payload, begin_digest, derive_media_key
from lazymedia.media.ref import MediaRef
from lazymedia.media.spec import DecodeSpec
from lazymedia.public import publish

__all__ = [
    "DecodeSpec",
    "DecodeStopped",
    "DecoderCaches",
    "MediaIO",
    "MediaRef",
    "Payload",
    "begin_digest",
    "check_made",
    "checkpoint",
    "derive_media_key",
    "make_ref",
]

publish(__name__)
