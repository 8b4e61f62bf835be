"""An opened clip, as every library presents it.

Comes in: nothing. Goes out: the type that readers return. Never here: a library.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Source:
    """A clip that is being decoded.

    Attributes:
        rate: Hz, of the samples that come out.
        channels: Of every block.
        blocks: (channels, N) each, N as the decoder likes; of the type in which the samples are stored, see `to_mono`.
            A block is valid until the next one is asked for. Iterating raises the library's own exception where the
            payload is damaged.
    """

    rate: int
    channels: int
    blocks: Iterator[npt.NDArray[Any]]


__all__ = ["Source"]
