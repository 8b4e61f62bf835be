"""The decode operation that a reference and all its forks share: it runs once, for whichever asks first.

Lock order is child before parent: a mapped reference runs its parent's decode under its own cell's lock. Nothing that
is called under a cell's lock may wait for an event loop. `map` builds graphs without cycles. Two decoders that ask
for each other's media wait until one of their requests is cancelled.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, Protocol, TypeVar, cast, final, runtime_checkable

from lazymedia.contexts import contextmanager
from lazymedia.media.cancellation import checkpoint
from lazymedia.media.cpu_budget import CPU_BUDGET

T = TypeVar("T")
U = TypeVar("U")

_LOCK_POLL: Final = 0.02
"""Seconds between two checks for cancellation while a thread waits for another thread's decode."""


@runtime_checkable
class DecodesThrough(Protocol):
    """A decoder that can apply some transforms piece by piece, so that its media never exists as a whole."""

    def through(self, transform: Callable[[Any], Any], /) -> Callable[[], Any] | None:
        """What decodes to ``transform(media)``; None where that needs the media as a whole."""
        ...


@final
class Decoded(Generic[T]):
    """Media that exists, in a box: None may be the media itself."""

    __slots__ = ("media",)

    def __init__(self, media: T) -> None:
        self.media = media


@final
class Cell(Generic[T]):
    """One decode operation, run at most once successfully, by whichever handle comes first."""

    __slots__ = ("__weakref__", "_decoder", "_lock", "_owner", "_parent", "_process", "decoded")

    def __init__(
        self, decoder: Callable[[], T] | None, decoded: Decoded[T] | None = None, parent: Cell[Any] | None = None
    ) -> None:
        self._decoder = decoder
        self._parent = parent
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._owner: int | None = None
        self.decoded = decoded

    def decode(self) -> Decoded[T]:
        """Run the decoder unless it has run. A failure is the caller's alone; the next caller tries again."""
        with self._alone():
            if self.decoded is None:
                checkpoint()
                assert self._decoder is not None  # dropped only once decoded is set
                with CPU_BUDGET.one():
                    self.decoded = Decoded(self._decoder())
                self._decoder = self._parent = None  # the closure may hold a second copy of the payload
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
            with CPU_BUDGET.one():
                return cast("U", at_once())

    @property
    def operation(self) -> Cell[Any]:
        """The cell whose decode comes first: of mapped references, that of the parent they wait for."""
        cell: Cell[Any] = self
        while cell.decoded is None and (parent := cell._parent) is not None and parent.decoded is None:
            cell = parent
        return cell

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the lock under which the decoder runs.

        Raises:
            RuntimeError: This thread holds it already: a decoder asked for its own media.
        """
        self._reject_if_lost()
        thread = threading.get_ident()
        if self._owner == thread:
            raise RuntimeError("a decoder asked, directly or through others, for the media that it is decoding")
        while not self._lock.acquire(timeout=_LOCK_POLL):
            checkpoint()
        try:
            self._owner = thread
            yield
        finally:
            self._owner = None
            self._lock.release()

    def _reject_if_lost(self) -> None:
        """Refuse a lock that a thread of the parent process held when this process was forked off.

        Whoever finds the lock free in a new process writes that down before taking it, so that a lock which is held
        while another process stands here was held at the fork.
        """
        process = os.getpid()
        is_held = self._lock.locked()
        if self._process == process:
            return
        if is_held:
            raise RuntimeError(
                "this reference was being decoded when the process forked, and the thread that decodes it exists in "
                "the parent only; fork before, or start processes by 'spawn'"
            )
        self._process = process

    def is_run_by(self, thread: int) -> bool:
        """Whether this thread is inside the decoder."""
        return self._owner == thread and self._process == os.getpid()


__all__ = ["Cell", "Decoded", "DecodesThrough"]
