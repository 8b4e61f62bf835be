"""The owner of everything that requests share: the serial limiter, the decode limiter, the cache, the warm-up.

A processor is an ``async with`` block. Entering makes its limiters and, for a warm-up in the background, takes the
serial limiter's token in the same breath, so that no request can come first. Leaving rejects new requests, ends those
that are open and waits for them, then for the warm-up.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, Self
from weakref import WeakSet

import anyio
from anyio import CapacityLimiter

from lazymedia.cache import CacheStats, ProcessorCache
from lazymedia.contexts import asynccontextmanager
from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import DEFAULT_LIMITS, Limits
from lazymedia.media.ref import MediaRef
from lazymedia.nursery import Child, frees_when_cancelled, open_nursery
from lazymedia.owners import BlockingCalls, shutting_down
from lazymedia.pipeline.decodes import DecodeSlots
from lazymedia.pipeline.serial import Phases, Shared
from lazymedia.pipeline.state import MultiModalApplyState
from lazymedia.pipeline.warm_up import WarmUp
from lazymedia.processing.inputs import ProcessorInputs
from lazymedia.processing.kwargs import ValidOptions
from lazymedia.processing.outputs import MultiModalInputs
from lazymedia.processing.phases import NeedDecodes, commit, everything_to_decode, finish, look, places_of
from lazymedia.processing.planning import Planner, RequestPlan
from lazymedia.worker import run_in_thread

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from lazymedia.identity import Algorithm
    from lazymedia.processing.info import ProcessingInfo

log = logging.getLogger("lazymedia.pipeline")

_HOOKS: Final = ("apply", "_cached_apply_hf_processor", "_apply_hf_processor")
"""Methods that, overridden, take a request out of the two phases."""


@dataclass(frozen=True, slots=True)
class ProcessorStatistics:
    """A processor at one moment.

    Attributes:
        open_requests: Requests under way.
        running_decodes: Decodes that occupy a slot now.
        waiting_decodes: Decodes that wait for a slot.
        decode_slots: Decodes that may run at once.
        decoded: Decodes that have succeeded since the processor was entered.
        phase_running: Whether a phase or the warm-up runs now.
        waiting_phases: Phases that wait for it to end.
        warm_up: ``"none"``, ``"running"``, ``"done"``, or the failure of the last warm-up as text.
        cache: The cache, where there is one.
    """

    open_requests: int
    running_decodes: int
    waiting_decodes: int
    decode_slots: int
    decoded: int
    phase_running: bool
    waiting_phases: int
    warm_up: str
    cache: CacheStats | None


class MultiModalProcessor(anyio.AsyncContextManagerMixin):
    """Turns requests into what a model is fed, decoding and processing only what its cache does not hold.

    Args:
        info: What the model's processor can do; from `processing_info`.
        cache: The processed-output cache; None processes every item of every request.
        limits: See `Limits`.
        decode_workers: Decodes that run at once; by default one for each core that this process may use.
        warm_up: ``"background"`` processes a dummy request first, before any request can; ``"off"`` leaves that to
            `warm_up`.
        hash_algorithm: What identifies items in the cache; see `MultiModalHasher`.
        on_commit: Called with each finished request in the order in which the cache changed, in the worker thread of
            the phase that finished it, also when that request was cancelled. Must neither block nor wait for a loop.
    """

    def __init__(
        self,
        info: ProcessingInfo,
        *,
        cache: ProcessorCache[Any] | None = None,
        limits: Limits | None = None,
        decode_workers: int | None = None,
        warm_up: Literal["background", "off"] = "off",
        hash_algorithm: Algorithm = "sha256",
        on_commit: Callable[[MultiModalInputs], None] | None = None,
    ) -> None:
        if decode_workers is not None and decode_workers < 1:
            raise ValueError("decode_workers must be at least 1")
        self.info = info
        self.cache = cache
        self.limits = DEFAULT_LIMITS if limits is None else limits
        self.hash_algorithm: Algorithm = hash_algorithm
        self._on_commit = on_commit
        self._decode_workers = decode_workers or _usable_cores()
        self._warm_up_on_entering = warm_up == "background"
        self._logged_overridden = False
        self._entered = False
        self._open: set[MultiModalApplyState] = set()
        self.forks: WeakSet[MediaRef[Any]] = WeakSet()

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self, None]:
        if self._entered:
            raise RuntimeError("a MultiModalProcessor is entered once")
        threads = CapacityLimiter(1)
        self._phases = Phases()
        self._slots = DecodeSlots(self._decode_workers)
        self._quiet = anyio.Event()
        # Reads the tokenizer's whole vocabulary the first time.
        model_id = await run_in_thread(lambda: self.info.fingerprint, threads)
        self._shared = Shared(
            self.info,
            model_id,
            self.hash_algorithm,
            self.limits,
            self._phases,
            self._slots,
            self._on_commit,
            Planner(self.info),
        )
        try:
            async with open_nursery() as nursery:
                self._nursery: TaskGroup = nursery
                self._blocking = BlockingCalls(nursery, "processor")
                self._warm_up = WarmUp(self.info.warm_up, nursery, self._phases, threads)
                self._entered = True
                try:
                    if self._warm_up_on_entering:
                        self._warm_up.start()
                    yield self
                finally:
                    self._close()
        finally:
            self._blocking.gone = True

    def _close(self) -> None:
        """Refuse new requests and end the open ones; the nursery then waits, in a child that no outsider can cancel."""
        self._phases.closed = True
        for state in list(self._open):
            state.evict()
        if self._open:
            Child(self._nursery, self._wait_until_quiet, name="shutdown")

    async def _wait_until_quiet(self) -> None:
        with anyio.CancelScope(shield=True):
            await self._quiet.wait()

    # --- requests -----------------------------------------------------------------------------------------------------

    def make_inputs(
        self,
        prompt: str,
        mm_data: Mapping[str, object] | None,
        *,
        mm_uuids: Mapping[str, Sequence[str | None] | None] | None = None,
        media_io_kwargs: Mapping[str, Mapping[str, object]] | None = None,
        mm_processor_kwargs: Mapping[str, object] | None = None,
        skip_mm_cache: bool = False,
        cache_scope: str | None = None,
    ) -> ProcessorInputs:
        """A request for this processor. Parses; fetches, hashes and decodes nothing.

        Args:
            prompt: Text with one placeholder for each item.
            mm_data: Modality to one item or a list: references, PIL images, arrays, or None for an item that is named
                by its UUID alone.
            mm_uuids: For each modality, one UUID or None per item.
            media_io_kwargs: Options of the decoders that made the references, by modality.
            mm_processor_kwargs: Options of the Hugging Face processor, flat or under ``images_kwargs`` and the like.
            skip_mm_cache: Process every item, and keep nothing.
            cache_scope: Whose UUIDs these are, such as a tenant's name.

        Raises:
            BadRequestError: A modality that the model does not take, or options that are no mappings. The client's
                fault.
            UnprocessableMediaError: More items than a request may have, or an option that cannot be chosen.
            TypeError: An item of a type that is not known. The caller's fault.
        """
        options = self.info.validate_options(media_io_kwargs, mm_processor_kwargs)
        return self.inputs_with(
            options, prompt, mm_data, mm_uuids, skip_mm_cache=skip_mm_cache, cache_scope=cache_scope
        )

    def inputs_with(
        self,
        options: ValidOptions,
        prompt: str,
        mm_data: Mapping[str, object] | None,
        mm_uuids: Mapping[str, Sequence[str | None] | None] | None,
        *,
        skip_mm_cache: bool,
        cache_scope: str | None,
    ) -> ProcessorInputs:
        """`make_inputs` with options that are validated already."""
        items = self.info.get_data_parser(options).parse_mm_data(mm_data)
        self.info.check_modalities(items)
        count = sum(items.get_all_counts().values())
        if count > self.limits.max_items_per_request:
            raise UnprocessableMediaError(
                f"{count} items are more than the {self.limits.max_items_per_request} that a request may have"
            )
        return ProcessorInputs(
            prompt=prompt,
            mm_data_items=items,
            mm_uuid_items=mm_uuids,
            hf_processor_mm_kwargs=options.mm_processor_kwargs,
            media_io_kwargs=options.media_io_kwargs,
            cache=None if skip_mm_cache else self.cache,
            cache_scope=cache_scope,
            options=options,
        )

    @asynccontextmanager
    async def open_apply(self, inputs: ProcessorInputs) -> AsyncIterator[MultiModalApplyState]:
        """One request, step by step: `MultiModalApplyState.phase1`, ``wait_decodes``, ``phase2``.

        Where a method that does both phases at once is overridden, ``phase1`` raises RuntimeError: call `apply`.

        However the block is left, no decode begins afterwards, those that run are waited for, and only then are the
        payloads released. The caller's references are not touched: processing works on forks.

        Raises:
            OverloadedError: The processor is shutting down, before or during the request.
            ReleasedError: A reference was released before it was decoded. The caller's fault.
            ValueError: The inputs were made for another processor's cache. The caller's fault.
            RuntimeError: The processor is not entered, or was in another loop, thread or process. The caller's fault.
        """
        async with self._opened(inputs, bypassed=self._overridden()) as state:
            yield state

    @asynccontextmanager
    async def _opened(
        self, inputs: ProcessorInputs, bypassed: Sequence[str] = ()
    ) -> AsyncIterator[MultiModalApplyState]:
        self._check_limits(inputs)
        forked = inputs.fork()
        del inputs  # a cancellation may keep this frame, see frees_when_cancelled
        self._remember(forked)
        state: MultiModalApplyState | None = None
        try:
            async with open_nursery() as nursery:
                state = MultiModalApplyState(self._shared, nursery, forked, bypassed=bypassed)
                self._open.add(state)
                try:
                    yield state
                finally:
                    state.cancel_queue()
        finally:  # after the drain; nothing awaits here, so that no cancellation comes between
            forked.mm_data_items.release()
            if state is not None:
                self._open.discard(state)
            del forked, state
            if self._phases.closed and not self._open:
                self._quiet.set()
        if nursery.cancel_scope.cancelled_caught:
            raise shutting_down("processor")

    @frees_when_cancelled
    async def apply(self, inputs: ProcessorInputs) -> MultiModalInputs:
        """One request from beginning to end. See `open_apply` and the steps for what it raises."""
        overridden = self._overridden()
        if overridden and not self._logged_overridden:
            self._logged_overridden = True
            log.debug("%s overrides %s, so its requests run in one phase", type(self).__name__, ", ".join(overridden))
        async with self._opened(inputs) as state:
            if set(overridden) - {"apply"}:
                return await self._apply_whole(state)
            # An override of this method alone replaces neither caching nor processing, so only misses are decoded.
            await state.phase1()
            await state.wait_decodes()
            return await state.phase2()
        raise AssertionError("unreachable")  # pragma: no cover  # a block that swallows nothing has returned or raised

    @frees_when_cancelled
    async def plan(self, inputs: ProcessorInputs) -> RequestPlan:
        """One request laid out from what the cache holds and from the headers of the rest. Decodes nothing, keeps
        nothing, and leaves the order of the cache as it is.

        What is equal to `apply` and what is not planned is in docs/planning.md. The first plan of a modality processes
        a few items of noise, to verify that the model's processor can be planned for.

        Raises:
            NotPlannableError: An item of which only a decode shows what it becomes, with modality and index.
            LazyMediaError: As `apply`, as far as headers show it.
            RuntimeError: A method that does both phases at once is overridden. The integrator's fault.
        """
        async with self._opened(inputs, bypassed=self._overridden()) as state:
            return await state.plan()
        raise AssertionError("unreachable")  # pragma: no cover  # as in `apply`

    def apply_blocking(self, inputs: ProcessorInputs) -> MultiModalInputs:
        """`apply` for a thread that has no event loop, through the loop that owns this processor and its limiters.

        A deadline or a cancellation around the thread, where anyio started it (`anyio.to_thread.run_sync`), cancels the
        request and waits until it has drained. So does Ctrl-C in any thread, without waiting.

        Raises:
            OverloadedError: The processor or its loop is shutting down.
            RuntimeError: Called on the loop's own thread, or from inside a phase or a decode, where it would wait for
                itself; or the processor is not entered, or was entered before this process forked. The caller's fault.
        """
        self._reject_if_never_entered()
        self._phases.raise_if_closed()
        return self._blocking.run(self.apply, inputs)

    # --- one request in one piece -------------------------------------------------------------------------------------

    @property
    def supports_two_phase_apply(self) -> bool:
        """Whether a caller may take a request's phases one by one: no subclass and no instance overrides a method that
        does both at once.
        """
        return not self._overridden()

    def _overridden(self) -> list[str]:
        return [
            name
            for name in _HOOKS
            if name in vars(self) or getattr(type(self), name) is not getattr(MultiModalProcessor, name)
        ]

    async def _apply_whole(self, state: MultiModalApplyState) -> MultiModalInputs:
        state.decode(await state.run_serially(partial(everything_to_decode, state.inputs, self.info, self.limits)))
        await state.wait_decodes()
        return await state.run_serially(partial(self._apply_and_hand_over, state.inputs))

    def _apply_and_hand_over(self, inputs: ProcessorInputs) -> MultiModalInputs:
        """What an override returns is what is handed over, once, under the same token."""
        result = self._cached_apply_hf_processor(inputs)
        commit(inputs.cache, (), None, result, self._on_commit)
        return result

    def _cached_apply_hf_processor(self, inputs: ProcessorInputs) -> MultiModalInputs:
        """Both phases of a request whose references are decoded, in one go. Override to replace caching and processing.

        Runs in a worker thread, alone among all phases.
        """
        if "_apply_hf_processor" in self._overridden():
            return self._apply_hf_processor(inputs)
        return self._finish_decoded(inputs)

    def _apply_hf_processor(self, inputs: ProcessorInputs) -> MultiModalInputs:
        """Process every item of a request whose references are decoded. Override to replace processing.

        Runs in a worker thread, alone among all phases. A request that an override answers is not cached.
        """
        return self._finish_decoded(replace(inputs, cache=None))

    def _finish_decoded(self, inputs: ProcessorInputs) -> MultiModalInputs:
        looked = look(inputs, self.info, self.model_id, self.hash_algorithm, self.limits)
        answer = finish(inputs, looked, self.info, self.model_id, self.hash_algorithm, self.limits)
        assert not isinstance(answer, NeedDecodes)
        return answer

    # --- warm-up ------------------------------------------------------------------------------------------------------

    async def warm_up(self) -> None:
        """Process a dummy request, alone among all phases, so that the first real one does not pay for it. Keeps
        nothing.

        Raises:
            OverloadedError: The processor is shutting down.
            Exception: Whatever the processor raised.
        """
        self.check_open()
        await self._warm_up.wait()

    # --- what there is to know ----------------------------------------------------------------------------------------

    @property
    def model_id(self) -> str:
        """What names this model, and everything about its processor that changes outputs, in every item's identity."""
        self._reject_if_never_entered()
        return self._shared.model_id

    def statistics(self) -> ProcessorStatistics:
        """The processor at this moment; for the loop that owns it."""
        self._reject_if_never_entered()
        return ProcessorStatistics(
            open_requests=len(self._open),
            running_decodes=int(self._slots.limiter.borrowed_tokens),
            waiting_decodes=self._slots.operations - int(self._slots.limiter.borrowed_tokens),
            decode_slots=int(self._slots.limiter.total_tokens),
            decoded=self._slots.decoded,
            phase_running=self._phases.limiter.borrowed_tokens > 0,
            waiting_phases=self._phases.limiter.statistics().tasks_waiting,
            warm_up=self._warm_up.state,
            cache=None if self.cache is None else self.cache.stats(),
        )

    def _check_limits(self, inputs: ProcessorInputs) -> None:
        self.check_open()
        if inputs.cache is not None and inputs.cache is not self.cache:
            raise ValueError(
                "these inputs use another processor's cache; make them with this processor's make_inputs()"
            )

    def _remember(self, forked: ProcessorInputs) -> None:
        for modality, index in places_of(forked):
            raw = forked.mm_data_items[modality].get_raw(index)
            if isinstance(raw, MediaRef):
                self.forks.add(raw)

    def _reject_if_never_entered(self) -> None:
        if not self._entered:
            raise RuntimeError("enter the processor first: async with MultiModalProcessor(...) as processor")

    def check_open(self) -> None:
        """Does nothing while requests are taken.

        Raises:
            OverloadedError: The processor is shutting down, or has.
            RuntimeError: It was never entered, or was in another loop, thread or process. The caller's fault.
        """
        self._reject_if_never_entered()
        self._phases.raise_if_closed()
        self._phases.home.check("processor")


def _usable_cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # only Linux knows which cores a process may use
        return os.cpu_count() or 1


__all__ = ["MultiModalProcessor", "ProcessorStatistics"]
