"""What is known of a video besides its pixels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, eq=False)
class VideoMetadata(Mapping[str, Any]):
    """What a decode loaded, and of what. Reads as a mapping too; `to_hf` gives what Hugging Face
    processors take.

    Two are equal when they are equal as mappings. The lists belong to the value and are not to be changed.

    Attributes:
        total_num_frames: Frames of the video that are shown, counted from its packets and never taken from a header. A
            frame that turns out not to decode is among them.
        fps: Frames per second of the video: its header's rate where the timestamps bear that out, otherwise their
            mean. 0.0 for a single frame whose rate is not known.
        duration: Seconds from the first frame shown to the end of the last.
        frames_indices: Which frames were loaded, one entry for each, counted from 0 in the order shown; a frame that
            was chosen and could not be decoded is missing. A policy that repeats a frame repeats its index.
        timestamps: Seconds from the first frame shown, one for each entry of ``frames_indices``. Exact for a variable
            rate; made from ``fps`` for containers that store no timestamps of their own (AVI).
        width: Pixels of a loaded frame, upright.
        height: Pixels of a loaded frame, upright.
        video_backend: What decoded it: "pyav" or "torchcodec", "pillow" for a WebP or a still AVIF, or "jpeg_sequence"
            for frames that came as pictures.
        do_sample_frames: Whether all frames of the video were loaded, so that a processor may still choose among them.
    """

    total_num_frames: int
    fps: float
    duration: float
    frames_indices: list[int]
    timestamps: list[float]
    width: int
    height: int
    video_backend: str
    do_sample_frames: bool

    def to_hf(self) -> dict[str, Any]:
        """The arguments of ``transformers.video_utils.VideoMetadata``, for a processor's ``video_metadata``.

        The frames that were loaded are the ones that were chosen, so that the processor must not choose again: pass
        ``do_sample_frames=False`` beside it. A processor may change what it is given; dictionary and list are copies.
        ``fps`` is None where no rate is known, for which processors take their default.
        """
        return {
            "total_num_frames": self.total_num_frames,
            "fps": self.fps or None,
            "width": self.width,
            "height": self.height,
            "duration": self.duration,
            "video_backend": self.video_backend,
            "frames_indices": list(self.frames_indices),
        }

    def __getitem__(self, name: str) -> Any:
        if name not in _NAMES:
            raise KeyError(name)
        return getattr(self, name)

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)


_NAMES = tuple(field.name for field in fields(VideoMetadata))

__all__ = ["VideoMetadata"]
