"""How the benchmarks time: medians of interleaved rounds, so that a machine that slows down slows every row.

Comes in: functions. Goes out: seconds. Never here: what is timed.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from statistics import median


async def in_rounds(
    rows: Mapping[str, Callable[[], Awaitable[object]]], rounds: int, warm_up: int = 1
) -> list[dict[str, float]]:
    """Seconds of each row in each of ``rounds`` rounds, which run every row once, one after the other."""
    measured: list[dict[str, float]] = []
    for number in range(rounds + warm_up):
        seconds = {}
        for name, row in rows.items():
            start = time.perf_counter()
            await row()
            seconds[name] = time.perf_counter() - start
        if number >= warm_up:
            measured.append(seconds)
    return measured


async def medians(
    rows: Mapping[str, Callable[[], Awaitable[object]]], rounds: int, warm_up: int = 1
) -> dict[str, float]:
    """Median seconds of each row over such rounds."""
    measured = await in_rounds(rows, rounds, warm_up)
    return {name: median(seconds[name] for seconds in measured) for name in rows}


def micro(seconds: float) -> str:
    """Seconds as microseconds."""
    return f"{seconds * 1e6:,.0f} us"
