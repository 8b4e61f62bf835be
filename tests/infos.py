"""Processors and what is known about them, built once for the tests of several folders."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from lazymedia import processing_info
from lazymedia.extend import ProcessingInfo, ReturnTensors
from lazymedia.testing.processors import Backend, make_processor

GetInfo = Callable[..., ProcessingInfo]

FAMILIES = ("llava", "qwen2_vl", "qwen2_5_vl", "qwen3_vl", "idefics3")
"""Five families of pictures that differ in what matters: one size, patches, tiles. All others are in
`tests.models.test_families`.
"""


@cache
def _info(family: str, return_tensors: ReturnTensors = "pt", backend: Backend | None = None) -> ProcessingInfo:
    return processing_info(make_processor(family, backend=backend), return_tensors=return_tensors)


@pytest.fixture(scope="session")
def get_info() -> GetInfo:
    """``get_info(family, return_tensors="pt", backend=None)``; equal arguments give the same object."""
    return _info
