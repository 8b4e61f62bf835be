"""For the tests that need torchcodec to load: it wants FFmpeg's shared libraries, which a machine may lack."""

from __future__ import annotations

import pytest

from lazymedia.media import system_ffmpeg


def load_or_skip() -> None:
    """Skip the tests of a file where torchcodec cannot be loaded, and say why."""
    try:
        system_ffmpeg.load()
    except ImportError as exc:
        pytest.skip(f"torchcodec cannot be loaded here: {exc}")
