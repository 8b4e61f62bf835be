"""Resuming a body that broke off (RFC 9110, sections 8.8, 13.1.5 and 14).

Two halves make one payload only if both are of one representation. So the rest is requested only with a strong
validator that the server gave with the first half, and only the whole rest under the same validator is accepted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self, final

from lazymedia.fetch.http_rules.messages import Reply, declared_length, http_date
from lazymedia.fetch.policy.url import HttpUrl

_CONTENT_RANGE: Final = re.compile(rb"(?i:bytes) ([0-9]{1,19})-([0-9]{1,19})/([0-9]{1,19})")
_STRONG_ETAG: Final = re.compile(rb'"[\x21\x23-\x7e\x80-\xff]*"')
_CLOCKS_DIFFER: Final = 60.0  # seconds between Last-Modified and Date that rule out two changes within one second


@dataclass(frozen=True, slots=True)
class Conditions:
    """Headers beyond those of every request, for one URL and no other: a redirect elsewhere does not carry them."""

    url: HttpUrl
    headers: tuple[tuple[bytes, bytes], ...]

    def headers_for(self, url: HttpUrl) -> tuple[tuple[bytes, bytes], ...]:
        return self.headers if url == self.url else ()


@final
@dataclass(frozen=True, slots=True)
class Resumption:
    """How to ask for the rest of a body.

    Attributes:
        url: Where it came from, after redirects.
        name: The header that holds the validator.
        validator: A strong ETag, or a Last-Modified that is as good as one.
        total: Bytes of the whole, or None where that was not declared.
    """

    url: HttpUrl
    name: bytes
    validator: bytes
    total: int | None

    @classmethod
    def of(cls, url: HttpUrl, reply: Reply, total: int | None) -> Self | None:
        """What the head of a whole body says about that; None where it could not be continued."""
        if b"none" in [value.lower() for value in reply.values(b"accept-ranges")]:
            return None
        match reply.values(b"etag"), reply.values(b"last-modified"):
            case [etag], _ if _STRONG_ETAG.fullmatch(etag):
                return cls(url, b"etag", etag, total)
            case [], [modified] if _is_strong(modified, reply.values(b"date")):
                return cls(url, b"last-modified", modified, total)
            case _:
                return None

    def conditions(self, offset: int) -> Conditions:
        """The request for everything from ``offset`` on, or for the whole where it has changed since."""
        return Conditions(self.url, ((b"Range", b"bytes=%d-" % offset), (b"If-Range", self.validator)))

    def total_of(self, reply: Reply, offset: int) -> int | None:
        """Bytes of the whole that a 206 completes; None unless it is all of the rest, of the same bytes.

        Raises:
            UpstreamError: It declares its length in contradictory ways, or has a content coding.
        """
        span = _span(reply)
        if span is None or span[0] != offset or reply.values(self.name) != [self.validator]:
            return None
        return span[2] if self.total in {None, span[2]} else None


def whole(reply: Reply) -> int | None:
    """Bytes of a 206 that has all of them, though no part was requested; None for any other.

    Raises:
        UpstreamError: It declares its length in contradictory ways, or has a content coding.
    """
    span = _span(reply)
    return span[2] if span is not None and span[0] == 0 else None


def _span(reply: Reply) -> tuple[int, int, int] | None:
    """First byte, last byte and total of a part that reaches to the end; None where it is missing or wrong."""
    values = reply.values(b"content-range")
    found = _CONTENT_RANGE.fullmatch(values[0]) if len(values) == 1 else None
    if found is None:
        return None
    first, last, total = map(int, found.groups())
    fits = first <= last == total - 1 and declared_length(reply) in {None, total - first}
    return (first, last, total) if fits else None


def _is_strong(modified: bytes, dates: list[bytes]) -> bool:
    changed = http_date(modified)
    sent = http_date(dates[0]) if len(dates) == 1 else None
    return changed is not None and sent is not None and sent - changed >= _CLOCKS_DIFFER


__all__ = ["Conditions", "Resumption", "whole"]
