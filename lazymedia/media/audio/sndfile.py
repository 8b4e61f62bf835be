"""libsndfile's files as they are read here: from start to end, and through nothing that can be led astray.

Comes in: a payload's bytes, or a descriptor. Goes out: files that are open. Never here: a format's rules, a limit, or
samples.
"""

from __future__ import annotations

import io
from typing import Final

import soundfile

SUBTYPES: Final = {
    *("PCM_S8", "PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW", "ALAW", "IMA_ADPCM", "MS_ADPCM"),
    *("VORBIS", "OPUS", "MPEG_LAYER_I", "MPEG_LAYER_II", "MPEG_LAYER_III"),
}
"""Its codecs. GSM, G.72x, NMS and DWVW in a WAV or AIFF are nothing that a client sends in earnest."""


class Linear(soundfile.SoundFile):  # type: ignore[misc]  # soundfile has no types
    """A file that is read from start to end: soundfile otherwise seeks after every block, and trusts the header's
    length to clamp it.
    """

    def seekable(self) -> bool:
        return False


class Payload(io.BytesIO):
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


__all__ = ["SUBTYPES", "Linear", "Payload"]
