"""Videos: from encoded bytes to chosen frames, upright, and what is known of them.

* `io`: `VideoMediaIO`, the decoder with its settings, references and identity
* `metadata`: `VideoMetadata`
* `sampling`: which frames are wanted, one pure function for each policy
* `container`: a demuxer chosen from the bytes and shut off from everything else; `tables` holds an MP4's claims against
  its bytes first
* `index`: where frames lie, learnt from packets; `fields` tells which of them are halves of frames; `index_cache` keeps
  that
* `backends`: what decodes a payload
* `reader`: the wanted frames and no others; `frames` turns one upright and converts it; `torchcodec_reader`:
  the same by torchcodec
* `stretches`: which packets the wanted frames need
* `side_by_side`: several parts of one video at once
* `taken`: the array that a decode fills
* `jpeg_sequence`: videos that come as pictures; `picture_sequence`: those of a format for pictures, such as animated
  WebP, whose chunks `webp_chunks` reads
* `faults`: what a video's own fault looks like

Importing this loads neither PyAV nor numpy.
"""

from __future__ import annotations

from lazymedia.media.video.index_cache import PacketIndexCache
from lazymedia.media.video.io import BACKENDS, Video, VideoMediaIO
from lazymedia.media.video.metadata import VideoMetadata
from lazymedia.media.video.sampling import POLICIES
from lazymedia.public import publish

__all__ = ["BACKENDS", "POLICIES", "PacketIndexCache", "Video", "VideoMediaIO", "VideoMetadata"]

publish(__name__)
