"""Two views over the items of a request: as stored, and as decoded.

* `items`: `ModalityDataItems`, the views and selections of one modality; `MultiModalDataItems`, all of them
* `image`: what a picture may be
* `parser`: `MultiModalDataParser`, from what callers hand in to items

Core: no event loop is known here.
"""

from __future__ import annotations

from lazymedia.parse.image import ImageProcessorItems, ImageSize
from lazymedia.parse.items import ModalityDataItems, MultiModalDataItems
from lazymedia.parse.parser import MultiModalDataParser

__all__ = ["ImageProcessorItems", "ImageSize", "ModalityDataItems", "MultiModalDataItems", "MultiModalDataParser"]
