"""What lazymedia tests itself with, shipped so that embedders can test their own code.

* `decoders`: `GatedMediaIO`, `FailingMediaIO`, `CountingMediaIO`
* `server`: `MediaServer`, a loopback HTTP server on either event loop
* `processors`: `make_processor`, real transformers processors built offline
* `media`: `make_image`
* `quiet`: `assert_quiet`, `native_cancel`

transformers is loaded by `make_processor` alone.
"""

from __future__ import annotations

from lazymedia.testing.decoders import CountingMediaIO, FailingMediaIO, GatedMediaIO
from lazymedia.testing.media import make_image
from lazymedia.testing.processors import families, make_processor
from lazymedia.testing.quiet import assert_quiet, native_cancel
from lazymedia.testing.server import MediaServer, Request, Response

__all__ = [
    "CountingMediaIO",
    "FailingMediaIO",
    "GatedMediaIO",
    "MediaServer",
    "Request",
    "Response",
    "assert_quiet",
    "families",
    "make_image",
    "make_processor",
    "native_cancel",
]
