"""The media that the benchmarks decode: made once, kept in a folder, found there by the next run.

Comes in: a folder, and whether the short form is wanted. Goes out: paths of files. Never here: a measurement, or
anything fetched.

Long media are a piece of 24 or 30 seconds, encoded once, whose packets are repeated with shifted times.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import av
import soundfile

from lazymedia.testing.audio import encode, sound
from lazymedia.testing.media import make_image
from lazymedia.testing.video import make_video

VERSION: Final = 1
"""Raise it whenever a file would come out differently."""

FORMATS: Final = ("WAV", "FLAC", "MP3", "M4A", "OPUS", "OGG")
"""Audio, all stereo: 48 kHz for Opus, 44.1 kHz for the others. OGG is Vorbis."""

_BLOCK: Final = 1 << 14
"""Samples that are written in one go; libvorbis puts them on the stack."""

_FPS: Final = 30
_MUXERS: Final = {"MP3": "mp3", "M4A": "ipod", "OPUS": "ogg"}
_PACKET: Final = {"MP3": Fraction(1152, 44_100), "M4A": Fraction(1024, 44_100), "OPUS": Fraction(1, 50)}
"""Seconds of sound in a packet; a piece is a whole number of them."""

_AAC_STEP: Final = 8
"""Seconds that hold a whole number of AAC packets at 48 kHz, and of frames."""


@dataclass(frozen=True, slots=True)
class Media:
    """The files. Each is made when it is first asked for."""

    folder: Path
    quick: bool = False

    def film(self) -> Path:
        """Ten minutes of 1080p, H.264, 30 frames a second, GOP 250, B-frames, an AAC track; sixteen seconds of
        90p.
        """
        size, piece, parts = ((160, 90), _AAC_STEP, 2) if self.quick else ((1920, 1080), 3 * _AAC_STEP, 25)
        return self._kept(
            "film.mp4", lambda: _repeated(_video(piece, *size, audio=True), Fraction(piece), parts, "mp4")
        )

    def hevc(self) -> Path:
        """Two minutes of 720p HEVC; two seconds of 90p."""
        size, piece, parts = ((160, 90), 2, 1) if self.quick else ((1280, 720), 3 * _AAC_STEP, 5)
        return self._kept(
            "hevc.mp4", lambda: _repeated(_video(piece, *size, codec="libx265"), Fraction(piece), parts, "mp4")
        )

    def clip(self) -> Path:
        """Ten seconds of 360p H.264; two of 90p."""
        return self._kept("clip.mp4", lambda: _video(2, 160, 90) if self.quick else _video(10, 640, 360))

    def picture(self) -> Path:
        """A JPEG of twelve megapixels; of a tenth of one."""
        size = (400, 300) if self.quick else (4000, 3000)
        return self._kept("picture.jpg", lambda: make_image(*size, format="JPEG", seed=1, quality=90))

    def audio(self, name: str) -> Path:
        """An hour of stereo; two seconds."""
        return self._kept(f"audio.{name.lower()}", lambda: _audio(name, 2 if self.quick else 3600))

    def _kept(self, name: str, make: Callable[[], bytes]) -> Path:
        path = self.folder / f"v{VERSION}-{'short' if self.quick else 'full'}-{name}"
        if not path.exists():
            print(f"making {path.name} ...", flush=True)
            self.folder.mkdir(parents=True, exist_ok=True)
            unfinished = path.with_name(f"{path.name}.{os.getpid()}")
            unfinished.write_bytes(make())
            unfinished.replace(path)
        return path


def default_folder() -> Path:
    """The user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lazymedia-benchmarks"


def _video(seconds: int, width: int, height: int, *, codec: str = "libx264", audio: bool = False) -> bytes:
    """A piece; about 1.2 Mbit/s at 1080p."""
    return make_video(
        seconds * _FPS, width, height, codec=codec, fps=_FPS, gop=250, b_frames=3, audio=audio, options={"crf": "23"}
    )


def _audio(name: str, seconds: int) -> bytes:
    rate = 48_000 if name == "OPUS" else 44_100
    piece = min(seconds, 30)
    samples = sound(piece + 1, rate, 2)
    if name in _MUXERS:
        span = _PACKET[name] * (piece // _PACKET[name])
        return _repeated(encode(samples, rate, format=name), span, round(seconds / span), _MUXERS[name])
    buffer = io.BytesIO()
    codec = "VORBIS" if name == "OGG" else "PCM_16"
    with soundfile.SoundFile(buffer, "w", rate, 2, format=name, subtype=codec) as file:
        for _ in range(seconds // piece):
            for start in range(0, piece * rate, _BLOCK):
                file.write(samples[start : min(start + _BLOCK, piece * rate)])
    return buffer.getvalue()


def _repeated(piece: bytes, span: Fraction, parts: int, muxer: str) -> bytes:
    """The packets of the first ``span`` seconds, that many times over."""
    buffer = io.BytesIO()
    with av.open(io.BytesIO(piece), "r") as source, av.open(buffer, "w", format=muxer) as output:
        added: dict[int, Any] = {stream.index: output.add_stream_from_template(stream) for stream in source.streams}
        packets = list(_within(source, span))
        for part in range(parts):
            for packet, index, tick, times in packets:
                packet.stream = added[index]
                packet.time_base = tick
                packet.pts, packet.dts = (time + part * int(span / tick) for time in times)
                output.mux(packet)
    return buffer.getvalue()


def _within(source: Any, span: Fraction) -> Iterator[tuple[Any, int, Fraction, tuple[int, int]]]:
    """Packets, each with the index and the tick of its stream and its times; none that primes or drains a decoder."""
    for packet in source.demux():
        if packet.size and packet.pts >= 0 and packet.pts * packet.time_base < span:
            yield packet, packet.stream.index, packet.time_base, (packet.pts, packet.dts)


__all__ = ["FORMATS", "VERSION", "Media", "default_folder"]
