"""Frames as a model's own processor would choose them, unless an operator or a request chooses others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lazymedia.errors import UnprocessableMediaError
from lazymedia.media.video import VideoMediaIO
from lazymedia.models.qwen_vl import QwenVLInfo
from lazymedia.processing import ProcessingInfo
from lazymedia.processing.video_sampling import sampling_of
from lazymedia.testing import make_video
from lazymedia.testing.processors import make_processor
from lazymedia.testing.video import read_frame_numbers

pytest.importorskip("torchvision")


def theirs(name: str, **settings: Any) -> Any:
    """A video processor of transformers, without weights or files."""
    import transformers  # noqa: PLC0415  # optional, and slow to load

    return getattr(transformers, name)(**settings)


@pytest.mark.parametrize(
    ("name", "settings", "options"),
    [
        ("Qwen2VLVideoProcessor", {}, {"sampling": "qwen2_vl", "min_frames": 4, "max_frames": 768}),
        (
            "Qwen2VLVideoProcessor",
            {"fps": 1.0},
            {"sampling": "qwen2_vl", "fps": 1.0, "min_frames": 4, "max_frames": 768},
        ),
        ("Qwen3VLVideoProcessor", {}, {"sampling": "qwen3_vl", "fps": 2, "min_frames": 4, "max_frames": 768}),
        (
            "Qwen3VLVideoProcessor",
            {"max_frames": 2048},
            {"sampling": "qwen3_vl", "fps": 2, "min_frames": 4, "max_frames": 768},
        ),
        ("Glm4vVideoProcessor", {}, {"sampling": "glm4v", "fps": 2}),
        ("SmolVLMVideoProcessor", {"num_frames": 64, "fps": 1}, {"sampling": "smolvlm", "num_frames": 64, "fps": 1}),
        ("Gemma4VideoProcessor", {}, {"sampling": "transformers", "num_frames": 32}),
        ("LlavaOnevisionVideoProcessor", {}, {}),
    ],
)
def test_options_are_those_that_the_processor_has(name: str, settings: dict[str, Any], options: dict[str, Any]) -> None:
    """A class that inherits its rule counts as the one that it has it from."""
    assert sampling_of(theirs(name, **settings), most=768) == options
    VideoMediaIO(**options)


@pytest.mark.parametrize("frames", [1, 5, 60, 400])
def test_a_rule_that_no_policy_mirrors_is_the_processors_own(frames: int) -> None:
    from transformers.video_utils import VideoMetadata  # noqa: PLC0415  # optional, and slow to load

    video_processor = theirs("Glm46VVideoProcessor")
    options = sampling_of(video_processor, most=768)
    data = make_video(frames, width=32, height=32, fps=25)
    chosen, metadata = VideoMediaIO(**options).load_bytes(data)
    wanted = video_processor.sample_frames(
        metadata=VideoMetadata(total_num_frames=frames, fps=25.0, duration=frames / 25)
    )

    assert metadata.frames_indices == ([int(index) for index in wanted] or [0])
    assert len(chosen) == len(metadata.frames_indices)
    spec = VideoMediaIO(**options).get_decode_spec()
    assert "Glm46VVideoProcessor" in str(spec.settings["sampling"])
    assert spec == VideoMediaIO(**sampling_of(theirs("Glm46VVideoProcessor"), most=768)).get_decode_spec()
    assert spec != VideoMediaIO(**sampling_of(theirs("Glm46VVideoProcessor", fps=1), most=768)).get_decode_spec()
    fewer = VideoMediaIO(**VideoMediaIO.merge_kwargs(options, {"num_frames": 3}))
    assert fewer.get_decode_spec().settings["sampling"] == "uniform"


GetOptions = Callable[..., dict[str, Any]]


@pytest.fixture
def get_info() -> Callable[..., ProcessingInfo]:
    def get(**operator: Any) -> ProcessingInfo:
        hf_processor = make_processor("qwen3_vl")
        hf_processor.video_processor = theirs("Qwen3VLVideoProcessor")
        return QwenVLInfo(hf_processor, media_io_kwargs={"video": operator})

    return get


@pytest.fixture
def settings(get_info: Callable[..., ProcessingInfo]) -> GetOptions:
    def get(request: dict[str, Any] | None = None, **operator: Any) -> dict[str, Any]:
        return get_info(**operator).get_media_io("video", request).get_decode_spec().settings

    return get


def test_the_model_goes_below_the_operator_who_goes_below_the_request(settings: GetOptions) -> None:
    model = settings()
    assert (model["sampling"], model["fps"], model["max_frames"]) == ("qwen3_vl", 2.0, 768)

    operator = settings(fps=1, decoder_threads=1)
    assert (operator["sampling"], operator["fps"]) == ("qwen3_vl", 1.0)

    chosen = settings({"num_frames": 8}, fps=1)
    assert (chosen["sampling"], chosen["num_frames"], chosen["fps"]) == ("qwen3_vl", 8, None)
    assert settings({"sampling": "uniform", "num_frames": 8})["sampling"] == "uniform"


def test_each_modality_has_its_decoder(get_info: Callable[..., ProcessingInfo]) -> None:
    info = get_info()

    with pytest.raises(UnprocessableMediaError, match="takes image, video, not audio"):
        info.get_media_io("audio")
    video_io = info.get_media_io("video")
    assert isinstance(video_io, VideoMediaIO)
    frames, metadata = video_io.load_bytes(make_video(100, fps=25))
    assert read_frame_numbers(frames) == metadata.frames_indices == [0, 14, 28, 42, 57, 71, 85, 99]
