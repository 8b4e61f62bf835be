"""AAC as a Matroska, for FFmpeg to read: that container says no more of a frame than its size, so that the decoder gets
what it gets packet by packet; and it tells the sizes of many frames in one row, which no loop has to write.

Comes in: an `AacTrack`. Goes out: the bytes of a container, for some frames at a time. Never here: a header of the
payload's own.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from lazymedia.media.audio.mp4_aac import FRAME, AacTrack

_UNTIL_THE_END: Final = b"\x01" + b"\xff" * 7
"""In place of a size. RFC 8794, section 6.2."""
_ABOUT: Final = 64
"""Bytes of a cluster that are neither frames nor their sizes, and more."""
_SIZE: Final = 1 << 14
"""A size in two bytes of seven bits each is marked by this. RFC 8794, section 4."""
_LEVEL: Final = (1 << 13) - 1
"""What is added to a difference of sizes in two such bytes. RFC 9559, section 10.3.3."""
_BLOCK: Final = struct.Struct(">BhB")
"""The track, ms from the cluster's time on, and flags. RFC 9559, section 10.2."""
_KEY, _LACED = 0x80, 0x06


@dataclass(frozen=True, slots=True)
class AacInMatroska:
    """A track that is `Pipeable`. Its first frame comes once more behind the last: what follows a frame in its packet
    is looked at with the next packet only.
    """

    track: AacTrack

    demuxer = "matroska"
    decoder = "aac"
    repeated = FRAME
    begins = 0
    slack = FRAME // 2 - 1
    """Times are in ms."""
    most = 64 << 10

    @property
    def rate(self) -> int:
        """Hz."""
        return self.track.rate

    @property
    def channels(self) -> int:
        """As many as the track tells."""
        return self.track.channels

    @property
    def primed(self) -> int:
        """Samples at the start that are no sound."""
        return self.track.primed

    @property
    def samples(self) -> int:
        """Per channel, of all frames."""
        return self.track.frames * FRAME

    def most_bytes(self, samples: int) -> int:
        """Of a cluster, and of the head."""
        return samples // FRAME * (self.track.largest + 2) + _ABOUT + len(self._head())

    def pieces(self, samples: int) -> Iterator[bytes]:
        """A cluster of one block for each call, the first behind what begins the file; and one of the first frame."""
        number = 0
        head = self._head()
        for sizes, parts in self.track.groups(samples // FRAME):
            yield head + self._cluster(number, sizes, parts)
            number += len(sizes)
            head = b""
        if number == self.track.frames:
            sizes, parts = next(self.track.groups(1))
            yield self._cluster(number, sizes, parts)

    def _head(self) -> bytes:
        """RFC 9559, section 5.1."""
        sound = _element("B5", struct.pack(">d", self.rate)) + _element("9F", bytes([self.channels]))
        codec = _element("86", b"A_AAC") + _element("63A2", self.track.config)
        entry = _element("D7", b"\1") + _element("73C5", b"\1") + _element("83", b"\2") + codec + _element("E1", sound)
        tracks = _element("1654AE6B", _element("AE", entry))
        segment = bytes.fromhex("18538067") + _UNTIL_THE_END
        return _element("1A45DFA3", _element("4282", b"matroska")) + segment + tracks

    def _cluster(self, number: int, sizes: npt.NDArray[np.int64], parts: Sequence[memoryview]) -> bytes:
        """Frames whose number is so or more, in one block."""
        time = number * FRAME * 1000 // self.rate
        head = _BLOCK.pack(0x81, 0, _KEY | _LACED) + _row(sizes) if len(sizes) > 1 else _BLOCK.pack(0x81, 0, _KEY)
        block = b"".join((head, *parts))
        return _element("1F43B675", _element("E7", time.to_bytes(8)) + _element("A3", block))


def _row(sizes: npt.NDArray[np.int64]) -> bytes:
    """One less than the frames, and the sizes of all but the last: of the first, and by how much each is larger than
    the one before.
    """
    values = sizes[:-1].copy()
    values[1:] += _LEVEL - sizes[:-2]
    return bytes([len(values)]) + (values | _SIZE).astype(">u2").tobytes()


def _element(name: str, content: bytes) -> bytes:
    return b"".join((bytes.fromhex(name), (1 << 56 | len(content)).to_bytes(8), content))


__all__ = ["AacInMatroska"]
