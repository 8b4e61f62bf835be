"""Clips by libsndfile: WAV, FLAC, OGG (Vorbis, Opus, FLAC), MP3 and AIFF.

Comes in: a payload whose format is known. Goes out: a `Source`. Never here: any of libsndfile's other formats, of which
it opens some twenty by default, RAW among them; or a read whose size a header tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import soundfile

from lazymedia.limits import Limits
from lazymedia.media.audio import mp3_reader, mp3_recordings
from lazymedia.media.audio.bounds import check_layout, check_length, refused
from lazymedia.media.audio.formats import MP3, WAV, Format
from lazymedia.media.audio.header import AudioHeader, mpeg_in_wav
from lazymedia.media.audio.mp3_recordings import Recording
from lazymedia.media.audio.ogg import links_of
from lazymedia.media.audio.samples import BLOCK
from lazymedia.media.audio.sndfile import SUBTYPES, Linear, Payload
from lazymedia.media.audio.source import Source
from lazymedia.media.stopping import checkpoint

_COMPRESSED: Final = {"FLAC", "OGG"}
"""Formats whose samples have a width and yet are none of the payload's bytes."""

_UNKNOWN: Final = 1 << 40
"""Samples from which on a length stands for one that is not known; libsndfile then says 2^63 - 1."""


_Part: TypeAlias = slice | Recording
_Read: TypeAlias = Callable[[npt.NDArray[Any]], npt.NDArray[Any]]
"""Fills the start of (N, channels); what it filled, nothing at the end."""


@contextmanager
def open_source(data: bytes, kind: Format, limits: Limits) -> Iterator[Source]:
    """Decode a payload by libsndfile.

    What a truncated clip yields: of WAV, AIFF, OGG and MP3 what exists; a FLAC that ends before the length in its
    header, or in the middle of a frame, is an error. The samples of a WAV end where its header says or with the
    payload, whichever comes first; a size of 0xFFFFFFFF, as pipes write it, means all there is, and 0 means none. Those
    of a FLAC end where its header says, unless that tells no length. Of an MP3, all frames are decoded, whatever number
    a header tells or a bit rate suggests, and what is no frame is left out.

    Recordings that follow each other in one OGG or MP3 are read one after the other; libsndfile alone would stop behind
    the first, and FFmpeg decodes the second by the tables of the first. A last one that is cut within its tables is an
    error.

    Raises:
        UnprocessableMediaError: Over a limit, a format or codec that is not read here, or recordings whose rates or
            channels differ. No cause.
        Exception: soundfile's own, where the payload is damaged.
    """
    data, kind = _unwrapped(data, kind)
    first, *others = parts = _parts(data, kind)
    with _opened(data, first, kind) as (file, read):
        told = _told(file, kind, limits)
        check_length(sum(part.least for part in parts if isinstance(part, Recording)), told.rate, told.channels, limits)
        promised = told.samples or 0
        blocks = _blocks(read, _buffer(file), promised if kind.name == "FLAC" else 0)
        yield Source(told.rate, told.channels, chain(blocks, _others(data, others, kind, (told.rate, told.channels))))


def read_header(data: bytes, kind: Format, limits: Limits) -> AudioHeader:
    """What libsndfile makes of a header, without a sample being decoded. Raises as `open_source`. Of recordings that
    follow each other in one OGG, no length.
    """
    data, kind = _unwrapped(data, kind)
    first, *others = _parts(data, kind)
    with _opened(data, first, kind) as (file, _):
        told = _told(file, kind, limits)
        return replace(told, samples=None) if others else told


def _unwrapped(data: bytes, kind: Format) -> tuple[bytes, Format]:
    """What is to be read: of a WAV that holds MPEG audio, just that, for libsndfile guesses the end of it as of any."""
    within = mpeg_in_wav(data) if kind == WAV else None
    return (data, kind) if within is None else (data[within], MP3)


def _parts(data: bytes, kind: Format) -> Sequence[_Part]:
    """The recordings in a payload."""
    if kind == MP3:
        return mp3_recordings.find(data)
    return links_of(data) if "OGG" in kind.sndfile else [slice(None)]


def _told(file: soundfile.SoundFile, kind: Format, limits: Limits) -> AudioHeader:
    rate, channels, promised = int(file.samplerate), int(file.channels), int(file.frames)
    check_layout(rate, channels, limits)
    known = kind.declared_length and promised < _UNKNOWN
    if known:
        check_length(promised, rate, channels, limits)
    return AudioHeader(rate, channels, promised if known else None)


@contextmanager
def _opened(data: bytes, part: _Part, kind: Format) -> Iterator[tuple[soundfile.SoundFile, _Read]]:
    """A recording, and what reads on in it."""
    with ExitStack() as stack:
        if isinstance(part, Recording):
            recorded = stack.enter_context(mp3_reader.opened(part))
            file, read = recorded.file, recorded.read
        else:
            file = stack.enter_context(Linear(Payload(data[part])))  # of all of it this is no copy
            read = partial(_read, file)
        if file.format not in kind.sndfile or file.subtype not in SUBTYPES:
            raise refused(f"{file.subtype} in {file.format} is not decoded")
        yield file, read


def _read(file: soundfile.SoundFile, buffer: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return file.read(out=buffer)  # type: ignore[no-any-return]  # soundfile has no types


def _others(data: bytes, parts: Sequence[_Part], kind: Format, shape: tuple[int, int]) -> Iterator[npt.NDArray[Any]]:
    for part in parts:
        with _opened(data, part, kind) as (file, read):
            if (int(file.samplerate), int(file.channels)) != shape:
                raise refused("the rate or channels change in the middle of the audio")
            yield from _blocks(read, _buffer(file), 0)


def _buffer(file: soundfile.SoundFile) -> npt.NDArray[Any]:
    """For a block.

    Samples of 16 bits in a WAV or AIFF are read as such: libsndfile then asks for a whole block at a time and not for
    8 KiB, each of which is a call into Python. Of a FLAC it hands out floats in less time.
    """
    is_short = file.subtype == "PCM_16" and file.format not in _COMPRESSED
    return np.empty((2 * BLOCK, file.channels), np.int16) if is_short else np.empty((BLOCK, file.channels), np.float32)


def _blocks(read: _Read, buffer: npt.NDArray[Any], promised: int) -> Iterator[npt.NDArray[Any]]:
    """Blocks until nothing comes any more, in one buffer.

    Args:
        read: What reads on.
        buffer: To read into.
        promised: Samples per channel without which the clip is truncated; 0 for as many as there are.
    """
    total = 0
    while True:
        checkpoint()
        block = read(buffer)
        if not len(block):
            break
        total += len(block)
        yield block.T
    if total < promised:
        raise EOFError(f"{total} samples where the header promises {promised}")


__all__ = ["open_source", "read_header"]
