"""What a cancelled request leaves to others: their references, their turn, and word of what it had committed."""

from __future__ import annotations

import threading
from typing import Any

import anyio
import pytest
from PIL import Image

from lazymedia.cache import ProcessorCache
from lazymedia.processing import MultiModalInputs
from lazymedia.testing.decoders import GatedMediaIO
from lazymedia.testing.quiet import assert_quiet
from tests.pipeline.cancelling import running, some_ticks, ways
from tests.pipeline.support import (
    WAIT,
    Cache,
    Gate,
    WatchedInfo,
    caching,
    hf_processor,
    open_gated,
    opened,
    picture,
    reached,
    refs,
    request,
)

pytestmark = pytest.mark.every_loop


async def test_queued_decodes_of_a_cancelled_request_never_start(anyio_backend: tuple[str, object]) -> None:
    for native in ways(anyio_backend):
        io: GatedMediaIO[Any] = GatedMediaIO(picture(1))
        async with opened(decode_workers=1) as processor:

            async def apply(processor: Any = processor, io: Any = io) -> Any:
                return await processor.apply(request(processor, refs(io, 20)))

            async with running(apply, native) as request_:
                await reached(io.started)
                request_.cancel()
                await some_ticks()
                io.release()

            assert io.calls == 1
            assert_quiet(processor)


@pytest.mark.parametrize("how", ["success", "failure"])
async def test_leaving_early_decodes_nothing_that_has_not_begun(how: str) -> None:
    io: GatedMediaIO[Any] = GatedMediaIO(picture(1))
    async with opened(decode_workers=1) as processor:
        try:
            async with processor.open_apply(request(processor, refs(io, 6))) as state:
                await state.phase1()
                await reached(io.started)
                threading.Timer(0, io.release).start()
                if how == "failure":
                    raise LookupError
        except LookupError:
            pass

        assert io.calls <= 2  # the second may have been given its slot in the moment in which the first ended


async def test_a_reference_that_two_requests_share_survives_the_cancellation_of_one() -> None:
    io: GatedMediaIO[Any] = GatedMediaIO(picture(1), stoppable=True)
    async with caching() as processor:
        shared = refs(io, 1)
        results = []

        async def second() -> None:
            results.append(await processor.apply(request(processor, shared)))

        async with anyio.create_task_group() as nursery:
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as inner:
                    inner.start_soon(processor.apply, request(processor, shared))
                    await reached(io.started)
                    nursery.start_soon(second)
                    await anyio.wait_all_tasks_blocked()
                    scope.cancel()
            io.release()

        assert len(results) == 1
        assert io.calls == 2


async def test_four_requests_for_one_reference_take_one_decode_slot() -> None:
    io: GatedMediaIO[Any] = GatedMediaIO(picture(1))
    async with opened(decode_workers=2) as processor:
        shared = refs(io, 1)
        async with anyio.create_task_group() as nursery:
            for _ in range(4):
                nursery.start_soon(processor.apply, request(processor, shared))
            await reached(io.started)
            thumbnail = await processor.apply(request(processor, refs(open_gated(), 1)))

            assert thumbnail.cached == {"image": [False]}
            assert processor.statistics().running_decodes == 1
            io.release()

        assert io.calls == 1


@pytest.mark.parametrize("requests", [1, 4])
async def test_mapped_references_of_one_parent_take_one_decode_slot(requests: int) -> None:
    """Also a reference that was mapped twice, and the parent itself: all wait for one decode."""
    io: GatedMediaIO[Any] = GatedMediaIO(picture(1))
    async with opened(decode_workers=2) as processor:
        parent = refs(io, 1)[0]
        mapped = [parent.map(Image.Image.copy, number=number) for number in range(3)]
        family = [*mapped, mapped[0].map(Image.Image.copy, copied=True), parent]
        async with anyio.create_task_group() as nursery:
            if requests == 1:
                nursery.start_soon(processor.apply, request(processor, family))
            else:
                for ref in family:
                    nursery.start_soon(processor.apply, request(processor, [ref]))
            await reached(io.started)
            while processor.statistics().waiting_phases or processor.statistics().phase_running:
                await some_ticks(1)
            await some_ticks()

            assert processor.statistics().running_decodes == 1
            thumbnail = await processor.apply(request(processor, refs(open_gated(), 1)))
            assert thumbnail.cached == {"image": [False]}
            io.release()

        assert io.calls == 1


async def test_mapped_references_of_a_decoded_parent_run_at_once() -> None:
    parent = open_gated().load_bytes_ref(b"payload")
    parent.decode()
    gate = threading.Barrier(2, timeout=WAIT)

    def meet(image: Any) -> Any:
        gate.wait()
        return image

    async with opened(decode_workers=2) as processor:
        await processor.apply(request(processor, [parent.map(meet, number=number) for number in range(2)]))


async def test_a_cancelled_request_holds_the_others_up_no_longer_than_one_item_takes(
    anyio_backend: tuple[str, object],
) -> None:
    for native in ways(anyio_backend):
        info = WatchedInfo(hf_processor(), return_tensors="np")
        info.gate.arm()
        async with opened(info=info) as processor:

            async def apply(processor: Any = processor) -> Any:
                return await processor.apply(request(processor, [picture(number) for number in range(20)]))

            async with running(apply, native) as request_:
                await reached(info.gate.reached)
                request_.cancel()
                await some_ticks()
                info.gate.open()

            assert request_.was_cancelled
            assert info.processed == 1


async def test_what_was_committed_is_handed_over_although_its_request_was_cancelled(
    anyio_backend: tuple[str, object],
) -> None:
    """Both sides then agree on the order of use: what is held here was told there."""
    for native in ways(anyio_backend):
        gate = Gate()
        outbox: list[MultiModalInputs] = []

        def receive(result: MultiModalInputs, gate: Gate = gate, outbox: Any = outbox) -> None:
            gate.pass_through()
            outbox.append(result)

        cache: Cache = ProcessorCache(1 << 30)
        async with opened(cache=cache, on_commit=receive) as processor:
            await processor.apply(request(processor, [picture(1), picture(2)]))
            gate.arm()

            async def apply(processor: Any = processor) -> Any:
                return await processor.apply(request(processor, [picture(3), picture(1)]))

            async with running(apply, native) as request_:
                await reached(gate.reached)
                for _ in range(3):
                    request_.cancel()
                    await some_ticks()
                gate.open()
            await processor.apply(request(processor, [picture(4)]))

            assert request_.was_cancelled or isinstance(request_.outcome, MultiModalInputs)
            mirror: dict[str, None] = {}
            for handed in outbox:
                hashes = handed.mm_hashes["image"]
                for mm_hash in [known for known in hashes if known in mirror] + hashes:
                    if mm_hash in mirror and mm_hash in hashes:
                        mirror.pop(mm_hash)
                    mirror[mm_hash] = None
            assert len(outbox) == 3
            assert set(mirror) == set(cache._entries)


async def test_releasing_and_forking_the_users_reference_on_the_loop_never_waits_for_a_request() -> None:
    io: GatedMediaIO[Any] = GatedMediaIO(picture(1))
    async with opened() as processor:
        mine = refs(io, 1)
        async with anyio.create_task_group() as nursery:
            nursery.start_soon(processor.apply, request(processor, mine))
            await reached(io.started)
            fork = mine[0].fork()
            mine[0].release()

            assert io.running == 1
            io.release()

        assert fork.decode().size == picture(1).size
