"""Lists the public names with their signatures.

`python -m tests.public_names` writes the list to `tests/public_names.txt`; `tests/test_public.py` compares. A change of
what users call is so seen as a change of that file.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any, Final

MODULES: Final = ("lazymedia", "lazymedia.extend", "lazymedia.testing")
FILE: Final = Path(__file__).with_suffix(".txt")
WIDTH: Final = 120


class Text(str):
    """An annotation as it was written; `inspect.Signature` would show it in quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def listed() -> str:
    """The list."""
    lines = [line for module in MODULES for line in lines_of_module(module)]
    return "\n".join(lines) + "\n"


def lines_of_module(module: str) -> Iterator[str]:
    names = import_module(module)
    for name in names.__all__:
        value = getattr(names, name)
        path = f"{module}.{name}"
        shown = getattr(value, "__module__", None)
        if shown in MODULES and shown != module:
            yield f"{path} is {shown}.{name}"
        elif isinstance(value, type):
            yield from lines_of_class(path, value)
        elif isinstance(value, FunctionType):
            yield from signature_of(path, value)
        else:
            yield path if name == "__version__" else f"{path} = {value}"


def lines_of_class(path: str, cls: type) -> Iterator[str]:
    """A class with its public bases, how it is made, and its members that no public base has."""
    private = [base for base in cls.__mro__ if base is cls or is_private(base)]
    bases = {base.__qualname__: None for each in private for base in each.__bases__}
    shown = [name for name in bases if name != "object" and name not in {each.__qualname__ for each in private}]
    yield f"class {path}({', '.join(shown)})" if shown else f"class {path}"
    members: dict[str, Any] = {}
    for base in reversed(private):
        members |= dict.fromkeys(vars(base).get("__annotations__", ()))
        members |= vars(base)
    if "__init__" in members:
        yield from signature_of("    __init__", members["__init__"])
    in_signature = set(getattr(cls, "__dataclass_fields__", ()))
    for name in sorted(members.keys() - in_signature):
        if not name.startswith("_"):
            yield from lines_of_member(f"    {name}", members[name])


def is_private(base: type) -> bool:
    return base.__module__.startswith("lazymedia") and base.__module__ not in MODULES


def lines_of_member(name: str, member: Any) -> Iterator[str]:
    if isinstance(member, property | cached_property):
        get = member.fget if isinstance(member, property) else member.func
        assert get is not None
        yield f"{name} -> {get.__annotations__.get('return')}"
    elif isinstance(member, classmethod | staticmethod):
        yield from signature_of(name, member.__func__, f"@{type(member).__name__} ")
    elif isinstance(member, FunctionType):
        yield from signature_of(name, member)
    elif isinstance(member, bool | int | float | str | tuple):
        yield f"{name} = {member!r}"
    elif isinstance(member, frozenset):
        yield f"{name} = {sorted(member)}"
    else:
        yield name


def signature_of(name: str, function: Callable[..., object], prefix: str = "") -> Iterator[str]:
    """One line, or one line for each parameter where that would be long."""
    signature = inspect.signature(function)
    parameters = [each.replace(annotation=text(each.annotation)) for each in signature.parameters.values()]
    signature = signature.replace(parameters=parameters, return_annotation=text(signature.return_annotation))
    indent = " " * (len(name) - len(name.lstrip()))
    kind = "async " if inspect.iscoroutinefunction(function) else ""
    start = f"{indent}{prefix}{kind}{name.strip()}"
    if len(f"{start}{signature}") <= WIDTH:
        yield f"{start}{signature}"
        return
    yield f"{start}("
    previous = None
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and previous not in {parameter.kind, parameter.VAR_POSITIONAL}:
            yield f"{indent}    *,"
        previous = parameter.kind
        yield f"{indent}    {parameter},"
    yield f"{indent}) -> {signature.return_annotation}"


def text(annotation: Any) -> Any:
    return Text(annotation) if isinstance(annotation, str) else annotation


if __name__ == "__main__":
    FILE.write_text(listed())
