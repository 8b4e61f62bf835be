"""Media for multimodal models: fetched safely, carried as references, decoded only when no cache holds the result.

The map, from the ground up; an import never points up:

* `lazymedia.errors`, `lazymedia.limits`: every error and every limit
* `lazymedia.media`: encoded media as references that decode when asked
* `lazymedia.hops`: one call into a worker thread, owned
* `lazymedia.fetch`: transport from http, data and file URLs to references
* `lazymedia.parse`, `lazymedia.identity`, `lazymedia.cache`: items, their hashes, processed outputs
* `lazymedia.processing`, `lazymedia.models`: the Hugging Face processor, one item at a time; the two phases
* `lazymedia.pipeline`: requests under structured concurrency
* `lazymedia.chat`, `lazymedia.renderer`: chat requests in, model inputs out
* `lazymedia.offline`, `lazymedia.cli`: the synchronous faces
* `lazymedia.testing`: fakes and a loopback server for your own tests

Names are loaded when they are first used, so that importing this package loads no codec, no HTTP client, no torch and
no transformers.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    from lazymedia.cache import CacheStats, ProcessorCache
    from lazymedia.errors import (
        BadRequestError,
        BadUrlError,
        CacheDriftError,
        CacheMissError,
        DecoderCrashedError,
        FetchTimeoutError,
        LazyMediaError,
        NotAllowedError,
        OverlapError,
        OverloadedError,
        PayloadTooLargeError,
        ReleasedError,
        UnprocessableMediaError,
        UpstreamError,
    )
    from lazymedia.fetch import DownloadCache, GuardedTransport, MediaConnector, get_connector, register_connector
    from lazymedia.identity import MultiModalHasher
    from lazymedia.limits import Limits
    from lazymedia.media import DecodeSpec, MediaIO, MediaRef, checkpoint, derive_media_key
    from lazymedia.media.audio import AudioInfo, AudioMediaIO
    from lazymedia.media.image import ImageMediaIO
    from lazymedia.media.raw import RawBytesMediaIO
    from lazymedia.media.video import PacketIndexCache, VideoMediaIO, VideoMetadata
    from lazymedia.models import processing_info
    from lazymedia.offline import SyncMediaConnector, SyncRenderer, fetch_audio, fetch_image, fetch_video
    from lazymedia.parse import (
        AudioProcessorItems,
        ImageProcessorItems,
        ModalityDataItems,
        MultiModalDataItems,
        MultiModalDataParser,
        VideoProcessorItems,
    )
    from lazymedia.pipeline import MultiModalApplyState, MultiModalProcessor, ProcessorStatistics
    from lazymedia.processing import MultiModalInputs, PlaceholderRange, ProcessingInfo, ProcessorInputs
    from lazymedia.renderer import Renderer, open_renderer

_HOMES: Final = {
    "lazymedia.cache": ("CacheStats", "ProcessorCache"),
    "lazymedia.errors": (
        "BadRequestError",
        "BadUrlError",
        "CacheDriftError",
        "CacheMissError",
        "DecoderCrashedError",
        "FetchTimeoutError",
        "LazyMediaError",
        "NotAllowedError",
        "OverlapError",
        "OverloadedError",
        "PayloadTooLargeError",
        "ReleasedError",
        "UnprocessableMediaError",
        "UpstreamError",
    ),
    "lazymedia.fetch": ("DownloadCache", "GuardedTransport", "MediaConnector", "get_connector", "register_connector"),
    "lazymedia.identity": ("MultiModalHasher",),
    "lazymedia.limits": ("Limits",),
    "lazymedia.media": ("DecodeSpec", "MediaIO", "MediaRef", "checkpoint", "derive_media_key"),
    "lazymedia.media.audio": ("AudioInfo", "AudioMediaIO"),
    "lazymedia.media.image": ("ImageMediaIO",),
    "lazymedia.media.raw": ("RawBytesMediaIO",),
    "lazymedia.media.video": ("PacketIndexCache", "VideoMediaIO", "VideoMetadata"),
    "lazymedia.models": ("processing_info",),
    "lazymedia.offline": ("SyncMediaConnector", "SyncRenderer", "fetch_audio", "fetch_image", "fetch_video"),
    "lazymedia.parse": (
        "AudioProcessorItems",
        "ImageProcessorItems",
        "ModalityDataItems",
        "MultiModalDataItems",
        "MultiModalDataParser",
        "VideoProcessorItems",
    ),
    "lazymedia.pipeline": ("MultiModalApplyState", "MultiModalProcessor", "ProcessorStatistics"),
    "lazymedia.processing": ("MultiModalInputs", "PlaceholderRange", "ProcessingInfo", "ProcessorInputs"),
    "lazymedia.renderer": ("Renderer", "open_renderer"),
}
_HOME: Final = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AudioInfo",
    "AudioMediaIO",
    "AudioProcessorItems",
    "BadRequestError",
    "BadUrlError",
    "CacheDriftError",
    "CacheMissError",
    "CacheStats",
    "DecodeSpec",
    "DecoderCrashedError",
    "DownloadCache",
    "FetchTimeoutError",
    "GuardedTransport",
    "ImageMediaIO",
    "ImageProcessorItems",
    "LazyMediaError",
    "Limits",
    "MediaConnector",
    "MediaIO",
    "MediaRef",
    "ModalityDataItems",
    "MultiModalApplyState",
    "MultiModalDataItems",
    "MultiModalDataParser",
    "MultiModalHasher",
    "MultiModalInputs",
    "MultiModalProcessor",
    "NotAllowedError",
    "OverlapError",
    "OverloadedError",
    "PacketIndexCache",
    "PayloadTooLargeError",
    "PlaceholderRange",
    "ProcessingInfo",
    "ProcessorCache",
    "ProcessorInputs",
    "ProcessorStatistics",
    "RawBytesMediaIO",
    "ReleasedError",
    "Renderer",
    "SyncMediaConnector",
    "SyncRenderer",
    "UnprocessableMediaError",
    "UpstreamError",
    "VideoMediaIO",
    "VideoMetadata",
    "VideoProcessorItems",
    "__version__",
    "checkpoint",
    "derive_media_key",
    "fetch_audio",
    "fetch_image",
    "fetch_video",
    "get_connector",
    "open_renderer",
    "processing_info",
    "register_connector",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'lazymedia' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
