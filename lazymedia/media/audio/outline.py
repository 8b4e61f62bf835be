"""What is known of a clip without decoding it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazymedia.errors import LazyMediaError
from lazymedia.media import containers
from lazymedia.media.audio import formats, header
from lazymedia.media.audio.bounds import reason, refused

if TYPE_CHECKING:
    from lazymedia.limits import Limits
    from lazymedia.media.audio.info import AudioInfo


def outline(data: bytes, limits: Limits) -> AudioInfo | None:
    """Rate, channels and length as the payload's header has them; None for a payload of no known format.

    Raises:
        UnprocessableMediaError: There is no audio in it, or the header cannot be read or is over a limit.
    """
    kind = formats.sniff(data)
    if kind is None:
        return None
    known = header.read_header(data, kind)
    if known is not None:
        if not known.info.rate or not known.info.channels:
            raise refused(f"the header of the {kind.name} audio tells no rate or no channels")
        return known.info
    containers.check(data, kind.demuxer, limits, "audio")
    try:
        from lazymedia.media.audio import pyav_reader

        return pyav_reader.read_info(data, kind, limits)
    except (LazyMediaError, ImportError, MemoryError):
        raise
    except Exception as exc:
        raise refused(f"the header of the {kind.name} audio cannot be read: {reason(exc)}") from exc


__all__ = ["outline"]
