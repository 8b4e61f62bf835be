"""Bounds on the size and the values of a request's options, checked before anything reads them.

Options come from a client as JSON and reach code that copies, hashes and merges them, and then arithmetic on pixels. A
list of a million numbers or a factor of 1e308 would be valid types there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
    _check_length(options, what, limits)
    left = limits.max_option_size
    for name, value in options.items():
        if not isinstance(name, str):
            raise UnprocessableMediaError(f"{what}: an option's name is text, not {type(name).__name__}")
        where = f"{what}: {shortened(name)}"
        left = _check(value, where, limits, _spend(left, len(name), where, limits), MAX_DEPTH - 1)


def _check(value: object, where: str, limits: Limits, left: int, depth: int) -> int:
    """Check one value and return how much of the size is left after it."""
    if isinstance(value, Mapping | list | tuple):
        _check_length(value, where, limits)
        if depth == 0:
            raise UnprocessableMediaError(f"{where} is too deeply nested: {MAX_DEPTH} levels are allowed")
        for name in value if isinstance(value, Mapping) else ():
            if not isinstance(name, str):
                raise UnprocessableMediaError(f"{where}: a key is text, not {type(name).__name__}")
            left = _spend(left, len(name), where, limits)
        elements: Iterable[object] = value.values() if isinstance(value, Mapping) else value
        for element in elements:
            left = _check(element, where, limits, left, depth - 1)
        return left
    if isinstance(value, str):
        return _spend(left, len(value), where, limits)
    number: Any = value
    if value is not None and not isinstance(value, Real):
        raise UnprocessableMediaError(f"{where} must be of a type that JSON has, not {type(value).__name__}")
    if value is not None and not abs(number) <= limits.max_option_number:  # NaN compares false
        raise UnprocessableMediaError(f"{where} must be finite and of magnitude {limits.max_option_number:g} at most")
    return _spend(left, _WEIGHT, where, limits)


def _check_length(value: Mapping[str, object] | list[object] | tuple[object, ...], where: str, limits: Limits) -> None:
    if len(value) > limits.max_option_length:
        raise UnprocessableMediaError(
            f"{where}: {len(value)} entries are more than the {limits.max_option_length} allowed"
        )


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
