"""Pictures: from encoded bytes to a Pillow image or an array.

* `io`: `ImageMediaIO`, the decoder with its options, references and identity
* `header`: `ImageHeader`, `probe`, and what the headers of all formats share, with the limits on it
* `jpeg`, `png`, `gif`, `webp`, `avif`, `heif`, `bmp`, `tiff`: each format's header and codec; `jpeg_turbo` decodes
  JPEGs to arrays by simplejpeg; `items` and `coded_size` serve AVIF and HEIF
* `exif`: orientation and ImageID
* `memory`: how much memory a decode takes, by the header
* `convert`: from stored pixels to what is asked for; `pixels` holds the tools that it shares with the formats

Importing this loads neither Pillow nor numpy.
"""

from __future__ import annotations

from lazymedia.media.image.header import ImageHeader, probe
from lazymedia.media.image.io import MODES, ImageMediaIO, Picture
from lazymedia.public import publish

__all__ = ["MODES", "ImageHeader", "ImageMediaIO", "Picture", "probe"]

publish(__name__)
