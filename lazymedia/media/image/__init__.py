"""Pictures: from encoded bytes to an upright Pillow image or array.

* `io`: `ImageMediaIO`, the decoder with its settings, references and identity
* `header`: which format a payload is, what its header says, `probe`
* `outline`: a header as a value, and the limits on it; one reader for each format beside it (`jpeg`, `png`, `avif` with
  `av1`, `heif` with `hevc`, both with `items` and `boxes`, and `plain` for the short ones), and `exif` for orientation
  and ImageID
* `memory`: how much memory a decode takes, by the header
* `raster`: the codecs, from a header to stored pixels (with `png_raster`, and `tiff_raster` for TIFF, which is off
  unless allowed)
* `convert`: from stored pixels to what was asked for; `pixels` holds the tools that it shares with the codecs
* `turbo`: JPEGs straight into arrays, by simplejpeg where that gives Pillow's pixels
* `animation`: the frames of an animated WebP, for videos

Importing this loads neither Pillow nor numpy.
"""

from __future__ import annotations

from lazymedia.media.image.header import ImageHeader, probe
from lazymedia.media.image.io import MODES, ImageMediaIO, Picture
from lazymedia.public import publish

__all__ = ["MODES", "ImageHeader", "ImageMediaIO", "Picture", "probe"]

publish(__name__)
