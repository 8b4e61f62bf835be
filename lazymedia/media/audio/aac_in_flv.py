"""AAC as a Flash Video, for FFmpeg to read: that container says no more of a frame than its size, so that the decoder
gets what it gets packet by packet.

Comes in: an `AacTrack`. Goes out: the bytes of a container, for some frames at a time. Never here: a header of the
payload's own.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from lazymedia.media.audio.mp4_aac import FRAME, AacTrack

_TAG: Final = struct.Struct(">IIIIB")
"""Bytes of the last tag; type and bytes of this one; its time in ms, the highest byte last; stream 0 in three bytes;
and the first two of what the tag holds: AAC, and whether a frame. Adobe, Video File Format 10.1, annex E.
"""
_LEAD: Final = 11
"""Bytes of a tag before what it holds."""
_SOUND: Final = 8
_AAC: Final = 0xAF
_BEGIN: Final = b"FLV\x01\x04" + (9).to_bytes(4)
"""Sound only."""


@dataclass(frozen=True, slots=True)
class AacInFlv:
    """A track that is `Pipeable`. Its first frame comes once more behind the last: what follows a frame in its packet
    is looked at with the next packet only.
    """

    track: AacTrack

    demuxer = "flv"
    repeated = FRAME
    begins = 0
    slack = FRAME // 2 - 1
    """Times are in ms."""

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
        """Of the frames of one call."""
        return samples // FRAME * (self.track.largest + _TAG.size)

    def pieces(self, samples: int) -> Iterator[bytes]:
        """Tags for each call; those of the first, and the last, with what begins and ends the file.

        One plain loop: it runs for every frame, and holds the interpreter meanwhile.
        """
        pack, rate, frames, config = _TAG.pack, self.rate, samples // FRAME, self.track.config
        size = 2 + len(config)
        parts: list[bytes | memoryview] = [_BEGIN, pack(0, _SOUND << 24 | size, 0, _AAC, 0), config]
        for number, frame in enumerate(self._frames()):
            last, size = size + _LEAD, 2 + len(frame)
            time = number * FRAME * 1000 // rate
            parts += (pack(last, _SOUND << 24 | size, (time & 0xFFFFFF) << 8 | time >> 24, _AAC, 1), frame)
            if number % frames == frames - 1:
                yield b"".join(parts)
                parts.clear()
        yield b"".join((*parts, (size + _LEAD).to_bytes(4)))

    def _frames(self) -> Iterator[memoryview]:
        left = self.track.frames
        for frame in self.track:
            left -= 1
            yield frame
        if left == 0:
            yield next(iter(self.track))


__all__ = ["AacInFlv"]
