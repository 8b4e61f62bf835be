"""What is known of a clip without decoding it.

Comes in: a payload. Goes out: an `AudioHeader`, or None for a payload of no known format. Never here: a sample, or a
number that is believed: a header may lie, and the decode has the last word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazymedia.errors import LazyMediaError
from lazymedia.media.audio import formats, header
from lazymedia.media.audio.bounds import refused

if TYPE_CHECKING:
    from lazymedia.limits import Limits
    from lazymedia.media.audio.header import AudioHeader


def outline(data: bytes, limits: Limits) -> AudioHeader | None:
    """Rate, channels and length as the payload's header tells them, read by the library that decodes such clips.

    Raises:
        UnprocessableMediaError: There is no audio in it, or the header cannot be read or is over a limit.
    """
    kind = formats.sniff(data)
    if kind is None:
        return None
    told = header.read_header(data, kind)
    if told is not None:
        if not told.rate or not told.channels:
            raise refused(f"the header of the {kind.name} audio tells no rate or no channels")
        return told
    try:
        if kind.backend == "soundfile":
            from lazymedia.media.audio import soundfile_reader

            return soundfile_reader.read_header(data, kind, limits)
        from lazymedia.media.audio import pyav_reader

        return pyav_reader.read_header(data, kind, limits)
    except (LazyMediaError, ImportError, MemoryError):
        raise
    except Exception as exc:
        raise refused(f"the header of the {kind.name} audio cannot be read: {exc}") from exc


__all__ = ["outline"]
