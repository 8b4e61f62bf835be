"""How many threads torch may take while a Hugging Face processor runs.

Why: while one item is processed, other requests' decodes run in worker threads of their own, one for each core. If
torch started as many again, they would stand in each other's way.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Final

from lazymedia.contexts import contextmanager


class _Inside(threading.local):
    """How deep this thread is in bounded blocks."""

    depth = 0


_inside: Final = _Inside()
_lock: Final = threading.Lock()
_running = 0
_before = 0


@contextmanager
def bounded_torch_threads(count: int = 1) -> Iterator[None]:
    """Let torch take ``count`` threads inside the block, then what it took before. The outermost block of a thread
    decides.

    The number is partly the process's and partly each thread's (torch hands it to OpenMP, which keeps one for each
    thread, and remembers it for threads that have not used torch yet). So this has a global effect: a thread that uses
    torch for the first time while a block is open elsewhere starts with ``count`` as well. What was in force before the
    first of several overlapping blocks is what each of them puts back, in its own thread and for the process; a plain
    save-and-restore would leave the process at ``count`` when blocks overlap.
    """
    torch = sys.modules.get("torch")
    if torch is None or _inside.depth:
        yield
        return
    global _running, _before  # noqa: PLW0603  # the number it minds is a global of torch's
    with _lock:
        if _running == 0:
            _before = torch.get_num_threads()
        _running += 1
        torch.set_num_threads(count)
    _inside.depth += 1
    try:
        yield
    finally:
        _inside.depth -= 1
        with _lock:
            torch.set_num_threads(_before)
            _running -= 1


__all__ = ["bounded_torch_threads"]
