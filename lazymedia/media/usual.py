"""How a reading that knows the usual only gives up: by an error that leaves the payload to FFmpeg's demuxer.

Comes in: whether something is as usual. Goes out: nothing. Never here: what is usual.
"""

from __future__ import annotations


class UnusualError(Exception):
    """The payload is FFmpeg's to read."""


def require(usual: bool) -> None:
    """Raise `UnusualError` unless it is so."""
    if not usual:
        raise UnusualError


__all__ = ["UnusualError", "require"]
