"""Public classes and functions show the path from which users import them, as those of httpx and trio do.

So tracebacks, pickles and documentation do not depend on where a name is defined, which may change.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from types import FunctionType

from lazymedia import _HOMES


def publish(home: str) -> None:
    """Set ``__module__`` of the public names that are loaded from a module. Called at the module's end.

    Args:
        home: The ``__name__`` of the module.
    """
    defined = vars(sys.modules[home])
    for path, homes in _HOMES.items():
        for name in homes.get(home, ()):
            show_at(path, defined[name])


def show_at(path: str, value: object) -> None:
    """Set ``__module__`` of a class or function; other values have none of their own."""
    if isinstance(value, type):
        _evaluate_annotations(value)
    if isinstance(value, type | FunctionType):
        value.__module__ = path


def _evaluate_annotations(cls: type) -> None:
    """Replace the annotations that are texts by their values. `typing.get_type_hints` and pydantic evaluate those of a
    class in the module that ``__module__`` names, which does not have the names that are used in them.
    """
    cls.__annotations__ = annotations = inspect.get_annotations(cls, eval_str=True)
    for field in dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ():
        field.type = annotations.get(field.name, field.type)


__all__ = ["publish", "show_at"]
