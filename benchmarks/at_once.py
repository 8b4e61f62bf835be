"""The same work at the same time: in threads of one interpreter, or in two processes, which share only the machine.

Comes in: work, and what it works on. Goes out: results, or seconds of CPU. Never here: a library, or a ratio.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

from benchmarks.measure import Elsewhere

T = TypeVar("T")
Work: TypeAlias = Callable[[bytes], object]


def at_once(work: Sequence[Callable[[], T]]) -> list[T]:
    """The results, from as many threads as a processor decodes in."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda function: function(), work))


@contextmanager
def two_processes(work: Work, path: Path) -> Iterator[Callable[[], Elsewhere]]:
    """Two interpreters that hold the payload each, and wait to be called. ``work`` is a module's own function."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, context, _load, (work, path, context.Barrier(2))) as pool:

        def call() -> Elsewhere:
            return Elsewhere(sum(pool.map(_do, range(2))))

        call()  # starts both
        yield call


_here: Final[dict[str, Any]] = {}
"""What one of those processes was started with."""


def _load(work: Work, path: Path, both: Barrier) -> None:
    _here.update(work=work, data=path.read_bytes(), both=both)


def _do(_number: int) -> float:
    _here["both"].wait()  # or one of them might do it twice
    cpu = time.process_time()
    _here["work"](_here["data"])
    return time.process_time() - cpu


__all__ = ["at_once", "two_processes"]
