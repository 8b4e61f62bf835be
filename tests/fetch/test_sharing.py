"""Connections divided between requests: no number of silent transfers keeps another request from its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import anyio
import pytest
from anyio.lowlevel import checkpoint

from lazymedia.chat.fetching import fetch_parts
from lazymedia.chat.messages import MediaPart
from lazymedia.errors import LazyMediaError, OverloadedError
from lazymedia.fetch import MediaConnector, one_request
from lazymedia.fetch.policy.url import HttpUrl
from lazymedia.fetch.transport.connection_limits import ConnectionLimits, SlotRevokedError
from lazymedia.fetch.transport.sharing import current_sharers, on_behalf_of
from lazymedia.limits import Limits
from lazymedia.media.raw import RawBytesMediaIO
from lazymedia.testing.server import MediaServer, Request, Response

LOOPBACK = ("127.0.0.0/8",)
IMAGE = RawBytesMediaIO("image")
SOON = 20.0


def at(host: str) -> HttpUrl:
    return HttpUrl("http", host, 80, "/")


def silent() -> int:
    return 0


class Transfers:
    """Tasks that take a place each and keep it until the gate opens or it is taken back."""

    def __init__(self, slots: ConnectionLimits) -> None:
        self.connection_limits = slots
        self.order: list[str] = []
        self.revoked: list[str] = []
        self.rejected: list[str] = []
        self.gate = anyio.Event()

    async def hold(self, name: str, host: str = "a", received: Callable[[], int] = silent, grace: float = 1000) -> None:
        try:
            async with self.connection_limits.hold(at(host), received=received, grace=grace):
                self.order.append(name)
                await self.gate.wait()
        except SlotRevokedError:
            self.revoked.append(name)
        except OverloadedError:
            self.rejected.append(name)


async def test_a_free_place_goes_to_the_request_that_holds_the_fewest() -> None:
    slots = ConnectionLimits(Limits(max_connections=3))
    first, other = Transfers(slots), Transfers(slots)
    async with anyio.create_task_group() as nursery:
        nursery.start_soon(other.hold, "another's")
        await anyio.wait_all_tasks_blocked()
        with one_request():
            for number in range(6):
                nursery.start_soon(first.hold, f"a{number}")
                await anyio.wait_all_tasks_blocked()
        with one_request():
            for number in range(3):
                nursery.start_soon(other.hold, f"b{number}")
                await anyio.wait_all_tasks_blocked()
        assert (first.order, other.order) == (["a0", "a1"], ["another's"])
        other.gate.set()  # now each place of the others is free again as soon as it is given
        await anyio.wait_all_tasks_blocked()
        assert other.order == ["another's", "b0", "b1", "b2"], "before the four that had waited longer"
        assert first.order == ["a0", "a1", "a2"]
        first.gate.set()
    assert len(first.order) == 6
    assert (slots.in_use, slots.known_hosts) == (0, 0)


@pytest.mark.parametrize("limit", ["max_connections", "max_connections_per_host"])
async def test_a_silent_transfer_gives_its_place_to_a_request_that_has_none(limit: str) -> None:
    slots = ConnectionLimits(Limits(**{limit: 4}))  # type: ignore[arg-type]  # of a table
    attack, honest = Transfers(slots), Transfers(slots)
    async with anyio.create_task_group() as nursery:
        with one_request():
            for number in range(8):
                nursery.start_soon(attack.hold, f"a{number}", "a", silent, 0)
                await anyio.wait_all_tasks_blocked()
        assert attack.order == ["a0", "a1", "a2", "a3"]
        with anyio.fail_after(SOON):
            nursery.start_soon(honest.hold, "b")
            while not honest.order:
                await checkpoint()
        assert len(attack.revoked) == 1
        assert slots.in_use == 4
        attack.gate.set()
        honest.gate.set()
    assert (slots.in_use, slots.known_hosts) == (0, 0)


async def test_many_requests_of_one_transfer_each_are_no_way_around_it() -> None:
    slots = ConnectionLimits(Limits(max_connections=4))
    attack, honest = Transfers(slots), Transfers(slots)
    async with anyio.create_task_group() as nursery:
        for number in range(4):
            nursery.start_soon(attack.hold, f"a{number}", "a", silent, 0)
        await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(SOON):
            nursery.start_soon(honest.hold, "b")
            while not honest.order:
                await checkpoint()
        assert len(attack.revoked) == 1
        attack.gate.set()
        honest.gate.set()


@pytest.mark.parametrize(
    ("rate", "grace", "kept"),
    [
        (10**9, 0.0, True),  # it makes progress
        (0, 1000.0, True),  # it has just begun
        (0, 0.0, False),
    ],
)
async def test_a_place_is_taken_back_only_from_a_transfer_without_progress(rate: int, grace: float, kept: bool) -> None:
    slots = ConnectionLimits(Limits(max_connections=1))
    one, other = Transfers(slots), Transfers(slots)
    start = anyio.current_time()
    async with anyio.create_task_group() as nursery:
        nursery.start_soon(one.hold, "a", "a", lambda: int(rate * (1 + anyio.current_time() - start)), grace)
        await anyio.wait_all_tasks_blocked()
        nursery.start_soon(other.hold, "b")
        with anyio.move_on_after(SOON if not kept else 0.05):
            while not other.order:
                await checkpoint()
        assert (one.revoked == []) is kept
        one.gate.set()
        other.gate.set()


async def test_a_request_with_a_fair_share_takes_nothing_back() -> None:
    """Equal requests would take places from each other without end."""
    slots = ConnectionLimits(Limits(max_connections=4))
    transfers = Transfers(slots)
    async with anyio.create_task_group() as nursery:
        for letter in "ab":
            with one_request():
                for number in range(2):
                    nursery.start_soon(transfers.hold, f"{letter}{number}", "a", silent, 0)
        await anyio.wait_all_tasks_blocked()
        assert len(transfers.order) == 4
        waiting = Transfers(slots)
        with on_behalf_of(next(iter(slots._held)).sharers):
            nursery.start_soon(waiting.hold, "more")
        with anyio.move_on_after(0.05):
            await anyio.sleep_forever()
        assert transfers.revoked == []
        transfers.gate.set()
        waiting.gate.set()


async def test_a_place_that_many_requests_wait_for_belongs_to_all_of_them() -> None:
    """A download joined by a request that has nothing else is that request's, whoever began it."""
    limits = Limits(max_connections=1)
    gate = anyio.Event()

    async def hold(request: Request) -> Response:
        await gate.wait()
        return Response(body=b"payload")

    async with (
        MediaServer({"/first": hold, "/a": b"a", "/shared": b"shared"}) as server,
        MediaConnector(allowed_networks=LOOPBACK, limits=limits) as media,
        anyio.create_task_group() as nursery,
    ):
        with one_request():
            nursery.start_soon(media.fetch_image, server.url("/first"), IMAGE)
            while not server.hits["/first"]:
                await checkpoint()
            nursery.start_soon(media.fetch_image, server.url("/a"), IMAGE)
            await anyio.wait_all_tasks_blocked()
            nursery.start_soon(media.fetch_image, server.url("/shared"), IMAGE)
            await anyio.wait_all_tasks_blocked()
        nursery.start_soon(media.fetch_image, server.url("/shared"), IMAGE)
        await anyio.wait_all_tasks_blocked()
        gate.set()
    assert [request.path for request in server.requests] == ["/first", "/shared", "/a"]


async def test_where_too_many_wait_the_request_with_the_most_of_them_is_refused() -> None:
    slots = ConnectionLimits(Limits(max_connections=1, max_waiting_fetches=3))
    attack, honest = Transfers(slots), Transfers(slots)
    async with anyio.create_task_group() as nursery:
        with one_request():
            for number in range(5):
                nursery.start_soon(attack.hold, f"a{number}")
                await anyio.wait_all_tasks_blocked()
        assert (attack.order, attack.rejected) == (["a0"], ["a4"])
        with one_request():
            nursery.start_soon(honest.hold, "b0")
            await anyio.wait_all_tasks_blocked()
            assert (attack.rejected, honest.rejected) == (["a4", "a3"], [])
            nursery.start_soon(honest.hold, "b1")
            await anyio.wait_all_tasks_blocked()
            assert (len(attack.rejected), honest.rejected) == (2, ["b1"]), "it has as many as the other, and no more"
        attack.gate.set()
        honest.gate.set()
    assert (slots.in_use, slots.known_hosts) == (0, 0)


async def test_what_is_cancelled_while_it_waits_leaves_no_trace() -> None:
    slots = ConnectionLimits(Limits(max_connections=1))
    transfers = Transfers(slots)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(slots.hold(at("a"), grace=1000))
        for _ in range(3):
            with anyio.move_on_after(0.01):
                await transfers.hold("late")
        assert (slots.in_use, slots.known_hosts) == (1, 1)
    assert (transfers.order, slots.in_use, slots.known_hosts) == ([], 0, 0)


async def test_a_block_inside_another_belongs_to_the_outer_one() -> None:
    seen = []
    with one_request():
        seen.append(current_sharers().requests)
        with one_request():
            seen.append(current_sharers().requests)
        seen.append(current_sharers().requests)
    assert seen[0] == seen[1] == seen[2]
    assert current_sharers().requests != current_sharers().requests, "outside, each fetch is a request of its own"


async def silence(request: Request) -> Response:
    await anyio.sleep_forever()
    raise AssertionError


@pytest.mark.parametrize("grouped", [True, False], ids=["chat requests", "single fetches"])
async def test_silent_servers_keep_no_other_request_waiting(grouped: bool) -> None:
    """Requests of many URLs at five silent servers take all connections and wait for more; then comes one that is well.
    It waits for some seconds at most, and not until the others fail.
    """
    limits = Limits(max_connections=16, max_connections_per_host=4, image_timeout=600)

    async def chat(media: MediaConnector, parts: list[MediaPart]) -> None:
        await fetch_parts(media, parts, lambda _: IMAGE, 8 * limits.max_image_bytes)

    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(MediaServer({"/a": silence})) for _ in range(5)]
        healthy = await stack.enter_async_context(MediaServer({"/b": b"payload"}))
        media = await stack.enter_async_context(MediaConnector(allowed_networks=LOOPBACK, limits=limits))
        nursery = await stack.enter_async_context(anyio.create_task_group())
        for request in range(12):
            urls = [servers[number % 5].url(f"/a?{request}-{number}") for number in range(8)]
            if grouped:
                nursery.start_soon(chat, media, [MediaPart("image", url=url) for url in urls])
            else:
                for url in urls:
                    nursery.start_soon(media.fetch_image, url, IMAGE)
        with anyio.fail_after(SOON):
            while sum(server.hits["/a"] for server in servers) < 16:
                await checkpoint()
            assert media._owned.downloader.connection_limits.in_use == 16
            for number in range(2):
                assert (await media.fetch_image(healthy.url(f"/b?{number}"), IMAGE)).data == b"payload"
        nursery.cancel_scope.cancel()


async def test_a_download_whose_place_was_taken_back_goes_on_afterwards() -> None:
    """It is no failure of its server's, and costs none of its further tries. What has come is not asked for again."""
    limits = Limits(max_connections=1, max_retries=0)
    asked: list[str | None] = []
    gate = anyio.Event()

    async def slow(request: Request) -> Response:
        asked.append(request.headers.get("range"))
        if len(asked) > 1:
            return Response(206, {"ETag": '"v1"', "Content-Range": "bytes 3-6/7"}, b"load")

        async def body() -> AsyncIterator[bytes]:
            yield b"pay"
            await gate.wait()

        return Response(200, {"ETag": '"v1"', "Content-Length": "7"}, body())

    outcomes: list[bytes | LazyMediaError] = []

    async def fetch(media: MediaConnector, url: str) -> None:
        outcomes.append((await media.fetch_image(url, IMAGE)).data)

    async with (
        MediaServer({"/slow": slow, "/b": b"another's"}) as server,
        MediaConnector(allowed_networks=LOOPBACK, limits=limits) as media,
    ):
        with anyio.fail_after(SOON):
            async with anyio.create_task_group() as nursery:
                nursery.start_soon(fetch, media, server.url("/slow"))
                while not server.hits["/slow"]:
                    await checkpoint()
                nursery.start_soon(fetch, media, server.url("/b"))
        gate.set()
    assert outcomes == [b"another's", b"payload"]
    assert asked == [None, "bytes=3-"]
