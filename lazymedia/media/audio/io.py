"""The decoder for audio: settings, references, identity.

Comes in: a payload. Goes out: a reference, or mono samples with their native rate. Never here: a format's bytes, a
codec library before the first decode, or resampling (see `resample`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, Literal, TypeAlias

from lazymedia.errors import LazyMediaError
from lazymedia.limits import DEFAULT_LIMITS, Limits
from lazymedia.media.audio import bounds, formats, header
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

BACKENDS: Final = ("auto", "soundfile", "pyav")
"""Names that ``audio_backend`` takes."""


class AudioMediaIO(MediaIO[Clip]):
    """Decodes audio to mono at its native rate: ``(float32 samples (N,), Hz)``.

    Mono is the mean of the channels. Integer PCM of any width lies within ±1; floats and what lossy codecs make may lie
    a little outside. NaN and infinities are refused. See `soundfile_reader` and `pyav_reader` for what is dropped or
    padded at a clip's ends, and for truncated ones.

    Args:
        audio_backend: "auto" (or None) takes soundfile for WAV, FLAC, OGG, MP3 and AIFF, and PyAV for Opus in OGG,
            MP4, M4A, MOV, WebM, Matroska, AAC, AMR, MPEG, AVI and FLV, by the payload's own bytes. "soundfile" and
            "pyav" take that one for everything, and nothing else where it fails. Opus has 48,000 Hz by PyAV, and what
            its header names by soundfile.
        limits: The limits on audio are taken from here.

    Raises:
        ValueError: Another backend.
    """

    modality: ClassVar[str] = "audio"
    operator_only: ClassVar[frozenset[str]] = frozenset({"limits"})

    def __init__(
        self,
        *,
        audio_backend: Literal["auto", "soundfile", "pyav"] | None = "auto",
        limits: Limits | None = None,
    ) -> None:
        if audio_backend is not None and audio_backend not in BACKENDS:
            raise ValueError(f"audio_backend must be one of {', '.join(map(repr, BACKENDS))}")
        self._backend: formats.Backend | None = None if audio_backend in {None, "auto"} else audio_backend  # type: ignore[assignment]  # not narrowed by the set
        self._limits = DEFAULT_LIMITS if limits is None else limits

    def get_decode_spec(self) -> DecodeSpec:
        """``{"audio_backend": …}`` where one is named; otherwise the bytes decide, and only a reference's spec
        tells.
        """
        return DecodeSpec({} if self._backend is None else {"audio_backend": self._backend})

    def get_max_bytes(self) -> int:
        return self._limits.max_audio_bytes

    def load_bytes_ref(self, data: bytes) -> MediaRef[Clip]:
        """A reference to a clip. Reads its header and takes its key; decodes nothing and loads no library.

        Its spec names the backend that will decode. A payload of no known format has none.

        Raises:
            PayloadTooLargeError: More bytes than `Limits.max_audio_bytes`.
            UnprocessableMediaError: The header of a WAV or FLAC tells a rate, channels or a length outside the limits.
        """
        self._check_size(len(data))
        kind = formats.sniff(data)
        samples = None if kind is None else self._judge(data, kind)
        decoded_bytes = None if samples is None else samples * bounds.SAMPLE_BYTES
        backend = self._backend or (None if kind is None else kind.backend)
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
        backend = self._backend or kind.backend
        if backend == "soundfile" and not kind.sndfile:
            raise bounds.refused(f"soundfile does not read {kind.name}")
        if self._judge(data, kind) == 0:  # FFmpeg would take all that follows for samples
            raise bounds.refused("the audio holds no samples")
        checkpoint()
        try:
            with _reader(backend)(data, kind, self._limits) as source:
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
            if not np.isfinite(mono).all():
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


_Reader: TypeAlias = "Callable[[bytes, formats.Format, Limits], AbstractContextManager[Source]]"


def _reader(backend: formats.Backend) -> _Reader:
    if backend == "soundfile":
        from lazymedia.media.audio import soundfile_reader

        return soundfile_reader.open_source
    from lazymedia.media.audio import pyav_reader

    return pyav_reader.open_source


__all__ = ["BACKENDS", "AudioMediaIO", "Clip"]
