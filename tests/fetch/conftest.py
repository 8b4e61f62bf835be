"""A download cache in a folder of its own, under a clock that is set by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from lazymedia import DownloadCache
from tests.fetch.kept_downloads import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def cache(folder: Path, clock: Clock) -> DownloadCache:
    return DownloadCache(folder, clock=clock)
