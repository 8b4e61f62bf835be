"""Wall and CPU of synchronous work in interleaved rounds, ratios round by round, and targets held or missed.

Comes in: functions. Goes out: costs, rows of a table, verdicts. Never here: what is measured.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from lazymedia.cli.show import table

Kind: TypeAlias = Literal["wall", "cpu"]
Cell: TypeAlias = "tuple[object, ...]"

NOT_INSTALLED: Final = "not installed"


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of one run; ``cpu`` counts all threads of this process, and what a row says of others."""

    wall: float
    cpu: float

    def of(self, kind: Kind) -> float:
        """Either."""
        return self.wall if kind == "wall" else self.cpu


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """What a row gives whose work is done in other processes: their seconds of CPU."""

    cpu: float


Rounds: TypeAlias = "list[dict[str, Cost]]"


def in_rounds(rows: Mapping[str, Callable[[], object]], rounds: int, *, touched: int = 0) -> Rounds:
    """Every row once in each round, one after the other.

    Before each, this process touches so many bytes and gives them back. On a virtual machine whose host takes back what
    is free, new memory costs twenty times as much (2.4 s by 0.1 s per GiB), and would be charged to whichever row wants
    it first.
    """
    measured: Rounds = []
    for _ in range(rounds):
        measured.append({})
        for name, row in rows.items():
            np.ones(touched, np.uint8)
            wall, cpu = time.perf_counter(), time.process_time()
            given = row()
            spent = Cost(time.perf_counter() - wall, time.process_time() - cpu)
            measured[-1][name] = replace(spent, cpu=spent.cpu + given.cpu) if isinstance(given, Elsewhere) else spent
            del given
    return measured


def middle(rounds: Rounds, name: str, kind: Kind) -> float:
    """The median of a row's cost."""
    return median(costs[name].of(kind) for costs in rounds)


def ratio(rounds: Rounds, name: str, against: str, kind: Kind) -> float:
    """The median, over the rounds, of one row's cost by another's."""
    return median(costs[name].of(kind) / costs[against].of(kind) for costs in rounds)


def best(rounds: Rounds, names: Collection[str]) -> str | None:
    """The row that took the least time by the clock."""
    return min(
        (name for name in names if name in rounds[0]), key=lambda name: middle(rounds, name, "wall"), default=None
    )


def cost_rows(rounds: Rounds, against: str | None, missing: Sequence[str] = ()) -> list[Cell]:
    """A row for each: medians, and ratios to ``against``; and one for each library that is missing."""
    rows: list[Cell] = []
    for name in rounds[0]:
        seconds = (f"{middle(rounds, name, 'wall') * 1000:,.0f} ms", f"{middle(rounds, name, 'cpu') * 1000:,.0f} ms")
        ratios = ("", "")
        if against is not None:
            ratios = (f"{ratio(rounds, name, against, 'wall'):.2f}", f"{ratio(rounds, name, against, 'cpu'):.2f}")
        rows.append((name, *seconds, *ratios))
    return rows + [(name, NOT_INSTALLED, "", "", "") for name in missing]


def heading(title: str, against: str | None) -> Cell:
    """The first row for `cost_rows`."""
    return (title, "wall", "CPU", f"of {against or '-'}: wall", "CPU")


def optional(name: str) -> Any | None:
    """A library that a row needs; None where it is not installed or cannot be loaded."""
    try:
        return importlib.import_module(name)
    except (ImportError, OSError, RuntimeError):  # torchcodec raises the last where the system has no FFmpeg
        return None


@dataclass
class Targets:
    """What was aimed at and what came out, for the last table.

    Attributes:
        judged: Whether the numbers mean anything; those of the short form do not.
    """

    judged: bool = True
    rows: list[tuple[str, str, str, str]] = field(default_factory=list)

    def at_most(self, what: str, value: float | None, limit: float, unit: str = "") -> None:
        """One that is held at ``limit`` or below."""
        self._add(what, value, f"<= {limit:g}{unit}", unit, value is not None and value <= limit)

    def at_least(self, what: str, value: float | None, limit: float, unit: str = "") -> None:
        """One that is held at ``limit`` or above."""
        self._add(what, value, f">= {limit:g}{unit}", unit, value is not None and value >= limit)

    def _add(self, what: str, value: float | None, aim: str, unit: str, held: bool) -> None:
        verdict = "not measured" if value is None else "" if not self.judged else "held" if held else "MISSED"
        self.rows.append((what, "" if value is None else f"{value:.2f}{unit}", aim, verdict))

    def show(self) -> None:
        """Print them."""
        if self.rows:
            print(table([("target", "measured", "aim", "verdict"), *self.rows]), end="\n\n")


__all__ = [
    "NOT_INSTALLED",
    "Cost",
    "Elsewhere",
    "Rounds",
    "Targets",
    "best",
    "cost_rows",
    "heading",
    "in_rounds",
    "middle",
    "optional",
    "ratio",
]
