"""`DecodeSpec`: decode settings as one immutable value, written as JSON with sorted keys and no spaces."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final, NoReturn, final

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


__all__ = ["DecodeSpec"]
