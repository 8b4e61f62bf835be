"""What lazymedia tests itself with, shipped so that embedders can test their own code.

* `decoders`: `GatedMediaIO`, `FailingMediaIO`, `CountingMediaIO`
* `server`: `MediaServer`, a loopback HTTP server on either event loop
* `processors`: `make_processor`, real transformers processors built offline, of the families in `families`
* `media`: `make_image`; `video`: `make_video`; `audio`: `make_audio`
* `quiet`: `assert_quiet`, `native_cancel`

transformers is loaded by `make_processor` alone.
"""

from __future__ import annotations

from lazymedia.public import show_at
from lazymedia.testing.audio import make_audio
from lazymedia.testing.decoders import CountingMediaIO, FailingMediaIO, GatedMediaIO
from lazymedia.testing.media import make_image
from lazymedia.testing.processors import families, family_modalities, make_processor, plain_chat_template
from lazymedia.testing.quiet import assert_quiet, native_cancel
from lazymedia.testing.server import MediaServer, Request, Response
from lazymedia.testing.video import make_video

__all__ = [
    "CountingMediaIO",
    "FailingMediaIO",
    "GatedMediaIO",
    "MediaServer",
    "Request",
    "Response",
    "assert_quiet",
    "families",
    "family_modalities",
    "make_audio",
    "make_image",
    "make_processor",
    "make_video",
    "native_cancel",
    "plain_chat_template",
]

for _name in __all__:
    show_at(__name__, globals()[_name])
