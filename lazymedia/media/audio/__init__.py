"""Audio: from encoded bytes to mono samples at a rate.

* `io`: `AudioMediaIO`, the decoder with its settings, references and identity
* `formats`: which container a payload is; `header`: `AudioInfo`, and how it is read without a decode
* `backends`: which library decodes a payload
* `soundfile_reader`, `pyav_reader`, `torchcodec_reader`: the libraries, each from a payload to a `samples.Source`
* `ffmpeg`, `ffmpeg_graph`, `ffmpeg_frames`: what `pyav_reader` consists of
* `bounds`: the limits on headers and on samples
* `samples`: an open clip, mono, and one array out of many blocks
* `transforms`: another rate or number of channels, mapped onto a reference

Importing this loads no codec and no numpy.
"""

from __future__ import annotations

from lazymedia.media.audio.header import AudioInfo
from lazymedia.media.audio.io import BACKENDS, AudioMediaIO, Clip
from lazymedia.media.audio.transforms import ChannelRule, Resampler, resample, to_channels
from lazymedia.public import publish

__all__ = ["BACKENDS", "AudioInfo", "AudioMediaIO", "ChannelRule", "Clip", "Resampler", "resample", "to_channels"]

publish(__name__)
