"""The event loops that tests run on."""

from __future__ import annotations

import asyncio
import sys
from importlib.util import find_spec

import pytest

BACKENDS = [
    pytest.param(("asyncio", {"debug": True}), id="asyncio"),
    pytest.param(("trio", {}), id="trio"),
]


def eager_loop() -> asyncio.AbstractEventLoop:
    """A loop whose tasks begin to run inside `create_task`."""
    loop = asyncio.new_event_loop()
    if sys.version_info >= (3, 12):
        loop.set_task_factory(asyncio.eager_task_factory)
    return loop


EVERY_LOOP = [
    *BACKENDS,
    pytest.param(
        ("asyncio", {"debug": True, "use_uvloop": True}),
        id="uvloop",
        marks=pytest.mark.skipif(find_spec("uvloop") is None, reason="uvloop is not installed"),
    ),
    pytest.param(
        ("asyncio", {"debug": True, "loop_factory": eager_loop}),
        id="eager",
        marks=pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with Python 3.12"),
    ),
]
"""For tests that are marked ``every_loop``: those about cancellation, owners and worker threads."""


def is_added(backend: tuple[str, object]) -> bool:
    """Whether this is a loop that only the marked tests run on; storms are shorter there."""
    return backend not in [each.values[0] for each in BACKENDS]


ASYNCIO_ONLY = pytest.mark.parametrize("anyio_backend", [each for each in EVERY_LOOP if each.id != "trio"])
"""For tests of what asyncio alone has, such as `asyncio.Task.cancel`."""
