"""What HTTP allows a shared cache (RFC 9111): whether a response may be stored, and for how long it is fresh.

A response whose server names no time is revalidated each time; nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from lazymedia.fetch.http_rules.messages import Headers, http_date

_DIRECTIVE: Final = re.compile(rb'([^\s,;="]+)\s*(?:=\s*("(?:[^"\\]|\\.)*"|[^\s,;]*))?')
_SECONDS: Final = re.compile(rb"[0-9]+")
_MOST_SECONDS: Final = 1 << 31  # RFC 9111, section 1.2.2: whatever is longer is this long
_ETAG: Final = re.compile(rb"[\x20-\x7e]{1,1024}")  # longer ones, and those that no header can carry back, are not kept

_NOT_KEPT: Final = frozenset({b"no-store", b"private"})
_SAME_FOR_ALL: Final = frozenset(
    {b"accept-encoding", b"origin", b"access-control-request-method", b"access-control-request-headers"}
)
"""What a response may depend on and still be the same for every client: headers that no request has, or all alike.
Servers of public files name those; any other name may mean that a caller's own client sends something personal."""


@dataclass(frozen=True, slots=True)
class Terms:
    """On what terms a response may be kept.

    Attributes:
        fresh_for: Seconds from its arrival for which it may be used without asking. Zero: ask each time.
        etag: What to ask with (If-None-Match), as sent.
        last_modified: What to ask with (If-Modified-Since), as sent.
    """

    fresh_for: float
    etag: str | None
    last_modified: str | None

    @property
    def are_useful(self) -> bool:
        """Whether what is kept can ever be used: unasked, or by asking."""
        return self.fresh_for > 0 or self.etag is not None or self.last_modified is not None


def terms_of(headers: Headers, now: float) -> Terms | None:
    """On what terms a response may be kept, None where it must not.

    ``no-store``, ``private`` (also with field names) and a ``Vary`` on what clients may differ in forbid it.
    ``s-maxage`` goes before ``max-age``, that before ``Expires``; the age that a response arrives with is taken off,
    by ``Age`` or by ``Date``, whichever says more. What contradicts itself or cannot be read is not fresh.

    Args:
        headers: Of a 200, or of a 304, which repeats what a 200 would say.
        now: When it came, in POSIX seconds.
    """
    directives = _directives(_values(headers, b"cache-control"))
    varies = {name.strip().lower() for value in _values(headers, b"vary") for name in value.split(b",")}
    if _NOT_KEPT & directives.keys() or varies - _SAME_FOR_ALL - {b""}:
        return None
    must_ask = b"no-cache" in directives or (not directives and b"no-cache" in _directives(_values(headers, b"pragma")))
    fresh_for = 0.0 if must_ask else max(0.0, _lifetime(headers, directives, now) - _age(headers, now))
    return Terms(fresh_for, _etag(headers), _last_modified(headers))


def terms_after(redirects: Iterable[Headers], headers: Headers, now: float) -> Terms | None:
    """On what terms a response may be kept under the URL that redirected to it.

    No longer than each redirect may be followed again without asking; one that says nothing may lead elsewhere next
    time.

    Args:
        redirects: The headers of each, in any order.
        headers: Of the response.
        now: When it came, in POSIX seconds.
    """
    terms = terms_of(headers, now)
    for hop in redirects:
        way = terms_of(hop, now)
        if terms is None or way is None:
            return None
        terms = replace(terms, fresh_for=min(terms.fresh_for, way.fresh_for))
    return terms


def is_whole(headers: Headers, length: int) -> bool:
    """Whether headers vouch that a body of ``length`` bytes is all of it.

    A body that ends where the server closes the connection may have been cut off; a range is a part.
    """
    if _values(headers, b"content-range"):
        return False
    lengths = set(_values(headers, b"content-length"))
    codings = _values(headers, b"transfer-encoding")
    if codings:
        return [coding.lower() for coding in codings] == [b"chunked"] and not lengths
    return lengths == {b"%d" % length}


def _values(headers: Headers, name: bytes) -> list[bytes]:
    return [value.strip() for key, value in headers if key.lower() == name]


def _directives(values: Iterable[bytes]) -> dict[bytes, list[bytes]]:
    """Names in lower case, each with every value it has. Read so that no sloppy separator hides one."""
    found: dict[bytes, list[bytes]] = {}
    for value in values:
        for name, argument in _DIRECTIVE.findall(value):
            found.setdefault(name.lower(), []).append(argument.strip(b'"'))
    return found


def _lifetime(headers: Headers, directives: dict[bytes, list[bytes]], now: float) -> float:
    for name in (b"s-maxage", b"max-age"):
        if name in directives:
            return min(map(_seconds, directives[name]))
    expiries = [http_date(value) for value in _values(headers, b"expires")]
    if not expiries:
        return 0
    dates = [date for date in map(http_date, _values(headers, b"date")) if date is not None]
    return min(0 if expiry is None else expiry - max(dates, default=now) for expiry in expiries)


def _age(headers: Headers, now: float) -> float:
    """Seconds since the origin made the response, as far as its headers say."""
    stated = [_seconds(value) for value in _values(headers, b"age")]
    apparent = [now - date for date in map(http_date, _values(headers, b"date")) if date is not None]
    return max([0, *stated, *apparent])


def _seconds(text: bytes) -> int:
    """Zero for what is no number."""
    return min(int(text[:20]), _MOST_SECONDS) if _SECONDS.fullmatch(text) else 0


def _etag(headers: Headers) -> str | None:
    match _values(headers, b"etag"):
        case [value] if _ETAG.fullmatch(value):
            return value.decode("ascii")
        case _:
            return None


def _last_modified(headers: Headers) -> str | None:
    match _values(headers, b"last-modified"):
        case [value] if http_date(value) is not None:
            return value.decode("ascii")
        case _:
            return None


__all__ = ["Terms", "is_whole", "terms_after", "terms_of"]
