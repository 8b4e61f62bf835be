"""Decoders to test with: one that blocks at a gate, one that fails, one that counts."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Final, Generic, TypeVar

from lazymedia.media.cancellation import DecodeStopped, checkpoint
from lazymedia.media.io import MediaIO, make_ref
from lazymedia.media.payload import Payload
from lazymedia.media.ref import MediaRef
from lazymedia.media.spec import DecodeSpec

T = TypeVar("T")

GATE_SECONDS: Final = 30.0
"""A gate that stays closed fails the test after this many seconds instead of hanging it."""


class _Counted(MediaIO[T]):
    """Counts calls, and threads inside."""

    def __init__(self, settings: Mapping[str, object] | None = None, modality: str = "image") -> None:
        self.modality = modality  # type: ignore[misc]  # one class serves every modality here
        self._spec = DecodeSpec({"testing": type(self).__name__, **(settings or {})})
        self._lock = threading.Lock()
        self.calls = 0
        self.running = 0
        self.finished = 0
        self.most_at_once = 0
        self.threads: set[int] = set()

    def get_decode_spec(self) -> DecodeSpec:
        return self._spec

    def load_bytes(self, data: bytes) -> T:
        with self._lock:
            self.calls += 1
            self.running += 1
            self.most_at_once = max(self.most_at_once, self.running)
            self.threads.add(threading.get_ident())
        try:
            return self._decode(data)
        finally:
            with self._lock:
                self.running -= 1
                self.finished += 1

    def _decode(self, data: bytes) -> T:
        raise NotImplementedError


class GatedMediaIO(_Counted[T]):
    """Decodes anything to ``result``, once the gate is open.

    Args:
        result: What every payload decodes to; called with the payload where it is callable.
        settings: What the decode spec holds besides the fake's name; other settings make another key.
        stoppable: Whether the decode looks at `lazymedia.media.checkpoint` while it waits, as a decoder of long media
            does. Most codecs cannot be stopped, so the default is no.
        modality: The modality that it claims to decode.

    Attributes:
        started: Set when a decode has begun.
        calls, running, finished: Decodes begun, under way, ended (also by failure).
        most_at_once: Decodes under way at once, at most.
        threads: Identifiers of the threads that decoded.
        stopped: Decodes that ended at a checkpoint.
    """

    def __init__(
        self,
        result: Any,
        *,
        settings: Mapping[str, object] | None = None,
        stoppable: bool = False,
        modality: str = "image",
    ) -> None:
        super().__init__(settings, modality)
        self._result = result
        self._stoppable = stoppable
        self._gate = threading.Event()
        self.started = threading.Event()
        self.stopped = 0

    def release(self) -> None:
        """Open the gate: decodes that wait go on, and later ones do not wait."""
        self._gate.set()

    def close(self) -> None:
        """Close the gate again for later decodes, and reset whether any has started."""
        self._gate.clear()
        self.started.clear()

    def _decode(self, data: bytes) -> T:
        self.started.set()
        if self._stoppable:
            self._wait_stoppably()
        elif not self._gate.wait(GATE_SECONDS):
            raise TimeoutError("the gate was not opened")
        result: T = self._result(data) if callable(self._result) else self._result
        return result

    def _wait_stoppably(self) -> None:
        try:
            while not self._gate.wait(0.005):
                checkpoint()
        except DecodeStopped:
            self.stopped += 1
            raise


class FailingMediaIO(_Counted[Any]):
    """Decodes nothing: every decode raises.

    Args:
        exception: What is raised; an instance, a class, or a function that is given the payload and returns either.
        settings: As for `GatedMediaIO`.
        modality: The modality that it claims to decode.
    """

    def __init__(
        self, exception: Any, *, settings: Mapping[str, object] | None = None, modality: str = "image"
    ) -> None:
        super().__init__(settings, modality)
        self._exception = exception

    def _decode(self, data: bytes) -> Any:
        exception = self._exception
        if not isinstance(exception, BaseException) and not _is_exception_class(exception):
            exception = exception(data)
        raise exception


class CountingMediaIO(MediaIO[T], Generic[T]):
    """A real decoder, counted.

    Args:
        inner: The decoder that does the work; specs, keys and limits are its own.

    Attributes:
        calls: Decodes begun.
        finished: Decodes ended, also by failure.
    """

    def __init__(self, inner: MediaIO[T]) -> None:
        self.modality = inner.modality  # type: ignore[misc]  # one class serves every modality here
        self._inner = inner
        self._lock = threading.Lock()
        self.calls = 0
        self.finished = 0

    def load_bytes(self, data: bytes) -> T:
        return self._counted(self._inner.load_bytes_ref(data))

    def load_ref(self, payload: Payload) -> MediaRef[T]:
        ref = make_ref(self._inner, payload)
        return MediaRef(
            lambda: self._counted(ref),
            payload,
            ref.spec,
            key=ref.key,
            decoded_bytes=ref.decoded_bytes,
            probe=ref.probe,
        )

    def _counted(self, ref: MediaRef[T]) -> T:
        with self._lock:
            self.calls += 1
        try:
            return ref.decode()
        finally:
            with self._lock:
                self.finished += 1

    def get_decode_spec(self) -> DecodeSpec:
        return self._inner.get_decode_spec()

    def get_max_bytes(self) -> int | None:
        return self._inner.get_max_bytes()


def _is_exception_class(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)


__all__ = ["CountingMediaIO", "FailingMediaIO", "GatedMediaIO"]
