"""A model's first request, without a client: it pays for what is done once."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, final

from anyio import CapacityLimiter

from lazymedia.media.cancellation import DecodeStopped
from lazymedia.nursery import Child
from lazymedia.outcome import STOPPED
from lazymedia.owners import shutting_down
from lazymedia.worker import ThreadCall

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from lazymedia.pipeline.serial import Phases

log = logging.getLogger("lazymedia.pipeline")


@final
class WarmUp:
    """Runs a warm-up alone among all phases.

    Args:
        run: The warm-up, for a worker thread.
        nursery: Owns it.
        phases: Where it takes its turn.
        threads: Another limiter, for the call of a warm-up that holds the token already.

    Attributes:
        state: ``"none"``, ``"running"``, ``"done"``, or ``"failed: ..."`` with the class of the failure.
    """

    def __init__(self, run: Callable[[], None], nursery: TaskGroup, phases: Phases, threads: CapacityLimiter) -> None:
        self.state = "none"
        self._run = run
        self._nursery = nursery
        self._phases = phases
        self._threads = threads

    def start(self) -> None:
        """Start it in the background, ahead of every phase that begins after this call returns.

        The token is taken here and now: a child that took it might be started after a request's.
        """
        badge = object()
        self._phases.limiter.acquire_on_behalf_of_nowait(badge)
        self.state = "running"
        Child(self._nursery, self._run_under, badge, name="warm-up")

    async def _run_under(self, badge: object) -> None:
        call = ThreadCall(partial(self._phases.exclusively, self._recorded), self._threads)
        try:
            await call.run()
        finally:
            if call.outcome is STOPPED:
                self.state = "none"
            self._phases.limiter.release_on_behalf_of(badge)

    async def wait(self) -> None:
        """Run it once more, in turn with the phases, and raise what it raises. A cancelled call leaves the queue."""
        call = self._phases.call(self._recorded)
        child = Child(self._nursery, call.run, name="warm-up")
        try:
            await child.wait()
        except BaseException:
            child.cancel()
            raise
        if call.outcome is STOPPED:
            raise shutting_down("processor")
        call.take()

    def _recorded(self) -> None:
        """In a worker thread. A failure is kept and logged; a request that fails likewise reports it."""
        self.state = "running"
        try:
            self._run()
        except DecodeStopped:
            self.state = "none"
            raise
        except BaseException as exc:
            self.state = f"failed: {type(exc).__name__}"
            log.warning("the warm-up failed; requests are tried all the same", exc_info=True)
            raise
        self.state = "done"


__all__ = ["WarmUp"]
