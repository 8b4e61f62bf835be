"""Encoded pictures made on the spot."""

from __future__ import annotations

import io

import pytest
from PIL import Image

from lazymedia.testing.media import make_image


@pytest.mark.parametrize("format", ["PNG", "JPEG", "WEBP", "GIF", "BMP"])
def test_a_picture_is_made_in_its_format_and_size(format: str) -> None:  # noqa: A002  # what Pillow calls it
    with Image.open(io.BytesIO(make_image(50, 30, format=format))) as image:
        assert (image.format, image.size) == (format, (50, 30))


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "P", "1"])
def test_a_picture_is_made_in_its_mode(mode: str) -> None:
    with Image.open(io.BytesIO(make_image(mode=mode))) as image:
        assert image.mode == mode


def test_equal_arguments_give_equal_bytes_and_another_seed_another_picture() -> None:
    assert make_image(33, 21, format="JPEG", quality=70) == make_image(33, 21, format="JPEG", quality=70)
    assert make_image(33, 21, seed=1) != make_image(33, 21, seed=2)


@pytest.mark.parametrize("size", [(1, 1), (1, 300), (300, 1)])
def test_thin_pictures_can_be_made(size: tuple[int, int]) -> None:
    with Image.open(io.BytesIO(make_image(*size))) as image:
        assert image.size == size
