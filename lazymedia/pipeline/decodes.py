"""Decode jobs: one decode each, owned by a request's nursery, its outcome recorded and never raised."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, Final, final

import anyio
from anyio import CapacityLimiter

from lazymedia.contexts import asynccontextmanager
from lazymedia.errors import DecoderCrashedError, LazyMediaError, ReleasedError, UnprocessableMediaError, text_of
from lazymedia.outcome import STOPPED, Failed, Outcome, Value
from lazymedia.worker import ThreadCall

if TYPE_CHECKING:
    from lazymedia.media.ref import MediaRef

_SERVER_FAULTS: Final = (ImportError, MemoryError, ReleasedError, DecoderCrashedError)
"""What a decode fails with when no payload is at fault: a missing library, no memory, a reference given up."""


@final
class DecodeSlots:
    """Slots for decodes, of which jobs of one decode operation take one between them.

    Otherwise four requests for one reference would hold four slots, three of them waiting for the first, and a
    thumbnail behind them would wait for a video.

    Args:
        count: Decodes that run at once.

    Attributes:
        limiter: The slots.
        decoded: Decodes that have succeeded so far.
    """

    def __init__(self, count: int) -> None:
        self.limiter = CapacityLimiter(count)
        self.decoded = 0
        self._turns: dict[object, tuple[anyio.Lock, int]] = {}

    @asynccontextmanager
    async def turn(self, operation: object) -> AsyncIterator[None]:
        """Inside the block, no other job of this operation runs."""
        lock, waiting = self._turns.get(operation, (anyio.Lock(), 0))
        self._turns[operation] = (lock, waiting + 1)
        try:
            async with lock:
                yield
        finally:
            lock, waiting = self._turns.pop(operation)
            if waiting > 1:
                self._turns[operation] = (lock, waiting - 1)

    @property
    def operations(self) -> int:
        """Decode operations that a job runs or waits for."""
        return len(self._turns)


@final
class DecodeJob:
    """One decode. `run` is started in a nursery and raises nothing but that nursery's cancellation.

    Args:
        modality: The item's modality.
        index: The item's position in the original request, within its modality.
        ref: What to decode.
    """

    def __init__(self, modality: str, index: int, ref: MediaRef[Any]) -> None:
        self.modality = modality
        self.index = index
        self.ended = anyio.Event()
        self.outcome: Outcome[Any] = STOPPED
        self._ref = ref

    async def run(self, slots: DecodeSlots) -> None:
        """Decode in a worker thread under a slot, unless another job of the same operation has."""
        try:
            async with slots.turn(self._ref.operation):
                if self._ref.is_decoded:
                    self.outcome = Value(None)
                    return
                call = ThreadCall(self._ref.decode, slots.limiter)
                try:
                    await call.run()
                finally:
                    self.outcome = call.outcome
                slots.decoded += isinstance(call.outcome, Value)
        finally:
            self.ended.set()

    def failure(self) -> Exception | None:
        """What a client or operator gets, as a fresh exception at each call; None where there was no failure."""
        match self.outcome:
            case Failed(error):
                return self._located(error)
            case _:
                return None

    def _located(self, error: Exception) -> Exception:
        if isinstance(error, _SERVER_FAULTS):
            located: Exception = (
                error.at(self.modality, self.index) if isinstance(error, LazyMediaError) else _again(error)
            )
        elif isinstance(error, LazyMediaError):
            located = error.at(self.modality, self.index)
        else:
            located = UnprocessableMediaError(
                f"{self.modality} at index {self.index} could not be decoded: {text_of(error)}",
                modality=self.modality,
                index=self.index,
            )
        if located is not error:
            located.__cause__ = error
        return located


def _again(error: Exception) -> Exception:
    """The same failure as another object, where its class allows: raising one object twice grows its traceback."""
    try:
        return copy.copy(error)
    except Exception:  # noqa: BLE001  # a class from outside
        return error


def raise_first_failure(jobs: Sequence[DecodeJob]) -> None:
    """Raise the failure of the first failed job, in the order given.

    Call it when every job has ended; before, which failure is first would be a matter of timing.
    """
    for job in jobs:
        failure = job.failure()
        if failure is not None:
            try:
                raise failure
            finally:
                del failure, job, jobs  # a frame that holds what it raised keeps it, and the payload, from being freed


__all__ = ["DecodeJob", "DecodeSlots", "raise_first_failure"]
