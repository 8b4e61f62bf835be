"""The state of one request between its phases: its nursery, its forks, its decode jobs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar, final

import anyio.lowlevel

from lazymedia.media.ref import MediaRef
from lazymedia.nursery import Child
from lazymedia.owners import shutting_down
from lazymedia.pipeline.decodes import DecodeJob, raise_first_failure
from lazymedia.processing.phases import Looked, NeedDecodes, Place, finish, look, places_of

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from lazymedia.pipeline.serial import Shared
    from lazymedia.processing.inputs import ProcessorInputs
    from lazymedia.processing.outputs import MultiModalInputs
    from lazymedia.processing.planning import RequestPlan

T = TypeVar("T")

_MAX_RUNS = 3
"""Runs of phase 2: the first may lack evicted hits, the second whatever else was invalidated meanwhile, the third
nothing.
"""


@final
class MultiModalApplyState:
    """One request under way; from `MultiModalProcessor.open_apply`, whose block ends it.

    A phase whose wait ends early, by a cancellation or a deadline around that one call, may still be running, and
    what it did is unknown. It spoils the state: every later call raises RuntimeError.

    Attributes:
        inputs: The request, its references forked.
        timings: Seconds by stage, so far.
    """

    def __init__(
        self, shared: Shared, nursery: TaskGroup, inputs: ProcessorInputs, *, bypassed: Sequence[str] = ()
    ) -> None:
        self.inputs = inputs
        self._bypassed = bypassed
        self.timings: dict[str, float] = {}
        self._shared = shared
        self._nursery = nursery
        self._spoilt = self._evicted = self._finished = False
        self._looked: Looked | None = None
        self._jobs: dict[Place, DecodeJob] = {}
        self._children: list[Child] = []

    async def phase1(self) -> None:
        """Identify and look up every item, and start to decode those that the cache does not hold.

        Raises:
            CacheMissError: Items named by UUID alone that the cache does not hold.
            UnprocessableMediaError: The media to decode would exceed a limit.
            BadRequestError: UUIDs that do not match the items. The client's fault.
            OverloadedError: The processor is shutting down.
            RuntimeError: Called twice, on a spoilt state, or where `MultiModalProcessor.supports_two_phase_apply` is
                false. The caller's fault.
        """
        if self._bypassed:
            raise RuntimeError(f"the phases would bypass the overridden {', '.join(self._bypassed)}; call apply()")
        if self._looked is not None:
            raise RuntimeError("phase1() was already called")
        shared = self._shared
        looked = await self.run_serially(
            partial(look, self.inputs, shared.info, shared.model_id, shared.algorithm, shared.limits)
        )
        self._looked = looked
        self._add_timings(looked.timings)
        self.decode(looked.to_decode)

    async def plan(self) -> RequestPlan:
        """Lay the request out as it is, in the place of phase 1 and all that follows: nothing is decoded.

        Raises:
            NotPlannableError: An item of which only a decode shows what it becomes.
            LazyMediaError: As `phase1`.
            RuntimeError: As `phase1`.
        """
        if self._bypassed:
            raise RuntimeError(f"a plan would bypass the overridden {', '.join(self._bypassed)}")
        shared = self._shared

        def look_and_plan() -> RequestPlan:
            looked = look(self.inputs, shared.info, shared.model_id, shared.algorithm, shared.limits)
            return shared.planner.plan(self.inputs, looked)

        return await self.run_serially(look_and_plan)

    async def wait_decodes(self) -> None:
        """Wait until every decode that was started has ended. Holds nothing that another request could want.

        Raises:
            UnprocessableMediaError: The first failure in request order, raised after all decodes have ended.
            ImportError, MemoryError, LazyMediaError: That failure, where it is no fault of the media.
        """
        self._reject_if_spoilt()
        start = time.perf_counter()
        for job in self._jobs.values():
            await job.ended.wait()
        await anyio.lowlevel.checkpoint()
        self._add_timings({"decode_mm_items": time.perf_counter() - start})
        raise_first_failure([self._jobs[place] for place in places_of(self.inputs) if place in self._jobs])

    async def phase2(self) -> MultiModalInputs:
        """Process what the cache does not hold and merge it with what it does.

        Phase 2 looks again, since other requests' phases ran meanwhile. When a hit is gone, it says so and gives up its
        place; the item is decoded while others run, and phase 2 starts over, at most three times in all.

        Raises:
            UnprocessableMediaError: The model's processor cannot take an item, or a late decode failed.
            BadRequestError: The prompt's placeholders do not match the items. The client's fault.
            CacheMissError: An item named by UUID alone has been invalidated since.
            OverloadedError: The processor is shutting down.
            RuntimeError: Called before phase 1, or on a spoilt state. The caller's fault.
        """
        if self._looked is None:
            raise RuntimeError("phase2() comes after phase1()")
        if self._finished:
            raise RuntimeError("phase2() has already finished this request")
        shared = self._shared
        run = partial(
            finish,
            self.inputs,
            self._looked,
            shared.info,
            shared.model_id,
            shared.algorithm,
            shared.limits,
            shared.on_commit,
        )
        for number in range(_MAX_RUNS):
            answer = await self.run_serially(partial(run, ask_for_all=number > 0))
            if not isinstance(answer, NeedDecodes):
                self._finished = True
                self._add_timings(answer.timings)
                return replace(answer, timings=dict(self.timings))
            self.decode(answer.places)
            await self.wait_decodes()
        raise RuntimeError("phase 2 asked for decodes although everything was decoded")  # pragma: no cover  # a bug

    def decode(self, places: tuple[Place, ...]) -> None:
        """Start to decode the items at ``places``, unless they were started before."""
        self._reject_if_spoilt()
        for modality, index in places:
            if (modality, index) in self._jobs:
                continue
            items = self.inputs.mm_data_items[modality]
            ref = items.get_raw(index)
            assert isinstance(ref, MediaRef)
            job = self._jobs[modality, index] = DecodeJob(modality, items.get_original_index(index), ref)
            self._children.append(Child(self._nursery, job.run, self._shared.slots, name=f"decode {modality}"))

    async def run_serially(self, fn: Callable[[], T]) -> T:
        """Run ``fn`` in a worker thread, alone among all phases; a caller that is cancelled never leaves it running
        alone.
        """
        self._reject_if_spoilt()
        call = self._shared.phases.call(fn)
        start = time.perf_counter()
        child = Child(self._nursery, call.run, name="phase")
        self._children.append(child)
        try:
            await child.wait()
        except BaseException:
            self._spoilt = True
            child.cancel()
            raise
        self._add_timings({"serial": time.perf_counter() - start})
        return call.take()

    def cancel_queue(self) -> None:
        """Let nothing begin that has not begun, and ask decodes that run to stop. Called on every way out."""
        for child in self._children:
            child.cancel()

    def evict(self) -> None:
        """End this request from outside: its owner is shutting down."""
        self._evicted = True
        self._nursery.cancel_scope.cancel()

    def _reject_if_spoilt(self) -> None:
        if self._evicted:
            raise shutting_down("processor")
        self._shared.phases.home.check("processor")
        if self._spoilt:
            raise RuntimeError("this request was given up in the middle of a phase; open another")

    def _add_timings(self, seconds: dict[str, float]) -> None:
        for stage, value in seconds.items():
            self.timings[stage] = self.timings.get(stage, 0.0) + value

    def __repr__(self) -> str:
        running = sum(not job.ended.is_set() for job in self._jobs.values())
        return (
            f"<MultiModalApplyState {len(self._jobs)} decodes, {running} running{', spoilt' if self._spoilt else ''}>"
        )


__all__ = ["MultiModalApplyState"]
