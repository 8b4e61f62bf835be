"""What all transports have in common: the interface, and one set of errors."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

import anyio

from lazymedia.contexts import contextmanager
from lazymedia.errors import FetchTimeoutError, LazyMediaError, UpstreamError
from lazymedia.fetch.http_rules.messages import Headers, Reply
from lazymedia.fetch.policy.url import HttpUrl

BROKEN: Final = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, ssl.SSLError, OSError)
"""What a broken connection raises where a library lets it through."""


class Transport(Protocol):
    """Where requests go."""

    def get(self, url: HttpUrl, extra: Headers = ()) -> AbstractAsyncContextManager[Reply]:
        """One GET, with some headers beyond `request_headers`, answered by one response that ends with the block.

        Raises:
            NotAllowedError: The policy rejects the host, its port or one of its addresses.
            OverloadedError: Lookups that hang take up all threads.
            UpstreamError: The server is broken or cannot be reached. `UpstreamError.transient` where the connection
                could not be made, or broke.
            FetchTimeoutError: It cannot be reached within the time for connecting.
        """
        ...


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


__all__ = ["BROKEN", "Transport", "translated"]
