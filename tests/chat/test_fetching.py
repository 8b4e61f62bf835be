"""All media of one request: whose fault it is when a connector hands back something else."""

from __future__ import annotations

from typing import Any

import pytest

from lazymedia import MediaConnector, MediaIO
from lazymedia.chat.fetching import fetch_parts
from lazymedia.chat.messages import MediaPart
from lazymedia.media.raw import RawBytesMediaIO


class Careless(MediaConnector):
    """Overrides one fetch, and hands back what it should have made a reference of."""

    async def fetch_audio(self, url: str, media_io: MediaIO[Any]) -> Any:
        return b"bytes"


async def test_a_connector_that_makes_no_reference_is_named() -> None:
    part = MediaPart(modality="audio", url="data:,x")

    async with Careless() as media:
        with pytest.raises(TypeError, match=r"Careless\.fetch_audio made a bytes where a MediaRef belongs"):
            await fetch_parts(media, [part], RawBytesMediaIO, max_bytes=100)
