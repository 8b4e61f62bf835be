"""What a test hears of a clip: its samples, its pitch, or why it is refused."""

from __future__ import annotations

import numpy as np
import pytest
from numpy import typing as npt

from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import Limits
from lazymedia.media.audio import AudioMediaIO

RATE = 48_000


def decode(clip: bytes, backend: str = "auto") -> npt.NDArray[np.float32]:
    return AudioMediaIO(audio_backend=backend).load_bytes(clip)[0]  # type: ignore[arg-type]  # from a table


def refusal(clip: bytes, backend: str = "auto", limits: Limits | None = None) -> str:
    reader = AudioMediaIO(audio_backend=backend, limits=limits)  # type: ignore[arg-type]  # from a table
    with pytest.raises(UnprocessableMediaError) as caught:
        reader.load_bytes(clip)
    assert (caught.value.modality, caught.value.status_hint) == ("audio", 422)
    return str(caught.value)


def pitches(samples: npt.NDArray[np.float32], rate: int = RATE) -> list[int]:
    """Hz of the loudest tone in each whole second."""
    seconds = samples[: len(samples) // rate * rate].reshape(-1, rate)
    return [int(np.abs(np.fft.rfft(second)).argmax()) for second in seconds]
