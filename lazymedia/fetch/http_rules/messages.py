"""Messages: what is sent with every request, and what the head of a response says."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

from lazymedia.errors import UpstreamError
from lazymedia.fetch.policy.address import Address
from lazymedia.fetch.policy.url import HttpUrl

Headers = Sequence[tuple[bytes, bytes]]
"""Names and values, in order."""
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


_LONGEST_DATE: Final = 64


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

    It goes into errors only: servers are often wrong, and the format is found in the bytes.
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
        (b"User-Agent", b"lazymedia"),  # some servers reject requests without one
        (b"Accept", b"*/*"),
        (b"Accept-Encoding", b"identity"),
        *extra,
    ]


def lower_names(headers: Iterable[tuple[bytes, bytes]]) -> Sequence[tuple[bytes, bytes]]:
    return [(name.lower(), value) for name, value in headers]


def http_date(value: bytes) -> float | None:
    """POSIX seconds; None for what is no date, such as the ``0`` that many servers send for "expired"."""
    if len(value) > _LONGEST_DATE:
        return None
    try:
        parsed = parsedate_to_datetime(value.decode("ascii"))
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


__all__ = [
    "Headers",
    "Reply",
    "declared_length",
    "declared_type",
    "http_date",
    "lower_names",
    "request_headers",
]
