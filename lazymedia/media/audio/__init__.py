"""Audio: from encoded bytes to mono samples at a rate.

* `io`: `AudioMediaIO`, the decoder with its settings, references and identity
* `formats`: which format a payload is, and which library reads it best
* `header`: what a WAV or FLAC says of itself; `outline`: what any clip does
* `ogg`: the recordings that follow each other in one OGG
* `bounds`: the limits on what a header, a decoder or a resampler may come to
* `backends`: what decodes a payload
* `soundfile_reader`, `pyav_reader`, `torchcodec_reader`: the libraries, each from a payload to a `source`
* `samples`: mono, and one array out of many blocks
* `resample`: another rate, as a transform that is mapped onto a reference
* `channels`: another number of channels, likewise

Importing this loads no codec and no numpy.
"""

from __future__ import annotations

from lazymedia.media.audio.channels import ChannelRule, to_channels
from lazymedia.media.audio.io import BACKENDS, AudioMediaIO, Clip
from lazymedia.media.audio.resample import Resampler, resample

__all__ = ["BACKENDS", "AudioMediaIO", "ChannelRule", "Clip", "Resampler", "resample", "to_channels"]
