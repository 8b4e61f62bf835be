"""What every way to a server has in common: one request, one reply, and one set of errors.

Comes in: an `HttpUrl`. Goes out: the head of a reply, and its body chunk by chunk. Never here: an HTTP library; `http`
has lazymedia's own, `client` a caller's.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final, Protocol

import anyio

from lazymedia.contexts import contextmanager
from lazymedia.errors import FetchTimeoutError, LazyMediaError, UpstreamError
from lazymedia.fetch.policy.address import Address
from lazymedia.fetch.policy.url import HttpUrl

Headers = Sequence[tuple[bytes, bytes]]
"""Names and values, in order."""
BROKEN: Final = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, ssl.SSLError, OSError)
"""What a broken connection raises where a library lets it through."""
_MEDIA_TYPE: Final = re.compile(rb"[a-z0-9][a-z0-9!#$&^_.+-]*/[a-z0-9][a-z0-9!#$&^_.+-]*")  # RFC 6838
_LONGEST_TYPE: Final = 64
_CODINGS: Final = frozenset(
    {
        *(b"gzip", b"deflate", b"br", b"zstd", b"compress", b"dcb", b"dcz", b"exi", b"pack200-gzip"),
        *(b"bzip2", b"lz4", b"lzma", b"snappy", b"xz"),
    }
)
"""Content codings: IANA's registry (iana.org/assignments/http-parameters), and some that it lacks. Names that begin
with ``x-`` are private ones. Any other name in the header codes nothing: an encoding of characters (UTF-8), of mail
(binary) or of an upload (aws-chunked)."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The head of a response, and its body.

    Attributes:
        status: As in the status line.
        headers: Names in lower case, in order, repeated ones repeated.
        body: Chunks as received: framing undone, content codings not.
        address: Where it came from; None where that is not known.
    """

    status: int
    headers: Sequence[tuple[bytes, bytes]]
    body: AsyncIterator[bytes]
    address: Address | None = None

    def values(self, name: bytes) -> list[bytes]:
        """All values of a header."""
        return [value.strip() for key, value in self.headers if key == name]


class Transport(Protocol):
    """Where requests go."""

    def get(self, url: HttpUrl, extra: Headers = ()) -> AbstractAsyncContextManager[Reply]:
        """One GET, with some headers beyond `request_headers`, answered by one response that ends with the block.

        Raises:
            NotAllowedError: The policy refuses the host, its port or one of its addresses.
            OverloadedError: Lookups that hang take up all threads.
            UpstreamError: The server is broken or cannot be reached. `UpstreamError.transient` where the connection
                could not be made, or broke.
            FetchTimeoutError: It cannot be reached within the time for connecting.
        """
        ...


def declared_length(reply: Reply) -> int | None:
    """Bytes that the body is said to have.

    Raises:
        UpstreamError: It is said in contradictory ways, or there is a content coding.
    """
    if any(map(_is_coding, b",".join(reply.values(b"content-encoding")).split(b","))):
        raise UpstreamError("the server sends a content coding that was not asked for")
    lengths = reply.values(b"content-length")
    if not lengths:
        return None
    if len(set(lengths)) > 1 or not lengths[0].isdigit() or reply.values(b"transfer-encoding"):
        raise UpstreamError("the server declares the length of the body in contradictory ways")
    return int(lengths[0][:20])


def _is_coding(name: bytes) -> bool:
    name = name.strip().lower()
    return name in _CODINGS or name.startswith(b"x-")


def declared_type(headers: Headers) -> str | None:
    """The media type that a response is said to have: in lower case, without parameters, 64 characters at most. None
    where none is said, or no such thing, or several.

    For texts alone. Servers are often wrong, and what a payload is, its bytes tell.
    """
    types = {value.partition(b";")[0].strip().lower() for name, value in headers if name == b"content-type"}
    if len(types) != 1 or not _MEDIA_TYPE.fullmatch(only := types.pop()):
        return None
    text = only.decode("ascii")
    return text if len(text) <= _LONGEST_TYPE else text[: _LONGEST_TYPE - 3] + "..."


def request_headers(url: HttpUrl, extra: Headers = ()) -> list[tuple[bytes, bytes]]:
    """All headers that are ever sent; ``extra`` are conditions and ranges."""
    return [
        (b"Host", url.netloc.encode("ascii")),
        (b"User-Agent", b"lazymedia"),  # some servers refuse requests without one
        (b"Accept", b"*/*"),
        (b"Accept-Encoding", b"identity"),
        *extra,
    ]


def lower_names(headers: Iterable[tuple[bytes, bytes]]) -> Sequence[tuple[bytes, bytes]]:
    return [(name.lower(), value) for name, value in headers]


def literal_address(host: str) -> Address | None:
    """The address that a URL's host is, where it is no name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


@contextmanager
def translated(
    slow: type[Exception], dropped: tuple[type[Exception], ...], garbled: tuple[type[Exception], ...]
) -> Iterator[None]:
    """Errors of a library become ours, whose texts name no host and no address.

    Args:
        slow: What it raises where a connection takes too long.
        dropped: Where one cannot be made, or breaks: worth another try.
        garbled: Where a server breaks the protocol.
    """
    try:
        yield
    except LazyMediaError:
        raise  # many of ours are an OSError too
    except slow as exc:
        raise FetchTimeoutError("the server could not be reached in time") from exc
    except dropped + BROKEN as exc:
        text = f"the server cannot be reached or hangs up ({type(exc).__name__})"
        raise UpstreamError(text, transient=not _is_no_tls(exc)) from exc
    except garbled as exc:
        raise UpstreamError(f"the server breaks the protocol ({type(exc).__name__})") from exc


def _is_no_tls(error: BaseException) -> bool:
    """Whether a connection failed because of what the other side is, and not because it broke."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ssl.SSLError):
            return not isinstance(seen, ssl.SSLEOFError)
        seen = seen.__cause__ or seen.__context__
    return False


__all__ = [
    "BROKEN",
    "Headers",
    "Reply",
    "Transport",
    "declared_length",
    "declared_type",
    "literal_address",
    "lower_names",
    "request_headers",
    "translated",
]
