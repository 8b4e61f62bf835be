"""How much may be under way at once: per host, in all, waiting, and in bytes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import anyio
import pytest
from anyio.lowlevel import checkpoint

from lazymedia.chat.fetching import fetch_parts
from lazymedia.chat.messages import MediaPart
from lazymedia.errors import FetchTimeoutError, OverloadedError, PayloadTooLargeError
from lazymedia.fetch import MediaConnector
from lazymedia.fetch.policy.url import HttpUrl
from lazymedia.fetch.transport.connection_limits import ConnectionLimits
from lazymedia.limits import Limits
from lazymedia.media.raw import RawBytesMediaIO
from lazymedia.testing.server import MediaServer, Request, Response

LOOPBACK = ("127.0.0.0/8",)
IMAGE = RawBytesMediaIO("image")


def at(host: str, scheme: str = "http") -> HttpUrl:
    return HttpUrl(scheme, host, 80, "/")


class Holder:
    """Tasks that take a place each and keep it until told."""

    def __init__(self, slots: ConnectionLimits) -> None:
        self._connection_limits = slots
        self.order: list[str] = []
        self.gate = anyio.Event()

    async def hold(self, url: HttpUrl, name: str) -> None:
        async with self._connection_limits.hold(url):
            self.order.append(name)
            await self.gate.wait()


async def test_a_host_has_so_many_places_and_others_have_theirs() -> None:
    slots = ConnectionLimits(Limits(max_connections_per_host=2))
    holder = Holder(slots)
    async with anyio.create_task_group() as nursery:
        for name in ("a1", "a2", "a3"):
            nursery.start_soon(holder.hold, at("a"), name)
        await anyio.wait_all_tasks_blocked()
        assert len(holder.order) == 2
        nursery.start_soon(holder.hold, at("b"), "b1")
        nursery.start_soon(holder.hold, at("a", "https"), "s1")
        await anyio.wait_all_tasks_blocked()
        assert len(holder.order) == 4
        assert (slots.in_use, slots.known_hosts) == (4, 3)
        holder.gate.set()
    assert len(holder.order) == 5
    assert (slots.in_use, slots.known_hosts) == (0, 0)


async def test_places_are_given_in_the_order_of_asking() -> None:
    slots = ConnectionLimits(Limits(max_connections_per_host=1))
    order: list[int] = []

    async def take(number: int) -> None:
        async with slots.hold(at("a")):
            order.append(number)
            await checkpoint()

    async with anyio.create_task_group() as nursery:
        async with slots.hold(at("a")):
            for number in range(10):
                nursery.start_soon(take, number)
                await anyio.wait_all_tasks_blocked()
    assert order == list(range(10))


async def test_who_waits_for_a_slow_host_takes_no_place_of_all() -> None:
    slots = ConnectionLimits(Limits(max_connections=2, max_connections_per_host=1))
    holder = Holder(slots)
    async with anyio.create_task_group() as nursery:
        for name in ("a1", "a2", "a3"):
            nursery.start_soon(holder.hold, at("a"), name)
        await anyio.wait_all_tasks_blocked()
        nursery.start_soon(holder.hold, at("b"), "b1")
        await anyio.wait_all_tasks_blocked()
        assert "b1" in holder.order
        nursery.start_soon(holder.hold, at("c"), "c1")
        await anyio.wait_all_tasks_blocked()
        assert "c1" not in holder.order, "both of all are taken"
        holder.gate.set()
    assert len(holder.order) == 5


async def test_who_would_wait_behind_too_many_is_told_to_come_later() -> None:
    slots = ConnectionLimits(Limits(max_connections_per_host=1, max_waiting_fetches=1))
    holder = Holder(slots)
    async with anyio.create_task_group() as nursery:
        nursery.start_soon(holder.hold, at("a"), "1")
        nursery.start_soon(holder.hold, at("a"), "2")
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(OverloadedError) as rejected:
            await holder.hold(at("a"), "3")
        assert rejected.value.retry_after == 1.0
        async with slots.hold(at("b")):
            pass  # a place that is free needs no waiting
        holder.gate.set()
    async with slots.hold(at("a")):
        pass


async def test_a_wait_that_is_cancelled_leaves_no_trace() -> None:
    slots = ConnectionLimits(Limits(max_connections_per_host=1, max_waiting_fetches=1))
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(slots.hold(at("a")))
        for _ in range(3):
            with anyio.move_on_after(0):
                async with slots.hold(at("a")):
                    raise AssertionError
        assert slots.known_hosts == 1
    assert (slots.in_use, slots.known_hosts) == (0, 0)


async def silence(request: Request) -> Response:
    await anyio.sleep_forever()
    raise AssertionError


async def test_waiting_for_a_place_counts_towards_the_deadline() -> None:
    limits = Limits(max_connections_per_host=1)
    async with (
        MediaServer({"/a": silence, "/b": b"payload"}) as server,
        MediaConnector(allowed_networks=LOOPBACK, limits=limits) as media,
        anyio.create_task_group() as nursery,
    ):
        nursery.start_soon(media.fetch_image, server.url("/a"), IMAGE)
        while not server.hits["/a"]:
            await checkpoint()
        with pytest.raises(FetchTimeoutError):
            await media.load_from_url(server.url("/b"), IMAGE, fetch_timeout=0.02)
        assert server.hits["/b"] == 0
        nursery.cancel_scope.cancel()


async def test_a_slow_host_keeps_no_other_from_being_served() -> None:
    """A server on every port is another host. Thirty fetches hang at one, and a hundred go through at the other."""
    limits = Limits(max_connections=20, max_connections_per_host=10)
    async with (
        MediaServer({"/a": silence}) as slow,
        MediaServer({"/b": b"payload"}) as quick,
        MediaConnector(allowed_networks=LOOPBACK, limits=limits) as media,
        anyio.create_task_group() as hanging,
    ):
        for number in range(30):
            hanging.start_soon(media.fetch_image, slow.url(f"/a?{number}"), IMAGE)
        while slow.hits["/a"] < 10:
            await checkpoint()
        with anyio.fail_after(30):
            async with anyio.create_task_group() as nursery:
                for number in range(100):
                    nursery.start_soon(media.fetch_image, quick.url(f"/b?{number}"), IMAGE)
        assert slow.hits["/a"] >= 10  # more where a place is taken back for the next
        assert quick.hits["/b"] == 100
        hanging.cancel_scope.cancel()


async def test_all_downloads_together_hold_so_many_bytes() -> None:
    """The one that would go over is rejected and gives back what it held; the other has its room."""
    sent, gate = anyio.Event(), anyio.Event()

    async def half(request: Request) -> Response:
        async def body() -> AsyncIterator[bytes]:
            yield bytes(60)
            await anyio.wait_all_tasks_blocked()
            sent.set()
            await gate.wait()
            yield bytes(30)

        return Response(headers={"Content-Length": "90"}, body=body())

    limits = Limits(max_downloading_bytes=100)
    async with (
        MediaServer({"/a": half, "/declared": bytes(50), "/fits": bytes(40)}) as server,
        MediaConnector(allowed_networks=LOOPBACK, limits=limits) as media,
    ):
        async with anyio.create_task_group() as nursery:
            nursery.start_soon(media.fetch_image, server.url("/a"), IMAGE)
            await sent.wait()
            assert media._owned.budget.held == 60
            with pytest.raises(OverloadedError) as rejected:
                await media.fetch_image(server.url("/declared"), IMAGE)
            assert rejected.value.retry_after == 1.0
            assert media._owned.budget.held == 60
            await media.fetch_image(server.url("/fits"), IMAGE)
            gate.set()
        assert media._owned.budget.held == 0
        await media.fetch_image(server.url("/declared"), IMAGE)


async def test_an_item_that_could_never_fit_is_too_large_and_not_told_to_come_again() -> None:
    async with (
        MediaServer({"/a": bytes(101)}) as server,
        MediaConnector(allowed_networks=LOOPBACK, limits=Limits(max_downloading_bytes=100)) as media,
    ):
        with pytest.raises(PayloadTooLargeError):
            await media.fetch_image(server.url("/a"), IMAGE)


@pytest.mark.parametrize(("cap", "fits"), [(40, True), (39, False)])
async def test_the_bytes_of_one_request_are_counted_by_item_also_where_one_download_serves_several(
    cap: int, fits: bool
) -> None:
    """Four items of ten bytes are forty, though ten of them were fetched."""
    decoder = RawBytesMediaIO("image", limits=Limits(max_image_bytes=10))
    async with MediaServer({"/a": bytes(10)}) as server, MediaConnector(allowed_networks=LOOPBACK) as media:
        parts = [MediaPart("image", url=server.url("/a")) for _ in range(4)]
        if fits:
            items = await fetch_parts(media, parts, lambda _: decoder, cap)
            assert len(items["image"]) == 4
        else:
            with pytest.raises(PayloadTooLargeError, match="together"):
                await fetch_parts(media, parts, lambda _: decoder, cap)
