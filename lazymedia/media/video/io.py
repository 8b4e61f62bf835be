"""The decoder for videos: settings, references, identity."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import DEFAULT_LIMITS, Limits
from lazymedia.media import system_ffmpeg
from lazymedia.media.cancellation import checkpoint
from lazymedia.media.containers import check as check_headers
from lazymedia.media.cpu_budget import CPU_BUDGET
from lazymedia.media.io import MediaIO
from lazymedia.media.mp4_tables import check_tables, display_size
from lazymedia.media.payload import Payload
from lazymedia.media.ref import MediaRef
from lazymedia.media.spec import DecodeSpec
from lazymedia.media.video import backends, jpeg_sequence, picture_sequence
from lazymedia.media.video.backends import BACKENDS
from lazymedia.media.video.container import identify, open_video
from lazymedia.media.video.errors import payload_errors, rejection
from lazymedia.media.video.index_cache import IndexSource, PacketIndexCache
from lazymedia.media.video.metadata import VideoMetadata
from lazymedia.media.video.sampling import POLICIES, READS, Clip, Policy, Request, Sampling
from lazymedia.media.video.scan import scan

if TYPE_CHECKING:
    import numpy as np
    from numpy import typing as npt

    from lazymedia.media.video.index import PacketIndex

Video: TypeAlias = "tuple[npt.NDArray[np.uint8], VideoMetadata]"
"""Frames, uint8 (N, H, W, 3), RGB and upright, and what is known of them."""

DEFAULT_FRAMES: Final = 32
"""Frames that "uniform" takes where neither a number nor a rate is given."""

_MAX_RATE: Final = 1e6
"""Frames per second that can be asked for: no clip has more, and products with it stay finite."""


class VideoMediaIO(MediaIO[Video]):
    """Decodes chosen frames of a video, each exactly as a decode from the first frame on would give it.

    Frames are RGB with 8 bits a channel and upright (the display matrix is applied, mirroring included). A deeper SDR
    video is brought to 8 bits by swscale; HDR (PQ, HLG) is rejected. A clip with fewer frames than asked for gives what
    it has; a frame that does not decode is left out and missing in ``frames_indices``. Frames that an edit list hides
    do not count. A size that changes in the middle is an error.

    Args:
        num_frames: Frames wanted, at most. -1 means all, as ``sampling="all"``. 32 for "uniform" where ``fps`` is not
            given either.
        fps: Frames wanted for each second of the video.
        sampling: A policy of `lazymedia.media.video.sampling`, which names the processors that each mirrors:
            "uniform", "fps", "all", "transformers", "qwen2_vl", "qwen3_vl", "glm4v" or "smolvlm". None means "all" for
            ``num_frames=-1`` and "uniform" otherwise.
            An operator may give a `Sampling` of their own: a function with a name for the spec.
        min_frames: Lower bound where a rate decides how many.
        max_frames: Upper bound where a rate decides how many.
        frame_multiple: With "fps", the number is rounded down to a multiple of this.
        video_backend: "pyav"; or "torchcodec" for MP4, MOV, Matroska and WebM, which gives the same frames by the
            system's FFmpeg. Everything else is then still decoded by PyAV, and so its reference's spec says. "auto" and
            None mean "pyav". A request cannot choose "torchcodec" where the operator has not. Pictures
            sent as videos (WebP, a still AVIF) are decoded by Pillow all the same.
        index_cache: Where packet indexes are kept, so that a second decode of a payload does not read all its packets
            again. May be shared by any number of decoders. None takes that of the connector which makes the reference;
            without a connector none is kept.
        decoder_threads: Threads of one decode, each over its own part of the video. They change no pixel. None takes
            as many as there are cores that no other decode of this process uses when this one begins, one at least.
        limits: The limits on videos are taken from here.

    Raises:
        TypeError: No `PacketIndexCache` where one belongs.
        ValueError: A setting that is not one of these.
        ImportError: torchcodec is asked for and not installed. Whether it can be loaded is found out by
            `load_ref`, before it makes a key.
        UnprocessableMediaError: More frames than `Limits.max_video_frames` are asked for.
    """

    modality: ClassVar[str] = "video"
    operator_only: ClassVar[frozenset[str]] = frozenset({"limits", "index_cache", "decoder_threads"})

    def __init__(
        self,
        *,
        num_frames: int | None = None,
        fps: float | None = None,
        sampling: str | Sampling | None = None,
        min_frames: int | None = None,
        max_frames: int | None = None,
        frame_multiple: int = 1,
        video_backend: str | None = None,
        index_cache: PacketIndexCache | None = None,
        decoder_threads: int | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._limits = DEFAULT_LIMITS if limits is None else limits
        if index_cache is not None and not isinstance(index_cache, PacketIndexCache):
            raise TypeError("index_cache must be a PacketIndexCache")
        self._cache = index_cache
        self._threads = None if decoder_threads is None else _count("decoder_threads", decoder_threads)
        self._backend = backends.configured(video_backend)
        wants_all = num_frames == -1 and type(num_frames) is int
        self._policy = ("all" if wants_all else "uniform") if sampling is None else sampling
        if isinstance(self._policy, Sampling):
            self._choose_frames: Policy = self._policy
        elif self._policy in tuple(POLICIES):  # which asks nothing to be hashable
            self._choose_frames = POLICIES[self._policy]
        else:
            raise ValueError(f"sampling must be one of {', '.join(POLICIES)}")
        if wants_all:
            num_frames = None
        elif num_frames is None and fps is None and self._policy == "uniform":
            num_frames = min(DEFAULT_FRAMES, self._limits.max_video_frames)
        self._request = Request(
            num_frames=None if num_frames is None else self._within("num_frames", num_frames),
            fps=None if fps is None else _rate("fps", fps),
            min_frames=None if min_frames is None else self._within("min_frames", min_frames),
            max_frames=None if max_frames is None else self._within("max_frames", max_frames),
            multiple=self._within("frame_multiple", frame_multiple),
        )
        self._spec = DecodeSpec(
            {
                "num_frames": self._request.num_frames,
                "fps": self._request.fps,
                "sampling": self._policy.name if isinstance(self._policy, Sampling) else self._policy,
                "min_frames": self._request.min_frames,
                "max_frames": self._request.max_frames,
                "frame_multiple": self._request.multiple,
                "video_backend": self._backend,
            }
        )

    def get_decode_spec(self) -> DecodeSpec:
        return self._spec

    def get_max_bytes(self) -> int:
        return self._limits.max_video_bytes

    @classmethod
    def merge_kwargs(cls, default: Mapping[str, Any] | None, runtime: Mapping[str, Any] | None) -> dict[str, Any]:
        """As `MediaIO.merge_kwargs`; besides, a request that names one of ``num_frames`` and ``fps`` alone removes the
        other from the defaults, and a default ``sampling`` that would not read what it names.
        """
        system_ffmpeg.reject_torchcodec_request("video_backend", default, runtime, cls.modality)
        default, runtime = dict(default or {}), dict(runtime or {})
        for one, other in (("num_frames", "fps"), ("fps", "num_frames")):
            if one in runtime and other not in runtime:
                default.pop(other, None)
                sampling = default.get("sampling")
                if isinstance(sampling, Sampling) or one not in READS.get(str(sampling), (one,)):
                    del default["sampling"]
        return super().merge_kwargs(default, runtime)

    def load_ref(self, payload: Payload) -> MediaRef[Video]:
        """A reference to a video. Takes its key; opens and decodes nothing, and does not load PyAV.

        Its spec names the backend that will decode. torchcodec is loaded, if it is that. The spec of a WebP, or of a
        still AVIF, says ``{"video_backend": "pillow"}`` whatever was asked for.

        The memory that decoding takes is estimated for an MP4 or WebP of which a number of frames is wanted.

        Raises:
            PayloadTooLargeError: More bytes than `Limits.max_video_bytes`.
            UnprocessableMediaError: Tables of an MP4 claim more than the payload can hold, or the chunks of a WebP more
                than is allowed.
            ImportError: torchcodec is to decode it and cannot be loaded. The operator's fault.
        """
        data = payload.data
        self._check_size(len(data))
        if picture_sequence.is_pictures(data, self._limits) and type(self).load_bytes is VideoMediaIO.load_bytes:
            decoded_bytes = picture_sequence.check(data, self._limits, self._request.num_frames)
            spec = self._spec.extend(video_backend=picture_sequence.BACKEND)
            probe = partial(picture_sequence.probe, data, self._choose, self._limits)
            return MediaRef(partial(self.load_bytes, data), payload, spec, decoded_bytes=decoded_bytes, probe=probe)
        decoded_bytes = self._estimate(data)
        backend = backends.resolve(self._backend, data)
        spec = self._spec.extend(video_backend=backend)
        if type(self).load_bytes is not VideoMediaIO.load_bytes:  # a subclass's own decode, of which nothing is known
            return MediaRef(partial(self.load_bytes, data), payload, spec, decoded_bytes=decoded_bytes)
        cache = self._cache
        if cache is None and payload.caches is not None:
            cache = payload.caches.get(PacketIndexCache)
        indexes = IndexSource.of(payload, cache, self._limits)
        return MediaRef(
            partial(self._load, data, indexes),
            payload,
            spec,
            decoded_bytes=decoded_bytes,
            probe=partial(self._probe, data, indexes, backend),
        )

    def _estimate(self, data: bytes) -> int | None:
        if identify(data) != "mov":
            return None
        check_tables(data, "video")
        size = display_size(data)
        wanted = self._request.num_frames if "num_frames" in READS.get(str(self._policy), ()) else None
        if size is None or wanted is None or size[0] * size[1] > self._limits.max_video_frame_pixels:
            return None  # a size over the limit is rejected by the decode, if the stream really has it
        return wanted * size[0] * size[1] * 3

    def load_base64_ref(self, media_type: str, text: str) -> MediaRef[Video]:
        """As `MediaIO.load_base64_ref`; under ``video/jpeg``, JPEGs separated by commas, which are all loaded.

        Such a video has been sampled by its sender: no setting applies but the limits, and its spec is
        ``{"video_backend": "jpeg_sequence"}``.

        Raises:
            PayloadTooLargeError: More bytes than `Limits.max_video_bytes`.
            UnprocessableMediaError: Not base64, or more pictures than `Limits.max_video_frames`.
        """
        if media_type.lower() != jpeg_sequence.MEDIA_TYPE:
            return super().load_base64_ref(media_type, text)
        self._check_size(len(text) // 4 * 3 - 2)
        data = jpeg_sequence.pack(text, self._limits)
        return MediaRef(partial(jpeg_sequence.decode, data, self._limits), data, jpeg_sequence.SPEC)

    def reads_base64(self, media_type: str) -> bool:
        """True for ``video/jpeg`` alone, unless a subclass overrides `load_base64_ref`."""
        overridden = type(self).load_base64_ref is not VideoMediaIO.load_base64_ref
        return overridden or media_type.lower() == jpeg_sequence.MEDIA_TYPE

    def load_bytes(self, data: bytes) -> Video:
        """Decode the wanted frames.

        Raises:
            UnprocessableMediaError: Not a video of a supported format, nothing in it that decodes, or over a limit.
            DecodeStopped: The request was cancelled; noticed between packets.
        """
        return self._load(data, IndexSource.of(Payload(data), self._cache, self._limits))

    def _load(self, data: bytes, indexes: IndexSource) -> Video:
        checkpoint()
        if picture_sequence.is_pictures(data, self._limits):
            with CPU_BUDGET.one():
                return picture_sequence.decode(data, self._choose, self._limits)
        self._check_headers(data)
        backend = backends.resolve(self._backend, data)
        with (
            CPU_BUDGET.one(),
            backends.reading(backend, data, self._limits, threads=self._threads) as reader,
        ):
            index = indexes.index(reader.scan)
            frame_indices = self._choose(Clip(index.times, index.fps, index.duration))
            with payload_errors("the video cannot be decoded"):
                frames, loaded = reader.read(index, frame_indices)
        return frames, self._metadata(index, loaded, (frames.shape[2], frames.shape[1]), backend)

    def _check_headers(self, data: bytes) -> None:
        check_headers(data, identify(data) or "", self._limits, self.modality)

    def _probe(self, data: bytes, indexes: IndexSource, backend: str) -> VideoMetadata | None:
        """What a decode will report, unless a frame does not decode: learnt from packets and headers alone."""
        from lazymedia.media.video.reader import planned
        from lazymedia.media.video.upright import shown_size

        self._check_headers(data)
        with open_video(data, self._limits) as opened:
            size = shown_size(data, opened)
            if size is None:
                return None
            index = indexes.index(partial(scan, opened))
            frame_indices = self._choose(Clip(index.times, index.fps, index.duration))
            planned(opened, index, sorted(set(frame_indices)), len(data), self._limits)
        return self._metadata(index, frame_indices, size, backend)

    def _metadata(
        self, index: PacketIndex, frame_indices: list[int], size: tuple[int, int], backend: str
    ) -> VideoMetadata:
        times = index.times
        return VideoMetadata(
            total_num_frames=index.total,
            fps=index.fps,
            duration=index.duration,
            frames_indices=frame_indices,
            timestamps=[times[frame_index] for frame_index in frame_indices],
            width=size[0],
            height=size[1],
            video_backend=backend,
            do_sample_frames=frame_indices == list(range(index.total)),
        )

    def _choose(self, clip: Clip) -> list[int]:
        if self._policy == "all" and clip.total > self._limits.max_video_frames:
            raise self._too_many(clip.total)
        frame_indices = self._choose_frames(clip, self._request)
        if len(frame_indices) > self._limits.max_video_frames:
            raise self._too_many(len(frame_indices))
        return frame_indices

    def _within(self, name: str, value: int) -> int:
        if _count(name, value) > self._limits.max_video_frames:
            raise self._too_many(value)
        return value

    def _too_many(self, frames: int) -> UnprocessableMediaError:
        return rejection(f"{frames} frames of a video are wanted; {self._limits.max_video_frames} are allowed")


def _count(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1")
    return value


def _rate(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _MAX_RATE:
        raise ValueError(f"{name} must be a positive number, {_MAX_RATE:g} at most")
    return float(value)


__all__ = ["BACKENDS", "DEFAULT_FRAMES", "Video", "VideoMediaIO"]
