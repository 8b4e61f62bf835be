"""Which frames of a video are wanted: one pure function for each policy.

Every function takes the clip and the request and returns at least one index; a clip shorter than what is asked for
gives what it has, also where the processor that a policy mirrors would raise.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Clip:
    """What sampling may know of a video.

    Attributes:
        times: Seconds from the first frame, of each frame in the order shown; at least one.
        fps: Frames per second.
        duration: Seconds.
    """

    times: Sequence[float]
    fps: float
    duration: float

    @property
    def total(self) -> int:
        return len(self.times)

    @property
    def rate(self) -> float:
        """The rate for policies that divide by it: 24 where none is known, as transformers has it for Qwen3-VL."""
        return self.fps if self.fps > 0 else 24.0


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked for. `POLICIES` lists which of these a policy reads.

    Attributes:
        num_frames: Frames, at most. None where the rate decides.
        fps: Frames per second of the clip's own time. None where the number decides.
        min_frames: Frames, at least, where a rate decides and the clip has as many.
        max_frames: Frames, at most, where a rate decides.
        multiple: The number of frames is rounded down to a multiple of this, but never to none.
    """

    num_frames: int | None = None
    fps: float | None = None
    min_frames: int | None = None
    max_frames: int | None = None
    multiple: int = 1


def every(clip: Clip, request: Request) -> list[int]:  # noqa: ARG001  # policies share a signature
    """All frames."""
    return list(range(clip.total))


def uniform(clip: Clip, request: Request) -> list[int]:
    """Evenly spread, first and last frame included, truncated: ``linspace(0, total - 1, n)``.

    n is the smallest of the total, ``num_frames``, and ``floor(duration * fps)``, as far as given, and at least 1.
    What vLLM's default loader does.
    """
    import numpy as np

    count = clip.total
    if request.num_frames is not None:
        count = min(count, request.num_frames)
    if request.fps is not None:
        count = min(count, math.floor(clip.duration * request.fps))
    count = max(1, count)
    if count == clip.total:
        return list(range(count))
    return [int(index) for index in np.linspace(0, clip.total - 1, count, dtype=int)]


def by_rate(clip: Clip, request: Request) -> list[int]:
    """The frame on show at each tick of ``fps``, by timestamps, so that a variable rate is sampled evenly in time.

    Ticks that are more than ``max_frames`` or fewer than ``min_frames``, or no ``multiple``, are spread over the whole
    length instead. At a constant rate this is the rule of Qwen2-VL, up to rounding.
    """
    fps = 2.0 if request.fps is None else request.fps
    # A hair of slack: 0.1 s frames that add up to 2.9999999999999996 s last three seconds.
    ticks = math.floor(clip.duration * fps + 1e-6)
    count = max(ticks, request.min_frames or 1)
    if request.max_frames is not None:
        count = min(count, request.max_frames)
    count = max(1, min(count, clip.total) // request.multiple * request.multiple)
    step = 1 / fps if count == ticks else clip.duration / count
    return [max(0, bisect_right(clip.times, tick * step + 1e-6) - 1) for tick in range(count)]


def transformers_default(clip: Clip, request: Request) -> list[int]:
    """Every ``total / n``-th frame from the first, truncated: ``default_sample_indices_fn`` of transformers.

    n is ``num_frames``, or ``int(total / rate * fps)``, or the total. Models: those without a rule of their own
    (LLaVA-OneVision, InternVL, Video-LLaVA).
    """
    count = request.num_frames
    if count is None:
        count = clip.total if request.fps is None else int(clip.total / clip.rate * request.fps)
    count = max(1, min(count, clip.total))
    return [index * clip.total // count for index in range(count)]


def qwen2_vl(clip: Clip, request: Request) -> list[int]:
    """``arange(0, total, total / n)`` in single precision: ``Qwen2VLVideoProcessor`` (Qwen2-VL, Qwen2.5-VL).

    n is ``num_frames`` rounded to a multiple of 2, or the frames at ``fps`` (2), at least 4, at most 768 and the
    total, rounded down to a multiple of 2.
    """
    import numpy as np

    if request.num_frames is not None:
        count = round(request.num_frames / 2) * 2
    else:
        most = min(request.max_frames or 768, clip.total) // 2 * 2
        wanted = clip.total / clip.rate * (request.fps or 2.0)
        count = math.floor(min(max(wanted, request.min_frames or 4), most, clip.total) / 2) * 2
    count = max(1, min(count, clip.total))
    ticks = np.arange(count) * (clip.total / count)
    return [min(clip.total - 1, int(tick)) for tick in ticks.astype(np.float32)]


def qwen3_vl(clip: Clip, request: Request) -> list[int]:
    """``linspace(0, total - 1, n)``, rounded: ``Qwen3VLVideoProcessor``.

    n is ``num_frames``, or ``int(total / rate * fps)`` at ``fps`` (2), at least 4, at most 768 and the total.
    """
    import numpy as np

    count = request.num_frames
    if count is None:
        count = int(clip.total / clip.rate * (request.fps or 2.0))
        count = min(max(count, request.min_frames or 4), request.max_frames or 768)
    count = max(1, min(count, clip.total))
    return [int(index) for index in np.linspace(0, clip.total - 1, count).round()]


def glm4v(clip: Clip, request: Request) -> list[int]:
    """The frame after each tick of ``fps`` (2), without repeats, then made even by repeating the last:
    ``Glm4vVideoProcessor``.

    A clip of more than 300 s gives 300 * fps frames, spread over its whole length.
    """
    import numpy as np

    fps, last = request.fps or 2.0, clip.total - 1
    duration = clip.duration or round(last / clip.rate) + 1
    if duration <= 300:
        count = max(1, math.floor(duration * fps))
        chosen = [min(last, math.ceil(tick * clip.rate / fps)) for tick in range(min(count, clip.total * 64))]
    elif int(300 * fps) >= clip.total:
        chosen = list(range(clip.total))
    else:
        spread = np.linspace(0, duration, max(1, int(300 * fps)), endpoint=True)
        chosen = [min(last, math.ceil(second * clip.rate)) for second in spread]
    unique = list(dict.fromkeys(chosen))
    return unique + unique[-1:] if len(unique) % 2 else unique


def smolvlm(clip: Clip, request: Request) -> list[int]:
    """Evenly spread, truncated, without repeats: ``SmolVLMVideoProcessor``.

    n is the smaller of ``num_frames`` (64) and the frames at ``fps`` (1); the first and last second are left out of
    clips longer than ``n * fps + 2`` seconds.
    """
    import numpy as np

    most, fps = request.num_frames or 64, request.fps or 1.0
    count = max(1, min(round(fps * clip.duration), most))
    first, last = 0, clip.total - 1
    if clip.duration - 2 > most * fps:
        first, last = max(0, int(clip.rate)), min(int(clip.total - clip.rate), last)
    if first >= last:
        first, last = 0, clip.total - 1
    return sorted({int(index) for index in np.linspace(first, last, count, dtype=int)})


POLICIES: Final = MappingProxyType(
    {
        "uniform": uniform,
        "fps": by_rate,
        "all": every,
        "transformers": transformers_default,
        "qwen2_vl": qwen2_vl,
        "qwen3_vl": qwen3_vl,
        "glm4v": glm4v,
        "smolvlm": smolvlm,
    }
)
"""Every policy by the name under which it is asked for and written into specs."""

READS: Final = MappingProxyType(
    {
        "uniform": ("num_frames", "fps"),
        "fps": ("fps", "min_frames", "max_frames"),
        "all": (),
        "transformers": ("num_frames", "fps"),
        "qwen2_vl": ("num_frames", "fps", "min_frames", "max_frames"),
        "qwen3_vl": ("num_frames", "fps", "min_frames", "max_frames"),
        "glm4v": ("fps",),
        "smolvlm": ("num_frames", "fps"),
    }
)
"""What of a request each policy reads, ``multiple`` aside, which is for "fps" alone."""

Policy = Callable[[Clip, Request], list[int]]


@dataclass(frozen=True, slots=True)
class Sampling:
    """A rule that is none of `POLICIES`.

    Attributes:
        name: Stands for the rule and all that it depends on in decode specs: two rules of one name choose the same.
        choose: The frames for a clip, in ascending order, at least one.
    """

    name: str
    choose: Callable[[Clip], list[int]]

    def __call__(self, clip: Clip, request: Request) -> list[int]:  # noqa: ARG002  # policies share a signature
        return self.choose(clip)


__all__ = [
    "POLICIES",
    "READS",
    "Clip",
    "Policy",
    "Request",
    "Sampling",
    "by_rate",
    "every",
    "glm4v",
    "qwen2_vl",
    "qwen3_vl",
    "smolvlm",
    "transformers_default",
    "uniform",
]
