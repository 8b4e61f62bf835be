"""Requests under structured concurrency.

* `decodes`: decode jobs, each owned by a request's nursery
* `state`: one request between its phases
* `processor`: what requests share: limiters and cache; opening and ending requests
* `serial`: phases one at a time
* `warm_up`: what runs before any request
* `blocking`: callers without an event loop

Shell: may import anyio; runs the plain functions of `processing` in worker threads.
"""

from __future__ import annotations

from lazymedia.pipeline.processor import MultiModalProcessor, ProcessorStatistics
from lazymedia.pipeline.state import MultiModalApplyState
from lazymedia.public import publish

__all__ = ["MultiModalApplyState", "MultiModalProcessor", "ProcessorStatistics"]

publish(__name__)
