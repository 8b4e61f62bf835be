"""How the commands show what they found: aligned columns for people.

Comes in: rows of text, and values of the library. Goes out: lines. Never here: a terminal's control characters; what is
printed reads the same in a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lazymedia.processing import MultiModalInputs


def table(rows: Sequence[Sequence[object]]) -> str:
    """Rows as aligned columns; the first row is the heading."""
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in texts) for column in range(len(texts[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in texts)


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
            place = result.mm_placeholders[modality][index]
            yield (
                f"{modality} {index}",
                "hit" if result.cached[modality][index] else "miss",
                f"{place.length} at {place.offset}",
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


__all__ = ["item_rows", "milliseconds", "shapes", "size", "stages", "table"]
