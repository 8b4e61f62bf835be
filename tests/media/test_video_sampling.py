"""The sampling policies, against tables and against the processors that they mirror."""

from __future__ import annotations

from typing import Any

import pytest

from lazymedia.media.video.sampling import (
    POLICIES,
    Clip,
    Request,
    by_rate,
    every,
    glm4v,
    qwen2_vl,
    qwen3_vl,
    smolvlm,
    transformers_default,
    uniform,
)

LENGTHS = (1, 2, 3, 4, 5, 7, 16, 31, 33, 100, 301, 900, 1891, 18_000)
RATES = (0.5, 8.483, 10.0, 23.976, 25.0, 29.97, 60.0)
FPS = (0.5, 1.0, 2.0, 3.7)


def clip(total: int, fps: float) -> Clip:
    """A clip of constant rate."""
    return Clip([frame_index / fps for frame_index in range(total)], fps, total / fps)


@pytest.mark.parametrize(
    ("total", "request_", "expected"),
    [
        (10, Request(num_frames=4), [0, 3, 6, 9]),
        (10, Request(num_frames=3), [0, 4, 9]),
        (10, Request(num_frames=1), [0]),
        (3, Request(num_frames=32), [0, 1, 2]),
        (50, Request(fps=2), [0, 16, 32, 49]),  # 25 frames per second: two seconds, four frames
        (50, Request(num_frames=2, fps=2), [0, 49]),
        (5, Request(fps=1), [0]),  # a fifth of a second: at least one
    ],
)
def test_uniform(total: int, request_: Request, expected: list[int]) -> None:
    assert uniform(clip(total, 25.0), request_) == expected


@pytest.mark.parametrize(
    ("total", "request_", "expected"),
    [
        (50, Request(fps=2), [0, 12, 25, 37]),
        (50, Request(fps=5), [0, 5, 10, 15, 20, 25, 30, 35, 40, 45]),
        (50, Request(fps=2, max_frames=2), [0, 25]),
        (50, Request(fps=1, min_frames=4), [0, 12, 25, 37]),
        (60, Request(fps=2, multiple=2), [0, 12, 25, 37]),
        (65, Request(fps=2, multiple=2), [0, 16, 32, 48]),
        (1, Request(fps=2, multiple=2), [0]),
        (3, Request(fps=100), [0, 1, 2]),
        (50, Request(), [0, 12, 25, 37]),
    ],
)
def test_by_rate(total: int, request_: Request, expected: list[int]) -> None:
    assert by_rate(clip(total, 25.0), request_) == expected


def test_by_rate_repeats_the_frame_that_stays_on_show() -> None:
    still = Clip([0.0, 0.1, 0.2, 3.0], 1.0, 4.0)

    assert by_rate(still, Request(fps=1)) == [0, 2, 2, 3]


def test_all() -> None:
    assert every(clip(4, 25.0), Request(num_frames=2)) == [0, 1, 2, 3]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("fps", [0.0, *RATES])
def test_every_policy_gives_indices_that_exist_in_order(policy: str, fps: float) -> None:
    for total in LENGTHS:
        for request in (Request(num_frames=8), Request(fps=2.0), Request(num_frames=1), Request(fps=200.0)):
            made = clip(total, fps) if fps else Clip([0.0] * total, 0.0, 0.0)

            indices = POLICIES[policy](made, request)

            assert indices, (policy, total, request)
            assert indices == sorted(indices)
            assert 0 <= indices[0] <= indices[-1] < total
            assert all(type(index) is int for index in indices)


def theirs(name: str) -> Any:
    """A video processor of transformers, without weights or files."""
    pytest.importorskip("torch")
    pytest.importorskip("torchvision")
    import transformers  # noqa: PLC0415  # optional, and slow to load

    return getattr(transformers, name)()


def mirrored(processor: Any, made: Clip, **wanted: float) -> list[int] | None:
    """What it samples; None where it raises, or would divide by no frames at all."""
    from transformers.video_utils import VideoMetadata  # noqa: PLC0415  # optional, and slow to load

    metadata = VideoMetadata(total_num_frames=made.total, fps=made.fps, duration=made.duration)
    try:
        return [int(index) for index in processor.sample_frames(metadata, **wanted)]
    except (ValueError, ZeroDivisionError):
        return None


@pytest.mark.parametrize(
    ("ours", "name"),
    [
        (qwen2_vl, "Qwen2VLVideoProcessor"),
        (qwen3_vl, "Qwen3VLVideoProcessor"),
        (glm4v, "Glm4vVideoProcessor"),
        (smolvlm, "SmolVLMVideoProcessor"),
        (transformers_default, "LlavaOnevisionVideoProcessor"),
    ],
)
def test_policies_choose_what_the_processors_choose(ours: Any, name: str) -> None:
    """For every clip and rate that the processor accepts."""
    processor = theirs(name)
    compared = 0
    for total in LENGTHS:
        for fps in RATES:
            made = clip(total, fps)
            for wanted in FPS:
                extra: dict[str, Any] = {"num_frames": 64} if name.startswith("Smol") else {}
                expected = mirrored(processor, made, fps=wanted, **extra)
                # Rounding gives Qwen2-VL's rule one index too many for some lengths, behind the clip's end.
                if expected and expected[-1] < total:
                    compared += 1
                    assert ours(made, Request(fps=wanted, **extra)) == expected, (total, fps, wanted)
    assert compared > 100


@pytest.mark.parametrize(
    ("ours", "name"),
    [
        (qwen2_vl, "Qwen2VLVideoProcessor"),
        (qwen3_vl, "Qwen3VLVideoProcessor"),
        (transformers_default, "LlavaOnevisionVideoProcessor"),
    ],
)
def test_policies_choose_as_many_as_the_processors_choose(ours: Any, name: str) -> None:
    """By number. A number above the clip's own gives all it has, where a processor raises or repeats."""
    processor = theirs(name)
    if name.startswith("Qwen2"):
        processor.fps = None
    for total in LENGTHS:
        for number in (1, 2, 3, 8, 16, 31):
            made = clip(total, 25.0)
            expected = mirrored(processor, made, num_frames=number)
            if expected and number <= total:
                assert ours(made, Request(num_frames=number)) == expected, (total, number)


@pytest.mark.parametrize("fps", [5e-324, 1e-9, 0.003])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_rate_of_hardly_anything_takes_a_frame(policy: str, fps: float) -> None:
    assert POLICIES[policy](clip(400, 1.0), Request(fps=fps))
