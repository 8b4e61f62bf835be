"""Media made on the spot: what warms a processor up, and what shows how its outputs merge."""

from __future__ import annotations

from typing import Any, Final

_RATE: Final = 16_000
"""Hz, for a processor that takes audio and does not name its rate."""
_PICTURES: Final = ((100, 150), (700, 680), (330, 1000), (1100, 1300))
"""Height and width: other tiles, patches and shapes in each."""
_VIDEOS: Final = ((4, 60, 90), (8, 120, 80), (6, 64, 64), (4, 200, 120))
"""Frames, height and width."""
_SECONDS: Final = (1.0, 2.3, 31.0, 0.4)
"""One clip is longer than the window of 30 seconds that many processors have."""


def dummy_item(modality: str, rate: int | None) -> Any:
    """A black picture or video of ordinary size, or a second of silence."""
    import numpy as np

    if modality == "audio":
        return np.zeros(rate or _RATE, np.float32)
    return np.zeros((336, 448, 3) if modality == "image" else (8, 112, 168, 3), np.uint8)


def calibration_items(modality: str, rate: int | None) -> list[Any]:
    """Four items of noise that differ in every length that may differ."""
    import numpy as np

    random = np.random.default_rng(0)
    if modality == "audio":
        lengths = [int(seconds * (rate or _RATE)) for seconds in _SECONDS]
        return [(random.standard_normal(length) * 0.1).clip(-1, 1).astype(np.float32) for length in lengths]
    shapes = _PICTURES if modality == "image" else _VIDEOS
    return [random.integers(0, 256, (*shape, 3), dtype=np.uint8) for shape in shapes]


__all__ = ["calibration_items", "dummy_item"]
