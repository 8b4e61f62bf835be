"""Encoded media made on the spot, the same bytes at every call, so that tests need no files."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from PIL import Image

_DETAIL = 40
"""Pixels between two independent points of the picture; photographs are smooth at this scale, and codecs expect
that."""


def make_image(
    width: int = 64,
    height: int = 48,
    *,
    format: str = "PNG",  # noqa: A002  # what Pillow calls it
    seed: int = 0,
    mode: str = "RGB",
    **save: Any,
) -> bytes:
    """An encoded picture with the texture of a photograph: smooth colours under a little noise.

    Equal arguments give equal pixels; equal bytes too, under one version of Pillow.

    Args:
        width: Pixels.
        height: Pixels.
        format: Any that Pillow can write, by Pillow's name: ``"PNG"``, ``"JPEG"``, ``"WEBP"``, ``"GIF"`` …
        seed: Another seed, another picture.
        mode: Pillow's name of the pixel format: ``"RGB"``, ``"RGBA"``, ``"L"``, ``"P"``, ``"1"``, ``"CMYK"`` …
        **save: Passed to ``Image.save``, such as ``quality=80``, ``exif=…`` or ``progressive=True``.
    """
    buffer = io.BytesIO()
    picture(width, height, seed=seed, mode=mode).save(buffer, format, **save)
    return buffer.getvalue()


def picture(width: int = 64, height: int = 48, *, seed: int = 0, mode: str = "RGB") -> Image.Image:
    """The picture of `make_image` before it is encoded."""
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 256, (max(2, height // _DETAIL), max(2, width // _DETAIL), 4), dtype=np.uint8)
    smooth = Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)
    noisy = np.asarray(smooth).astype(np.int16) + random.integers(-12, 13, (height, width, 4))
    rgba = Image.fromarray(noisy.clip(0, 255).astype(np.uint8))
    return rgba.convert(mode) if mode in {"RGBA", "LA"} else rgba.convert("RGB").convert(mode)


__all__ = ["make_image", "picture"]
