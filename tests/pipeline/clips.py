"""Videos and clips of sound as items of a processor that takes pictures: each decodes to a picture of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
from PIL import Image

from lazymedia.media.io import MediaIO
from lazymedia.media.ref import MediaRef


def picture_of(media: Any) -> Image.Image:
    """The last frame of a video, or samples as grey levels."""
    first, _ = media
    if first.ndim == 4:
        return Image.fromarray(first[-1])
    levels = np.resize((first * 127 + 128).astype(np.uint8), (24, 32))
    return Image.fromarray(levels).convert("RGB")


def as_picture(ref: MediaRef[Any]) -> MediaRef[Image.Image]:
    """A reference that decodes to `picture_of` what another one decodes to; its key goes with that one's."""
    return ref.map(picture_of, test="picture_of")


def picture_ref(decoder: MediaIO[Any], payload: bytes) -> MediaRef[Image.Image]:
    return as_picture(decoder.load_bytes_ref(payload))
