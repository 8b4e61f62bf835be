"""Videos: from encoded bytes to chosen frames, upright, and what is known of them.

* `io`: `VideoMediaIO`, the decoder with its settings, references and identity; `backends`: what decodes a payload
* `metadata`: `VideoMetadata`
* `sampling`: which frames are wanted, one pure function for each policy
* `container`: the demuxer, the best stream and its packets
* `scan`: the index of frames (`index`, kept by `index_cache`) from all packets; `nal` reads their units, `interlaced`
  finds halves of frames, `work` bounds what a decode may cost
* `reader`: decodes the wanted frames and no others, in `decode_ranges`, several in `parallel`, into a `frame_sink`;
  `frames` rotates and converts one; `torchcodec_reader`: the same by torchcodec
* `jpeg_sequence`: videos that come as pictures; `picture_sequence`: those of a format for pictures, such as animated
  WebP, whose chunks `webp_chunks` reads
* `errors`: the errors of a video that is at fault itself

Importing this loads neither PyAV nor numpy.
"""

from __future__ import annotations

from lazymedia.media.video.index_cache import PacketIndexCache
from lazymedia.media.video.io import BACKENDS, Video, VideoMediaIO
from lazymedia.media.video.metadata import VideoMetadata
from lazymedia.media.video.sampling import POLICIES, Sampling
from lazymedia.public import publish

__all__ = ["BACKENDS", "POLICIES", "PacketIndexCache", "Sampling", "Video", "VideoMediaIO", "VideoMetadata"]

publish(__name__)
