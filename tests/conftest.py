"""Both event loops for every async test, through anyio's plugin.

The trio-only suite (`tests/trio`) has a run of its own under pytest-trio.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest

from lazymedia.fetch import connector
from lazymedia.fetch.guarded import make_ssl_context
from tests.programs import Programs

BACKENDS = [
    pytest.param(("asyncio", {"debug": True}), id="asyncio"),
    pytest.param(("trio", {}), id="trio"),
]


@pytest.fixture(params=BACKENDS)
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, object]]:
    backend: tuple[str, dict[str, object]] = request.param
    return backend


@pytest.fixture(scope="session", autouse=True)
def certificates_read_once() -> Iterator[None]:
    """Connectors share a context for TLS: to read the machine's certificates takes each some thirty milliseconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connector, "make_ssl_context", cache(make_ssl_context))
        yield


@pytest.fixture(scope="session")
def programs() -> Iterator[Programs]:
    """Runs Python programs that need torch and transformers without importing these each time."""
    with Programs() as ready:
        yield ready
