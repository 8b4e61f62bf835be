"""The payload: encoded bytes, and what is known of them before a decode."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar, cast, final

from lazymedia.media.spec import DecodeSpec

if TYPE_CHECKING:
    from hashlib import _Hash

C = TypeVar("C")


@final
class DecoderCaches:
    """Caches that decoders share from one payload to the next. A connector owns one and puts it into each payload.

    Any number of threads may use it at once.
    """

    def __init__(self) -> None:
        self._caches: dict[object, object] = {}
        self._lock = threading.Lock()

    def get(self, make: Callable[[], C]) -> C:
        """The cache that ``make`` makes, such as `PacketIndexCache`: the same one for every call with it."""
        with self._lock:
            if make not in self._caches:
                self._caches[make] = make()
            return cast("C", self._caches[make])


@final
class Payload:
    """Encoded bytes on their way from a source to a decoder and into a reference.

    Args:
        data: The encoded bytes.
        digest: What `begin_digest` gives for the length of ``data``, updated with all of it, where a source has it
            already. Otherwise the bytes are read when the first key is derived.
        declared_type: The media type that the source declared. It goes into errors only: servers are often wrong, and
            the format is found in the bytes.
        caches: Those of the connector that fetched the bytes.
    """

    __slots__ = ("_digest", "caches", "data", "declared_type")

    def __init__(
        self,
        data: bytes,
        *,
        digest: _Hash | None = None,
        declared_type: str | None = None,
        caches: DecoderCaches | None = None,
    ) -> None:
        self.data = data
        self.declared_type = declared_type
        self.caches = caches
        self._digest = digest

    def __repr__(self) -> str:
        return f"<Payload of {len(self.data)} bytes>"

    def derive_key(self, spec: DecodeSpec) -> bytes:
        """The identity under a spec: 32 bytes. The first call reads the bytes, further ones do not.

        The key is ``sha256(len(data) || data || len(spec) || spec)``, lengths as 8 bytes little-endian, so that no
        bytes can be moved from one part into the other. Reading takes about 0.6 ms per MB with SHA extensions.
        """
        if self._digest is None:
            digest = begin_digest(len(self.data))
            digest.update(self.data)
            self._digest = digest
        digest = self._digest.copy()
        canonical = spec.canonical_bytes()
        digest.update(len(canonical).to_bytes(8, "little"))
        digest.update(canonical)
        return digest.digest()


def begin_digest(size: int) -> _Hash:
    """The digest of a payload of ``size`` bytes before any of them: for one that is read while it comes."""
    return hashlib.sha256(size.to_bytes(8, "little"))


def derive_media_key(data: bytes, spec: DecodeSpec) -> bytes:
    """The identity of encoded bytes under a spec; see `Payload.derive_key`."""
    return Payload(data).derive_key(spec)


__all__ = ["DecoderCaches", "Payload", "begin_digest", "derive_media_key"]
