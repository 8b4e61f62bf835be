"""Clips by libsndfile: WAV, FLAC, OGG (Vorbis, Opus, FLAC), MP3 and AIFF.

Comes in: a payload whose format is known. Goes out: a `Source`. Never here: any of libsndfile's other formats, of which
it opens some twenty by default, RAW among them; or a read whose size a header tells.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import soundfile

from lazymedia.limits import Limits
from lazymedia.media.audio.bounds import check_layout, check_length, refused
from lazymedia.media.audio.formats import Format
from lazymedia.media.audio.header import AudioHeader
from lazymedia.media.audio.ogg import links_of
from lazymedia.media.audio.samples import BLOCK
from lazymedia.media.audio.source import Source
from lazymedia.media.stopping import checkpoint

_SUBTYPES: Final = {
    *("PCM_S8", "PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW", "ALAW", "IMA_ADPCM", "MS_ADPCM"),
    *("VORBIS", "OPUS", "MPEG_LAYER_I", "MPEG_LAYER_II", "MPEG_LAYER_III"),
}
"""Its codecs. GSM, G.72x, NMS and DWVW in a WAV or AIFF are nothing that a client sends in earnest."""

_COMPRESSED: Final = {"FLAC", "OGG"}
"""Formats whose samples have a width and yet are none of the payload's bytes."""

_UNKNOWN: Final = 1 << 40
"""Samples from which on a length stands for one that is not known; libsndfile then says 2^63 - 1."""


class _Linear(soundfile.SoundFile):  # type: ignore[misc]  # soundfile has no types
    """A file that is read from start to end: soundfile otherwise seeks after every block, and trusts the header's
    length to clamp it.
    """

    def seekable(self) -> bool:
        return False


class _Payload(io.BytesIO):
    """A payload in which a seek to before its start goes nowhere: cffi would print the error to stderr, at the wish of
    whoever sends the payload. libsndfile sees that it did not arrive.
    """

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        try:
            return super().seek(offset, whence)
        except ValueError:
            return self.tell()

    def __repr__(self) -> str:
        return "the payload"  # what soundfile puts into its errors


@contextmanager
def open_source(data: bytes, kind: Format, limits: Limits) -> Iterator[Source]:
    """Decode a payload by libsndfile.

    What a truncated clip yields: of WAV, AIFF, OGG and MP3 what exists; a FLAC that ends before the length in its
    header, or in the middle of a frame, is an error. The samples of a WAV end where its header says or with the
    payload, whichever comes first; a size of 0xFFFFFFFF, as pipes write it, means all there is, and 0 means none. Those
    of a FLAC end where its header says, unless that tells no length. Recordings that follow each other in one OGG are
    read one after the other; libsndfile alone would stop behind the first, and FFmpeg decodes the second by the tables
    of the first. A last one that is cut within its tables is an error.

    Raises:
        UnprocessableMediaError: Over a limit, a format or codec that is not read here, or recordings in one OGG whose
            rates or channels differ. No cause.
        Exception: soundfile's own, where the payload is damaged.
    """
    first, *others = links_of(data) if "OGG" in kind.sndfile else [slice(None)]
    with _opened(data[first], kind) as file:  # of all of it this is no copy
        told = _told(file, kind, limits)
        promised = told.samples or 0
        blocks = _blocks(file, told.channels, promised if kind.name == "FLAC" else 0)
        yield Source(told.rate, told.channels, chain(blocks, _others(data, others, kind, (told.rate, told.channels))))


def read_header(data: bytes, kind: Format, limits: Limits) -> AudioHeader:
    """What libsndfile makes of a header, without a sample being decoded. Raises as `open_source`. Of recordings that
    follow each other in one OGG, no length.
    """
    first, *others = links_of(data) if "OGG" in kind.sndfile else [slice(None)]
    with _opened(data[first], kind) as file:
        told = _told(file, kind, limits)
        return replace(told, samples=None) if others else told


def _told(file: soundfile.SoundFile, kind: Format, limits: Limits) -> AudioHeader:
    rate, channels, promised = int(file.samplerate), int(file.channels), int(file.frames)
    check_layout(rate, channels, limits)
    known = kind.declared_length and promised < _UNKNOWN
    if known:
        check_length(promised, rate, channels, limits)
    return AudioHeader(rate, channels, promised if known else None)


@contextmanager
def _opened(data: bytes, kind: Format) -> Iterator[soundfile.SoundFile]:
    with _Linear(_Payload(data)) as file:
        if file.format not in kind.sndfile or file.subtype not in _SUBTYPES:
            raise refused(f"{file.subtype} in {file.format} is not decoded")
        yield file


def _others(data: bytes, links: Sequence[slice], kind: Format, shape: tuple[int, int]) -> Iterator[npt.NDArray[Any]]:
    for link in links:
        with _opened(data[link], kind) as file:
            if (int(file.samplerate), int(file.channels)) != shape:
                raise refused("the rate or channels change in the middle of the audio")
            yield from _blocks(file, shape[1], 0)


def _blocks(file: soundfile.SoundFile, channels: int, promised: int) -> Iterator[npt.NDArray[Any]]:
    """Blocks until nothing comes any more, in one buffer.

    Samples of 16 bits in a WAV or AIFF are read as such: libsndfile then asks for a whole block at a time and not for
    8 KiB, each of which is a call into Python. Of a FLAC it hands out floats in less time.

    Args:
        file: Opened.
        channels: Its.
        promised: Samples per channel without which the clip is truncated; 0 for as many as there are.
    """
    is_short = file.subtype == "PCM_16" and file.format not in _COMPRESSED
    buffer = np.empty((2 * BLOCK, channels), np.int16) if is_short else np.empty((BLOCK, channels), np.float32)
    total = 0
    while True:
        checkpoint()
        count = len(file.read(out=buffer))
        if count == 0:
            break
        total += count
        yield buffer[:count].T
    if total < promised:
        raise EOFError(f"{total} samples where the header promises {promised}")


__all__ = ["open_source", "read_header"]
