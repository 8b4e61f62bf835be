"""A worst case, how large it is made, and the bound that it is held to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from lazymedia.limits import DEFAULT_LIMITS, Limits

SECONDS_PER_MEGABYTE: Final = 2.0
"""CPU seconds that 10^6 encoded bytes may cost."""
SECONDS_PER_MEGAPIXEL: Final = 0.1
"""CPU seconds that 10^6 pixels of the result may cost."""
SECONDS_PER_MINUTE: Final = 1.0
"""CPU seconds that a minute of the result may cost."""
SECONDS_TO_START: Final = 0.1
"""CPU seconds that any input may cost, however small: opening a decoder takes milliseconds, and a busy machine twice
as many."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How large the inputs are made. Each maker takes what it needs.

    Attributes:
        picture: Width and height of a picture, pixels.
        frame: Width and height of a video's frame, pixels.
        frames: Frames of a video of which few are asked for.
        seconds: Length of a clip.
        entries: Entries of a table, or parts of a container, that take a few bytes each.
        megabytes: Length of an input that is only bytes.
        cap: CPU seconds after which a process is ended.
    """

    picture: tuple[int, int]
    frame: tuple[int, int]
    frames: int
    seconds: int
    entries: int
    megabytes: int
    cap: int


FULL: Final = Scale((16_384, 5_461), (4_096, 2_176), 1_000, 600, 200_000, 16, 60)
"""As large as the default limits let through; fewer frames, entries and bytes, whose cost is linear or worse."""
SHORT: Final = Scale((4_096, 1_365), (1_024, 544), 2_000, 60, 40_000, 2, 10)
"""A sixteenth of the pixels and a tenth of the time, by which the bound is smaller as well."""

Maker = Callable[[Scale], bytes]


@dataclass(frozen=True, slots=True)
class Case:
    """An input and what is asked of it.

    Attributes:
        name: One line of ASCII, unique.
        modality: "image", "video" or "audio".
        make: Makes the payload. Runs in a process of its own.
        asks: The ways in which it is decoded, by their names in `measure.ASKS`; none for all of its modality.
        limits: What the operator allows.
        short: Whether the short form has it.
    """

    name: str
    modality: str
    make: Maker
    asks: tuple[str, ...] = ()
    limits: Limits = DEFAULT_LIMITS
    short: bool = False


WITH_TIFF: Final = replace(DEFAULT_LIMITS, image_formats=(*DEFAULT_LIMITS.image_formats, "TIFF"))
"""For operators who allow TIFF."""


def bound(size: int, asked: float, modality: str) -> float:
    """CPU seconds that an input may cost.

    Args:
        size: Encoded bytes.
        asked: Pixels of all pictures or frames that are asked for, or seconds of sound.
        modality: Which of the two.
    """
    by_result = asked / 60 * SECONDS_PER_MINUTE if modality == "audio" else asked / 1e6 * SECONDS_PER_MEGAPIXEL
    return SECONDS_TO_START + size / 1e6 * SECONDS_PER_MEGABYTE + by_result


__all__ = ["FULL", "SHORT", "WITH_TIFF", "Case", "Maker", "Scale", "bound"]
