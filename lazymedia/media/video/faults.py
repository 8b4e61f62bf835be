"""What a video's own fault looks like to a caller.

Comes in: a message, or an exception of PyAV's. Goes out: an `UnprocessableMediaError` for the modality "video". Never
here: a decision about what is a fault.
"""

from __future__ import annotations

from collections.abc import Iterator

from lazymedia.contexts import contextmanager
from lazymedia.errors import LazyMediaError, UnprocessableMediaError


def refused(message: str) -> UnprocessableMediaError:
    """The error for a video that is at fault itself."""
    return UnprocessableMediaError(message, modality="video")


@contextmanager
def blamed_on_payload(what: str) -> Iterator[None]:
    """Turn whatever a codec library raises inside the block into an error that blames the payload.

    ImportError and MemoryError pass as they are, as do errors of this library and those that only a mistake in it
    raises.

    Raises:
        UnprocessableMediaError: ``what``, with the library's exception as the cause.
    """
    try:
        yield
    except (LazyMediaError, ImportError, MemoryError, NameError, AttributeError, AssertionError, TypeError):
        raise
    except Exception as exc:
        # PyAV's texts name the file object and its address, so that none is repeated here.
        raise refused(f"{what} ({type(exc).__name__})") from exc


__all__ = ["blamed_on_payload", "refused"]
