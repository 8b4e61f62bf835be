"""Picture items: references to encoded pictures, and pictures that are decoded already."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

from lazymedia.foreign import is_array, is_picture, is_tensor
from lazymedia.media.ref import MediaRef
from lazymedia.parse.items import ModalityDataItems, as_sequence, one_or_many

_CHANNELS: Final = (1, 3, 4)
_UINT8: Final = ("uint8", "torch.uint8")
_PIXELS: Final = "a picture's array or tensor is uint8 with axes for height, width and 1, 3 or 4 channels"
_MANY: Final = (
    f"image data is {{type}}; expected a MediaRef, a PIL image, an array, a tensor, or a list of them; {_PIXELS}"
)
_NONE: Final = (
    f"image at index {{index}} is {{type}}; expected a MediaRef, a PIL image, an array or a tensor; {_PIXELS}"
)


class ImageSize(NamedTuple):
    """Pixels of an upright picture."""

    width: int
    height: int


@runtime_checkable
class PictureRules(Protocol):
    """What a decoder of pictures makes of one that came decoded, as `ImageMediaIO` does."""

    def convert(self, image: Any, /) -> Any:
        """The picture as this decoder would have decoded it: upright, composited, in the asked mode."""
        ...

    def check_limits(self, image: Any, /) -> None:
        """Load the picture if it is within the limits. Raises UnprocessableMediaError."""
        ...


class ImageProcessorItems(ModalityDataItems[Any]):
    """Pictures. ``get`` gives what the decoder gives: a PIL image, or a uint8 array (H, W, C).

    Args:
        data: `MediaRef`, PIL image, array, tensor or None, each.
        rules: What makes a PIL image that came decoded equal to one decoded from bytes; None leaves it as it is.
    """

    def __init__(self, data: Sequence[object], rules: PictureRules | None = None) -> None:
        super().__init__(data, "image")
        self._rules = rules

    def check_limits(self, index: int) -> None:
        raw = self.get_raw(index)
        if self._rules is not None and is_picture(raw):
            self._rules.check_limits(raw)

    def get(self, index: int) -> Any:
        raw = self.get_raw(index)
        if isinstance(raw, MediaRef):
            return raw.decode()
        return raw if self._rules is None or not is_picture(raw) else self._rules.convert(raw)

    def get_image_size(self, index: int) -> ImageSize:
        """Width and height of the upright picture, in pixels. Decodes a reference that is not decoded yet.

        Axes are read as `channel_axis` says.

        Raises:
            TypeError: An array or tensor whose axes are not those of a picture. The caller's fault.
        """
        return size_of(self.get(index))


def size_of(picture: Any) -> ImageSize:
    """Width and height of a PIL image, or of an array or tensor of two or three axes, read as `channel_axis` says.

    Raises:
        TypeError: Axes that are not those of a picture.
    """
    if is_picture(picture):
        return ImageSize(picture.width, picture.height)
    shape = tuple(int(length) for length in picture.shape)
    if len(shape) == 2:
        return ImageSize(shape[1], shape[0])
    axis = channel_axis(shape, tensor=is_tensor(picture))
    if axis is None:
        raise TypeError(f"an array or tensor of shape {shape} is no picture")
    height, width = shape[:axis] + shape[axis + 1 :]
    return ImageSize(width, height)


def parse_image_data(data: object, rules: PictureRules | None) -> ImageProcessorItems | None:
    """One picture or a sequence of pictures as items; None where there is none.

    An array or tensor with four axes is a batch of pictures. Values that are not uint8 are no pixels, whatever their
    shape is (`is_pixels`).

    Raises:
        TypeError: Something that is no picture. The caller's fault.
    """
    pictures = one_or_many(data, _is_one, partial(as_sequence, batch_axes=4, expected=_MANY), _NONE)
    return ImageProcessorItems(pictures, rules) if pictures else None


def channel_axis(shape: tuple[int, ...], *, tensor: bool) -> int | None:
    """Which of three axes holds a picture's channels: 0 or 2, None where neither can.

    Arrays are read as (H, W, C), tensors as (C, H, W); where that leaves a number of channels other than 1, 3 or 4, the
    other way round. An array whose last axis has two entries is grey with transparency.
    """
    if len(shape) != 3:
        return None
    usual = 0 if tensor else 2
    if usual == 2 and shape[2] == 2:
        return 2
    return next((axis for axis in (usual, 2 - usual) if shape[axis] in _CHANNELS), None)


def is_pixels(value: object, axes: tuple[int, ...] = (2, 3)) -> bool:
    """Whether an array or tensor holds the pixels of one picture.

    Its values are uint8, and it has two axes (height, width) or three that `channel_axis` can read. Embeddings have the
    same number of axes and are floating point; so are pictures in other value ranges, which a processor would rescale
    to black or to noise.

    Args:
        value: Anything.
        axes: Numbers of axes that are accepted.
    """
    if not is_array(value):
        return False
    array: Any = value
    shape = tuple(int(length) for length in array.shape)
    if str(array.dtype) not in _UINT8 or len(shape) not in axes or 0 in shape:
        return False
    return len(shape) == 2 or channel_axis(shape, tensor=is_tensor(array)) is not None


def _is_one(value: object) -> bool:
    return isinstance(value, MediaRef) or is_picture(value) or is_pixels(value)


__all__ = [
    "ImageProcessorItems",
    "ImageSize",
    "PictureRules",
    "channel_axis",
    "is_pixels",
    "parse_image_data",
    "size_of",
]
