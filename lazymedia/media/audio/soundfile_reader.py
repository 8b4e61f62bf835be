"""Clips by libsndfile: WAV, AIFF and FLAC in the codecs and depths that it reads."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import soundfile

from lazymedia.contexts import contextmanager
from lazymedia.limits import Limits
from lazymedia.media.audio import pyav_reader
from lazymedia.media.audio.bounds import check_layout, check_length, rejection
from lazymedia.media.audio.formats import Format
from lazymedia.media.audio.header import read_header
from lazymedia.media.audio.samples import BLOCK, Losses, Source
from lazymedia.media.cancellation import checkpoint

_SUBTYPES: Final = {
    *("PCM_S8", "PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW", "ALAW", "IMA_ADPCM", "MS_ADPCM"),
}
"""Its codecs. GSM, G.72x, NMS and DWVW in a WAV or AIFF are nothing that a client sends in earnest."""

_UNKNOWN: Final = 1 << 40
"""Samples from which on a length stands for one that is not known; libsndfile then says 2^63 - 1."""


class _Linear(soundfile.SoundFile):  # type: ignore[misc]  # soundfile has no types
    """A file that is read from start to end: soundfile otherwise seeks after every block, and trusts the header's
    length to clamp it.
    """

    def seekable(self) -> bool:
        return False


class _Payload(io.BytesIO):
    """A seek to before the start does nothing, where cffi would print the error to stderr."""

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        try:
            return super().seek(offset, whence)
        except ValueError:
            return self.tell()

    def __repr__(self) -> str:
        return "the payload"  # what soundfile puts into its errors


@contextmanager
def open_source(data: bytes, kind: Format, limits: Limits) -> Iterator[Source]:
    """Decode a payload by libsndfile; what libsndfile does not read of it, because it is damaged, by FFmpeg.

    The samples of a WAV end where its header says or with the payload, whichever comes first; a size of 0xFFFFFFFF, as
    pipes write it, means all there is. Those of a FLAC end where its header says, unless it declares no length.

    libsndfile stops at the first damaged frame of a FLAC. FFmpeg goes on behind it, with the samples that come after
    those that libsndfile gave.

    Raises:
        UnprocessableMediaError: As `pyav_reader.open_source`.
        av.FFmpegError: The header is damaged.
    """
    try:
        file = _Linear(_Payload(data))
    except soundfile.LibsndfileError:
        with pyav_reader.open_source(data, kind, limits) as source:
            yield source
        return
    with file:
        if file.format not in kind.sndfile or file.subtype not in _SUBTYPES:
            raise rejection(f"{file.subtype} in {file.format} is not decoded")
        rate, channels, promised = int(file.samplerate), int(file.channels), int(file.frames)
        check_layout(rate, channels, limits)
        if promised < _UNKNOWN:
            check_length(promised, rate, channels, limits)
        known = read_header(data, kind)
        losses = Losses()
        blocks = _blocks(file, losses, data, kind, limits)
        yield Source(rate, channels, _counted(blocks, losses, 0 if known is None else known.declared or 0), losses)


def _blocks(
    file: soundfile.SoundFile, losses: Losses, data: bytes, kind: Format, limits: Limits
) -> Iterator[npt.NDArray[Any]]:
    """Blocks until nothing comes any more, in one buffer."""
    buffer = _buffer(file)
    done = 0
    while True:
        checkpoint()
        try:
            block = file.read(out=buffer)
        except soundfile.LibsndfileError:
            break
        if not len(block):
            return
        done += len(block)
        yield block.T
    with pyav_reader.open_source(data, kind, limits) as source:
        if (source.rate, source.channels) != (file.samplerate, file.channels):
            raise rejection("FFmpeg and libsndfile find different audio in the payload")
        yield from pyav_reader.behind(source.blocks, done)
        losses.samples, losses.errors = source.losses.samples, max(source.losses.errors, 1)


def _buffer(file: soundfile.SoundFile) -> npt.NDArray[Any]:
    """For a block.

    Samples of 16 bits in a WAV or AIFF are read as such: libsndfile then asks for a whole block at a time and not for
    8 KiB, each of which is a call into Python. Of a FLAC it gives floats in less time.
    """
    is_short = file.subtype == "PCM_16" and file.format != "FLAC"
    return np.empty((2 * BLOCK, file.channels), np.int16) if is_short else np.empty((BLOCK, file.channels), np.float32)


def _counted(blocks: Iterator[npt.NDArray[Any]], losses: Losses, declared: int) -> Iterator[npt.NDArray[Any]]:
    """The blocks, with the losses completed at their end by what the header declares."""
    total = 0
    for block in blocks:
        total += block.shape[1]
        yield block
    losses.at_least(declared - total)


__all__ = ["open_source"]
