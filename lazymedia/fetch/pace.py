"""The least rate at which a body must come.

Comes in: numbers of bytes, as they arrive. Goes out: a timeout for a body that crawls. Never here: the total deadline.

A server that sends a byte now and then would hold a connection, and what it has sent so far, until the deadline. A body
therefore must bring its due of bytes (`Limits.min_download_rate` times `Limits.download_grace`) within every such
span of time, each span beginning when the last due was met. So a look at the clock is needed once per due only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import anyio

from lazymedia.contexts import contextmanager
from lazymedia.errors import FetchTimeoutError
from lazymedia.limits import Limits


@contextmanager
def least_rate(limits: Limits) -> Iterator[Callable[[int], None]]:
    """The block must call what it is given with the number of bytes of each piece.

    Raises:
        FetchTimeoutError: They come too slowly.
    """
    due = limits.min_download_rate * limits.download_grace
    if not due:
        yield lambda _: None
        return
    with anyio.CancelScope(deadline=anyio.current_time() + limits.download_grace) as scope:
        came = 0

        def note(size: int) -> None:
            nonlocal came
            came += size
            if came >= due:
                came = 0
                scope.deadline = anyio.current_time() + limits.download_grace

        yield note
    if scope.cancelled_caught:
        raise FetchTimeoutError(f"the server sends fewer than {limits.min_download_rate:g} bytes a second")


__all__ = ["least_rate"]
