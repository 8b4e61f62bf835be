"""Reading the body of one response into a `BodyBuffer`, at a minimum rate."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final

import anyio
from anyio.lowlevel import checkpoint

from lazymedia.contexts import contextmanager
from lazymedia.errors import FetchTimeoutError, UnprocessableMediaError, UpstreamError
from lazymedia.fetch.body_buffer import BodyBuffer
from lazymedia.fetch.http_rules.messages import Reply
from lazymedia.limits import Limits

_FREE_CHUNKS: Final = 4096  # so many may be of any size; each costs the loop some 20 microseconds
_MIN_AVERAGE: Final = 64  # bytes of a chunk beyond those; servers that stream send kilobytes
_CHUNKS_PER_CHECKPOINT: Final = 64  # one read of a socket can hold ten thousand chunks


def is_framed(reply: Reply) -> bool:
    """Whether a body that was cut would be noticed. One that ends with its connection could have been longer."""
    return bool(reply.values(b"content-length") or reply.values(b"transfer-encoding"))


async def read_body(reply: Reply, buffer: BodyBuffer, limits: Limits, *, offset: int, declared: int | None) -> bytes:
    """Read a body to its end.

    Args:
        reply: Its body is what is read.
        buffer: Where it goes.
        limits: On rates.
        offset: Bytes of the payload that came before.
        declared: Bytes that the whole payload is said to have.

    Returns:
        The whole payload.

    Raises:
        PayloadTooLargeError: More than the buffer's cap, as declared before the body is read, or as counted.
        UnprocessableMediaError: The body is empty.
        UpstreamError: Not as long as declared, or in too small chunks.
        FetchTimeoutError: Slower than allowed.
        OverloadedError: All downloads together hold too much.
    """
    buffer.begin(declared, offset)
    await _read_chunks(reply.body, buffer, limits)
    if declared not in {None, len(buffer)}:
        raise UpstreamError("the body is not as long as the server declared", transient=True)
    if not len(buffer):
        raise UnprocessableMediaError("the server answers with an empty body")
    return buffer.getvalue()


async def _read_chunks(body: AsyncIterator[bytes], buffer: BodyBuffer, limits: Limits) -> None:
    chunks = 0
    with _min_rate(limits) as count:
        async for chunk in body:
            buffer.write(chunk)
            count(len(chunk))
            chunks += 1
            if chunks > _FREE_CHUNKS + len(buffer) // _MIN_AVERAGE:
                raise UpstreamError("the server sends the body in too small pieces")
            if chunks % _CHUNKS_PER_CHECKPOINT == 0:
                await checkpoint()


@contextmanager
def _min_rate(limits: Limits) -> Iterator[Callable[[int], None]]:
    """Time out where bytes come too slowly. The block calls what it is given with the number of bytes of each chunk.

    A server that sends a byte now and then would hold a connection until the deadline. So within each span of
    `Limits.download_grace` seconds so many bytes must come as `Limits.min_download_rate` makes of them; a span begins
    when the last one had its bytes. The clock is read once in a span only.

    Raises:
        FetchTimeoutError: They come too slowly.
    """
    due = limits.min_download_rate * limits.download_grace
    if not due:
        yield lambda _: None
        return
    with anyio.CancelScope(deadline=anyio.current_time() + limits.download_grace) as scope:
        received = 0

        def count(size: int) -> None:
            nonlocal received
            received += size
            if received >= due:
                received = 0
                scope.deadline = anyio.current_time() + limits.download_grace

        yield count
    if scope.cancelled_caught:
        raise FetchTimeoutError(f"the server sends fewer than {limits.min_download_rate:g} bytes a second")


__all__ = ["is_framed", "read_body"]
