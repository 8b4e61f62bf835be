"""Lookups of names that hang: their threads cannot be stopped, and no other name waits for them."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_address

import anyio
import pytest
from anyio.lowlevel import checkpoint

from lazymedia.chat.fetching import fetch_parts
from lazymedia.chat.messages import MediaPart
from lazymedia.errors import FetchTimeoutError, LazyMediaError, OverloadedError, UpstreamError
from lazymedia.fetch import MediaConnector, one_request
from lazymedia.fetch.policy.address import AddressPolicy
from lazymedia.fetch.transport.resolve import HUNG_FOR, Resolver
from lazymedia.limits import Limits
from lazymedia.media.raw import RawBytesMediaIO
from tests.fetch.dialled import PUBLIC

SOON = 20.0


class GatedNames:
    """Every name that begins with "hang" hangs until the gate is opened, and then fails; any other has an address."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.asked: Counter[str] = Counter()
        self.hanging = 0
        self._lock = threading.Lock()

    def __call__(self, host: str) -> Sequence[str]:
        with self._lock:
            self.asked[host] += 1
            self.hanging += host.startswith("hang")
        if host.startswith("hang"):
            self.gate.wait(60)
            with self._lock:
                self.hanging -= 1
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return [PUBLIC]

    async def hang(self, number: int) -> None:
        with anyio.fail_after(SOON):
            while self.hanging < number:
                await checkpoint()


@asynccontextmanager
async def open_resolver(names: GatedNames, **limits: float) -> AsyncIterator[Resolver]:
    resolver = Resolver(AddressPolicy.of((), (80,)), names, Limits(**limits))  # type: ignore[arg-type]  # of a table
    async with anyio.create_task_group() as nursery:
        resolver.open_in(nursery)
        try:
            yield resolver
        finally:
            nursery.cancel_scope.cancel()
            names.gate.set()


async def fails(resolver: Resolver, host: str, failures: list[LazyMediaError] | None = None) -> None:
    try:
        await resolver.resolve(host, 80)
    except LazyMediaError as error:
        if failures is not None:
            failures.append(error)


async def a_request(resolver: Resolver, hosts: Sequence[str], failures: list[LazyMediaError] | None = None) -> None:
    with one_request():
        async with anyio.create_task_group() as nursery:
            for host in hosts:
                nursery.start_soon(fails, resolver, host, failures)


async def resolves(resolver: Resolver, host: str) -> None:
    with anyio.fail_after(SOON):
        assert await resolver.resolve(host, 80) == [ip_address(PUBLIC)]


async def test_requests_whose_names_hang_leave_threads_for_others() -> None:
    """Two requests of 64 names have no more threads than their shares, and every other name is looked up at once."""
    names = GatedNames()
    async with open_resolver(names, max_lookups_per_request=4) as resolver:
        async with anyio.create_task_group() as nursery:
            for letter in "ab":
                nursery.start_soon(a_request, resolver, [f"hang-{letter}{number}.example" for number in range(64)])
            await names.hang(8)
            for number in range(20):
                await resolves(resolver, f"good{number}.example")
            assert names.hanging == 8
            nursery.cancel_scope.cancel()
        await resolves(resolver, "late.example")
        assert names.hanging == 8, "their threads are counted though nobody waits for them"


async def test_the_last_half_of_the_threads_go_to_requests_that_have_none() -> None:
    names = GatedNames()
    async with open_resolver(names, max_lookups=8, max_lookups_per_request=3) as resolver:
        async with anyio.create_task_group() as nursery:
            for letter, hanging in (("a", 3), ("b", 4), ("c", 5), ("d", 6), ("e", 7)):
                nursery.start_soon(a_request, resolver, [f"hang-{letter}{number}.example" for number in range(64)])
                await names.hang(hanging)
                await resolves(resolver, f"good-{letter}.example")
            assert names.hanging == 7
            nursery.cancel_scope.cancel()


async def test_a_thread_that_is_free_goes_to_the_request_that_holds_the_fewest() -> None:
    names = GatedNames()
    order: list[str] = []

    async def resolve(resolver: Resolver, host: str) -> None:
        await resolver.resolve(host, 80)
        order.append(host)

    async with open_resolver(names, max_lookups=1) as resolver:
        async with anyio.create_task_group() as nursery:
            nursery.start_soon(fails, resolver, "hang.example")
            await names.hang(1)
            with one_request():
                for number in range(3):
                    nursery.start_soon(resolve, resolver, f"a{number}.example")
                    await anyio.wait_all_tasks_blocked()
            nursery.start_soon(resolve, resolver, "b.example")
            await anyio.wait_all_tasks_blocked()
            assert order == []
            names.gate.set()
        assert set(order) == {"a0.example", "a1.example", "a2.example", "b.example"}
        assert names.hanging == 0


async def test_a_name_is_looked_up_by_one_thread_for_all_who_ask() -> None:
    names = GatedNames()
    failures: list[LazyMediaError] = []
    async with open_resolver(names) as resolver:
        async with anyio.create_task_group() as nursery:
            for _ in range(10):
                nursery.start_soon(fails, resolver, "hang.example", failures)
            await names.hang(1)
            await anyio.wait_all_tasks_blocked()
            names.gate.set()
        assert names.asked == {"hang.example": 1}
        assert len({id(failure) for failure in failures}) == 10, "an exception of its own for each"
        assert all(isinstance(failure, UpstreamError) and failure.__cause__ is not None for failure in failures)


async def test_one_who_leaves_takes_no_answer_from_another() -> None:
    names = GatedNames()
    failures: list[LazyMediaError] = []
    async with open_resolver(names) as resolver:
        async with anyio.create_task_group() as nursery:
            with anyio.move_on_after(0.01):
                await resolver.resolve("hang.example", 80)
            nursery.start_soon(fails, resolver, "hang.example", failures)
            await names.hang(1)
            await anyio.wait_all_tasks_blocked()
            names.gate.set()
        assert len(failures) == 1
        assert names.asked == {"hang.example": 1}


async def test_a_name_that_hung_is_not_looked_up_again_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    names = GatedNames()
    later = 0.0
    current_time = anyio.current_time
    monkeypatch.setattr(anyio, "current_time", lambda: current_time() + later)
    async with open_resolver(names, connect_timeout=10) as resolver:
        async with anyio.create_task_group() as nursery:
            nursery.start_soon(fails, resolver, "hang.example")
            await names.hang(1)
            later += 11
            with pytest.raises(UpstreamError, match="hangs"):
                await resolver.resolve("hang.example", 80)
            names.gate.set()
        with pytest.raises(UpstreamError, match="hangs"):
            await resolver.resolve("hang.example", 80)
        await resolves(resolver, "good.example")
        assert names.asked["hang.example"] == 1
        later += HUNG_FOR
        with pytest.raises(UpstreamError, match="cannot be resolved"):
            await resolver.resolve("hang.example", 80)
        assert names.asked["hang.example"] == 2


async def test_a_name_that_fails_at_once_is_looked_up_again() -> None:
    names = GatedNames()
    names.gate.set()
    async with open_resolver(names) as resolver:
        for _ in range(2):
            with pytest.raises(UpstreamError, match="cannot be resolved"):
                await resolver.resolve("hang.example", 80)
    assert names.asked["hang.example"] == 2


async def test_names_that_hung_are_not_remembered_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    names = GatedNames()
    names.gate.set()
    monkeypatch.setattr("lazymedia.fetch.transport.resolve._MAX_HUNG", 3)
    async with open_resolver(names, connect_timeout=0) as resolver:
        resolver._max_wait = SOON
        for number in range(5):
            await fails(resolver, f"hang{number}.example")
        assert set(resolver._hung) <= {"hang2.example", "hang3.example", "hang4.example"}


async def test_where_all_threads_hang_a_lookup_waits_for_half_the_time_to_connect() -> None:
    names = GatedNames()
    async with open_resolver(names, max_lookups=2, connect_timeout=0.2) as resolver:
        async with anyio.create_task_group() as nursery:
            nursery.start_soon(fails, resolver, "hang1.example")
            nursery.start_soon(fails, resolver, "hang2.example")
            await names.hang(2)
            with pytest.raises(OverloadedError) as caught:
                await resolver.resolve("good.example", 80)
            assert caught.value.retry_after == 0.1
            assert "good.example" not in resolver._lookups
            names.gate.set()
        await resolves(resolver, "good.example")


async def test_chat_requests_whose_names_hang_keep_no_other_name_from_being_looked_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same through all that stands between a chat request and a thread. The name found is not dialled."""
    names = GatedNames()
    monkeypatch.setattr(Resolver.__init__, "__defaults__", (names, Limits()))
    image = RawBytesMediaIO("image")
    limits = Limits(connect_timeout=SOON, max_retries=0)

    async def chat(media: MediaConnector, letter: str) -> None:
        parts = [MediaPart("image", url=f"http://hang-{letter}{number}.example/") for number in range(64)]
        with pytest.raises((OverloadedError, FetchTimeoutError, UpstreamError)):
            await fetch_parts(media, parts, lambda _: image, 1 << 40)

    async def reject(*_: object) -> None:
        raise OSError

    monkeypatch.setattr("httpcore2.AnyIOBackend.connect_tcp", reject)
    async with MediaConnector(limits=limits) as media, anyio.create_task_group() as nursery:
        for letter in "abcd":
            nursery.start_soon(chat, media, letter)
        await names.hang(4 * limits.max_lookups_per_request)
        with anyio.fail_after(SOON):
            with pytest.raises(UpstreamError, match="cannot be reached"):
                await media.fetch_image("http://good.example/", image)
        assert names.asked["good.example"] == 1
        assert names.hanging == 4 * limits.max_lookups_per_request
        nursery.cancel_scope.cancel()
        names.gate.set()
