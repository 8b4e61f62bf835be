"""What an owner of references keeps for its decoders from one payload to the next.

Comes in: what makes a store, from a decoder that makes a reference. Goes out: the owner's one store of that make. Never
here: what a store holds, or a store of nobody's.

An owner (a connector) knows no codec, and a decoder may be made anew for each request; this is where they meet.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar, cast, final

S = TypeVar("S")


@final
class Kept:
    """The stores of one owner, each made when it is first asked for. Any number of threads may use it at once."""

    def __init__(self) -> None:
        self._stores: dict[object, object] = {}
        self._lock = threading.Lock()

    def store(self, make: Callable[[], S]) -> S:
        """The store that ``make`` makes; the same one for every call with it."""
        with self._lock:
            if make not in self._stores:
                self._stores[make] = make()
            return cast("S", self._stores[make])


_kept: ContextVar[Kept | None] = ContextVar("lazymedia_kept", default=None)


def kept_by(owner: Kept, make: Callable[[], S]) -> S:
    """What ``make`` returns. A decoder that makes a reference inside it finds this owner's stores."""
    token = _kept.set(owner)
    try:
        return make()
    finally:
        _kept.reset(token)


def owners_store(make: Callable[[], S]) -> S | None:
    """The store of whoever owns the reference that is being made; None where nobody does."""
    owner = _kept.get()
    return None if owner is None else owner.store(make)


__all__ = ["Kept", "kept_by", "owners_store"]
