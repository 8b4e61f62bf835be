"""Video items: references to encoded videos, and frames that are decoded already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, cast

from lazymedia.foreign import is_array, is_picture
from lazymedia.media.ref import MediaRef
from lazymedia.media.video.metadata import VideoMetadata
from lazymedia.parse.image import ImageSize, is_pixels, size_of
from lazymedia.parse.items import ModalityDataItems, as_sequence, one_or_many

Metadata = Mapping[str, Any]

_MANY: Final = "video data is {type}; expected a MediaRef, frames, a pair of frames and metadata, or a list of those"
_NONE: Final = "video at index {index} is {type}; expected a MediaRef, frames, a pair of frames and metadata"


class VideoProcessorItems(ModalityDataItems[Any]):
    """Videos. ``get`` gives frames, or ``(frames, metadata)`` where the model needs the metadata.

    Selections keep metadata with their frames, since both are one stored item.

    Args:
        data: For each video a `MediaRef` of frames and metadata, frames, ``(frames, metadata)``, or None.
        needs_metadata: Whether ``get`` gives the metadata too.
    """

    def __init__(self, data: Sequence[object], *, needs_metadata: bool = False) -> None:
        super().__init__(data, "video")
        self._needs_metadata = needs_metadata

    def get(self, index: int) -> Any:
        """The video as a processor wants it. Decodes a reference that is not decoded yet.

        Raises:
            ValueError: The model needs metadata, and these frames came without. The caller's fault.
        """
        frames, metadata = self._parts(index)
        if not self._needs_metadata:
            return frames
        if metadata is None:
            raise ValueError(f"video at index {self.get_original_index(index)}: metadata is required by this model")
        return frames, metadata

    def get_frames(self, index: int) -> Any:
        """The frames, whichever view the model has. Decodes a reference that is not decoded yet."""
        return self._parts(index)[0]

    def get_metadata(self, index: int) -> Metadata | None:
        """What is known of one video, None where nothing is.

        Of a reference that is not decoded yet, what its payload says without decoding (`MediaRef.probe`): equal to
        what the decode will report, but for a frame that turns out to be broken, a turn that only the stream's own
        messages hold, and a container that lies about the size. Where the payload does not say, this
        video is decoded, and none of its siblings.
        """
        probed = self._probe(index)
        return self._parts(index)[1] if probed is None else probed

    @property
    def metadata(self) -> list[Metadata | None]:
        """`get_metadata` of every video."""
        return [self.get_metadata(index) for index in range(len(self))]

    def get_num_frames(self, index: int) -> int:
        """The number of frames."""
        return len(self.get_frames(index))

    def get_frame_size(self, index: int) -> ImageSize:
        """Width and height of a frame, in pixels. Decodes nothing where `get_metadata` does not.

        Raises:
            ValueError: There is no frame.
            TypeError: Frames whose axes are not those of a picture. The caller's fault.
        """
        probed = self._probe(index)
        if probed is not None:
            return ImageSize(probed.width, probed.height)
        frames = self.get_frames(index)
        if len(frames) == 0:
            raise ValueError(f"video at index {self.get_original_index(index)} has no frames")
        return size_of(frames[0])

    def _probe(self, index: int) -> VideoMetadata | None:
        raw = self.get_raw(index)
        found = raw.probe() if isinstance(raw, MediaRef) and not raw.is_decoded else None
        return found if isinstance(found, VideoMetadata) else None

    def _parts(self, index: int) -> tuple[Any, Metadata | None]:
        raw = self.get_raw(index)
        media = raw.decode() if isinstance(raw, MediaRef) else raw
        return cast("tuple[Any, Metadata | None]", media) if _is_pair(media) else (media, None)


def parse_video_data(data: object, *, needs_metadata: bool = False) -> VideoProcessorItems | None:
    """One video or a sequence of videos as items; None where there is none.

    A sequence of PIL images, or of arrays or tensors with three axes, is one video, frame by frame; so is an array or
    tensor with four axes, and a pair of either and a mapping. Frames are uint8; other values are no pixels, whatever
    their shape is.

    Raises:
        TypeError: Something that is no video. The caller's fault.
    """
    videos = one_or_many(data, _is_one, partial(as_sequence, batch_axes=5, expected=_MANY), _NONE)
    return VideoProcessorItems(videos, needs_metadata=needs_metadata) if videos else None


def _is_pair(value: object) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and (value[1] is None or isinstance(value[1], Mapping))


def _is_one(value: object) -> bool:
    if isinstance(value, MediaRef):
        return True
    if _is_pair(value):
        return _is_frames(cast("tuple[object, object]", value)[0])
    return _is_frames(value)


def _is_frames(value: object) -> bool:
    """Whether this is the frames of one video: uint8, see `is_pixels`."""
    if is_array(value):
        array: Any = value
        shape = tuple(array.shape)
        return len(shape) == 4 and (shape[0] == 0 or is_pixels(array[0], axes=(3,)))
    if not isinstance(value, list | tuple) or not value:
        return False
    return all(is_picture(frame) or is_pixels(frame, axes=(3,)) for frame in value)


__all__ = ["VideoProcessorItems", "parse_video_data"]
