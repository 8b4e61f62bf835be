"""Several pieces of one decode at once, each in a thread of its own, under the stop of the waiting thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final

from lazymedia.media.cancellation import DecodeStopped, checkpoint, stopping_when

_POLL: Final = 0.02
"""Seconds between two looks at whether the decode is still wanted, for a thread that only waits."""


def run_all(first: Callable[[], None], others: Sequence[Callable[[], None]]) -> None:
    """Run ``first`` here and each of ``others`` in a thread. All have ended when this returns or raises.

    `checkpoint` stops the others too: when this thread's decode is stopped, or any of them fails.

    Raises:
        DecodeStopped: This thread's decode was stopped.
        BaseException: What one of them raised, the first one's before the others'.
    """
    stop = threading.Event()
    parts = [_Part(function, stop) for function in others]
    try:
        for part in parts:
            part.thread.start()
        first()
        for part in parts:
            part.wait()
    finally:
        stop.set()
        for part in parts:
            if part.thread.ident is not None:  # it was started
                part.thread.join()
    for part in parts:
        if part.fault is not None:
            raise part.fault


class _Part:
    """One function in a thread of its own."""

    def __init__(self, function: Callable[[], None], stop: threading.Event) -> None:
        self._function = function
        self._stop = stop
        self.fault: BaseException | None = None
        self.thread = threading.Thread(target=self._run, name="lazymedia-stretch")

    def wait(self) -> None:
        while self.thread.is_alive():
            checkpoint()
            self.thread.join(_POLL)

    def _check(self) -> None:
        if self._stop.is_set():
            raise DecodeStopped

    def _run(self) -> None:
        try:
            with stopping_when(self._check):
                self._function()
        except DecodeStopped:
            pass
        except BaseException as exc:  # noqa: BLE001  # raised again by the thread that waits
            self.fault = exc
            self._stop.set()


__all__ = ["run_all"]
