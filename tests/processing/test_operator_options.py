"""What an operator may choose for decoders and a request may not, for every modality and every such option."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from lazymedia.cli import main
from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import Limits
from lazymedia.media import system_ffmpeg
from lazymedia.media.audio import AudioMediaIO
from lazymedia.media.image import ImageMediaIO
from lazymedia.media.video import PacketIndexCache, VideoMediaIO
from lazymedia.models import processing_info
from lazymedia.models.llava import LlavaInfo
from lazymedia.processing import ProcessingInfo
from lazymedia.processing.decoders import make_decoder
from lazymedia.renderer import open_renderer
from lazymedia.testing import make_audio, make_image, make_video
from lazymedia.testing.processors import make_processor
from tests.media.torchcodec_here import load_or_skip

KINDS: dict[str, type[Any]] = {"image": ImageMediaIO, "video": VideoMediaIO, "audio": AudioMediaIO}
CACHE = PacketIndexCache()

OPERATORS: list[tuple[str, str, Any]] = [
    ("image", "limits", Limits(max_image_bytes=10)),
    ("image", "output", "array"),
    ("image", "image_id", "trust"),
    ("video", "limits", Limits(max_video_bytes=10)),
    ("video", "index_cache", CACHE),
    ("video", "decoder_threads", 1),
    ("video", "video_backend", "torchcodec"),
    ("audio", "limits", Limits(max_audio_bytes=10)),
    ("audio", "audio_backend", "torchcodec"),
]


@pytest.fixture(autouse=True)
def torchcodec_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which option is accepted does not depend on whether torchcodec is there; only its use does."""
    monkeypatch.setattr(system_ffmpeg, "require_installed", lambda: None)


GetInfo = Callable[[str, dict[str, Any]], ProcessingInfo]


@pytest.fixture
def all_modalities(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def declare() -> None:
        monkeypatch.setattr(LlavaInfo, "modalities", ("image", "video", "audio"))  # as far as decoders go

    return declare


@pytest.fixture
def info_with(all_modalities: Callable[[], None]) -> GetInfo:
    def make(modality: str, options: dict[str, Any]) -> ProcessingInfo:
        info = processing_info(make_processor("llava"), media_io_kwargs={modality: options})
        all_modalities()
        return info

    return make


@pytest.mark.parametrize(("modality", "name", "value"), OPERATORS)
def test_the_operator_may_choose_it(info_with: GetInfo, modality: str, name: str, value: Any) -> None:
    media_io = info_with(modality, {name: value}).get_media_io(modality)

    assert type(media_io) is KINDS[modality]
    if name == "limits":
        assert media_io.get_max_bytes() == 10
    if name.endswith("_backend"):
        assert media_io.get_decode_spec().settings[name] == value


@pytest.mark.parametrize(("modality", "name", "value"), OPERATORS)
def test_a_request_may_not_and_is_answered_with_the_name(
    info_with: GetInfo, modality: str, name: str, value: Any
) -> None:
    with pytest.raises(UnprocessableMediaError, match=name) as caught:
        info_with(modality, {}).get_media_io(modality, {name: value})

    assert (caught.value.modality, caught.value.status_hint) == (modality, 422)


@pytest.mark.parametrize(
    ("modality", "options", "request_"),
    [
        ("video", {"video_backend": "torchcodec"}, {"num_frames": 4}),
        ("video", {"video_backend": "torchcodec"}, {"video_backend": "torchcodec"}),
        ("audio", {"audio_backend": "torchcodec"}, {"audio_backend": "torchcodec"}),
    ],
)
def test_a_request_may_name_what_the_operator_chose(
    info_with: GetInfo, modality: str, options: dict[str, Any], request_: dict[str, Any]
) -> None:
    media_io = info_with(modality, options).get_media_io(modality, request_)

    assert media_io.get_decode_spec().settings[f"{modality}_backend"] == "torchcodec"


def test_the_operators_backend_goes_with_the_models_own_sampling() -> None:
    decoder = make_decoder(
        VideoMediaIO,
        "video",
        Limits(),
        operator={"video_backend": "torchcodec", "num_frames": 8},
        request=None,
        model={"sampling": "qwen3_vl", "fps": 2, "min_frames": 4, "max_frames": 768},
    )

    settings = decoder.get_decode_spec().settings
    assert (settings["video_backend"], settings["num_frames"], settings["fps"]) == ("torchcodec", 8, None)
    assert settings["sampling"] == "qwen3_vl"


@pytest.mark.parametrize(
    ("modality", "options", "request_"),
    [
        ("image", {"image_mode": "CMYK"}, {"rgba_background_color": (1, 2, 3)}),
        ("image", {"image_made": "RGB"}, {"image_mode": "L"}),
        ("video", {"num_frames": 100_000}, {}),
        ("video", {"num_frames": 100_000}, {"video_backend": "pyav"}),
        ("video", {"index_cache": 5}, {"num_frames": 4}),
        ("audio", {"audio_backend": "another"}, {}),
    ],
)
def test_the_operators_mistake_is_no_requests_fault(
    info_with: GetInfo, modality: str, options: dict[str, Any], request_: dict[str, Any]
) -> None:
    """Neither without options in the request nor beside options that are fine."""
    with pytest.raises((TypeError, ValueError)) as caught:
        info_with(modality, options).get_media_io(modality, request_)

    assert not isinstance(caught.value, UnprocessableMediaError)


@pytest.mark.anyio
async def test_a_renderer_takes_them(all_modalities: Callable[[], None]) -> None:
    options: dict[str, dict[str, Any]] = {
        "image": {"image_id": "trust"},
        "video": {"video_backend": "torchcodec", "decoder_threads": 1},
        "audio": {"audio_backend": "torchcodec"},
    }

    async with open_renderer(make_processor("llava"), media_io_kwargs=options, warm_up="off") as renderer:
        info = renderer.processor.info
        all_modalities()
        for modality in options:
            assert type(info.get_media_io(modality)) is KINDS[modality]
        with anyio.fail_after(30), pytest.raises(UnprocessableMediaError, match="image_id"):
            await renderer.render("<image>", {"image": []}, media_io_kwargs={"image": {"image_id": "ignore"}})


@pytest.mark.parametrize(
    ("modality", "option", "value"),
    [
        ("video", "video_backend", "torchcodec"),
        ("video", "decoder_threads", 1),
        ("audio", "audio_backend", "torchcodec"),
        ("image", "image_id", "trust"),
        ("image", "output", "array"),
    ],
)
def test_the_command_line_takes_them(
    modality: str, option: str, value: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if value == "torchcodec":
        load_or_skip()
    made = {"video": make_video(4), "audio": make_audio(0.1), "image": make_image()}
    source = tmp_path / "clip"
    source.write_bytes(made[modality])

    assert main(["probe", str(source), "--json", "--media-io-kwargs", json.dumps({modality: {option: value}})]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["modality"] == modality
    assert found["spec"].get(option, value) == value
