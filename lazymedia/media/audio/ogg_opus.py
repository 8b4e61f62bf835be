"""An OGG that holds one recording of Opus and nothing else, every packet of which its pages tell the truth of.

Comes in: a payload. Goes out: an `OpusTrack`, or None. Never here: a decoder, or a reading of the unusual: whatever
FFmpeg's demuxer might repair, skip or refuse is left to it.

That all samples came which the packets' first bytes tell is how a decode through a pipe is known to be whole: an error
ends it as the end does.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from lazymedia.media.audio.ogg import CONTINUED, FIRST, LAST, Page, pages
from lazymedia.media.stopping import checkpoint
from lazymedia.media.usual import UnusualError, require

_RATE: Final = 48_000
"""Hz that Opus is decoded at, whatever was encoded. RFC 7845, section 5.1."""
_IDENTIFICATION: Final = struct.Struct("<8sBBHIhB")
"""Magic, version, channels, pre-skip, the rate that was encoded, gain, and mapping family. RFC 7845, section 5.1."""
_WORDS: Final = b"OpusTags"
_UNFINISHED: Final = 255
"""What a row of a page's table tells of a packet that goes on. RFC 3533, section 5."""
_SILK, _HYBRID, _CELT = (480, 960, 1920, 2880), (480, 960), (120, 240, 480, 960)
_FRAME: Final = np.array(3 * _SILK + 2 * _HYBRID + 4 * _CELT)
"""Samples per channel of a frame, by its configuration. RFC 6716, section 3.1, table 2."""
_COUNTED: Final = 3
"""The code of packets that tell how many frames they hold. RFC 6716, section 3.2.5."""

_MOST_PAGES: Final = 1 << 16
"""18 hours of pages of a second."""
_LATEST: Final = 1 << 62
"""A time that sums of times do not come to."""
_AT_ONCE: Final = 1 << 8
"""Pages that are judged together."""


@dataclass(frozen=True, slots=True)
class OpusTrack:
    """Mono or stereo in pages, which is `Pipeable` as it lies in the payload.

    Attributes:
        channels: 1 or 2.
        samples: Per channel, without the pre-skip, which FFmpeg drops.
        begins: The time of the first: that of a recording which was cut out of another is not 0.
    """

    channels: int
    samples: int
    begins: int
    _data: bytes
    _skipped: int
    _times: npt.NDArray[np.int64]
    """For each page of sound, the time at which what is complete with it ends, the pre-skip among it."""
    _stops: npt.NDArray[np.int64]
    """Where each ends."""

    demuxer = "ogg"
    decoder = "opus"
    rate = _RATE
    primed = repeated = slack = 0
    most = 32 << 10
    """Of twice as many, an hour would grow memory by 9 MiB and not by 6."""

    def most_bytes(self, samples: int) -> int:
        """Of the pages that one call needs."""
        return max(stop - start for start, stop in pairwise([0, *self._ends(samples)]))

    def pieces(self, samples: int) -> Iterator[memoryview]:
        """Pages, up to the one with which a call's samples are complete."""
        view = memoryview(self._data)
        for start, stop in pairwise([0, *self._ends(samples)]):
            yield view[start:stop]

    def _ends(self, samples: int) -> list[int]:
        """Where the pages of each call end; at last, of all."""
        wanted = self.begins + self._skipped + np.arange(samples, self.samples, samples)
        stops: list[int] = self._stops[np.searchsorted(self._times, wanted)].tolist()
        return [*stops, len(self._data)]


def find(data: bytes) -> OpusTrack | None:
    """The recording of an OGG Opus whose pages follow each other without a gap, from its beginning to the end of the
    payload, and whose times are those of its packets.
    """
    try:
        return _find(data)
    except (UnusualError, struct.error, StopIteration):  # the last where there are fewer than two pages
        return None


def _find(data: bytes) -> OpusTrack:
    walk = _in_order(data)
    channels, skipped = _identification(data, next(walk))
    _pass_words(data, walk)
    sound = _Sound(data)
    while batch := list(islice(walk, _AT_ONCE)):
        checkpoint()
        sound.add(batch)
    times, stops = np.array(sound.times), np.array(sound.stops)
    require(len(times) > 0 and sound.is_whole())
    samples = int(times[-1]) - sound.begins - skipped
    require(samples > 0)
    return OpusTrack(channels, samples, sound.begins, data, skipped, np.maximum.accumulate(times), stops)


def _in_order(data: bytes) -> Iterator[Page]:
    """Pages of one stream, each where the last one ended; the last of them ends the payload."""
    serial, goes_on, stop, flags = 0, False, 0, 0
    for number, page in enumerate(pages(data)):
        serial = serial if number else page.serial
        require(number < _MOST_PAGES and page.number == number and page.serial == serial)
        require(bool(page.flags & FIRST) == (number == 0) and not flags & LAST)
        require(bool(page.flags & CONTINUED) == goes_on and len(page.table) > 0 and -1 <= page.granule < _LATEST)
        # Were its checksum wrong, FFmpeg would look for a page within it.
        require(data.find(b"OggS", page.start + 4, page.stop + 3) < 0)
        yield page
        goes_on, stop, flags = page.table[-1] == _UNFINISHED, page.stop, page.flags
    require(not goes_on and stop == len(data))


def _identification(data: bytes, page: Page) -> tuple[int, int]:
    """Channels and pre-skip."""
    magic, version, channels, skipped, _, _, family = _IDENTIFICATION.unpack_from(data, page.body)
    require(len(page.table) == 1 and page.table[0] != _UNFINISHED and page.granule == 0)
    require(page.stop - page.body >= _IDENTIFICATION.size and magic == b"OpusHead" and version == 1)
    require(channels in {1, 2} and family == 0)
    return channels, skipped


def _pass_words(data: bytes, walk: Iterator[Page]) -> None:
    """The second packet, which nothing stands behind on its last page. RFC 7845, section 3."""
    first = next(walk)
    require(data.startswith(_WORDS, first.body))
    for page in chain((first,), walk):
        rows = [number for number, row in enumerate(page.table) if row != _UNFINISHED]
        require(page.granule <= 0 and rows in ([], [len(page.table) - 1]))
        if rows:
            return


class _Sound:
    """The pages with sound, as far as they were added.

    Attributes:
        begins: The time at which the first packet begins.
        times: As `OpusTrack` has them; -1 where nothing ends.
        stops: As `OpusTrack` has them.
    """

    def __init__(self, data: bytes) -> None:
        self.begins = 0
        self.times, self.stops = array("q"), array("q")
        self._bytes = np.frombuffer(data, np.uint8)
        self._time: int | None = None
        self._open = np.empty(0, np.int64)
        """Samples of the packet that goes on behind the last page."""
        self._last = 0
        """Samples of the last packet."""
        self._trimmed = False

    def add(self, batch: list[Page]) -> None:
        """Judge more pages: no packet may be empty, and every time is to be that of the packets."""
        rows = np.frombuffer(b"".join(page.table for page in batch), np.uint8)
        counts = [len(page.table) for page in batch]
        ends = rows != _UNFINISHED
        samples = np.concatenate((self._open, self._samples(batch, rows, ends, counts)))
        ended = samples[: np.count_nonzero(ends)]
        self._open = samples[len(ended) :]
        self._last = int(ended[-1]) if len(ended) else self._last
        page_of = np.repeat(np.arange(len(batch)), counts)[ends]
        on_page = np.bincount(page_of, ended, len(batch)).astype(np.int64)
        for page, more in zip(batch, on_page.tolist(), strict=True):
            self._judge(page, more)
            self.times.append(page.granule)
            self.stops.append(page.stop)

    def is_whole(self) -> bool:
        """Whether every packet is heard, the last one at least in part."""
        return self._time is not None and 0 <= self._time - self.times[-1] < (self._last if self._trimmed else 1)

    def _judge(self, page: Page, more: int) -> None:
        if more == 0:
            require(page.granule == -1)
            return
        if self._time is None:
            # FFmpeg takes it for the beginning where the first page is the last one too.
            self._time = self.begins = 0 if page.flags & LAST else page.granule - more
            require(self.begins >= 0)
        self._time += more
        self._trimmed = bool(page.flags & LAST)
        require(self._trimmed or page.granule == self._time)

    def _samples(
        self, batch: list[Page], rows: npt.NDArray[np.uint8], ends: npt.NDArray[np.bool_], counts: list[int]
    ) -> npt.NDArray[np.int64]:
        """Samples per channel of the packets that begin on these pages. RFC 6716, sections 3.1 and 3.2."""
        starts = np.flatnonzero(np.concatenate(([len(self._open) == 0], ends[:-1])))
        before = np.cumsum(rows, dtype=np.int64) - rows
        firsts = np.cumsum([0, *counts[:-1]])
        places = before + np.repeat([page.body for page in batch] - before[firsts], counts)
        sizes, places = rows[starts], places[starts]
        require(not len(sizes) or int(sizes.min()) > 0)
        head = self._bytes[places]
        is_counted = head & 3 == _COUNTED
        require(bool((sizes[is_counted] > 1).all()))
        told = self._bytes[np.minimum(places + 1, len(self._bytes) - 1)] & 0x3F
        frames = np.where(is_counted, told, np.minimum(head & 3, 1) + 1)
        require(not len(frames) or int(frames.min()) > 0)
        samples: npt.NDArray[np.int64] = _FRAME[head >> 3] * frames.astype(np.int64)
        return samples


__all__ = ["OpusTrack", "find"]
