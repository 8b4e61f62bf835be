"""One download: redirects, what each status means, and no byte more than allowed.

Comes in: an `HttpUrl` and a cap. Goes out: the body, whole. Never here: sockets, deadlines (the connector sets one
around everything), or what the bytes are.
"""

from __future__ import annotations

from typing import Final, final

from anyio.lowlevel import checkpoint

from lazymedia.errors import NotAllowedError, UnprocessableMediaError, UpstreamError
from lazymedia.fetch.caps import CappedBuffer, too_large
from lazymedia.fetch.domains import DomainRules
from lazymedia.fetch.transport import Reply, Transport
from lazymedia.fetch.url import HttpUrl, follow
from lazymedia.limits import Limits

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_WORTH_ANOTHER_TRY: Final = frozenset({408, 425, 429})
_FREE_PIECES: Final = 4096  # so many may be of any size; each costs the loop some 20 microseconds
_LEAST_AVERAGE: Final = 64  # bytes of a piece beyond those; servers that stream send kilobytes
_TURN: Final = 64  # pieces between two chances for other tasks; one read of a socket can hold ten thousand


@final
class Downloader:
    """Downloads over a transport, each hop held against the operator's rules."""

    def __init__(self, transport: Transport, domains: DomainRules, limits: Limits) -> None:
        self._transport = transport
        self._domains = domains
        self._limits = limits

    async def download(self, url: HttpUrl, max_bytes: int) -> bytes:
        """The body that the URL, or where it redirects to, answers with.

        Raises:
            BadUrlError: A redirect to what is no URL.
            NotAllowedError: A hop that the operator's rules refuse.
            PayloadTooLargeError: More than ``max_bytes``, as declared before the body is read, or as counted.
            UnprocessableMediaError: The server has no such media: 4xx, or a status without a body, or an empty one.
            UpstreamError: The server is broken or cannot be reached, or redirects too often.
            FetchTimeoutError: It cannot be reached within the time for connecting.
        """
        for _ in range(self._limits.max_redirects + 1):
            if not self._domains.admits(url):
                raise NotAllowedError
            async with self._transport.get(url) as reply:
                if reply.status not in _REDIRECTS:
                    _refuse_status(reply.status)
                    return await _read(reply, max_bytes)
                location = _location(reply)
            url = follow(url, location, max_length=self._limits.max_url_length)
        raise UpstreamError(f"the server redirects more than {self._limits.max_redirects} times")


def _location(reply: Reply) -> str:
    match reply.values(b"location"):
        case [location] if location.isascii() and location:
            return location.decode("ascii")
        case _:
            raise UpstreamError("the server redirects without saying where to")


def _refuse_status(status: int) -> None:
    if status == 200:
        return
    text = f"the server answers with status {status}"
    if status < 200 or status == 206 or status >= 500 or status in _WORTH_ANOTHER_TRY:
        raise UpstreamError(text)
    raise UnprocessableMediaError(text)


async def _read(reply: Reply, max_bytes: int) -> bytes:
    if any(coding.lower() not in {b"", b"identity"} for coding in reply.values(b"content-encoding")):
        raise UpstreamError("the server sends a content coding that was not asked for")
    declared = _declared_length(reply)
    if declared is not None and declared > max_bytes:
        raise too_large(max_bytes)
    buffer = CappedBuffer(max_bytes)
    pieces = 0
    async for piece in reply.body:
        buffer.write(piece)
        pieces += 1
        if pieces > _FREE_PIECES + len(buffer) // _LEAST_AVERAGE:
            raise UpstreamError("the server sends the body in too small pieces")
        if pieces % _TURN == 0:
            await checkpoint()
    received = len(buffer)
    if declared not in {None, received}:
        raise UpstreamError("the body is not as long as the server declared")
    if received == 0:
        raise UnprocessableMediaError("the server answers with an empty body")
    return buffer.getvalue()


def _declared_length(reply: Reply) -> int | None:
    lengths = reply.values(b"content-length")
    if not lengths:
        return None
    if len(set(lengths)) > 1 or not lengths[0].isdigit() or reply.values(b"transfer-encoding"):
        raise UpstreamError("the server declares the length of the body in contradictory ways")
    return int(lengths[0][:20])


__all__ = ["Downloader"]
