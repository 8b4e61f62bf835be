"""A failure frees what it held at once, also where a context manager turned it into another or swallowed it."""

from __future__ import annotations

import gc
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from lazymedia.contexts import asynccontextmanager, contextmanager


class Held:
    """Stands for a payload."""


class ByTheLibraryError(Exception):
    pass


class OursError(Exception):
    pass


@contextmanager
def same() -> Iterator[None]:
    yield


@contextmanager
def another() -> Iterator[None]:
    try:
        yield
    except ByTheLibraryError as exc:
        raise OursError from exc


@contextmanager
def none() -> Iterator[None]:
    with suppress(ByTheLibraryError):
        yield


@asynccontextmanager
async def same_async() -> AsyncIterator[None]:
    yield


@asynccontextmanager
async def another_async() -> AsyncIterator[None]:
    try:
        yield
    except ByTheLibraryError as exc:
        raise OursError from exc


@asynccontextmanager
async def none_async() -> AsyncIterator[None]:
    with suppress(ByTheLibraryError):
        yield


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def fail(watches: list[weakref.ref[Held]]) -> None:
    held = Held()
    watches.append(weakref.ref(held))
    raise ByTheLibraryError


@pytest.mark.parametrize("make", [same, another, none])
@pytest.mark.usefixtures("without_collector")
def test_what_a_failure_held_is_freed(make: Callable[[], Any]) -> None:
    watches: list[weakref.ref[Held]] = []

    def use() -> None:
        with make():
            fail(watches)

    with suppress(ByTheLibraryError, OursError):
        use()

    assert [watch() for watch in watches] == [None]


@pytest.mark.parametrize("make", [same_async, another_async, none_async])
@pytest.mark.usefixtures("without_collector")
async def test_what_a_failure_in_a_coroutine_held_is_freed(make: Callable[[], Any]) -> None:
    watches: list[weakref.ref[Held]] = []

    async def use() -> None:
        async with make():
            fail(watches)

    with suppress(ByTheLibraryError, OursError):
        await use()

    assert [watch() for watch in watches] == [None]
