"""The event loops of the async tests, through anyio's plugin.

Each test runs on asyncio and on trio; one that is marked ``every_loop``, on uvloop and with eager tasks too. The
trio-only suite (`tests/trio`) has a run of its own under pytest-trio.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest

from lazymedia.fetch import connector
from lazymedia.fetch.transport.guarded import make_ssl_context
from tests.loops import BACKENDS, EVERY_LOOP
from tests.programs import Programs


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each async test once on each loop, unless it names its loops itself."""
    named = any("anyio_backend" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize"))
    if "anyio_backend" in metafunc.fixturenames and not named:
        is_marked = metafunc.definition.get_closest_marker("every_loop") is not None
        metafunc.parametrize("anyio_backend", EVERY_LOOP if is_marked else BACKENDS, indirect=True)


@pytest.fixture
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, object]]:
    backend: tuple[str, dict[str, object]] = request.param
    return backend


@pytest.fixture(scope="session", autouse=True)
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What is found out about processors is kept for this run, and not in the user's folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAZYMEDIA_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


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
