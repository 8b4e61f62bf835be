"""An hour of sound to 16 kHz mono, per format, against what people put together from the libraries; two at once.

By hand means: soundfile's blocks and a soxr stream; PyAV's frames and FFmpeg's resampler, or a soxr stream; torchcodec,
which resamples by itself. The quickest by the clock is the rival.

Two at once share one interpreter. Beside them stand two processes, which share nothing but the machine: what they lack
of twice the throughput of one is lost to the machine, and more than that to the interpreter's lock.
"""

from __future__ import annotations

import io
from argparse import Namespace
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import av
import numpy as np
import soundfile
import soxr

from benchmarks.at_once import at_once, two_processes
from benchmarks.measure import best, cost_rows, heading, in_rounds, optional, ratio
from benchmarks.media_made import FORMATS
from benchmarks.peak import Growth, grows
from lazymedia.cli.show import table
from lazymedia.limits import MIB, Limits
from lazymedia.media.audio import AudioMediaIO, resample

RATE: Final = 16_000
LIMITS: Final = Limits(
    max_audio_seconds=4_000,
    max_audio_bytes=1024 * MIB,
    max_audio_decoded_bytes=2048 * MIB,
    max_download_bytes=1024 * MIB,
)
"""Room for an hour of stereo."""

DIRECT, MAPPED = "lazymedia", "lazymedia, a mapped reference"
TWO, PROCESSES = "lazymedia, two at once", "lazymedia, two processes"
_TORCHCODEC: Final = "torchcodec"

_BY_FFMPEG_FOR_SAFETY: Final = {"MP3", "OGG"}
"""libsndfile may be quicker, and is given neither: a header can end its process."""

_ROUNDS_TOGETHER: Final = 3
"""Times as many rounds for two at once."""


def lazymedia_direct(data: bytes) -> Any:
    """Samples (N,)."""
    return AudioMediaIO(limits=LIMITS).load_bytes_resampled(data, resample(RATE, limits=LIMITS))[0]


def lazymedia_mapped(data: bytes) -> Any:
    """Samples (N,), by a reference; the digest of the payload is part of it."""
    resampler = resample(RATE, limits=LIMITS)
    return AudioMediaIO(limits=LIMITS).load_bytes_ref(data).map(resampler, **resampler.settings()).decode()[0]


def soundfile_soxr(data: bytes) -> Any:
    """Ten seconds at a time in one buffer; half of left and right."""
    with soundfile.SoundFile(io.BytesIO(data)) as file:
        buffer = np.empty((10 * file.samplerate, 2), np.float32)

        def blocks() -> Iterator[Any]:
            while len(block := file.read(out=buffer)):
                yield 0.5 * (block[:, 0] + block[:, 1])

        return _resampled(blocks(), file.samplerate)


def pyav_soxr(data: bytes) -> Any:
    """A frame at a time; half of left and right."""
    with av.open(io.BytesIO(data), "r") as container:
        stream = container.streams.audio[0]
        return _resampled(map(_half, container.decode(stream)), stream.rate)


def pyav_alone(data: bytes) -> Any:
    """A frame at a time through FFmpeg's resampler, ten seconds of samples out of it at once."""
    resampler = av.AudioResampler(format="fltp", layout="mono", rate=RATE, frame_size=10 * RATE)
    with av.open(io.BytesIO(data), "r") as container:
        done = [out.to_ndarray()[0] for frame in container.decode(audio=0) for out in resampler.resample(frame)]
    done += [out.to_ndarray()[0] for out in resampler.resample(None)]
    return np.concatenate(done)


def torchcodec_alone(data: bytes) -> Any:
    """All samples, by its own resampler."""
    from torchcodec.decoders import AudioDecoder

    return AudioDecoder(data, sample_rate=RATE, num_channels=1).get_all_samples().data[0].numpy()


def _half(frame: Any) -> Any:
    samples = frame.to_ndarray()
    if frame.format.is_packed:
        samples = samples.reshape(-1, 2).T
    if samples.dtype == np.int16:
        return (samples[0].astype(np.float32) + samples[1]) * np.float32(0.5 / 32_768)
    return 0.5 * (samples[0] + samples[1])


def _resampled(blocks: Iterator[Any], rate: int) -> Any:
    stream = soxr.ResampleStream(rate, RATE, 1, dtype="float32", quality="HQ")
    done = [stream.resample_chunk(block) for block in blocks]
    done.append(stream.resample_chunk(np.empty(0, np.float32), last=True))
    return np.concatenate(done)


BY_HAND: Final[dict[str, Callable[[bytes], Any]]] = {
    "soundfile and soxr": soundfile_soxr,
    "PyAV and its resampler": pyav_alone,
    "PyAV and soxr": pyav_soxr,
    _TORCHCODEC: torchcodec_alone,
}


def _beyond(growth: Growth | None) -> float | None:
    """MiB by which memory grew beyond the payload, which was read meanwhile, and the result. The copy of the payload in
    a memory file, which FFmpeg reads, is no part of a process's resident memory.
    """
    return None if growth is None else (growth.grown - growth.payload - growth.result) / MIB


def one(arguments: Namespace, name: str) -> None:
    """The tables of one format."""
    path = arguments.media.audio(name)
    alone(arguments, name, path)
    together(arguments, name, path)


def alone(arguments: Namespace, name: str, path: Path) -> None:
    """One clip at a time, against what is put together by hand."""
    data = path.read_bytes()
    hand = {label: function for label, function in BY_HAND.items() if name != "M4A" or function is not soundfile_soxr}
    there = optional("torchcodec.decoders") is not None
    rows: dict[str, Callable[[], object]] = {
        DIRECT: partial(lazymedia_direct, data),
        MAPPED: partial(lazymedia_mapped, data),
    }
    rows |= {label: partial(function, data) for label, function in hand.items() if there or label != _TORCHCODEC}
    rounds = in_rounds(rows, arguments.long_rounds, touched=arguments.touched)
    rival = best(rounds, hand)
    assert rival is not None
    beyond = {label: _beyond(grows(work, path)) for label, work in ((DIRECT, "audio"), (MAPPED, "audio, mapped"))}
    extra = {label: "" if value is None else f"{value:.1f} MiB" for label, value in beyond.items()}
    shown = [(*row, extra.get(str(row[0]), "")) for row in cost_rows(rounds, rival, [] if there else [_TORCHCODEC])]
    top = heading(f"{_length(arguments)} of stereo {name} to 16 kHz mono", rival)
    print(table([(*top, "peak growth beyond the result"), *shown]), end="\n\n")
    targets = arguments.targets
    longest = 1.25 if name in _BY_FFMPEG_FOR_SAFETY else 1.1
    targets.at_most(f"{name} to 16 kHz mono, by {rival}, wall", ratio(rounds, DIRECT, rival, "wall"), longest)
    targets.at_most("... as a mapped reference", ratio(rounds, MAPPED, rival, "wall"), longest)
    targets.at_most("... growth of memory beyond the result", beyond[DIRECT], 8, " MiB")
    targets.at_most("... as a mapped reference", beyond[MAPPED], 8, " MiB")


def together(arguments: Namespace, name: str, path: Path) -> None:
    """One clip beside two at once. More rounds than of the others: a neighbour on the machine halves what two get, and
    for a clip of a second that is soon half of the rounds.
    """
    data = path.read_bytes()
    with two_processes(lazymedia_direct, path) as processes:
        rows: dict[str, Callable[[], object]] = {
            DIRECT: partial(lazymedia_direct, data),
            TWO: partial(at_once, [partial(lazymedia_direct, data)] * 2),
            PROCESSES: processes,
        }
        rounds = in_rounds(rows, _ROUNDS_TOGETHER * arguments.long_rounds, touched=arguments.touched)
    throughput = {label: 2 / ratio(rounds, label, DIRECT, "wall") for label in (TWO, PROCESSES)}
    shown = [
        (*row, f"{throughput[str(row[0])]:.2f}" if row[0] in throughput else "") for row in cost_rows(rounds, DIRECT)
    ]
    top = heading(f"{_length(arguments)} of {name}, twice", DIRECT)
    print(table([(*top, "throughput"), *shown]), end="\n\n")
    arguments.targets.at_least(f"{name}, two at once, throughput by one's", throughput[TWO], 1.6)
    arguments.targets.at_least("... by two processes'", ratio(rounds, PROCESSES, TWO, "wall"), 0.9)


def _length(arguments: Namespace) -> str:
    return "2 s" if arguments.media.quick else "an hour"


def run(arguments: Namespace) -> None:
    """Tables for each format; the short form has one that soundfile reads and one that it does not."""
    for name in ("WAV", "M4A") if arguments.quick else FORMATS:
        one(arguments, name)
