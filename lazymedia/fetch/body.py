"""One body on its way into a payload: how long it says it is, whether it keeps its word, and how it comes.

Comes in: a `Reply` whose status is in order. Goes out: the same payload, with these bytes in it. Never here: statuses,
redirects, or a second request.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

from anyio import CapacityLimiter
from anyio.lowlevel import checkpoint

from lazymedia.contexts import asynccontextmanager
from lazymedia.errors import OverloadedError, UnprocessableMediaError, UpstreamError
from lazymedia.fetch.arriving import ArrivingPayload
from lazymedia.fetch.digests import WORTH_A_THREAD, ArrivingDigest
from lazymedia.fetch.pace import least_rate
from lazymedia.fetch.transport import Reply
from lazymedia.hops import Child, Hop, open_nursery
from lazymedia.limits import Limits

if TYPE_CHECKING:
    from hashlib import _Hash

_FREE_PIECES: Final = 4096  # so many may be of any size; each costs the loop some 20 microseconds
_LEAST_AVERAGE: Final = 64  # bytes of a piece beyond those; servers that stream send kilobytes
_TURN: Final = 64  # pieces between two chances for other tasks; one read of a socket can hold ten thousand


def is_framed(reply: Reply) -> bool:
    """Whether a body that was cut would be noticed. One that ends with its connection could have been longer."""
    return bool(reply.values(b"content-length") or reply.values(b"transfer-encoding"))


async def read_body(
    reply: Reply,
    arriving: ArrivingPayload,
    limits: Limits,
    *,
    offset: int,
    declared: int | None,
    digests: CapacityLimiter | None,
) -> tuple[bytes, _Hash | None]:
    """Read a body to its end.

    Args:
        reply: Its body is what is read.
        arriving: The payload.
        limits: On rates.
        offset: Bytes of the payload that came before.
        declared: Bytes that the whole payload is said to have.
        digests: Threads in which long payloads are read along; None for none.

    Returns:
        The payload, and its digest where one was taken (see `lazymedia.media.spec.begin_payload_digest`).

    Raises:
        PayloadTooLargeError: More than the payload's cap, as declared before the body is read, or as counted.
        UnprocessableMediaError: Nothing.
        UpstreamError: Not as long as declared, or in crumbs.
        FetchTimeoutError: Slower than allowed.
        OverloadedError: All downloads together hold too much.
    """
    arriving.begin(declared, offset)
    async with _digesting(declared if offset == 0 else None, arriving, digests) as reading:
        await _receive(reply.body, arriving, limits)
        if declared not in {None, len(arriving)}:
            raise UpstreamError("the body is not as long as the server declared", transient=True)
        if not len(arriving):
            raise UnprocessableMediaError("the server answers with an empty body")
        data = arriving.getvalue()
        if reading is not None:
            reading.digest.complete(data)
    return data, None if reading is None else reading.taken


async def _receive(body: AsyncIterator[bytes], arriving: ArrivingPayload, limits: Limits) -> None:
    pieces = 0
    with least_rate(limits) as came:
        async for piece in body:
            arriving.write(piece)
            came(len(piece))
            pieces += 1
            if pieces > _FREE_PIECES + len(arriving) // _LEAST_AVERAGE:
                raise UpstreamError("the server sends the body in too small pieces")
            if pieces % _TURN == 0:
                await checkpoint()


class _Reading:
    def __init__(self, digest: ArrivingDigest, limiter: CapacityLimiter) -> None:
        self.digest = digest
        self.hop: Hop[_Hash | None] = Hop(digest.run, limiter)
        self.taken: _Hash | None = None

    def settle(self) -> None:
        try:
            self.taken = self.hop.take()
        except OverloadedError:  # no thread could be started; whoever takes the key will read the payload
            self.taken = None


@asynccontextmanager
async def _digesting(
    declared: int | None, arriving: ArrivingPayload, threads: CapacityLimiter | None
) -> AsyncIterator[_Reading | None]:
    if declared is None or declared < WORTH_A_THREAD or threads is None or not threads.available_tokens:
        yield None
        return
    reading = _Reading(ArrivingDigest(declared), threads)
    async with open_nursery() as nursery:
        Child(nursery, reading.hop.run)
        arriving.watch(reading.digest.feed)
        try:
            yield reading
        finally:
            arriving.watch(None)
            reading.digest.end()
    reading.settle()


__all__ = ["is_framed", "read_body"]
