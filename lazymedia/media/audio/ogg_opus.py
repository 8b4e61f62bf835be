"""An OGG that holds one recording of Opus and nothing else, page after page.

Comes in: a payload. Goes out: an `OpusTrack`, or None. Never here: a decoder, or a reading of the unusual: whatever
FFmpeg's demuxer might repair, by going back in the payload, is left to it.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from lazymedia.media.audio.ogg import FIRST, LAST, Page, pages
from lazymedia.media.stopping import checkpoint

_RATE: Final = 48_000
"""Hz that Opus is decoded at, whatever was encoded. RFC 7845, section 5.1."""
_IDENTIFICATION: Final = struct.Struct("<8sBBHIhB")
"""Magic, version, channels, pre-skip, the rate that was encoded, gain, and mapping family. RFC 7845, section 5.1."""
_UNFINISHED: Final = 255
"""What a row of a page's table tells of a packet that goes on. RFC 3533, section 5."""
_MOST_PAGES: Final = 1 << 16
"""18 hours of pages of a second."""
_CHECKED: Final = 1 << 12
"""Pages from one look at whether the decode was stopped to the next."""


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
    """For each page, the samples that are complete with it, the pre-skip among them."""
    _stops: npt.NDArray[np.int64]
    """Where each ends."""

    demuxer = "ogg"
    rate = _RATE
    primed = repeated = slack = 0

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
    payload, and whose times begin where the sound does.
    """
    granules, stops = array("q"), array("q")
    first = sound = last = None
    for number, page in enumerate(pages(data)):
        if number % _CHECKED == 0:
            checkpoint()
        first = first or page
        if number == _MOST_PAGES or page.granule < -1 or not _follows(page, last, number, first.serial):
            return None
        sound = sound or (page if page.granule > 0 else None)
        last = page
        granules.append(page.granule)
        stops.append(page.stop)
    if first is None or sound is None or stops[-1] != len(data):
        return None
    # A page whose pattern is damaged, or one within another, would be found by looking for it.
    if data.count(b"OggS") != len(stops):
        return None
    return _track(data, first, sound, (granules, stops))


def _follows(page: Page, last: Page | None, number: int, serial: int) -> bool:
    if bool(page.flags & FIRST) != (last is None) or page.number != number or page.serial != serial:
        return False
    return last is None or not last.flags & LAST


def _track(data: bytes, first: Page, sound: Page, table: tuple[array[int], array[int]]) -> OpusTrack | None:
    """Of the first page, the first with sound, and the times and ends of all."""
    if first.stop - first.body < _IDENTIFICATION.size or first.granule:
        return None
    magic, version, channels, skipped, _, _, family = _IDENTIFICATION.unpack_from(data, first.body)
    if magic != b"OpusHead" or version != 1 or channels not in {1, 2} or family != 0:
        return None
    begins = 0 if sound.flags & LAST else sound.granule - _samples_on(data, sound)
    # Where no packet ends on a page, nothing becomes complete with it.
    times, stops = np.maximum.accumulate(table[0]), np.array(table[1])
    samples = int(times[-1]) - skipped - begins
    return None if begins < 0 or samples <= 0 else OpusTrack(channels, samples, begins, data, skipped, times, stops)


def _samples_on(data: bytes, page: Page) -> int:
    """Samples per channel of the packets that end on a page, the first of which begins on it."""
    total, start, stop = 0, page.body, page.body
    for size in page.table(data):
        stop += size
        if size < _UNFINISHED:
            total += _samples_in(data[start : min(stop, start + 2)])
            start = stop
    return total


def _samples_in(head: bytes) -> int:
    """Samples per channel of a packet, by its first two bytes. RFC 6716, sections 3.1 and 3.2.5."""
    if not head:
        return 0
    configuration, code = head[0] >> 3, head[0] & 3
    if configuration < 12:  # SILK
        frame = (480, 960, 1920, 2880)[configuration & 3]
    elif configuration < 16:  # hybrid
        frame = (480, 960)[configuration & 1]
    else:  # CELT
        frame = 120 << (configuration & 3)
    return frame * (head[1] & 0x3F if code == 3 and len(head) > 1 else min(code, 1) + 1)


__all__ = ["OpusTrack", "find"]
