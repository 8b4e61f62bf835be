"""The sources of `fetch` and `probe`: URLs and files named on a command line, fetched concurrently.

One source that fails never stops the others; every source has an outcome.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, TypeVar

import anyio

from lazymedia.cli.options import UsageError, usage_errors
from lazymedia.cli.show import Progress
from lazymedia.errors import LazyMediaError

T = TypeVar("T")

_AT_ONCE: Final = 16
"""Sources whose payloads are held at once: enough to hide the time of a round trip, and few payloads in memory."""


@dataclass(frozen=True, slots=True)
class Source:
    """One source. ``url`` is None for a file that does not exist."""

    name: str
    url: str | None


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """What became of one source: a value, or the error's one line."""

    source: str
    value: T | None
    error: str | None = None
    status: int | None = None
    """HTTP status that a server would answer with, where the error has one."""


def find(names: Sequence[str]) -> tuple[list[Source], str | None]:
    """The sources, and the folder that contains the files among them.

    A name without a scheme is a file. Someone who names a file here may read it.

    Raises:
        UsageError: None of the sources exists.
    """
    sources, folders = [], []
    for name in names:
        if _has_scheme(name):
            sources.append(Source(name, name))
            continue
        with usage_errors():
            path = Path(name).resolve()
            exists = path.is_file()
        sources.append(Source(name, path.as_uri() if exists else None))
        folders.append(str(path.parent))
    if sources and all(source.url is None for source in sources):
        raise UsageError(f"no such file: {names[0]}")
    return sources, os.path.commonpath(folders) if folders else None


def urls_of(names: Sequence[str]) -> tuple[list[str], str | None]:
    """As `find`, where every source has to exist.

    Raises:
        UsageError: A file that does not exist.
    """
    sources, folder = find(names)
    for source in sources:
        if source.url is None:
            raise UsageError(f"no such file: {source.name}")
    return [source.url for source in sources if source.url is not None], folder


def _has_scheme(name: str) -> bool:
    return name[:5].lower() in {"data:", "file:"} or "://" in name


async def fetch_each(sources: Sequence[Source], fetch: Callable[[str], Awaitable[T]]) -> list[Outcome[T]]:
    """Call ``fetch`` with each URL, several at once, and collect the outcomes in the order of the sources.

    Args:
        sources: Any number.
        fetch: A `LazyMediaError` or an `OSError` that it raises is that source's outcome; anything else ends all.
    """
    outcomes: dict[int, Outcome[T]] = {}
    failures: list[Exception] = []
    places = anyio.CapacityLimiter(_AT_ONCE)

    async def run(index: int, source: Source) -> None:
        async with places:
            try:
                outcomes[index] = await _outcome(source, fetch)
            except Exception as error:  # noqa: BLE001  # leaves the nursery as itself, in no group
                failures.append(error)
                nursery.cancel_scope.cancel()
        progress.advance()

    with Progress(len(sources), "fetched") as progress:
        async with anyio.create_task_group() as nursery:
            for index, source in enumerate(sources):
                nursery.start_soon(run, index, source)
    if failures:
        raise failures[0]
    return [outcomes[index] for index in range(len(sources))]


async def _outcome(source: Source, fetch: Callable[[str], Awaitable[T]]) -> Outcome[T]:
    if source.url is None:
        return Outcome(source.name, None, "no such file")
    try:
        return Outcome(source.name, await fetch(source.url))
    except LazyMediaError as error:
        return Outcome(source.name, None, str(error), error.status_hint)
    except OSError as error:
        return Outcome(source.name, None, f"cannot be written: {error.strerror}")


__all__ = ["Outcome", "Source", "fetch_each", "find", "urls_of"]
