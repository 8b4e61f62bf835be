"""Items in the forms in which a Hugging Face processor has nothing to guess: pictures, videos and clips of audio.

Left to itself, Hugging Face takes any array whose first axis has 1, 3 or 4 entries for channels first, so that a
picture one or three pixels high turns into another picture. It also samples the frames of a video again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from lazymedia.errors import UnprocessableMediaError
from lazymedia.foreign import is_array, is_picture, is_tensor
from lazymedia.media.video.metadata import VideoMetadata
from lazymedia.parse.image import channel_axis, is_pixels
from lazymedia.parse.items import described

_WITH_ALPHA: Final = (2, 4)


class InvalidItemError(UnprocessableMediaError):
    """Something that could be no item of its modality, whatever a processor does with it."""


@dataclass(frozen=True, slots=True)
class ItemMedia:
    """One item, ready for a processor.

    Attributes:
        media: PIL image, array or tensor.
        height: Pixels; 0 for audio.
        width: Pixels; 0 for audio.
        options: Options of the processor that belong to the item, such as how its axes lie.
        per_item: Options of the processor that are lists with one entry for each item; here that of this item.
    """

    media: Any
    height: int = 0
    width: int = 0
    options: dict[str, object] = field(default_factory=dict)
    per_item: dict[str, Any] = field(default_factory=dict)


def prepare(modality: str, media: Any, *, rate: int | None = None, tensors: bool = False) -> ItemMedia:
    """An item in the form for its modality.

    Args:
        modality: ``"image"``, ``"video"`` or ``"audio"``.
        media: As `as_picture`, `as_video` and `as_audio` take it.
        rate: Hz of audio samples.
        tensors: Whether videos are handed over as torch tensors, which saves a copy; the values are the same.

    Raises:
        InvalidItemError: Nothing that could be an item of this modality.
    """
    if modality == "image":
        return as_picture(media)
    return as_video(media, tensors=tensors) if modality == "video" else as_audio(media, rate)


def as_picture(media: Any) -> ItemMedia:
    """The picture with its axes named.

    Three axes are read as `parse.image.channel_axis` says, two are (H, W). An array gives the same output as the PIL
    image of the same pixels, bit for bit.

    Raises:
        InvalidItemError: Nothing that could be a picture. A path or URL is rejected too, or Hugging Face would
            fetch it.
    """
    if is_picture(media):
        return ItemMedia(media, media.height, media.width)
    if not is_pixels(media):
        raise InvalidItemError(f"{described(media)} is no picture: expected a PIL image, or uint8 pixels")
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
        return ItemMedia(media, media.height, media.width)
    height, width = shape[:axis] + shape[axis + 1 :]
    return ItemMedia(_plain(media), height, width, {"input_data_format": layout})


def as_video(media: Any, *, tensors: bool = False) -> ItemMedia:
    """The frames as one array (N, H, W, 3), or as a tensor (N, 3, H, W), with their metadata.

    Args:
        media: Frames, or a pair of frames and metadata. Frames are uint8, (N, H, W, 3) as an array, (N, 3, H, W) or
            (N, H, W, 3) as a tensor, or a list of RGB pictures of one size.
        tensors: Whether to hand over a tensor.

    Frames without metadata are taken as a whole video at an unknown rate, for which processors have a default.

    Raises:
        InvalidItemError: No frames, frames of different sizes, or of another type than uint8 RGB.
    """
    frames, metadata = media if isinstance(media, tuple) and len(media) == 2 else (media, None)
    if isinstance(frames, list) and frames and all(is_picture(frame) and frame.mode == "RGB" for frame in frames):
        if len({frame.size for frame in frames}) > 1:
            raise InvalidItemError("the frames of the video differ in size")
        frames = np.stack([np.asarray(frame) for frame in frames])
    if not is_array(frames) or frames.ndim != 4 or str(frames.dtype).rpartition(".")[2] != "uint8":
        raise InvalidItemError(f"{described(frames)} is no video: expected uint8 frames of one size")
    first = is_tensor(frames) and frames.shape[1] == 3
    if not first and frames.shape[3] != 3:
        raise InvalidItemError(f"{described(frames)} is no video: expected frames with three channels, RGB")
    count = int(frames.shape[0])
    height, width = map(int, frames.shape[2:] if first else frames.shape[1:3])
    if not count or not height or not width:
        raise InvalidItemError("the video has no pixels")
    if tensors and not is_tensor(frames):
        import torch

        frames = torch.from_numpy(frames if frames.flags.writeable else frames.copy())
    if is_tensor(frames) and not first:
        frames = frames.permute(0, 3, 1, 2)
    layout = "channels_first" if is_tensor(frames) else "channels_last"
    options = {"do_sample_frames": False, "input_data_format": layout}
    per_item = {"video_metadata": _metadata(metadata, count, height, width)}
    return ItemMedia(_plain(frames), height, width, options, per_item)


def _metadata(metadata: object, count: int, height: int, width: int) -> Any:
    """A `transformers.video_utils.VideoMetadata` of the caller's own: processors write to it."""
    from transformers.video_utils import VideoMetadata as HfMetadata

    if isinstance(metadata, VideoMetadata):
        return HfMetadata(**metadata.to_hf())
    known: dict[str, Any] = {
        "total_num_frames": count,
        "fps": None,
        "duration": None,
        "frames_indices": list(range(count)),
        "height": height,
        "width": width,
    }
    names = HfMetadata.__dataclass_fields__
    if isinstance(metadata, Mapping):
        known |= {name: value for name, value in metadata.items() if name in names}
    elif metadata is not None:
        known |= {name: getattr(metadata, name) for name in names if hasattr(metadata, name)}
    known["frames_indices"] = list(known["frames_indices"])
    if len(known["frames_indices"]) != count:
        raise InvalidItemError(f"the video has {count} frames and metadata of {len(known['frames_indices'])}")
    return HfMetadata(**known)


def as_audio(media: Any, rate: int | None) -> ItemMedia:
    """The samples as one axis, float32, with their rate.

    Args:
        media: Samples, (N,), an array or a tensor, or such a row for each channel, (channels, N).
        rate: Hz; None where the processor does not ask.

    Raises:
        InvalidItemError: No samples, or not such an array.
    """
    if not is_array(media) or media.ndim not in (1, 2):
        raise InvalidItemError(f"{described(media)} is no audio: expected samples")
    samples = media.detach().cpu().numpy() if is_tensor(media) else media
    if not samples.size:
        raise InvalidItemError("the audio holds no samples")
    if not np.issubdtype(samples.dtype, np.floating):
        raise InvalidItemError(f"{described(media)} is no audio: expected floating point samples within 1")
    options = {} if rate is None else {"sampling_rate": rate}
    return ItemMedia(np.ascontiguousarray(samples, np.float32), options=dict(options))


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


__all__ = ["InvalidItemError", "ItemMedia", "as_audio", "as_picture", "as_video", "prepare"]
