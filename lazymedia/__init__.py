"""Media for multimodal models: fetched safely, carried as references, decoded only when no cache holds the result.

The map, from the ground up; an import never points up:

* `lazymedia.errors`, `lazymedia.limits`: every error and every limit
* `lazymedia.media`: encoded media as references that decode when asked
* `lazymedia.nursery`, `lazymedia.worker`: children that end, calls into worker threads
* `lazymedia.fetch`: transport from http, data and file URLs to references
* `lazymedia.parse`, `lazymedia.identity`, `lazymedia.cache`: items, their hashes, processed outputs
* `lazymedia.processing`, `lazymedia.models`: the Hugging Face processor, one item at a time; the two phases
* `lazymedia.pipeline`: requests under structured concurrency
* `lazymedia.chat`, `lazymedia.renderer`: chat requests in, model inputs out
* `lazymedia.offline`, `lazymedia.cli`: the synchronous faces
* `lazymedia.testing`: fakes and a loopback server for your own tests
* `lazymedia.extend`: what one subclasses or registers
* `lazymedia.public`: public names show their public path
* `lazymedia.contexts`: `contextlib` whose managers free what a failure held

Public is what `lazymedia`, `lazymedia.extend` and `lazymedia.testing` export in ``__all__``; the errors stay importable
from `lazymedia.errors` too, and `checkpoint` from `lazymedia.media`. Everything else is private and may move or change
in any release. docs/extending.md says more.

Names are loaded when they are first used, so that importing this package loads no codec, no HTTP client, no torch and
no transformers.
"""

from __future__ import annotations

import importlib
import sys
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
        NotPlannableError,
        OverlapError,
        OverloadedError,
        PayloadTooLargeError,
        ReleasedError,
        UnprocessableMediaError,
        UpstreamError,
    )
    from lazymedia.fetch import (
        CachedDownload,
        DownloadCache,
        GuardedTransport,
        MediaConnector,
        get_connector,
        one_request,
        register_connector,
    )
    from lazymedia.identity import MultiModalHasher
    from lazymedia.limits import Limits
    from lazymedia.media import DecodeSpec, MediaIO, MediaRef, checkpoint, derive_media_key
    from lazymedia.media.audio import AudioInfo, AudioMediaIO, Clip
    from lazymedia.media.image import ImageHeader, ImageMediaIO, Picture
    from lazymedia.media.raw import RawBytesMediaIO
    from lazymedia.media.video import PacketIndexCache, Video, VideoMediaIO, VideoMetadata
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
    from lazymedia.processing import (
        MultiModalInputs,
        PlaceholderRange,
        ProcessingInfo,
        ProcessorInputs,
        RequestPlan,
        collate,
    )
    from lazymedia.renderer import Renderer, open_renderer

_HOMES: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "lazymedia": {
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
            "NotPlannableError",
            "OverlapError",
            "OverloadedError",
            "PayloadTooLargeError",
            "ReleasedError",
            "UnprocessableMediaError",
            "UpstreamError",
        ),
        "lazymedia.fetch": (
            "CachedDownload",
            "DownloadCache",
            "GuardedTransport",
            "MediaConnector",
            "get_connector",
            "one_request",
            "register_connector",
        ),
        "lazymedia.identity": ("MultiModalHasher",),
        "lazymedia.limits": ("Limits",),
        "lazymedia.media": ("DecodeSpec", "MediaIO", "MediaRef", "checkpoint", "derive_media_key"),
        "lazymedia.media.audio": ("AudioInfo", "AudioMediaIO", "Clip"),
        "lazymedia.media.image": ("ImageHeader", "ImageMediaIO", "Picture"),
        "lazymedia.media.raw": ("RawBytesMediaIO",),
        "lazymedia.media.video": ("PacketIndexCache", "Video", "VideoMediaIO", "VideoMetadata"),
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
        "lazymedia.processing": (
            "MultiModalInputs",
            "PlaceholderRange",
            "ProcessingInfo",
            "ProcessorInputs",
            "RequestPlan",
            "collate",
        ),
        "lazymedia.renderer": ("Renderer", "open_renderer"),
    },
    "lazymedia.extend": {
        "lazymedia": (
            "DecodeSpec",
            "MediaConnector",
            "MediaIO",
            "MediaRef",
            "PlaceholderRange",
            "ProcessingInfo",
            "checkpoint",
            "get_connector",
            "register_connector",
        ),
        "lazymedia.media": ("DecodeStopped", "DecoderCaches", "Payload"),
        "lazymedia.media.video": ("Sampling",),
        "lazymedia.models": ("family_of", "register_family", "verify_family"),
        "lazymedia.processing": (
            "Batched",
            "ChatStyle",
            "Flat",
            "Hidden",
            "ItemMedia",
            "Listed",
            "Shared",
            "ValidOptions",
            "Layout",
            "PreparedKwargs",
            "ProcessedItem",
            "RenderedPrompt",
            "Replacement",
            "RequestOptions",
            "ReturnTensors",
            "bounded_torch_threads",
        ),
    },
}
"""For each public module, the modules that its names are loaded from."""
_HOME: Final = {
    module: {name: home for home, names in homes.items() for name in names} for module, homes in _HOMES.items()
}

__all__ = [
    "AudioInfo",
    "AudioMediaIO",
    "AudioProcessorItems",
    "BadRequestError",
    "BadUrlError",
    "CacheDriftError",
    "CacheMissError",
    "CacheStats",
    "CachedDownload",
    "Clip",
    "DecodeSpec",
    "DecoderCrashedError",
    "DownloadCache",
    "FetchTimeoutError",
    "GuardedTransport",
    "ImageHeader",
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
    "NotPlannableError",
    "OverlapError",
    "OverloadedError",
    "PacketIndexCache",
    "PayloadTooLargeError",
    "Picture",
    "PlaceholderRange",
    "ProcessingInfo",
    "ProcessorCache",
    "ProcessorInputs",
    "ProcessorStatistics",
    "RawBytesMediaIO",
    "ReleasedError",
    "Renderer",
    "RequestPlan",
    "SyncMediaConnector",
    "SyncRenderer",
    "UnprocessableMediaError",
    "UpstreamError",
    "Video",
    "VideoMediaIO",
    "VideoMetadata",
    "VideoProcessorItems",
    "__version__",
    "checkpoint",
    "collate",
    "derive_media_key",
    "fetch_audio",
    "fetch_image",
    "fetch_video",
    "get_connector",
    "one_request",
    "open_renderer",
    "processing_info",
    "register_connector",
]


def _load(module: str, name: str) -> Any:
    """A public name of a module, which the module keeps from then on."""
    home = _HOME[module].get(name)
    if home is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    value = vars(sys.modules[module])[name] = getattr(importlib.import_module(home), name)
    return value


def __getattr__(name: str) -> Any:
    return _load(__name__, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
