"""Two views over the items of a request: as stored, and as decoded.

* `items`: `ModalityDataItems`, the views and selections of one modality; `MultiModalDataItems`, all of them
* `image`, `video`, `audio`: what a picture, a video and a clip of audio may be; `audio_samples`: samples as stored
* `parser`: `MultiModalDataParser`, from what callers hand in to items

Core: no event loop is known here.
"""

from __future__ import annotations

from lazymedia.parse.audio import AudioProcessorItems
from lazymedia.parse.image import ImageProcessorItems, ImageSize
from lazymedia.parse.items import ModalityDataItems, MultiModalDataItems
from lazymedia.parse.parser import MultiModalDataParser
from lazymedia.parse.video import VideoProcessorItems
from lazymedia.public import publish

__all__ = [
    "AudioProcessorItems",
    "ImageProcessorItems",
    "ImageSize",
    "ModalityDataItems",
    "MultiModalDataItems",
    "MultiModalDataParser",
    "VideoProcessorItems",
]

publish(__name__)
