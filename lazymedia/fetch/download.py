"""One download: redirects, what each status means, and further tries. The callers' deadlines bound its time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final, final

import anyio

from lazymedia.errors import BadUrlError, NotAllowedError, UnprocessableMediaError, UpstreamError
from lazymedia.fetch.body import is_framed, read_body
from lazymedia.fetch.body_buffer import BodyBuffer
from lazymedia.fetch.http_rules.messages import Headers, Reply, declared_length, declared_type
from lazymedia.fetch.http_rules.ranges import Conditions, Resumption, whole
from lazymedia.fetch.http_rules.retries import Retries, is_status_worth_another_try, status_error
from lazymedia.fetch.policy.address import Address
from lazymedia.fetch.policy.domains import DomainRules
from lazymedia.fetch.policy.url import HttpUrl, follow, read_location
from lazymedia.fetch.transport.base import Transport
from lazymedia.fetch.transport.connection_limits import GRACE, ConnectionLimits, SlotRevokedError
from lazymedia.limits import Limits
from lazymedia.media import DecoderCaches, Payload

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_PARTIAL, _UNCHANGED, _NO_SUCH_RANGE = 206, 304, 416


@final
@dataclass(frozen=True, slots=True)
class Downloaded:
    """What a URL was answered with.

    Attributes:
        payload: Empty where `is_unchanged`.
        url: Where it came from, after redirects.
        headers: Of the response, of the first one where others continued its body; names in lower case.
        is_framed: Whether a payload that was cut would have been noticed.
        is_unchanged: Whether the answer to a conditional request was that nothing has changed (304).
        redirects: Headers of the redirects on the way, in order.
        way: The URLs on the way, this one included, each with the address that answered; None where that is not known.
        from_cache: Whether it came from the disk cache.
        storers: Counts the fetches that would store it, of which the first does.
    """

    payload: Payload
    url: HttpUrl
    headers: Headers = field(repr=False)
    is_framed: bool = True
    is_unchanged: bool = False
    redirects: Sequence[Headers] = field(default=(), repr=False)
    way: Sequence[tuple[HttpUrl, Address | None]] = field(default=(), repr=False)
    from_cache: bool = False
    storers: Iterator[int] = field(default_factory=count, repr=False, compare=False)


def _forever() -> float:
    return math.inf


@final
class Downloader:
    """Downloads over a transport. Each URL on the way is checked against the operator's rules.

    Args:
        transport: Where requests go.
        domains: Hosts that URLs may name.
        limits: Redirects, tries and rates.
        retries: When to try again.
        caches: The connector's, for its decoders.
    """

    def __init__(
        self,
        transport: Transport,
        domains: DomainRules,
        limits: Limits,
        *,
        retries: Retries | None = None,
        caches: DecoderCaches | None = None,
    ) -> None:
        self._transport = transport
        self._domains = domains
        self._limits = limits
        self._connection_limits = ConnectionLimits(limits)
        self._retries = Retries(limits) if retries is None else retries
        self._caches = caches

    @property
    def connection_limits(self) -> ConnectionLimits:
        """The limits on connections that hold for this downloader."""
        return self._connection_limits

    def check_host(self, url: HttpUrl) -> None:
        """Check a URL against the rules about hosts.

        Raises:
            NotAllowedError: It names a host that the operator does not allow.
        """
        if not self._domains.allows(url):
            raise NotAllowedError

    async def download(
        self,
        url: HttpUrl,
        buffer: BodyBuffer,
        *,
        conditions: Conditions | None = None,
        time_left: Callable[[], float] = _forever,
    ) -> Downloaded:
        """The body that the URL, or where it redirects to, answers with.

        Args:
            url: A parsed URL; the rules are applied here.
            buffer: Where the payload is collected, with its cap.
            conditions: Validators of an older download. Then `Downloaded.is_unchanged` may be the answer.
            time_left: Seconds until the last deadline of those who wait. A further try is made only if its delay ends
                before.

        Raises:
            BadUrlError: A caller's own HTTP client reads another host out of ``url``.
            NotAllowedError: A URL on the way that the operator's rules reject.
            PayloadTooLargeError: More than the buffer's cap, as declared before the body is read, or as counted.
            UnprocessableMediaError: The server has no such media: 4xx, or a status without a body, or an empty one.
            UpstreamError: The server is broken or cannot be reached, or redirects too often or to what is no URL; after
                further tries, where it was of the kind that passes.
            FetchTimeoutError: It cannot be reached within the time for connecting, or it sends too slowly.
            OverloadedError: Too many downloads wait or hold too many bytes, or too many lookups hang.
        """
        transfer = _Transfer(url, buffer, conditions)
        tries = 0
        while True:
            try:
                return await self._try(transfer)
            except SlotRevokedError:  # no failure of the server, and so no further try
                transfer.grace *= 2
                continue
            except UpstreamError as error:
                tries += 1
                delay = self._retries.delay(error, tries, time_left())
                if delay is None:
                    raise
            await anyio.sleep(delay)

    async def _try(self, transfer: _Transfer) -> Downloaded:
        url = transfer.url
        conditions = transfer.conditions()
        redirects: list[Headers] = []
        way: list[tuple[HttpUrl, Address | None]] = []
        try:
            for _ in range(self._limits.max_redirects + 1):
                self.check_host(url)
                asked = () if conditions is None else conditions.headers_for(url)
                slot = self._connection_limits.hold(url, received=transfer.buffer.__len__, grace=transfer.grace)
                async with slot, self._transport.get(url, asked) as reply:
                    way.append((url, reply.address))
                    if reply.status not in _REDIRECTS:
                        taken = await self._take(transfer, url, reply, is_conditional=bool(asked))
                        return replace(taken, redirects=redirects, way=way)
                    location = _location(reply)
                    redirects.append(reply.headers)
                url = follow(url, location, max_length=self._limits.max_url_length)
        except BadUrlError as error:
            if not redirects:
                raise
            raise UpstreamError("the server redirects to what is no URL") from error
        raise UpstreamError(f"the server redirects more than {self._limits.max_redirects} times")

    async def _take(self, transfer: _Transfer, url: HttpUrl, reply: Reply, *, is_conditional: bool) -> Downloaded:
        if is_conditional and reply.status == _UNCHANGED and transfer.resumption is None:
            return Downloaded(Payload(b""), url, reply.headers, is_unchanged=True)
        offset, declared = transfer.place(reply, is_conditional=is_conditional)
        if offset == 0:
            transfer.resumption = Resumption.of(url, reply, declared)
            transfer.headers = reply.headers
        data = await read_body(reply, transfer.buffer, self._limits, offset=offset, declared=declared)
        payload = Payload(data, declared_type=declared_type(transfer.headers), caches=self._caches)
        return Downloaded(payload, url, transfer.headers, is_framed(reply))


@final
@dataclass(slots=True)
class _Transfer:
    """What the tries of one download have in common.

    Attributes:
        resumption: How the body that began last could be continued.
        headers: Of the response that it began with.
        grace: Seconds for which a slot is not revoked (see `ConnectionLimits`).
    """

    url: HttpUrl
    buffer: BodyBuffer
    validators: Conditions | None
    resumption: Resumption | None = None
    headers: Headers = ()
    grace: float = GRACE

    def conditions(self) -> Conditions | None:
        """What is asked for beyond the URL: the rest of what has come, or news since an older download."""
        if self.resumption is None or not len(self.buffer):
            self.resumption = None
            return self.validators
        return self.resumption.conditions(len(self.buffer))

    def place(self, reply: Reply, *, is_conditional: bool) -> tuple[int, int | None]:
        """Where in the payload the body of a reply belongs, and how long that makes the payload.

        Raises:
            UnprocessableMediaError: There is no such media.
            UpstreamError: The server is broken, or cannot answer now.
        """
        status, resumption, received = reply.status, self.resumption, len(self.buffer)
        if status == 200:
            return 0, declared_length(reply)
        if status == _PARTIAL and (total := whole(reply)) is not None:
            return 0, total
        if resumption is not None and is_conditional and status in {_PARTIAL, _NO_SUCH_RANGE}:
            total = resumption.total_of(reply, received) if status == _PARTIAL else None
            if total is not None:
                return received, total
            self.resumption = None  # the next try asks for the whole
            raise UpstreamError("the server does not continue the body that broke off", transient=True)
        if status < 200 or status == _PARTIAL:
            raise UpstreamError(f"the server answers with status {status}")
        if is_status_worth_another_try(status):
            raise status_error(reply)
        raise UnprocessableMediaError(f"the server answers with status {status}")


def _location(reply: Reply) -> str:
    match reply.values(b"location"):
        case [location] if location:
            return read_location(location)
        case _:
            raise UpstreamError("the server redirects without saying where to")


__all__ = ["Downloaded", "Downloader"]
