"""The errors of a video that is at fault itself."""

from __future__ import annotations

from collections.abc import Iterator

from lazymedia.contexts import contextmanager
from lazymedia.errors import LazyMediaError, UnprocessableMediaError


def rejection(message: str) -> UnprocessableMediaError:
    """The error for a video that is at fault itself."""
    return UnprocessableMediaError(message, modality="video")


@contextmanager
def payload_errors(what: str) -> Iterator[None]:
    """Turn whatever a codec library raises inside the block into an error of the payload.

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
        raise rejection(f"{what} ({type(exc).__name__})") from exc


__all__ = ["payload_errors", "rejection"]
