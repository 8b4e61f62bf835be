"""The decoder for audio: settings, references, identity.

Comes in: a payload. Goes out: a reference, or mono samples with their native rate. Never here: a format's bytes, a
codec library before the first decode, or resampling (see `resample`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from lazymedia.errors import LazyMediaError
from lazymedia.limits import DEFAULT_LIMITS, Limits
from lazymedia.media import system_ffmpeg
from lazymedia.media.audio import backends, bounds, formats, header
from lazymedia.media.audio.backends import BACKENDS
from lazymedia.media.audio.outline import outline
from lazymedia.media.audio.resample import ResamplesMono
from lazymedia.media.io import MediaIO
from lazymedia.media.ref import MediaRef
from lazymedia.media.spec import DecodeSpec
from lazymedia.media.stopping import checkpoint

if TYPE_CHECKING:
    from lazymedia.media.audio.resample import Resampler
    from lazymedia.media.audio.samples import Samples
    from lazymedia.media.audio.source import Source

Clip: TypeAlias = "tuple[Samples, int]"
"""float32 samples (N,), and their rate in Hz."""


class AudioMediaIO(MediaIO[Clip]):
    """Decodes audio to mono at its native rate: ``(float32 samples (N,), Hz)``.

    Mono is the mean of the channels. Integer PCM of any width lies within ±1; floats and what lossy codecs make may lie
    a little outside. NaN and infinities are refused. See `soundfile_reader` and `pyav_reader` for what is dropped or
    padded at a clip's ends, and for truncated ones.

    Args:
        audio_backend: "auto" (or None) takes soundfile for WAV, FLAC, OGG, MP3 and AIFF, and PyAV for Opus and FLAC in
            OGG, MP4, M4A, MOV, WebM, Matroska, AAC, AMR, MPEG, AVI and FLV, by the payload's own bytes. "soundfile" and
            "pyav" take that one for everything, and nothing else where it fails. "torchcodec" takes the system's FFmpeg
            for WAV, FLAC, OGG, MP4, M4A, MOV, WebM and Matroska, and the rest is as on "auto"; a request cannot choose
            it where the operator has not. Opus has 48,000 Hz by PyAV, and what its header names by soundfile.
        limits: The limits on audio are taken from here.

    Raises:
        ValueError: Another backend.
        ImportError: torchcodec is asked for and not installed. Whether it can be loaded is found out by
            `load_bytes_ref`, before it makes a key.
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
        """``{"audio_backend": …}`` where one is named; otherwise the bytes decide, and only a reference's spec
        tells.
        """
        return DecodeSpec({} if self._backend is None else {"audio_backend": self._backend})

    def get_max_bytes(self) -> int:
        return self._limits.max_audio_bytes

    @classmethod
    def merge_kwargs(cls, default: Mapping[str, Any] | None, runtime: Mapping[str, Any] | None) -> dict[str, Any]:
        """As `MediaIO.merge_kwargs`; besides, a request cannot bring in torchcodec."""
        system_ffmpeg.refuse_wish("audio_backend", default, runtime, cls.modality)
        return super().merge_kwargs(default, runtime)

    def load_bytes_ref(self, data: bytes) -> MediaRef[Clip]:
        """A reference to a clip. Reads its header and takes its key; decodes nothing and loads no library
        but torchcodec, where that is to decode.

        Its spec names the backend that will decode. A payload of no known format has none but a named one.

        Raises:
            PayloadTooLargeError: More bytes than `Limits.max_audio_bytes`.
            UnprocessableMediaError: The header of a WAV or FLAC tells a rate, channels or a length outside the limits.
            ImportError: torchcodec is to decode it and cannot be loaded. The operator's fault.
        """
        self._check_size(len(data))
        kind = formats.sniff(data)
        samples = None if kind is None else self._judge(data, kind)
        decoded_bytes = None if samples is None else samples * bounds.SAMPLE_BYTES
        backend = self._backend if kind is None else backends.resolve(self._backend, data, kind)
        spec = DecodeSpec() if backend is None else DecodeSpec({"audio_backend": backend})
        return MediaRef(
            _ClipDecoder(self, data),
            data,
            spec,
            decoded_bytes=decoded_bytes,
            outline=partial(outline, data, self._limits),
        )

    def load_bytes(self, data: bytes) -> Clip:
        """Decode a clip.

        Raises:
            UnprocessableMediaError: Not audio of a known format, no audio track, no samples, damaged, or over a limit.
                A damaged one has the library's own exception as its cause, one over a limit has none.
        """
        from lazymedia.media.audio.samples import Collector

        with self._mono_blocks(data) as (rate, blocks):
            limits = self._limits
            collector = Collector(
                min(limits.max_audio_seconds * rate, limits.max_audio_decoded_bytes // bounds.SAMPLE_BYTES)
            )
            for block in blocks:
                collector.append(block)
        return collector.finish(), rate

    def load_bytes_resampled(self, data: bytes, resampler: Resampler) -> Clip:
        """Decode a clip and resample it on the way, to the same samples as ``resampler(load_bytes(data))``.

        The samples at the native rate never exist as a whole, so memory peaks at the result.

        Raises:
            UnprocessableMediaError: As `load_bytes`, or the result is over a limit.
            ImportError: The resampling library is not installed. The operator's fault.
        """
        with self._mono_blocks(data) as (rate, blocks):
            return resampler.resample_blocks(blocks, rate), resampler.target_rate

    def _judge(self, data: bytes, kind: formats.Format) -> int | None:
        """Refuse what the header shows to be over a limit. The number of samples, where it tells that."""
        told = header.read_header(data, kind)
        if told is None or not told.rate or not told.channels:  # zeros are junk, and fail with the decode
            return None
        bounds.check_layout(told.rate, told.channels, self._limits)
        if told.samples is not None:
            bounds.check_length(told.samples, told.rate, told.channels, self._limits)
        return told.samples

    @contextmanager
    def _mono_blocks(self, data: bytes) -> Iterator[tuple[int, Iterator[Samples]]]:
        """The rate, and mono blocks that are valid until the next; whatever is the payload's fault as one error."""
        kind = formats.sniff(data)
        if kind is None:
            what = "the payload is empty" if not data else "not a supported audio format"
            raise bounds.refused(f"{what} (supported: {formats.SUPPORTED})")
        backend = backends.resolve(self._backend, data, kind)
        if backend == "soundfile" and not kind.sndfile:
            raise bounds.refused(f"soundfile does not read {kind.name}")
        if self._judge(data, kind) == 0:  # FFmpeg would take all that follows for samples
            raise bounds.refused("the audio holds no samples")
        checkpoint()
        try:
            with backends.reader(backend)(data, kind, self._limits) as source:
                yield source.rate, self._bounded(source)
        except (LazyMediaError, ImportError, MemoryError):
            raise
        except Exception as exc:
            raise bounds.refused(f"the {kind.name} audio cannot be decoded: {exc}") from exc

    def _bounded(self, source: Source) -> Iterator[Samples]:
        import numpy as np

        from lazymedia.media.audio.samples import to_mono

        total = 0
        for block in source.blocks:
            total += block.shape[1]
            bounds.check_length(total, source.rate, source.channels, self._limits)
            mono = to_mono(block)
            if block.dtype.kind == "f" and not np.isfinite(mono).all():
                raise bounds.refused("the audio holds samples that are no finite numbers")
            yield mono
        if not total:
            raise bounds.refused("the audio holds no samples")


@dataclass(frozen=True, slots=True)
class _ClipDecoder:
    """The decode of one clip, on its own or with what a model wants of it."""

    media_io: AudioMediaIO
    data: bytes

    def __call__(self) -> Clip:
        return self.media_io.load_bytes(self.data)

    def through(self, transform: Callable[[Clip], Clip]) -> Callable[[], Clip] | None:
        """Resampling on the way, so that the clip at its native rate never exists as a whole."""
        if not isinstance(transform, ResamplesMono) or type(self.media_io).load_bytes is not AudioMediaIO.load_bytes:
            return None
        resampler = transform.for_mono
        return None if resampler is None else partial(self.media_io.load_bytes_resampled, self.data, resampler)


__all__ = ["BACKENDS", "AudioMediaIO", "Clip"]
