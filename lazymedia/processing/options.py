"""Bounds on the size and the values of a request's options, checked before anything reads them.

Options come from a client as JSON and reach code that copies, hashes and merges them, and then arithmetic on pixels. A
list of a million numbers or a factor of 1e308 would be valid types there.
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any, Final

from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import Limits

MAX_DEPTH: Final = 8
"""Levels of lists and mappings, the options themselves included. The deepest of use is 3, a size within a group."""

_WEIGHT: Final = 8
"""Characters that a value which is no text counts as."""


def check_options(options: Mapping[str, object], what: str, limits: Limits) -> None:
    """Check names, depth, size and values of a request's options. Reads no more than the limits allow.

    Args:
        options: The options; keys may still be of any type.
        what: How errors name them, such as ``"processor options"``.
        limits: `Limits.max_option_size`, ``max_option_length`` and ``max_option_number``.

    Raises:
        UnprocessableMediaError: Over a limit, not finite, or of a type that JSON does not have. Names the option. The
            client's fault.
    """
    _check(options, what, limits, limits.max_option_size, MAX_DEPTH)


def _check(value: object, where: str, limits: Limits, left: int, depth: int) -> int:
    """Check one value and return how much of the size is left after it."""
    if isinstance(value, Mapping | list | tuple):
        if len(value) > limits.max_option_length:
            raise UnprocessableMediaError(
                f"{where}: {len(value)} entries are more than the {limits.max_option_length} allowed"
            )
        if depth == 0:
            raise UnprocessableMediaError(f"{where} is too deeply nested: {MAX_DEPTH} levels are allowed")
    if isinstance(value, list | tuple):
        for element in value:
            left = _check(element, where, limits, left, depth - 1)
        return left
    if not isinstance(value, Mapping):
        return _spend(left, _weight(value, where, limits), where, limits)
    for name, element in value.items():
        if not isinstance(name, str):
            raise UnprocessableMediaError(f"{where}: an option's name is text, not {type(name).__name__}")
        inner = f"{where}: {shortened(name)}"
        left = _check(element, inner, limits, _spend(left, len(name), inner, limits), depth - 1)
    return left


def _weight(value: object, where: str, limits: Limits) -> int:
    """What a value that holds no others counts as, once it is checked."""
    if isinstance(value, str):
        return len(value)
    if value is not None:
        if not isinstance(value, Real):
            raise UnprocessableMediaError(f"{where} must be of a type that JSON has, not {type(value).__name__}")
        number: Any = value
        if not abs(number) <= limits.max_option_number:  # NaN compares false
            raise UnprocessableMediaError(
                f"{where} must be finite and of magnitude {limits.max_option_number:g} at most"
            )
    return _WEIGHT


def _spend(left: int, size: int, where: str, limits: Limits) -> int:
    if size > left:
        raise UnprocessableMediaError(
            f"{where}: the options have more than the {limits.max_option_size} characters allowed"
        )
    return left - size


def shortened(name: str) -> str:
    """The beginning of a name, fit for an error."""
    return name if len(name) <= 64 else f"{name[:61]}..."


__all__ = ["MAX_DEPTH", "check_options", "shortened"]
