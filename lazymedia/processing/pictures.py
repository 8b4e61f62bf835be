"""Pictures in a form in which a Hugging Face processor has nothing to guess.

Comes in: a PIL image, an array or a tensor. Goes out: the same picture, and the options that say how its axes lie.
Never here: an import of Pillow or torch; what needs them has imported them.

Left to itself, Hugging Face takes any array whose first axis has 1, 3 or 4 entries for channels first, so that a
picture one or three pixels high turns into another picture.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from lazymedia.errors import UnprocessableMediaError
from lazymedia.foreign import is_picture, is_tensor
from lazymedia.parse.image import channel_axis, is_pixels
from lazymedia.parse.items import described

_WITH_ALPHA: Final = (2, 4)


class NoPictureError(UnprocessableMediaError):
    """Something that could be no picture, whatever a processor does with it."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture, ready for a processor.

    Attributes:
        media: PIL image, array or tensor.
        height: Pixels.
        width: Pixels.
        options: Options of the processor that say how the axes of ``media`` lie.
    """

    media: Any
    height: int
    width: int
    options: dict[str, str] = field(default_factory=dict)


def as_picture(media: Any) -> Picture:
    """The picture with its axes named.

    Three axes are read as `parse.image.channel_axis` says, two are (H, W). An array gives the same output as the PIL
    image of the same pixels, bit for bit.

    Raises:
        NoPictureError: Nothing that could be a picture. A path or URL is rejected too, or Hugging Face would
            fetch it.
    """
    if is_picture(media):
        return Picture(media, media.height, media.width)
    if not is_pixels(media):
        raise NoPictureError(f"{described(media)} is no picture: expected a PIL image, or uint8 pixels")
    tensor = is_tensor(media)
    if len(media.shape) == 2:
        media = media[None] if tensor else media[..., None]
    shape = tuple(int(length) for length in media.shape)
    axis = channel_axis(shape, tensor=tensor)
    assert axis is not None  # see is_pixels
    layout = "channels_last" if axis else "channels_first"
    if shape[axis] in _WITH_ALPHA:
        # Hugging Face blends transparent pixels in arrays with other roundings than in PIL images.
        media = _to_pil(media, layout)
        return Picture(media, media.height, media.width)
    height, width = shape[:axis] + shape[axis + 1 :]
    return Picture(_plain(media), height, width, {"input_data_format": layout})


def _plain(media: Any) -> Any:
    """The array or tensor in memory of the usual order.

    torch takes a picture of one column for contiguous whatever the stride of that column, and then resizes it wrongly.
    It also warns about memory that it must not write to, though it would only read it.
    """
    step, strides = 1, []
    for length in reversed(media.shape):
        strides.append(step)
        step *= int(length)
    if is_tensor(media):
        usual = list(media.stride()) == strides[::-1]
        return media if usual else media.new_empty(media.shape).copy_(media)
    usual = [stride // media.itemsize for stride in media.strides] == strides[::-1]
    return media if usual and media.flags.writeable else media.copy(order="C")


def _to_pil(array: Any, layout: str) -> Any:
    from transformers.image_transforms import to_pil_image

    return to_pil_image(array, do_rescale=False, input_data_format=layout)


__all__ = ["NoPictureError", "Picture", "as_picture"]
