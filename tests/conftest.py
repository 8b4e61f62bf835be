"""Both event loops for every async test, through anyio's plugin.

The trio-only suite (`tests/trio`) has a run of its own under pytest-trio.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.programs import Programs

BACKENDS = [
    pytest.param(("asyncio", {"debug": True}), id="asyncio"),
    pytest.param(("trio", {}), id="trio"),
]


@pytest.fixture(params=BACKENDS)
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, object]]:
    backend: tuple[str, dict[str, object]] = request.param
    return backend


@pytest.fixture(scope="session")
def programs() -> Iterator[Programs]:
    """Runs Python programs that need torch and transformers without importing these each time."""
    with Programs() as ready:
        yield ready
