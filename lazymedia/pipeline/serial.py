"""Phases one at a time, and what they work with."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar, final

from anyio import CapacityLimiter

from lazymedia.errors import OverlapError
from lazymedia.owners import Home, shutting_down
from lazymedia.worker import ThreadCall

if TYPE_CHECKING:
    from lazymedia.identity import Algorithm
    from lazymedia.limits import Limits
    from lazymedia.pipeline.decodes import DecodeSlots
    from lazymedia.processing import MultiModalInputs, ProcessingInfo
    from lazymedia.processing.planning import Planner

T = TypeVar("T")


@final
class Phases:
    """Runs phases one at a time. Made by its owner on entering.

    Two caches that are to stay mirrored need one order of use, and some processors enter native code that aborts the
    process when two threads are in it at once.

    Attributes:
        home: The loop that they belong to.
        limiter: The token that a phase holds. It is passed to a call or held, never both: on trio that would wait for
            ever.
        closed: Whether the owner is shutting down; phases are then rejected, also those that have waited already.
    """

    def __init__(self) -> None:
        self.home = Home.here()
        self.limiter = CapacityLimiter(1)
        self.closed = False
        self._guard = threading.Lock()

    def call(self, fn: Callable[[], T]) -> ThreadCall[T]:
        """A call of ``fn`` in a worker thread, in turn with all other phases."""
        return ThreadCall(partial(self.exclusively, fn), self.limiter)

    def exclusively(self, fn: Callable[[], T]) -> T:
        """Call ``fn`` here and now. The limiter keeps phases apart; this turns a bug there into an error.

        Raises:
            OverloadedError: The owner is shutting down.
            OverlapError: Another phase is running.
        """
        self.raise_if_closed()
        if not self._guard.acquire(blocking=False):
            raise OverlapError("two phases ran at once")
        try:
            return fn()
        finally:
            self._guard.release()

    def raise_if_closed(self) -> None:
        """Does nothing unless the owner is shutting down.

        Raises:
            OverloadedError: It is.
        """
        if self.closed:
            raise shutting_down("processor")


@final
@dataclass(frozen=True, slots=True)
class Shared:
    """What the requests of one processor share.

    Attributes:
        info: What the model's processor can do.
        model_id: Names that processor in every identity.
        algorithm: What identities are made with.
        limits: What a request may cost.
        phases: Runs one phase at a time.
        slots: Where decodes run.
        on_commit: Receives each finished request in the order of the commits; None for none.
        planner: Lays requests out without decodes; used in phases only.
    """

    info: ProcessingInfo
    model_id: str
    algorithm: Algorithm
    limits: Limits
    phases: Phases
    slots: DecodeSlots
    on_commit: Callable[[MultiModalInputs], None] | None
    planner: Planner


__all__ = ["Phases", "Shared"]
