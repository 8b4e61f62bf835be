"""Which failures are tried again, and when.

Tried again are connections that could not be made or broke, bodies that broke off, and statuses by which a server says
that it cannot answer now. Rejections are not, nor answers that would be wrong again. A delay that ends behind the last
deadline of those who wait is not begun.
"""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable, Sequence
from typing import Final, final

from lazymedia.errors import UpstreamError
from lazymedia.fetch.http_rules.messages import Reply, http_date
from lazymedia.limits import Limits

TOO_MANY: Final = 429
_TRANSIENT: Final = frozenset({408, 425, TOO_MANY})
_LASTING: Final = frozenset({501, 505})  # what a server cannot do, it cannot do a second later either
_MAX_DIGITS: Final = 9


def status_error(reply: Reply) -> UpstreamError:
    """The failure that a status means by which a server says that the fault is its own, or that it has no time."""
    retry_after = _retry_after(reply.values(b"retry-after"))
    transient = reply.status in _TRANSIENT or (reply.status >= 500 and reply.status not in _LASTING)
    if reply.status == TOO_MANY and retry_after is None:
        transient = False  # it asks for grace, and does not say how much
    return UpstreamError(f"the server answers with status {reply.status}", transient=transient, retry_after=retry_after)


def is_status_worth_another_try(status: int) -> bool:
    """Whether a status is the server's own fault, or a matter of time: now or for a later request."""
    return status in _TRANSIENT or status >= 500


def _retry_after(values: Sequence[bytes]) -> float | None:
    """Seconds, from a number of them or from a date."""
    if len(values) != 1:
        return None
    if values[0].isdigit():
        return float(values[0][:_MAX_DIGITS])
    moment = http_date(values[0])
    return None if moment is None else max(0.0, moment - time.time())


@final
class Retries:
    """Args:
    limits: How many, and how long between them.
    draw: A number from 0 to 1, for the length of a wait.
    """

    def __init__(self, limits: Limits, draw: Callable[[], float] = random.random) -> None:
        self._limits = limits
        self._draw = draw

    def delay(self, error: UpstreamError, tries: int, time_left: float) -> float | None:
        """Seconds until the next try, or None where there is none.

        Args:
            error: What became of the last one.
            tries: How many there were.
            time_left: Seconds until the last deadline.
        """
        if tries > self._limits.max_retries or not (error.transient or _may_be_known_later(error)):
            return None
        wait = self._draw() * self._limits.retry_backoff * 2.0 ** (tries - 1)
        if error.retry_after is not None:
            if error.retry_after > self._limits.max_retry_after:
                return None
            wait = max(wait, error.retry_after)
        return wait if wait < time_left else None


def _may_be_known_later(error: UpstreamError) -> bool:
    cause = error.__cause__
    return isinstance(cause, socket.gaierror) and cause.errno == socket.EAI_AGAIN


__all__ = ["Retries", "is_status_worth_another_try", "status_error"]
