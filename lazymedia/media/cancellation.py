"""Lets a decode in a worker thread end when its request was cancelled, without an event loop.

The shell sets a check around each decode; decoders call `checkpoint` between packets or blocks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import final

from lazymedia.contexts import contextmanager


@final
class DecodeStopped(BaseException):
    """The decode that runs here is no longer wanted.

    Not an `Exception`, so that no ``except Exception`` of a decoder swallows it. It never leaves the worker thread in
    which it was raised and is never remembered as a decode's result.
    """


_stop: ContextVar[tuple[int, Callable[[], None]] | None] = ContextVar("lazymedia_stop", default=None)


def checkpoint() -> None:
    """End the decode that is running here if its request was cancelled; do nothing otherwise.

    A decoder calls this between packets or blocks, often enough that a cancelled request ends within about a frame. It
    does nothing outside a decode that a processor runs, and nothing in a thread that the decoder itself started.

    Raises:
        DecodeStopped: The request was cancelled. Let it pass.
    """
    stop = _stop.get()
    if stop is not None and stop[0] == threading.get_ident():
        stop[1]()


@contextmanager
def stopping_when(check: Callable[[], None]) -> Iterator[None]:
    """Let `checkpoint` call ``check`` inside the block, in this thread only. ``check`` raises `DecodeStopped` to
    stop.
    """
    token = _stop.set((threading.get_ident(), check))
    try:
        yield
    finally:
        _stop.reset(token)


__all__ = ["DecodeStopped", "checkpoint", "stopping_when"]
