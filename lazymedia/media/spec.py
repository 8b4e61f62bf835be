"""What identifies a payload together with its decode settings.

Comes in: settings, and encoded bytes. Goes out: canonical bytes of the settings, and a 32-byte key. Never here: a
codec; deriving a key reads bytes and decodes nothing.

The key is ``sha256(len(payload) || payload || len(spec) || spec)``, lengths as 8 bytes little-endian, so that no chunk
can be shifted into its neighbour. The spec is JSON with sorted keys and no spaces.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, NoReturn, final

from lazymedia.contexts import contextmanager

if TYPE_CHECKING:
    from hashlib import _Hash

_MAX_DEPTH: Final = 32


@final
class DecodeSpec:
    """Every setting that changes media relative to its bytes, as one immutable value.

    Two specs are equal when their canonical bytes are. Integers and floats differ (``1`` and ``1.0``), tuples and lists
    do not.

    Args:
        settings: Strings to None, booleans, finite numbers, strings, and lists, tuples and string-keyed mappings of
            those.

    Raises:
        TypeError: A value of another type, or a key that is not a string (as JSON, ``{1: x}`` would equal ``{"1":
            x}``).
        ValueError: NaN, an infinity, or nesting deeper than 32.
    """

    __slots__ = ("_canonical",)

    def __init__(self, settings: Mapping[str, object] | None = None) -> None:
        plain = _plain(settings or {}, "settings", 0)
        text = json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)
        object.__setattr__(self, "_canonical", text.encode("ascii"))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("a DecodeSpec cannot be changed; extend() makes another")

    @property
    def settings(self) -> dict[str, Any]:
        """The settings, as a fresh copy at each read."""
        settings: dict[str, Any] = json.loads(self.canonical_bytes())
        return settings

    def canonical_bytes(self) -> bytes:
        """JSON of the settings: sorted keys, no spaces, ASCII."""
        canonical: bytes = object.__getattribute__(self, "_canonical")
        return canonical

    def extend(self, **settings: object) -> DecodeSpec:
        """A spec with these settings besides its own; where both have one, the new value holds."""
        return DecodeSpec({**self.settings, **settings})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DecodeSpec) and self.canonical_bytes() == other.canonical_bytes()

    def __hash__(self) -> int:
        return hash(self.canonical_bytes())

    def __repr__(self) -> str:
        return f"DecodeSpec({self.canonical_bytes().decode()})"

    def __reduce__(self) -> tuple[type[DecodeSpec], tuple[dict[str, Any]]]:
        return DecodeSpec, (self.settings,)


def derive_media_key(data: bytes, spec: DecodeSpec) -> bytes:
    """The identity of a payload under a spec: 32 bytes, linear in the payload (about 0.6 ms per MB with SHA
    extensions).

    Inside `shared_payload_digest` the payload is read once for any number of specs.
    """
    digest = _payload_digest(data)
    canonical = spec.canonical_bytes()
    digest.update(len(canonical).to_bytes(8, "little"))
    digest.update(canonical)
    return digest.digest()


@contextmanager
def shared_payload_digest(data: bytes, digest: _Hash | None = None) -> Iterator[None]:
    """Read ``data`` once for all keys derived from this very object inside the block (two decoders of one download).

    Blocks nest: an inner one over the same object reads nothing.

    Args:
        data: The payload.
        digest: What `begin_payload_digest` gave for its length, updated with all of it since. Then it is not read here.
    """
    token = _shared.set((data, _payload_digest(data) if digest is None else digest))
    try:
        yield
    finally:
        _shared.reset(token)


_shared: ContextVar[tuple[bytes, _Hash] | None] = ContextVar("lazymedia_payload_digest", default=None)


def _payload_digest(data: bytes) -> _Hash:
    shared = _shared.get()
    if shared is not None and shared[0] is data:
        return shared[1].copy()
    return _digest(data)


def begin_payload_digest(size: int) -> _Hash:
    """The digest of a payload of ``size`` bytes, none of which is in it yet: for one that is read while it comes."""
    return hashlib.sha256(size.to_bytes(8, "little"))


def _digest(data: bytes) -> _Hash:
    digest = begin_payload_digest(len(data))
    digest.update(data)
    return digest


def _plain(value: object, where: str, depth: int) -> object:
    """A copy of plain dicts, lists and scalars only, or an error that says where it cannot be one."""
    if depth > _MAX_DEPTH:
        raise ValueError(f"{where}: nested deeper than {_MAX_DEPTH}")
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            if not math.isfinite(value):
                raise ValueError(f"{where}: {value} has no place in an identity")
            return value
        case list() | tuple():
            return [_plain(element, f"{where}[{position}]", depth + 1) for position, element in enumerate(value)]
        case Mapping():
            return {
                _name(key, where): _plain(element, f"{where}[{key!r}]", depth + 1) for key, element in value.items()
            }
        case _:
            raise TypeError(f"{where}: {type(value).__name__} has no canonical form")


def _name(key: object, where: str) -> str:
    if not isinstance(key, str):
        raise TypeError(f"{where}: key {key!r} is {type(key).__name__}, not a string")
    return key


__all__ = ["DecodeSpec", "begin_payload_digest", "derive_media_key", "shared_payload_digest"]
