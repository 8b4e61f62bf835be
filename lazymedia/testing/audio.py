"""Encoded audio made on the spot, so that tests need no files."""

from __future__ import annotations

import io
from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt

_BY_SOUNDFILE: Final = {
    "WAV": ("WAV", "PCM_16"),
    "FLAC": ("FLAC", "PCM_16"),
    "OGG": ("OGG", "VORBIS"),
    "OPUS": ("OGG", "OPUS"),
    "MP3": ("MP3", "MPEG_LAYER_III"),
    "AIFF": ("AIFF", "PCM_16"),
}
"""libsndfile's container and codec for each format that it writes."""

_BY_PYAV: Final = {
    "M4A": ("ipod", "aac"),
    "MP4": ("mp4", "aac"),
    "MOV": ("mov", "pcm_s16le"),
    "WEBM": ("webm", "libopus"),
    "MKV": ("matroska", "flac"),
    "OGA": ("ogg", "flac"),
    "AAC": ("adts", "aac"),
    "TS": ("mpegts", "aac"),
    "MPEG": ("mpeg", "mp2"),
    "OGG": ("ogg", "libopus"),
}
"""FFmpeg's muxer and encoder for each of the rest, and for OGG where its own Opus encoder is asked for."""

_BLOCK: Final = 1 << 14
"""Samples that are encoded in one go."""

_LAYOUTS: Final = {1: "mono", 2: "stereo", 3: "3.0", 4: "4.0", 5: "5.0", 6: "5.1", 8: "7.1"}


def make_audio(
    seconds: float = 1.0,
    rate: int = 16_000,
    channels: int = 1,
    *,
    format: str = "WAV",  # noqa: A002  # what the libraries call it
    subtype: str | None = None,
    seed: int = 0,
    frequency: float = 440.0,
) -> bytes:
    """An encoded clip: a sine at half of full scale under a little noise; see `sound`.

    Equal arguments give equal samples; equal bytes too, for most formats and under one version of the libraries.

    Args:
        seconds: Length.
        rate: Hz. Opus takes 8, 12, 16, 24 and 48 kHz only.
        channels: 1 to 8 where the format has as many.
        format: "WAV", "FLAC", "OGG" (Vorbis), "OPUS" (in OGG), "MP3", "AIFF", written by soundfile; "M4A", "MP4" (both
            AAC), "MOV" (PCM), "WEBM" (Opus), "MKV" (FLAC), "OGA" (FLAC in OGG), "AAC" (ADTS), "TS"
            (AAC), "MPEG" (MP2), by PyAV.
        subtype: Another codec in the same container, by the library's name: "PCM_24", "FLOAT", "PCM_U8" …; "alac",
            "pcm_s24le" …
        seed: Another seed, other noise.
        frequency: Hz of the first channel; the second has it twice, the third three times, and so on.
    """
    samples = sound(seconds, rate, channels, seed=seed, frequency=frequency)
    return encode(samples, rate, format=format, subtype=subtype)


def sound(
    seconds: float = 1.0, rate: int = 16_000, channels: int = 1, *, seed: int = 0, frequency: float = 440.0
) -> npt.NDArray[np.float32]:
    """The samples of `make_audio` before they are encoded, float32 (N, channels), on the grid of 16-bit PCM."""
    count = round(seconds * rate)
    time = np.arange(count)[:, None] / rate
    tone = 0.5 * np.sin(2 * np.pi * frequency * np.arange(1, channels + 1) * time)
    noise = np.random.default_rng(seed).uniform(-0.01, 0.01, (count, channels))
    return (np.round((tone + noise) * 32_768) / 32_768).astype(np.float32)


def encode(
    samples: npt.NDArray[np.float32],
    rate: int,
    *,
    format: str = "WAV",  # noqa: A002  # what the libraries call it
    subtype: str | None = None,
) -> bytes:
    """Samples (N, channels) as `make_audio` encodes its own.

    Raises:
        ValueError: Another format.
    """
    if format in _BY_SOUNDFILE and subtype != "libopus":
        import soundfile

        container, codec = _BY_SOUNDFILE[format]
        buffer = io.BytesIO()
        with soundfile.SoundFile(
            buffer, "w", rate, samples.shape[1], format=container, subtype=subtype or codec
        ) as file:
            for start in range(0, len(samples), _BLOCK):  # libvorbis puts a whole write on the stack
                file.write(samples[start : start + _BLOCK])
        return buffer.getvalue()
    if format in _BY_PYAV:
        muxer, codec = _BY_PYAV[format]
        return _mux(samples, rate, muxer, subtype or codec)
    raise ValueError(f"format must be one of {', '.join(sorted({*_BY_SOUNDFILE, *_BY_PYAV}))}")


def _mux(samples: npt.NDArray[np.float32], rate: int, muxer: str, codec: str) -> bytes:
    import av

    count, channels = samples.shape
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=muxer) as container:
        stream: Any = container.add_stream(codec, rate=rate, layout=_LAYOUTS[channels])
        for start in range(0, count, 1024):
            block = np.ascontiguousarray(samples[start : start + 1024]).reshape(1, -1)
            # Packed: of eight planes PyAV 18 finds a ninth.
            frame = av.AudioFrame.from_ndarray(block, format="flt", layout=_LAYOUTS[channels])
            frame.sample_rate = rate
            frame.pts = start
            frame.time_base = Fraction(1, rate)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return buffer.getvalue()


__all__ = ["encode", "make_audio", "sound"]
