"""Samples many frames at a time: FFmpeg's source filter `amovie` reads a memory file and decodes by itself.

One call gives a second of sound and leaves the interpreter to other threads meanwhile. The payload lies a second time
in memory while it is decoded. `ffmpeg.read_track` has opened it before, so that codec, stream, layout and limits are
checked before the filter sees it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Final

import av
import numpy as np
import numpy.typing as npt
from av.error import EOFError as FFmpegEOFError

from lazymedia.contexts import contextmanager
from lazymedia.media.audio.ffmpeg import Track, demuxer_options
from lazymedia.media.audio.formats import Format
from lazymedia.media.audio.samples import BLOCK
from lazymedia.media.cancellation import checkpoint

_WRITE: Final = 1 << 24
"""Bytes that are copied into the memory file at once: some milliseconds."""

_POINTERS: Final = 8
"""As in `ffmpeg_frames`: so many channels leave the filter in one plane."""

_SAMPLES: Final = 2 * BLOCK
"""Samples of all channels that one call gives. FFmpeg holds them three times over."""


def is_possible() -> bool:
    """Whether this system has memory files, and this FFmpeg the filter."""
    return hasattr(os, "memfd_create") and "amovie" in av.filter.filters_available


@contextmanager
def opened(data: bytes, kind: Format, track: Track) -> Iterator[Iterator[Any]]:
    """A track's frames of `BLOCK` samples or so, float32. `as_array` gives the samples of one.

    Args:
        data: The payload.
        kind: Its format.
        track: What `read_track` found in it, with channels in an order that needs no list.

    Raises:
        OSError: The system gives no memory file.
        av.FFmpegError: The first damage. What came before it is equal to what `ffmpeg_frames` gives.
    """
    descriptor = _memory_file(data)
    try:
        graph, sink = _graph(descriptor, kind, track)
    finally:
        os.close(descriptor)  # the graph has one of its own
    frames = _frames(sink)
    try:
        yield frames
    finally:
        frames.close()
        # Closes the graph's descriptor now; an exception's traceback could keep these variables for long.
        del graph, sink


def as_array(frame: Any, channels: int) -> npt.NDArray[np.float32]:
    """The samples of a frame as (channels, N)."""
    array: npt.NDArray[np.float32] = frame.to_ndarray()
    return array.reshape(-1, channels).T if frame.format.is_packed else array


def _memory_file(data: bytes) -> int:
    descriptor = os.memfd_create("lazymedia-audio")
    try:
        view = memoryview(data)
        while view:
            checkpoint()
            view = view[os.write(descriptor, view[:_WRITE]) :]
        os.lseek(descriptor, 0, os.SEEK_SET)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _graph(descriptor: int, kind: Format, track: Track) -> tuple[Any, Any]:
    """What decodes, and where its frames come out; the latter does not keep the former."""
    options = {
        **demuxer_options(kind),
        "protocol_whitelist": "fd",  # the descriptor below, and nothing that has a name
        "fd": str(descriptor),
    }
    graph = av.filter.Graph()
    graph.threads = 1
    source = graph.add(
        "amovie",
        filename="fd:",
        format_name=kind.demuxer,
        format_opts=":".join(f"{name}={value}" for name, value in options.items()),
        si=str(track.number),
        dec_threads="1",
    )
    gather = graph.add("asetnsamples", n=str(_SAMPLES // max(track.channels, 2)), p="0")
    format_ = graph.add("aformat", sample_fmts="flt" if track.channels >= _POINTERS else "fltp")
    sink = graph.add("abuffersink")
    graph.link_nodes(source, gather, format_, sink).configure()
    return graph, sink


def _frames(sink: Any) -> Any:
    while True:
        checkpoint()
        try:
            frame = sink.pull()
        except FFmpegEOFError:
            return
        yield frame
        del frame  # or FFmpeg makes the next beside it


__all__ = ["as_array", "is_possible", "opened"]
