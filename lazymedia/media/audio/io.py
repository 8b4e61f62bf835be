"""The decoder for audio: settings, references, identity. No codec library is loaded before the first decode."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from lazymedia.contexts import contextmanager
from lazymedia.errors import LazyMediaError
from lazymedia.limits import DEFAULT_LIMITS, Limits
from lazymedia.media import containers, system_ffmpeg
from lazymedia.media.audio import backends, bounds, formats, header
from lazymedia.media.audio.backends import BACKENDS
from lazymedia.media.audio.header import AudioInfo, read_info
from lazymedia.media.audio.transforms import ResamplesMono
from lazymedia.media.cancellation import checkpoint
from lazymedia.media.io import MediaIO
from lazymedia.media.payload import Payload
from lazymedia.media.ref import MediaRef
from lazymedia.media.spec import DecodeSpec

if TYPE_CHECKING:
    from lazymedia.media.audio.samples import Samples, Source
    from lazymedia.media.audio.transforms import Resampler

_log = logging.getLogger("lazymedia.media")

Clip: TypeAlias = "tuple[Samples, int]"
"""float32 samples (N,), and their rate in Hz."""


class AudioMediaIO(MediaIO[Clip]):
    """Decodes audio to mono at its native rate: ``(float32 samples (N,), Hz)``.

    Mono is the mean of the channels. Integer PCM of any width lies within ±1; floats and what lossy codecs make may lie
    a little outside. NaN, infinities and samples beyond `Limits.max_audio_amplitude` are rejected. See `pyav_reader`
    for what is dropped or padded at a clip's ends.

    Damaged and cut clips follow one rule in every format: what decodes is given in order, and what does not is left
    out. A clip of which nothing decodes is an error. After a decode, the reference's ``probe()`` is an `AudioInfo`
    that says how much was lost; `load_bytes_and_info` gives both at once.

    Args:
        audio_backend: "auto" (or None) takes soundfile for WAV, AIFF and FLAC in the codecs and depths that libsndfile
            reads, and PyAV for everything else, by the payload's own bytes. "soundfile" and "pyav" take that one for
            everything; what libsndfile does not read is then rejected. Behind damage in a FLAC, FFmpeg goes on where
            libsndfile stops. "torchcodec" takes the system's FFmpeg for WAV, FLAC, OGG, MP4, M4A, MOV, WebM and
            Matroska, and the rest is as on "auto"; a request cannot choose it where the operator has not. Opus has
            48,000 Hz, whatever its header names.
        limits: The limits on audio are taken from here.

    Raises:
        ValueError: Another backend.
        ImportError: torchcodec is asked for and not installed. Whether it can be loaded is found out by
            `load_ref`, before it makes a key.
    """

    modality: ClassVar[str] = "audio"
    operator_only: ClassVar[frozenset[str]] = frozenset({"limits"})

    def __init__(
        self,
        *,
        audio_backend: Literal["auto", "soundfile", "pyav", "torchcodec"] | None = "auto",
        limits: Limits | None = None,
    ) -> None:
        self._backend = backends.configured(audio_backend)
        self._limits = DEFAULT_LIMITS if limits is None else limits

    def get_decode_spec(self) -> DecodeSpec:
        """``{"audio_backend": …}`` where one is named; otherwise the bytes decide, and the spec of a
        reference has it.
        """
        return DecodeSpec({} if self._backend is None else {"audio_backend": self._backend})

    def get_max_bytes(self) -> int:
        return self._limits.max_audio_bytes

    @classmethod
    def merge_kwargs(cls, default: Mapping[str, Any] | None, runtime: Mapping[str, Any] | None) -> dict[str, Any]:
        """As `MediaIO.merge_kwargs`; besides, a request cannot bring in torchcodec."""
        system_ffmpeg.reject_torchcodec_request("audio_backend", default, runtime, cls.modality)
        return super().merge_kwargs(default, runtime)

    def load_ref(self, payload: Payload) -> MediaRef[Clip]:
        """A reference to a clip. Reads its header and takes its key; decodes nothing and loads no library
        but torchcodec, where that is to decode.

        Its spec names the backend that will decode. A payload of no known format has none but a named one.

        Raises:
            PayloadTooLargeError: More bytes than `Limits.max_audio_bytes`.
            UnprocessableMediaError: The header of a WAV, AIFF or FLAC has a rate, channels or a length outside the
                limits.
            ImportError: torchcodec is to decode it and cannot be loaded. The operator's fault.
        """
        data = payload.data
        self._check_size(len(data))
        kind = formats.sniff(data)
        samples = None if kind is None else self._check_header(data, kind)
        decoded_bytes = None if samples is None else samples * bounds.SAMPLE_BYTES
        backend = self._backend if kind is None else backends.resolve(self._backend, data, kind)
        spec = DecodeSpec() if backend is None else DecodeSpec({"audio_backend": backend})
        decoder = _ClipDecoder(self, data, self._limits)
        return MediaRef(decoder, payload, spec, decoded_bytes=decoded_bytes, probe=decoder.probe)

    def load_bytes(self, data: bytes) -> Clip:
        """Decode a clip.

        Raises:
            UnprocessableMediaError: Not audio of a known format, no audio track, no samples, nothing that decodes, or
                over a limit. A damaged one has the library's own exception as its cause, one over a limit has none.
        """
        return self.load_bytes_and_info(data)[0]

    def load_bytes_and_info(self, data: bytes) -> tuple[Clip, AudioInfo]:
        """Decode a clip; besides, what the decode found, with what was lost to damage. Raises as `load_bytes`."""
        from lazymedia.media.audio.samples import Collector

        with self._mono_blocks(data) as source:
            limits = self._limits
            collector = Collector(
                min(limits.max_audio_seconds * source.rate, limits.max_audio_decoded_bytes // bounds.SAMPLE_BYTES)
            )
            for block in source.blocks:
                collector.append(block)
        return (collector.finish(), source.rate), source.info()

    def load_bytes_resampled(self, data: bytes, resampler: Resampler) -> Clip:
        """Decode a clip and resample it on the way, to the same samples as ``resampler(load_bytes(data))``.

        The samples at the native rate never exist as a whole, so memory peaks at the result.

        Raises:
            UnprocessableMediaError: As `load_bytes`, or the result is over a limit.
            ImportError: The resampling library is not installed. The operator's fault.
        """
        return self.load_bytes_resampled_and_info(data, resampler)[0]

    def load_bytes_resampled_and_info(self, data: bytes, resampler: Resampler) -> tuple[Clip, AudioInfo]:
        """`load_bytes_resampled` and `load_bytes_and_info` in one. The info's numbers are those before resampling."""
        with self._mono_blocks(data) as source:
            samples = resampler.resample_blocks(source.blocks, source.rate)
        return (samples, resampler.target_rate), source.info()

    def _check_header(self, data: bytes, kind: formats.Format) -> int | None:
        """Reject a clip whose header is over a limit. The number of samples, where the header has it."""
        known = header.read_header(data, kind)
        if known is None or not known.info.rate or not known.info.channels:  # zeros are junk, and fail with the decode
            return None
        info = known.info
        bounds.check_layout(info.rate, info.channels, self._limits)
        if info.samples is not None:
            bounds.check_length(info.samples, info.rate, info.channels, self._limits)
        return info.samples

    @contextmanager
    def _mono_blocks(self, data: bytes) -> Iterator[_Mono]:
        """Mono blocks; whatever is the payload's fault as one error."""
        kind = formats.sniff(data)
        if kind is None:
            what = "the payload is empty" if not data else "not a supported audio format"
            raise bounds.rejection(f"{what} (supported: {formats.SUPPORTED})")
        containers.check(data, kind.demuxer, self._limits, self.modality)
        backend = backends.resolve(self._backend, data, kind)
        if backend == "soundfile" and not backends.is_by_libsndfile(data, kind):
            raise bounds.rejection(f"soundfile does not read this {kind.name}")
        if self._check_header(data, kind) == 0:  # FFmpeg would take all that follows for samples
            raise bounds.rejection("the audio holds no samples")
        checkpoint()
        try:
            with backends.reader(backend)(data, kind, self._limits) as source:
                yield _Mono(source, self._limits)
        except (LazyMediaError, ImportError, MemoryError):
            raise
        except Exception as exc:
            raise bounds.rejection(f"the {kind.name} audio cannot be decoded: {bounds.reason(exc)}") from exc


class _Mono:
    """A source's blocks mixed to mono, within all limits.

    Attributes:
        rate: Hz.
        blocks: float32 (N,) each, valid until the next.
    """

    def __init__(self, source: Source, limits: Limits) -> None:
        self._source = source
        self._limits = limits
        self._samples = 0
        self.rate = source.rate
        self.blocks = self._mixed()

    def info(self) -> AudioInfo:
        """What the decode found, once all blocks have been given."""
        source = self._source
        lost = source.losses.samples
        errors = max(source.losses.errors, int(lost > 0))
        if errors:
            _log.info("audio of %d samples lost %d or more to damage in %d places", self._samples, lost, errors)
        return AudioInfo(source.rate, source.channels, self._samples, lost, errors)

    def _mixed(self) -> Iterator[Samples]:
        from lazymedia.media.audio.samples import to_mono

        for block in self._source.blocks:
            self._samples += block.shape[1]
            bounds.check_length(self._samples, self._source.rate, self._source.channels, self._limits)
            mono = to_mono(block)
            if block.dtype.kind == "f":
                bounds.check_range(mono, self._limits)
            yield mono
        if not self._samples:
            raise bounds.rejection("the audio holds no samples")


class _ClipDecoder:
    """The decode of one clip, on its own or resampled on the way, and what is known of the clip."""

    def __init__(self, media_io: AudioMediaIO, data: bytes, limits: Limits) -> None:
        self._media_io = media_io
        self._data = data
        self._limits = limits
        self._info: AudioInfo | None = None

    def __call__(self) -> Clip:
        if self._is_overridden():
            return self._media_io.load_bytes(self._data)
        clip, self._info = self._media_io.load_bytes_and_info(self._data)
        return clip

    def probe(self) -> AudioInfo | None:
        """What the header says; after a decode, what that found."""
        return read_info(self._data, self._limits) if self._info is None else self._info

    def through(self, transform: Callable[[Clip], Clip]) -> Callable[[], Clip] | None:
        """Resampling on the way, so that the clip at its native rate never exists as a whole."""
        if not isinstance(transform, ResamplesMono) or self._is_overridden():
            return None
        resampler = transform.for_mono
        return None if resampler is None else partial(self._resampled, resampler)

    def _resampled(self, resampler: Resampler) -> Clip:
        clip, self._info = self._media_io.load_bytes_resampled_and_info(self._data, resampler)
        return clip

    def _is_overridden(self) -> bool:
        return type(self._media_io).load_bytes is not AudioMediaIO.load_bytes


__all__ = ["BACKENDS", "AudioMediaIO", "Clip"]
