"""`MediaRef`: encoded bytes, an identity, and a decode that happens at most once, when it is asked for.

Two objects make a reference:

* A *cell* (`lazymedia.media.cell`) holds the decode operation: the decoder, the lock under which it runs, and the media
  once it has run. A reference and all its forks share it, so that they decode once between them. The media lives as
  long as one of them does.
* A *handle*, which users know as `MediaRef`, has the payload, key and spec, and counts the decodes that were entered
  through it. Releasing a handle waits for those and for no others.

Nothing decodes by accident: there is no ``__getattr__``, ``__iter__``, ``__len__`` or ``__array__``.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, Generic, TypeVar, cast, final

from lazymedia.contexts import contextmanager
from lazymedia.errors import ReleasedError, UnprocessableMediaError
from lazymedia.media.cell import Cell, Decoded
from lazymedia.media.payload import Payload, derive_media_key
from lazymedia.media.spec import DecodeSpec

T = TypeVar("T")
U = TypeVar("U")

_reset_lock: Final = threading.Lock()
_NO_PAYLOAD: Final = Payload(b"")


@final
class MediaRef(Generic[T]):
    """Encoded media that is decoded when asked, once among any number of threads.

    Args:
        decoder: Called without arguments to decode; runs at most once successfully.
        data: The encoded bytes, or a `Payload` with what its source knows of them.
        spec: The decode settings; no spec means an empty one.
        key: The identity, where it is already known. Otherwise it is derived from the payload and the spec, which reads
            the payload: build references of large payloads in a worker thread.
        decoded_bytes: An estimate of the memory that decoding takes, in bytes; see the property.
        probe: Called without arguments by the method `probe`.
    """

    __slots__ = (
        "__weakref__",
        "_cell",
        "_condition",
        "_declared_type",
        "_decoded",
        "_decoded_bytes",
        "_inside",
        "_key",
        "_payload",
        "_probe",
        "_process",
        "_released",
        "_spec",
    )

    def __init__(
        self,
        decoder: Callable[[], T],
        data: bytes | Payload,
        spec: DecodeSpec | None = None,
        *,
        key: bytes | None = None,
        decoded_bytes: int | None = None,
        probe: Callable[[], object] | None = None,
    ) -> None:
        payload = data if isinstance(data, Payload) else Payload(data)
        spec = DecodeSpec() if spec is None else spec
        key = payload.derive_key(spec) if key is None else key
        self._set(Cell(decoder), payload, spec, key, decoded_bytes, probe, payload.declared_type)

    def _set(
        self,
        cell: Cell[T] | None,
        payload: Payload,
        spec: DecodeSpec,
        key: bytes,
        decoded_bytes: int | None = None,
        probe: Callable[[], object] | None = None,
        declared_type: str | None = None,
    ) -> None:
        self._cell = cell
        self._payload = payload
        self._declared_type = declared_type  # None for a mapped reference, whose parent names it
        self._spec = spec
        self._key = key
        self._decoded_bytes = decoded_bytes
        self._probe = probe
        self._decoded: Decoded[T] | None = None
        self._released = False
        self._watch()

    def _watch(self) -> None:
        self._inside: list[int] = []
        self._condition = threading.Condition(threading.Lock())
        self._process = os.getpid()

    def _reset_after_fork(self) -> None:
        """In a forked process, whose parent's threads do not run here: no thread is inside, and none holds the lock."""
        if self._process != os.getpid():
            with _reset_lock:
                if self._process != os.getpid():
                    self._watch()

    @property
    def key(self) -> bytes:
        """The identity of payload and spec, 32 bytes."""
        return self._key

    @property
    def spec(self) -> DecodeSpec:
        """The decode settings that are folded into the key."""
        return self._spec

    @property
    def data(self) -> bytes:
        """The encoded bytes; ``b""`` once released."""
        return self._payload.data

    @property
    def payload(self) -> Payload:
        """The payload; an empty one once released."""
        return self._payload

    @property
    def decoded_bytes(self) -> int | None:
        """An estimate of the memory that decoding takes, in bytes, made from the header; None where none was made.

        Requests are accepted or rejected by it, before anything is spent.
        """
        return self._decoded_bytes

    @property
    def is_decoded(self) -> bool:
        """Whether `decode` would return at once. Takes no lock."""
        cell = self._cell
        return self._decoded is not None or (cell is not None and cell.decoded is not None)

    def probe(self) -> Any | None:
        """What the payload's header says of the media; nothing is decoded.

        An `ImageHeader`, a `VideoMetadata` or an `AudioInfo`, or what a decoder of your own gives. None where it is not
        known: the header cannot be read or does not say it, this reference was released or pickled, or it was made
        by `map`, which may change it.

        Reads the payload's headers, which may take some milliseconds: call it in a worker thread.

        Raises:
            UnprocessableMediaError: The headers show that the media cannot be decoded, or are over a limit.
        """
        probe = self._probe
        with self._naming_the_declared_type():
            return None if probe is None else probe()

    def outline(self) -> Any | None:
        """The former name of `probe`."""
        return self.probe()

    def decode(self) -> T:
        """The media. Decodes if no handle of this reference has; otherwise returns what was decoded.

        The decoder's exception passes unchanged and is not kept: the next call tries again. Where the source of the
        payload declared a media type of another modality, an `UnprocessableMediaError` names that type.

        Raises:
            ReleasedError: Released before it was decoded. The caller's fault.
            RuntimeError: Called from inside its own decoder; or another thread was decoding it when this process was
                forked off, where that thread does not exist.
        """
        if self._decoded is None:
            self._decoded = self._enter()
        return self._decoded.media

    def _enter(self) -> Decoded[T]:
        cell = self._cell
        if cell is not None and cell.decoded is not None:
            return cell.decoded
        with self._naming_the_declared_type(), self._entered() as cell:
            return cell.decode()

    def _through(self, transform: Callable[[T], U]) -> U | None:
        """See `Cell.decode_through`."""
        if self._decoded is not None:
            return None
        with self._naming_the_declared_type(), self._entered() as cell:
            return cell.decode_through(transform)

    @contextmanager
    def _entered(self) -> Iterator[Cell[T]]:
        """The cell, with this thread counted as one that `release` waits for."""
        thread = threading.get_ident()
        self._reset_after_fork()
        with self._condition:
            cell = self._cell
            if cell is None or (self._released and cell.decoded is None):
                raise ReleasedError("the reference was released before it was decoded")
            self._inside.append(thread)
        try:
            yield cell
        finally:
            with self._condition:
                if thread in self._inside:  # it is not where the decoder forked, and this is the child
                    self._inside.remove(thread)
                self._condition.notify_all()

    @contextmanager
    def _naming_the_declared_type(self) -> Iterator[None]:
        try:
            yield
        except UnprocessableMediaError as error:
            declared = self._declared_type
            if declared is None or declared.startswith(f"{error.modality}/"):
                raise
            raise error.with_note(f"the server declared {declared}") from error.__cause__

    def map(self, transform: Callable[[T], U], **settings: object) -> MediaRef[U]:
        """A reference to ``transform(media)``, which shares this one's payload and decodes it when asked.

        With settings, the spec is extended and the key derived anew, from this key and the extended spec, without
        reading the payload. A transform that changes its input must name itself and every parameter that matters in
        settings; without settings, spec and key stay the same.

        Releasing this reference leaves the mapped one usable, and the other way round.

        Raises:
            ReleasedError: Released before it was decoded.
        """
        parent = self.fork()
        spec = self._spec.extend(**settings) if settings else self._spec
        key = derive_media_key(self._key, spec) if settings else self._key
        mapped: MediaRef[U] = MediaRef.__new__(MediaRef)
        cell = Cell(partial(_transformed, transform, parent), parent=parent._cell)  # noqa: SLF001  # this module's own class
        mapped._set(cell, self._payload, spec, key, self._decoded_bytes)
        return mapped

    def fork(self) -> MediaRef[T]:
        """A handle on the same decode operation that can be released on its own. Takes no lock that a decode holds.

        Raises:
            ReleasedError: Released before it was decoded.
        """
        payload = self._payload  # before the cell: release() drops the cell first, so a payload read before it is whole
        cell, decoded = self._cell, self._decoded
        if decoded is None and cell is not None:
            decoded = cell.decoded
        if decoded is None and (cell is None or self._released):
            raise ReleasedError("the reference was released before it was decoded")
        forked: MediaRef[T] = MediaRef.__new__(MediaRef)
        forked._set(cell, payload, self._spec, self._key, self._decoded_bytes, self._probe, self._declared_type)
        forked._decoded = decoded
        return forked

    def release(self) -> None:
        """Give up this handle's payload, once no decode entered through this handle runs any more. Idempotent.

        Decoded media stays readable; an undecoded reference cannot be decoded afterwards. Forks, mapped references and
        the reference this one was forked from are not touched.

        Raises:
            RuntimeError: Called from inside the reference's own decoder, which would wait for itself.
        """
        thread = threading.get_ident()
        cell = self._cell
        self._reset_after_fork()
        with self._condition:
            # Another thread may be inside through this handle, and wait for the decode that this thread runs.
            if thread in self._inside or (cell is not None and cell.is_run_by(thread)):
                raise RuntimeError("a decoder released the very reference it is decoding")
            self._released = True
            try:
                self._condition.wait_for(lambda: not self._inside)
            finally:
                if self._cell is not None and self._decoded is None:
                    self._decoded = self._cell.decoded
                self._cell = self._probe = None
                self._payload = _NO_PAYLOAD

    @property
    def operation(self) -> object:
        """What is equal, by identity, among handles that decode once between them, or that wait for one such decode
        because they were mapped from it; None once released.

        For schedulers: two handles of one operation must not take two decode slots.
        """
        return None if self._cell is None else self._cell.operation

    def __repr__(self) -> str:
        state = "decoded" if self.is_decoded else "released" if self._released else "undecoded"
        return f"<MediaRef {self._key[:4].hex()} {state}, {len(self.data)} bytes>"

    def __copy__(self) -> MediaRef[T]:
        """A fork: copying decodes nothing."""
        return self.fork()

    def __deepcopy__(self, memo: dict[int, object]) -> MediaRef[T]:
        """A fork: copying decodes nothing."""
        return self.fork()

    def __reduce__(self) -> tuple[Callable[[T, bytes, DecodeSpec], MediaRef[T]], tuple[T, bytes, DecodeSpec]]:
        """Pickling decodes: what is restored is decoded, keeps key and spec, and carries no payload."""
        return _restore, (self.decode(), self._key, self._spec)


def _transformed(transform: Callable[[T], U], parent: MediaRef[T]) -> U:
    at_once = parent._through(transform)  # noqa: SLF001  # this module's own class
    return transform(parent.decode()) if at_once is None else at_once


def _restore(media: T, key: bytes, spec: DecodeSpec) -> MediaRef[T]:
    ref = cast("MediaRef[T]", MediaRef.__new__(MediaRef))
    ref._set(None, _NO_PAYLOAD, spec, key)  # noqa: SLF001  # this module's own class
    ref._decoded = Decoded(media)  # noqa: SLF001
    return ref


__all__ = ["MediaRef"]
