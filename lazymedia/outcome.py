"""What became of a call, as a value that is passed on without being raised: `Value`, `Failed` or `STOPPED`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Generic, NoReturn, TypeVar, final

T = TypeVar("T")


@final
@dataclass(frozen=True, slots=True)
class Value(Generic[T]):
    """The function returned this."""

    value: T

    def unwrap(self) -> T:
        return self.value


@final
@dataclass(frozen=True, slots=True)
class Failed:
    """The function raised this."""

    error: Exception

    def unwrap(self) -> NoReturn:
        error = self.error
        try:
            raise error
        finally:
            del self, error  # a frame that holds what it raised keeps it, and every payload below, from being freed


@final
@dataclass(frozen=True, slots=True)
class Stopped:
    """The function was given up: it never started, or it stopped at a checkpoint. Never yields a value."""

    def unwrap(self) -> NoReturn:
        raise RuntimeError("this call was given up; it has no result")


STOPPED: Final = Stopped()
Outcome = Value[T] | Failed | Stopped


__all__ = ["STOPPED", "Failed", "Outcome", "Stopped", "Value"]
