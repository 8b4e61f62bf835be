"""How the commands show what they found: aligned columns for people, and progress on a terminal.

What standard output gets has no control characters and reads the same in a file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from lazymedia.processing import MultiModalInputs


def table(rows: Sequence[Sequence[object]]) -> str:
    """Rows as aligned columns; the first row is the heading."""
    texts = [[printable(str(cell)) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in texts) for column in range(len(texts[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in texts)


def printable(text: str) -> str:
    """The text with everything escaped that a terminal would not print: control characters, bidirectional marks, bytes
    of a file name that are no UTF-8.
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def print_error(text: str) -> None:
    """One line on standard error."""
    print(printable(text), file=sys.stderr)


class Progress:
    """One line on a terminal that counts what is done. Writes nothing where standard error is no terminal.

    Args:
        total: How many there are.
        verb: What has been done to those that are counted.
    """

    def __init__(self, total: int, verb: str) -> None:
        self._total, self._verb, self._done = total, verb, 0
        self._shown = sys.stderr.isatty()

    def advance(self) -> None:
        """Count one more."""
        self._done += 1
        self._show()

    def _show(self) -> None:
        if self._shown:
            print(f"\r{self._done} of {self._total} {self._verb}", end="", file=sys.stderr, flush=True)

    def __enter__(self) -> Self:
        self._show()
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)  # return to the start of the line and erase it


def size(count: int) -> str:
    """A number of bytes as people write it."""
    value = float(count)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def milliseconds(seconds: float) -> str:
    """A duration as people read it."""
    return f"{seconds * 1000:.1f} ms"


def item_rows(result: MultiModalInputs) -> Iterator[tuple[object, ...]]:
    """One row for each item of a rendered request: place, verdict, tokens, arrays, identity."""
    yield "item", "cache", "tokens", "arrays", "hash"
    for modality, hashes in result.mm_hashes.items():
        for index, mm_hash in enumerate(hashes):
            places = result.mm_placeholders.get(modality) or ()
            yield (
                f"{modality} {index}",
                "hit" if result.cached[modality][index] else "miss",
                f"{places[index].length} at {places[index].offset}" if places else "",
                shapes(result.mm_kwargs[modality][index]),
                mm_hash[:12],
            )


def shapes(arrays: Any) -> str:
    """Names, shapes and dtypes of arrays or tensors."""
    return ", ".join(
        f"{name} {'x'.join(map(str, array.shape))} {str(array.dtype).removeprefix('torch.')}"
        for name, array in (arrays or {}).items()
    )


def stages(result: MultiModalInputs) -> str:
    """Seconds by stage, the ones that took no time left out."""
    return "  ".join(
        f"{stage} {milliseconds(seconds)}" for stage, seconds in result.timings.items() if seconds > 0.00005
    )


__all__ = ["Progress", "item_rows", "milliseconds", "print_error", "printable", "shapes", "size", "stages", "table"]
