"""`contextlib.contextmanager` and `asynccontextmanager` whose exceptions are freed without the garbage collector.

Where a generator catches the exception of its block and raises another or none, contextlib leaves the generator's frame
in the traceback of the one that was caught. From Python 3.12 on, that frame refers to one of contextlib's, which refers
to the exception. So the exception, and through its traceback a request's payload, waits for the garbage collector
(python/cpython#129280, open; seen in 3.12.1 and 3.13.0). Here the frame is taken out. Before 3.12, contextlib's own are
used.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import wraps
from types import TracebackType
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


if sys.version_info < (3, 12):
    from contextlib import asynccontextmanager, contextmanager
else:

    class _Freeing(AbstractContextManager[T, bool | None], Generic[T]):
        def __init__(self, manager: AbstractContextManager[T, bool | None]) -> None:
            self._manager = manager

        def __enter__(self) -> T:
            return self._manager.__enter__()

        def __exit__(
            self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
        ) -> bool | None:
            try:
                return self._manager.__exit__(kind, error, traceback)
            finally:
                if error is not None:
                    error.__traceback__ = traceback

    class _AsyncFreeing(AbstractAsyncContextManager[T, bool | None], Generic[T]):
        def __init__(self, manager: AbstractAsyncContextManager[T, bool | None]) -> None:
            self._manager = manager

        async def __aenter__(self) -> T:
            return await self._manager.__aenter__()

        async def __aexit__(
            self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
        ) -> bool | None:
            try:
                return await self._manager.__aexit__(kind, error, traceback)
            finally:
                if error is not None:
                    error.__traceback__ = traceback

    def contextmanager(function: Callable[P, Iterator[T]]) -> Callable[P, AbstractContextManager[T, bool | None]]:
        """As `contextlib.contextmanager`."""
        make = contextlib.contextmanager(function)

        @wraps(function)
        def freeing(*args: P.args, **kwargs: P.kwargs) -> AbstractContextManager[T, bool | None]:
            return _Freeing(make(*args, **kwargs))

        return freeing

    def asynccontextmanager(
        function: Callable[P, AsyncIterator[T]],
    ) -> Callable[P, AbstractAsyncContextManager[T, bool | None]]:
        """As `contextlib.asynccontextmanager`."""
        make: Callable[..., Any] = contextlib.asynccontextmanager(function)

        @wraps(function)
        def freeing(*args: P.args, **kwargs: P.kwargs) -> AbstractAsyncContextManager[T, bool | None]:
            return _AsyncFreeing(make(*args, **kwargs))

        return freeing


__all__ = ["asynccontextmanager", "contextmanager"]
