"""Calls from threads that have no event loop, through the loop that owns what they want.

Comes in: an asynchronous call, and the loop's token. Goes out: its result. Never here: a second loop; the call shares
limiters and cache with everybody else's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, TypeVar, final

from anyio import from_thread
from anyio.lowlevel import EventLoopToken, current_token

from lazymedia.errors import LazyMediaError
from lazymedia.hops import in_hop
from lazymedia.pipeline.serial import shutting_down

T = TypeVar("T")

_LOOP_IS_GONE: Final = "RunFinishedError"
"""anyio and trio each have a class of this name, and only anyio's can be imported here."""


@final
@dataclass(frozen=True, slots=True)
class OwnersLoop:
    """The loop of an owner, as its other threads see it."""

    token: EventLoopToken
    thread: int

    @classmethod
    def current(cls) -> OwnersLoop:
        """The loop that runs here and now."""
        return cls(current_token(), threading.get_ident())

    def run(self, call: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
        """Run ``call`` there and wait for it here.

        Raises:
            RuntimeError: This is the loop's own thread, or a worker thread that the loop waits for. The caller's fault.
            OverloadedError: The loop has ended, or ends meanwhile. No class of the loop's own leaves this call.
            Exception: Whatever ``call`` raised.
        """
        if threading.get_ident() == self.thread or in_hop():
            raise RuntimeError("a blocking call would wait for itself here; await apply() instead")
        try:
            return from_thread.run(call, *args, token=self.token)
        except (LazyMediaError, KeyboardInterrupt, SystemExit):
            raise
        except Exception as exc:
            if type(exc).__name__ == _LOOP_IS_GONE:
                raise shutting_down() from exc
            raise
        except BaseException as exc:  # the loop's own cancellation, which means nothing in this thread
            raise shutting_down() from exc


__all__ = ["OwnersLoop"]
