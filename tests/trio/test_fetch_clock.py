"""When a fetch tries again and when it gives up, on a clock that jumps: no second of these is waited for.

Servers are scripted transports, because a clock that jumps does so while a socket's other end still works.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

import anyio
import pytest
import trio
import trio.testing

from lazymedia.errors import FetchTimeoutError, UpstreamError
from lazymedia.fetch.body_buffer import BodyBuffer, ByteBudget
from lazymedia.fetch.download import Downloader
from lazymedia.fetch.http_rules.messages import Headers, Reply
from lazymedia.fetch.http_rules.retries import Retries
from lazymedia.fetch.policy.domains import DomainRules
from lazymedia.fetch.policy.url import HttpUrl
from lazymedia.fetch.single_flight import SingleFlight
from lazymedia.limits import Limits

URL = HttpUrl("http", "media.example", 80, "/")
Answer = tuple[int, Headers, Sequence[tuple[float, int]]]
"""Status, headers, and pieces of a body: seconds before each, and its bytes."""


class Scripted:
    """A transport that answers from a list, the last answer for ever, and notes when it was asked."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.asked: list[float] = []

    @asynccontextmanager
    async def get(self, url: HttpUrl, extra: Headers = ()) -> AsyncIterator[Reply]:
        self.asked.append(trio.current_time())
        status, headers, pieces = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

        async def body() -> AsyncIterator[bytes]:
            for seconds, size in pieces:
                await trio.sleep(seconds)
                yield bytes(size)

        pieces_of_body = body()
        try:
            yield Reply(status, headers, pieces_of_body)
        finally:
            await pieces_of_body.aclose()  # type: ignore[attr-defined]  # an async generator


OK: Answer = (200, [], [(0, 10)])
FAILS: Answer = (502, [], [])


def after(seconds: str) -> Answer:
    return 503, [(b"retry-after", seconds.encode())], []


def downloader(script: Scripted, limits: Limits, draw: float = 1.0) -> Downloader:
    return Downloader(script, DomainRules.of(None), limits, retries=Retries(limits, lambda: draw))


@pytest.mark.parametrize(
    ("answers", "draw", "times"),
    [
        ([FAILS, FAILS, OK], 1.0, [0, 2, 6]),
        ([FAILS, FAILS, OK], 0.25, [0, 0.5, 1.5]),
        ([FAILS, FAILS, OK], 0.0, [0, 0, 0]),
        ([after("5"), FAILS, OK], 1.0, [0, 5, 9]),
        ([after("1"), OK], 1.0, [0, 2]),
        ([after("0"), OK], 0.5, [0, 1]),
    ],
)
async def test_further_tries_wait_longer_each_time_and_as_long_as_the_server_asks(
    answers: list[Answer], draw: float, times: list[float], autojump_clock: trio.testing.MockClock
) -> None:
    script = Scripted(*answers)
    begin = trio.current_time()
    limits = Limits(retry_backoff=2.0, max_retry_after=5.0)
    assert len((await downloader(script, limits, draw).download(URL, BodyBuffer(100))).payload.data) == 10
    assert [asked - begin for asked in script.asked] == pytest.approx(times)


async def test_a_server_that_asks_for_too_much_patience_gets_none(autojump_clock: trio.testing.MockClock) -> None:
    script = Scripted(after("6"), OK)
    with pytest.raises(UpstreamError) as caught:
        await downloader(script, Limits(max_retry_after=5.0)).download(URL, BodyBuffer(100))
    assert caught.value.retry_after == 6
    assert len(script.asked) == 1


async def test_no_wait_begins_that_would_outlast_everybody(autojump_clock: trio.testing.MockClock) -> None:
    """Rather the server's error at once than a timeout later. A second waiter with more time makes it worth while."""
    script = Scripted(FAILS, OK)
    limits = Limits(retry_backoff=4.0)
    done: list[float] = []
    async with trio.open_nursery() as nursery:
        flights = flights_of(downloader(script, limits), nursery)
        with trio.move_on_after(3), pytest.raises(UpstreamError):
            await flights.fetch(URL, 100)
        assert len(script.asked) == 1

        script = Scripted((502, [], []), OK)
        flights = flights_of(downloader(script, limits), nursery)

        async def wait(seconds: float) -> None:
            with trio.move_on_after(seconds) as scope:
                await flights.fetch(URL, 100)
            if not scope.cancelled_caught:
                done.append(trio.current_time())

        begin = trio.current_time()
        async with trio.open_nursery() as waiters:
            waiters.start_soon(wait, 3)
            waiters.start_soon(wait, 5)
    assert [moment - begin for moment in done] == pytest.approx([4])


def flights_of(downloads: Downloader, nursery: trio.Nursery) -> SingleFlight:
    return SingleFlight(nursery, downloads, ByteBudget(), anyio.CapacityLimiter(1))  # type: ignore[arg-type]  # trio's own nursery


SLOW = Limits(min_download_rate=100, download_grace=10.0, max_retries=0)


@pytest.mark.parametrize(
    ("pieces", "ends_after"),
    [
        ([(1, 125)] * 60, None),
        ([(9, 1000)] * 5, None),
        ([(9.9, 999), (0.05, 1), (9.9, 1000)], None),
        ([(1, 99)] * 60, 10),
        ([(0, 5000), (11, 5000)], 10),
        ([(9, 999), (2, 1)], 10),
        ([(1, 125)] * 16 + [(1, 99)] * 20, 26),
        ([(100, 1)], 10),
        ([(0, 50)], None),
    ],
)
async def test_a_body_has_a_minimum_rate_over_every_span_of_time(
    pieces: list[tuple[float, int]], ends_after: float | None, autojump_clock: trio.testing.MockClock
) -> None:
    """A hundred bytes a second over ten: a thousand bytes within ten seconds of the last thousand."""
    begin = trio.current_time()
    get = partial(downloader(Scripted((200, [], pieces)), SLOW).download, URL, BodyBuffer(1 << 20))
    if ends_after is None:
        assert len((await get()).payload.data) == sum(size for _, size in pieces)
    else:
        with pytest.raises(FetchTimeoutError, match="100 bytes a second"):
            await get()
        assert trio.current_time() - begin == pytest.approx(ends_after, abs=0.5)


async def test_a_minimum_rate_of_nothing_is_none(autojump_clock: trio.testing.MockClock) -> None:
    limits = Limits(min_download_rate=0)
    script = Scripted((200, [], [(3600, 1), (3600, 1)]))
    assert len((await downloader(script, limits).download(URL, BodyBuffer(100))).payload.data) == 2


async def test_a_body_that_crawls_is_not_tried_again(autojump_clock: trio.testing.MockClock) -> None:
    script = Scripted((200, [], [(100, 1)]), OK)
    with pytest.raises(FetchTimeoutError):
        await downloader(script, Limits()).download(URL, BodyBuffer(100))
    assert len(script.asked) == 1
