"""`MediaIO`: a decoder with its configuration, which makes references of payloads."""

from __future__ import annotations

import binascii
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import pybase64

from lazymedia.errors import PayloadTooLargeError, UnprocessableMediaError
from lazymedia.media.payload import Payload
from lazymedia.media.ref import MediaRef
from lazymedia.media.spec import DecodeSpec

T = TypeVar("T")


class MediaIO(ABC, Generic[T]):
    """A decoder with its configuration. Subclass it to teach lazymedia another kind of media.

    `load_bytes` decodes. It raises `UnprocessableMediaError` for whatever is the payload's fault, with the library's
    own exception as ``__cause__``, and lets ImportError and MemoryError pass. It runs in a worker thread, may run for
    several payloads at once, must not wait for an event loop, and calls `lazymedia.media.checkpoint` where it takes
    long.

    `get_decode_spec` names every setting that changes what `load_bytes` returns. A choice that depends on the bytes,
    such as a backend picked by format, is resolved in `load_ref` and written into that reference's spec.

    Override `load_ref` to build references in another way. Where a class overrides `load_bytes_ref` instead, that is
    what a connector calls; the digest and the caches of the payload are then lost.
    """

    modality: ClassVar[str] = ""
    """``"image"``, ``"video"``, ``"audio"``, or a name of your own."""

    operator_only: ClassVar[frozenset[str]] = frozenset()
    """Arguments that a request may not choose."""

    reads_quickly: ClassVar[bool] = False
    """Whether `load_ref` takes hardly longer than hashing the payload does, so that a short payload may be read on an
    event loop. It says so of one implementation: a class that overrides `load_ref` or `load_bytes_ref` is slow unless
    it sets this again."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if vars(cls).keys() & {"load_ref", "load_bytes_ref"} and "reads_quickly" not in vars(cls):
            cls.reads_quickly = False

    @abstractmethod
    def load_bytes(self, data: bytes) -> T:
        """Decode ``data``."""

    def load_ref(self, payload: Payload) -> MediaRef[T]:
        """A reference to what a payload decodes to. Reads the payload for its key and decodes nothing.

        Raises:
            PayloadTooLargeError: More bytes than `get_max_bytes`.
            UnprocessableMediaError: The header shows that a limit is exceeded. A header that cannot be read at all is
                left for the decode, where it fails with the other decode failures.
        """
        self._check_size(len(payload.data))
        return MediaRef(partial(self.load_bytes, payload.data), payload, self.get_decode_spec())

    def load_bytes_ref(self, data: bytes) -> MediaRef[T]:
        """`load_ref` for encoded bytes of which nothing else is known."""
        return self.load_ref(Payload(data))

    def load_base64_ref(self, media_type: str, text: str) -> MediaRef[T]:  # noqa: ARG002  # for overriding decoders
        """A reference to what base64 ``text`` decodes to. The size is checked before anything is decoded.

        Args:
            media_type: As declared, such as ``"image/png"``; a hint that the bytes overrule.
            text: Base64 with padding and without white space.

        Raises:
            PayloadTooLargeError: More bytes than `get_max_bytes`.
            UnprocessableMediaError: Not base64.
        """
        self._check_size(len(text) // 4 * 3 - text.count("=", -2))
        try:
            data = pybase64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as exc:
            raise UnprocessableMediaError("the payload is not valid base64", modality=self.modality or None) from exc
        return self.load_bytes_ref(data)

    def reads_base64(self, media_type: str) -> bool:  # noqa: ARG002  # for overriding decoders
        """Whether `load_base64_ref` does anything else with this media type than to decode base64.

        Where it does not, a connector decodes base64 itself, in blocks. Decoders that override `load_base64_ref` for
        some types say here for which; by default for all, and for none where it is not overridden.

        Args:
            media_type: As declared, in lower case, such as ``"video/jpeg"``.
        """
        return type(self).load_base64_ref is not MediaIO.load_base64_ref

    def load_file_ref(self, path: Path) -> MediaRef[T]:
        """A reference to what a file decodes to. The file is read whole, once; the reference does not need it
        afterwards.

        No policy applies here: a path from outside goes through a `MediaConnector`.

        Raises:
            PayloadTooLargeError: More bytes than `get_max_bytes`.
            OSError: The file cannot be read.
        """
        with path.open("rb") as file:
            self._check_size(os.fstat(file.fileno()).st_size)
            cap = self.get_max_bytes()
            data = file.read() if cap is None else file.read(cap + 1)
        return self.load_bytes_ref(data)

    def check_header(self, prefix: bytes, declared: int | None) -> bool:  # noqa: ARG002  # for overriding decoders
        """Reject a payload during its download, where its first bytes show that a limit is exceeded.

        Called in a worker thread, a few times for one payload, with a longer prefix each time. An incomplete header is
        no reason to reject: other faults of a payload are reported when it is whole.

        Args:
            prefix: The payload's first bytes, 256 KiB at most.
            declared: The size of the whole in bytes, as declared, or None.

        Returns:
            Whether a longer prefix could show nothing new, so that this need not be called again.

        Raises:
            UnprocessableMediaError: The header shows that a limit is exceeded.
        """
        return True

    def get_decode_spec(self) -> DecodeSpec:
        """The configured settings that change what a payload decodes to."""
        return DecodeSpec()

    def get_max_bytes(self) -> int | None:
        """Encoded bytes that this decoder accepts at most; None where it does not care."""
        return None

    @classmethod
    def merge_kwargs(cls, default: Mapping[str, Any] | None, runtime: Mapping[str, Any] | None) -> dict[str, Any]:
        """Constructor arguments from an operator's defaults and a request's options, which win.

        Raises:
            UnprocessableMediaError: The request names an argument that is the operator's alone.
        """
        rejected = sorted(cls.operator_only & set(runtime or {}))
        if rejected:
            raise UnprocessableMediaError(
                f"decoder options: {', '.join(rejected)} cannot be chosen by a request", modality=cls.modality or None
            )
        return {**(default or {}), **(runtime or {})}

    def _check_size(self, size: int) -> None:
        cap = self.get_max_bytes()
        if cap is not None and size > cap:
            raise PayloadTooLargeError(
                f"{size} bytes of {self.modality or 'media'} are more than the {cap} allowed",
                modality=self.modality or None,
            )


def make_ref(media_io: MediaIO[T], payload: Payload) -> MediaRef[T]:
    """The reference that a decoder makes of a payload: by `MediaIO.load_ref`, or by `MediaIO.load_bytes_ref` where its
    class overrides that one.

    Raises:
        TypeError: The decoder made something else. Its author's fault.
        Exception: Whatever the decoder raised.
    """
    overrides = next(cls for cls in type(media_io).__mro__ if vars(cls).keys() & {"load_ref", "load_bytes_ref"})
    ref: object = media_io.load_ref(payload) if "load_ref" in vars(overrides) else media_io.load_bytes_ref(payload.data)
    return check_made(type(media_io).__name__, ref)


def check_made(maker: str, made: object) -> MediaRef[Any]:
    """A reference that code of a user's made.

    Raises:
        TypeError: It is none.
    """
    if not isinstance(made, MediaRef):
        raise TypeError(f"{maker} made a {type(made).__name__} where a MediaRef belongs")
    return made


__all__ = ["MediaIO", "check_made", "make_ref"]
