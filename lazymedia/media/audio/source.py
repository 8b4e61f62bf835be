"""An opened clip, as every library presents it.

Comes in: nothing. Goes out: the type that readers return. Never here: a library.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lazymedia.media.audio.samples import Samples


@dataclass(frozen=True, slots=True)
class Source:
    """A clip that is being decoded.

    Attributes:
        rate: Hz, of the samples that come out.
        channels: Of every block.
        blocks: float32 (channels, N) each, N as the decoder likes; integer PCM within ±1. A block is valid until the
            next one is asked for. Iterating raises the library's own exception where the payload is damaged.
    """

    rate: int
    channels: int
    blocks: Iterator[Samples]


__all__ = ["Source"]
