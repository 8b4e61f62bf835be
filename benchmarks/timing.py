"""How the benchmarks time: medians of interleaved rounds, so that a machine that slows down slows every row.

Comes in: functions. Goes out: seconds. Never here: what is timed.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from statistics import median


async def medians(
    rows: Mapping[str, Callable[[], Awaitable[object]]], rounds: int, warm_up: int = 1
) -> dict[str, float]:
    """Median seconds of each row over ``rounds`` rounds, each of which runs every row once."""
    seconds: dict[str, list[float]] = {name: [] for name in rows}
    for number in range(rounds + warm_up):
        for name, row in rows.items():
            start = time.perf_counter()
            await row()
            if number >= warm_up:
                seconds[name].append(time.perf_counter() - start)
    return {name: median(values) for name, values in seconds.items()}


def micro(seconds: float) -> str:
    """Seconds as microseconds."""
    return f"{seconds * 1e6:,.0f} us"
