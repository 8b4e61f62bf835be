"""Audio: from encoded bytes to mono samples at a rate.

* `io`: `AudioMediaIO`, the decoder with its settings, references and identity
* `info`: `AudioInfo`, what is known of a clip; `outline`: how it is found without a decode
* `formats`: which container a payload is; `header`: what a WAV, AIFF or FLAC says of itself
* `backends`: which library decodes a payload
* `soundfile_reader`, `pyav_reader`, `torchcodec_reader`: the libraries, each from a payload to a `source`
* `ffmpeg`, `ffmpeg_graph`, `ffmpeg_frames`: what `pyav_reader` consists of; `ogg`: recordings in a row in one OGG
* `bounds`: the limits on headers and on samples
* `samples`: mono, and one array out of many blocks
* `resample`: another rate, as a transform that is mapped onto a reference
* `channels`: another number of channels, likewise

Importing this loads no codec and no numpy.
"""

from __future__ import annotations

from lazymedia.media.audio.header import AudioInfo
from lazymedia.media.audio.io import BACKENDS, AudioMediaIO, Clip
from lazymedia.media.audio.transforms import ChannelRule, Resampler, resample, to_channels
from lazymedia.public import publish

__all__ = ["BACKENDS", "AudioInfo", "AudioMediaIO", "ChannelRule", "Clip", "Resampler", "resample", "to_channels"]

publish(__name__)
