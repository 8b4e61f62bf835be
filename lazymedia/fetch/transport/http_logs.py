"""Records that HTTP libraries log about requests made here, without what a URL or a header may hold.

At level DEBUG they log every header, and at INFO every URL. A signed URL is a credential, and a redirect may bring one.
Records about requests of others are not changed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextvars import ContextVar
from functools import cache
from typing import Final

from lazymedia.contexts import contextmanager
from lazymedia.errors import scrub

_LOGGERS: Final = (
    *("httpx", "httpx2"),
    *(f"{core}.{part}" for core in ("httpcore", "httpcore2") for part in ("connection", "http11", "http2")),
    *(f"{core}.{part}" for core in ("httpcore", "httpcore2") for part in ("proxy", "socks")),
)
_is_ours: ContextVar[bool] = ContextVar("lazymedia_fetch_logs", default=False)


def _shorten(record: logging.LogRecord) -> bool:
    if _is_ours.get():
        text = record.getMessage()
        # httpcore logs the name of an event and then what belongs to it, headers included.
        record.msg = text.partition(" ")[0] if record.name.startswith("httpcore") else scrub(text)
        record.args = ()
    return True


@cache
def _install() -> None:
    for name in _LOGGERS:  # each by itself: a logger's filters are not asked about records of those below it
        logging.getLogger(name).addFilter(_shorten)


@contextmanager
def short_records() -> Iterator[None]:
    """Inside the block, in this task, the libraries log no URL and no header."""
    _install()
    before = _is_ours.get()
    _is_ours.set(True)
    try:
        yield
    finally:
        _is_ours.set(before)


__all__ = ["short_records"]
