"""The decode operation that a reference and all its forks share: it runs once, whoever comes first.

Comes in: a function that decodes. Goes out: the media, in a box, to any number of threads. Never here: a payload, a
key, or who may still ask (that is the handle's, see `lazymedia.media.ref`).

Lock order is child before parent: a mapped reference runs its parent's decode under its own cell's lock. Nothing that
is called under a cell's lock may wait for an event loop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Generic, Protocol, TypeVar, cast, final, runtime_checkable

from lazymedia.media.cores import CORES
from lazymedia.media.stopping import checkpoint

T = TypeVar("T")
U = TypeVar("U")

_LOCK_POLL: Final = 0.02
"""Seconds between two looks at whether a decode that waits for another's is still wanted."""


@runtime_checkable
class DecodesThrough(Protocol):
    """A decoder that can apply some transforms piece by piece, so that its media never exists as a whole."""

    def through(self, transform: Callable[[Any], Any], /) -> Callable[[], Any] | None:
        """What decodes to ``transform(media)``; None where that needs the media as a whole."""
        ...


@final
class Decoded(Generic[T]):
    """Media that exists; a box, so that media which is None is told from no media."""

    __slots__ = ("media",)

    def __init__(self, media: T) -> None:
        self.media = media


@final
class Cell(Generic[T]):
    """One decode operation, run at most once successfully, by whichever handle comes first."""

    __slots__ = ("__weakref__", "_decoder", "_lock", "_owner", "decoded")

    def __init__(self, decoder: Callable[[], T] | None, decoded: Decoded[T] | None = None) -> None:
        self._decoder = decoder
        self._lock = threading.Lock()
        self._owner: int | None = None
        self.decoded = decoded

    def decode(self) -> Decoded[T]:
        """Run the decoder unless it has run. A failure is the caller's alone; the next caller tries again."""
        with self._alone():
            if self.decoded is None:
                checkpoint()
                assert self._decoder is not None  # dropped only once decoded is set
                with CORES.one():
                    self.decoded = Decoded(self._decoder())
                self._decoder = None  # the closure may hold a second copy of the payload
            return self.decoded

    def decode_through(self, transform: Callable[[T], U]) -> U | None:
        """What ``transform`` makes of the media, in one pass with its decode. None where there is no such way, or where
        the media is there already. This cell stays as undecoded as it was.
        """
        if self.decoded is not None or not isinstance(self._decoder, DecodesThrough):
            return None
        with self._alone():
            decoder = self._decoder
            at_once = decoder.through(transform) if isinstance(decoder, DecodesThrough) else None
            if at_once is None:
                return None
            checkpoint()
            with CORES.one():
                return cast("U", at_once())

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the lock under which the decoder runs, once nobody else does."""
        thread = threading.get_ident()
        try:
            while not self._lock.acquire(timeout=0 if self._owner == thread else _LOCK_POLL):
                _waits[thread] = self
                self._refuse_circle(thread)
                checkpoint()
        finally:
            _waits.pop(thread, None)
        try:
            self._owner = thread
            yield
        finally:
            self._owner = None
            self._lock.release()

    def is_run_by(self, thread: int) -> bool:
        """Whether this thread is inside the decoder."""
        return self._owner == thread

    def _refuse_circle(self, thread: int) -> None:
        """Follow who waits for whom; a circle would wait for ever."""
        cell: Cell[Any] | None = self
        seen: set[int] = set()
        while cell is not None and (owner := cell._owner) is not None and owner not in seen:  # noqa: SLF001
            if owner == thread:
                raise RuntimeError("a decoder asked, perhaps through others, for the very media it is decoding")
            seen.add(owner)
            cell = _waits.get(owner)


_waits: Final[dict[int, Cell[Any]]] = {}
"""For each thread that waits for another's decode, what it waits for."""


__all__ = ["Cell", "Decoded", "DecodesThrough"]
