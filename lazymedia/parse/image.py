"""Picture items: references to encoded pictures, and pictures that somebody has already decoded.

Comes in: one picture or several, as references, PIL images, arrays or tensors. Goes out: `ImageProcessorItems`. Never
here: a decode of encoded bytes; a picture that came decoded is turned upright and into the asked mode when it is
looked at.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from lazymedia.media.ref import MediaRef
from lazymedia.parse.items import ModalityDataItems

_CHANNELS: Final = (1, 3, 4)


class ImageSize(NamedTuple):
    """Pixels of an upright picture."""

    width: int
    height: int


class ImageProcessorItems(ModalityDataItems[Any]):
    """Pictures. ``get`` gives what the decoder gives: a PIL image, or a uint8 array (H, W, C).

    Args:
        data: `MediaRef`, PIL image, array, tensor or None, each.
        convert: What makes a PIL image that came decoded equal to one decoded from bytes: upright, composited, in the
            asked mode.
    """

    def __init__(self, data: Sequence[object], convert: Callable[[Any], Any] | None = None) -> None:
        super().__init__(data, "image")
        self._convert = convert

    def get(self, index: int) -> Any:
        raw = self.get_raw(index)
        if isinstance(raw, MediaRef):
            return raw.decode()
        return raw if self._convert is None or not is_picture(raw) else self._convert(raw)

    def get_image_size(self, index: int) -> ImageSize:
        """Width and height of the upright picture, in pixels. Decodes a reference that is not decoded yet.

        Arrays are read as (H, W, C) where the last axis has 1, 3 or 4 entries, as (C, H, W) otherwise, and as (H, W)
        where there are two axes.
        """
        media = self.get(index)
        if is_picture(media):
            return ImageSize(media.width, media.height)
        shape = tuple(int(length) for length in media.shape)
        if len(shape) == 2:
            return ImageSize(shape[1], shape[0])
        if shape[-1] in _CHANNELS:
            return ImageSize(shape[-2], shape[-3])
        return ImageSize(shape[-1], shape[-2])


def parse_image_data(data: object, convert: Callable[[Any], Any] | None) -> ImageProcessorItems | None:
    """One picture or a sequence of pictures as items; None where there is none.

    An array or tensor with four axes is a batch of pictures.

    Raises:
        TypeError: Something that is no picture. The caller's fault.
    """
    pictures = [data] if _is_one(data) else list(_sequence(data))
    for index, picture in enumerate(pictures):
        if picture is not None and not _is_one(picture):
            raise TypeError(
                f"image at index {index} is {type(picture).__name__}; expected a MediaRef, a PIL image, an array or a "
                "tensor with two or three axes, or None together with a UUID"
            )
    return ImageProcessorItems(pictures, convert) if pictures else None


def is_picture(value: object) -> bool:
    """Whether this is a PIL image; false where nobody has imported Pillow."""
    pillow = sys.modules.get("PIL.Image")
    return pillow is not None and isinstance(value, pillow.Image)


def is_array(value: object) -> bool:
    """Whether this is a NumPy array or a torch tensor; false where nobody has imported either."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    return (numpy is not None and isinstance(value, numpy.ndarray)) or (
        torch is not None and isinstance(value, torch.Tensor)
    )


def _is_one(value: object) -> bool:
    if isinstance(value, MediaRef) or is_picture(value):
        return True
    return is_array(value) and len(value.shape) in (2, 3)  # type: ignore[attr-defined]  # arrays and tensors have one


def _sequence(value: object) -> Sequence[object]:
    if value is None:
        return ()
    if isinstance(value, list | tuple):
        return value
    if is_array(value) and len(value.shape) == 4:  # type: ignore[attr-defined]  # arrays and tensors have one
        return list(value)  # type: ignore[call-overload,no-any-return]
    raise TypeError(
        f"image data is {type(value).__name__}; expected a MediaRef, a PIL image, an array, a tensor, or a list of them"
    )


__all__ = ["ImageProcessorItems", "ImageSize", "is_array", "is_picture", "parse_image_data"]
