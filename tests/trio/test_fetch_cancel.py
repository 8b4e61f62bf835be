"""A fetch cancelled before every single step that any task of the program takes."""

from __future__ import annotations

import pytest
import trio

from lazymedia.fetch import MediaConnector
from lazymedia.limits import Limits
from lazymedia.media.raw import RawBytesMediaIO
from lazymedia.testing.server import MediaServer, Request

IMAGE = RawBytesMediaIO("image")
BEGINNING = b'HTTP/1.1 200 OK\r\nETag: "x"\r\nContent-Length: 7\r\n\r\npay'
REST = b'HTTP/1.1 206 X\r\nETag: "x"\r\nContent-Range: bytes 3-6/7\r\nContent-Length: 4\r\n\r\nload'


class CancelBefore(trio.abc.Instrument):
    """Cancels a scope before the k-th step from now on, whichever task takes it."""

    def __init__(self, step: int) -> None:
        self._left = step
        self.scope = trio.CancelScope()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if self._left == 0:
            self.scope.cancel()
        self._left -= 1


async def cancelled_before(step: int, media: MediaConnector, url: str) -> bool:
    """Whether a fetch took so many steps that it could be cancelled before this one."""
    instrument = CancelBefore(step)
    trio.lowlevel.add_instrument(instrument)
    try:
        with instrument.scope:
            assert (await media.fetch_image(url, IMAGE)).data == b"payload"
    finally:
        trio.lowlevel.remove_instrument(instrument)
    return instrument.scope.cancelled_caught


async def breaking(request: Request) -> bytes:
    return REST if "range" in request.headers else BEGINNING


@pytest.mark.parametrize("path", ["/whole", "/broken"])
@pytest.mark.parametrize("is_kept", [False, True])
async def test_a_fetch_can_be_cancelled_before_every_step(path: str, is_kept: bool) -> None:
    """On a new connection or a kept one; with a body that comes whole, or one that breaks off and is continued."""
    limits = Limits(max_connections=1, retry_backoff=0)
    async with (
        MediaServer({"/whole": b"payload", "/broken": breaking, "/other": b"payload"}) as server,
        MediaConnector(allowed_networks=["127.0.0.0/8"], limits=limits) as media,
    ):
        finished = step = 0
        while finished < 5:  # in a row; the order of steps is drawn anew each time
            if is_kept:
                await media.fetch_image(server.url("/other"), IMAGE)
            was_cancelled = await cancelled_before(step, media, server.url(path))
            owned = media._owned
            slots = owned.downloader.connection_limits
            assert (len(owned.flights), slots.in_use, slots.known_hosts, owned.budget.held) == (0, 0, 0, 0)
            assert owned.keys.borrowed_tokens == 0
            finished = 0 if was_cancelled else finished + 1
            step += 1

        assert step > 10, "a fetch has that many waits"
        assert (await media.fetch_image(server.url(path), IMAGE)).data == b"payload"


async def test_a_companion_gets_its_payload_whenever_the_first_one_leaves() -> None:
    async with (
        MediaServer({"/a": b"payload"}) as server,
        MediaConnector(allowed_networks=["127.0.0.0/8"], limits=Limits(max_connections=1)) as media,
    ):
        finished = step = 0
        while finished < 5:
            async with trio.open_nursery() as nursery:
                payloads: list[bytes] = []

                async def companion(payloads: list[bytes] = payloads) -> None:
                    payloads.append((await media.fetch_image(server.url("/a"), IMAGE)).data)

                nursery.start_soon(companion)
                was_cancelled = await cancelled_before(step, media, server.url("/a"))
            assert payloads == [b"payload"]
            finished = 0 if was_cancelled else finished + 1
            step += 1
        assert step > 10
