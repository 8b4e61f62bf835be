"""What must be true when nothing is going on, and how to cancel a task the way an outsider does."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lazymedia.pipeline.processor import MultiModalProcessor


def native_cancel(task: asyncio.Task[Any], times: int = 1) -> None:
    """Cancel an asyncio task from outside, without any cancel scope, as a web framework does when its client leaves.

    Args:
        task: The task.
        times: How often, in one tick of the loop. To let the task react in between, call again after a checkpoint.
    """
    for _ in range(times):
        task.cancel()


def assert_quiet(owner: Any) -> None:
    """Assert that nothing is left of requests that have ended.

    Args:
        owner: A `MultiModalProcessor`, or anything that has one as its ``processor``, such as a renderer. Entered, and
            used by no request now.

    Raises:
        AssertionError: A request is open, a token is borrowed, a job waits for its turn, or a finished request's
            payload is still held.
    """
    processor: MultiModalProcessor = getattr(owner, "processor", owner)
    now = processor.statistics()
    left = {
        "open requests": now.open_requests,
        "decode slots taken": now.running_decodes,
        "serial token taken": int(now.phase_running),
        "phases waiting": now.waiting_phases,
        "decodes waiting": now.waiting_decodes,
        "payloads held": sum(bool(ref.data) for ref in processor.forks),
    }
    found = {what: count for what, count in left.items() if count}
    assert not found, f"left behind: {found}"


__all__ = ["assert_quiet", "native_cancel"]
