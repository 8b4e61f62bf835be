"""What real Hugging Face processors are made of, so that they can be built without a download: one row for each family.

Sizes and tokens are those of published checkpoints wherever they change what a processor does; everything else is the
default of its class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

_QWEN: Final = {
    "image_token": "<|image_pad|>",
    "video_token": "<|video_pad|>",
    "vision_start_token": "<|vision_start|>",
    "vision_end_token": "<|vision_end|>",
}
_CHAT: Final = ("<|im_start|>", "<|im_end|>")
_OMNI: Final = {
    "image_token": "<|IMAGE|>",
    "audio_token": "<|AUDIO|>",
    "video_token": "<|VIDEO|>",
    "vision_bos_token": "<|vision_bos|>",
    "vision_eos_token": "<|vision_eos|>",
    "audio_bos_token": "<|audio_bos|>",
    "audio_eos_token": "<|audio_eos|>",
}
_GLM: Final = ("<|begin_of_image|>", "<|end_of_image|>", "<|begin_of_video|>", "<|end_of_video|>")
_IMAGE: Final = {"image_token": "<image>"}
_BOTH: Final = {"image_token": "<image>", "video_token": "<video>"}
_AUDIO: Final = {"audio_token": "<|audio|>"}
_CLIP_336: Final = ("CLIPImageProcessor", {"size": {"shortest_edge": 336}, "crop_size": {"height": 336, "width": 336}})
_NEXT_336: Final = (
    "LlavaNextImageProcessor",
    {"size": {"shortest_edge": 336}, "crop_size": {"height": 336, "width": 336}},
)
_LLAVA: Final[dict[str, Any]] = {
    "patch_size": 14,
    "vision_feature_select_strategy": "default",
    "num_additional_image_tokens": 1,
}
_HALF: Final = [0.5, 0.5, 0.5]
_GEMMA3: Final = {"image_token": "<image_soft_token>", "boi_token": "<start_of_image>", "eoi_token": "<end_of_image>"}
_GEMMA4: Final = {
    "image_token": "<|image|>",
    "video_token": "<|video|>",
    "audio_token": "<|audio|>",
    "boi_token": "<|image>",
    "eoi_token": "<image|>",
    "boa_token": "<|audio>",
    "eoa_token": "<audio|>",
}
_INTERNVL: Final = {
    "start_image_token": "<img>",
    "end_image_token": "</img>",
    "context_image_token": "<IMG_CONTEXT>",
    "video_token": "<video>",
}
_WHISPER_128: Final = ("WhisperFeatureExtractor", {"feature_size": 128})


def _grid(form: str, side: int) -> tuple[str, ...]:
    """Tokens of rows and columns."""
    return tuple(form.format(row, column) for row in range(1, side + 1) for column in range(1, side + 1))


@dataclass(frozen=True, slots=True)
class Family:
    """What one processor is made of.

    Attributes:
        processor: The name of its class in transformers.
        parts: For each of its parts but the tokenizer: the class, and settings that are not its defaults.
        specials: Special tokens by the names under which the processor looks for them in its tokenizer.
        extra: Special tokens without such names.
        settings: Of the processor itself.
        writes_bos: Whether the tokenizer begins every text with ``<s>``.
    """

    processor: str
    parts: Mapping[str, tuple[str, Mapping[str, Any]]]
    specials: Mapping[str, str] = field(default_factory=dict)
    extra: Sequence[str] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    writes_bos: bool = False


def _of(
    processor: str,
    specials: Mapping[str, str],
    extra: Sequence[str] = (),
    *,
    image: str | tuple[str, Mapping[str, Any]] | None = None,
    video: str | tuple[str, Mapping[str, Any]] | None = None,
    audio: str | tuple[str, Mapping[str, Any]] | None = None,
    audio_part: str = "feature_extractor",
    writes_bos: bool = False,
    **settings: Any,
) -> Family:
    named = {"image_processor": image, "video_processor": video, audio_part: audio}
    parts = {name: part if isinstance(part, tuple) else (part, {}) for name, part in named.items() if part is not None}
    return Family(processor, parts, specials, extra, settings, writes_bos)


FAMILIES: Final[Mapping[str, Family]] = {
    "llava": _of("LlavaProcessor", _IMAGE, image=_CLIP_336, writes_bos=True, **_LLAVA),
    "qwen2_vl": _of("Qwen2VLProcessor", _QWEN, _CHAT, image="Qwen2VLImageProcessor", video="Qwen2VLVideoProcessor"),
    "qwen2_5_vl": _of(
        "Qwen2_5_VLProcessor", _QWEN, _CHAT, image="Qwen2VLImageProcessor", video="Qwen2VLVideoProcessor"
    ),
    "qwen3_vl": _of(
        "Qwen3VLProcessor",
        _QWEN,
        _CHAT,
        image=("Qwen2VLImageProcessor", {"patch_size": 16, "image_mean": _HALF, "image_std": _HALF}),
        video="Qwen3VLVideoProcessor",
    ),
    "idefics3": _of(
        "Idefics3Processor",
        _IMAGE,
        ("<fake_token_around_image>", "<global-img>", "<end_of_utterance>", *_grid("<row_{}_col_{}>", 6)),
        image="Idefics3ImageProcessor",
        writes_bos=True,
        image_seq_len=169,
    ),
    "llava_next": _of("LlavaNextProcessor", _IMAGE, image=_NEXT_336, writes_bos=True, **_LLAVA),
    "llava_next_video": _of(
        "LlavaNextVideoProcessor",
        _BOTH,
        image=_NEXT_336,
        video=(
            "LlavaNextVideoVideoProcessor",
            {"size": {"shortest_edge": 336}, "crop_size": {"height": 336, "width": 336}},
        ),
        writes_bos=True,
        **_LLAVA,
    ),
    "llava_onevision": _of(
        "LlavaOnevisionProcessor",
        _BOTH,
        _CHAT,
        image="LlavaOnevisionImageProcessor",
        video="LlavaOnevisionVideoProcessor",
        num_image_tokens=729,
        vision_feature_select_strategy="full",
    ),
    "video_llava": _of(
        "VideoLlavaProcessor",
        _BOTH,
        image="VideoLlavaImageProcessor",
        video="VideoLlavaVideoProcessor",
        writes_bos=True,
        **_LLAVA,
    ),
    "smolvlm": _of(
        "SmolVLMProcessor",
        {
            "image_token": "<image>",
            "video_token": "<video>",
            "fake_image_token": "<fake_token_around_image>",
            "global_image_token": "<global-img>",
            "end_of_utterance_token": "<end_of_utterance>",
        },
        _grid("<row_{}_col_{}>", 6),
        image="SmolVLMImageProcessor",
        video="SmolVLMVideoProcessor",
        image_seq_len=64,
    ),
    "gemma3": _of(
        "Gemma3Processor",
        _GEMMA3,
        image=("Gemma3ImageProcessor", {"size": {"height": 896, "width": 896}}),
        writes_bos=True,
        image_seq_length=256,
    ),
    "gemma3n": _of(
        "Gemma3nProcessor",
        {
            **_GEMMA3,
            "audio_token": "<audio_soft_token>",
            "boa_token": "<start_of_audio>",
            "eoa_token": "<end_of_audio>",
        },
        image=("SiglipImageProcessor", {"size": {"height": 768, "width": 768}}),
        audio="Gemma3nAudioFeatureExtractor",
        writes_bos=True,
    ),
    "gemma4": _of(
        "Gemma4Processor",
        _GEMMA4,
        image="Gemma4ImageProcessor",
        video="Gemma4VideoProcessor",
        audio="Gemma4AudioFeatureExtractor",
    ),
    "pixtral": _of(
        "PixtralProcessor",
        {"image_token": "[IMG]"},
        ("[IMG_BREAK]", "[IMG_END]"),
        image="PixtralImageProcessor",
        writes_bos=True,
        patch_size=16,
    ),
    "lighton_ocr": _of(
        "LightOnOcrProcessor",
        {
            "image_token": "<|image_pad|>",
            "image_break_token": "<|vision_pad|>",
            "image_end_token": "<|vision_end|>",
        },
        _CHAT,
        image="PixtralImageProcessor",
    ),
    "internvl": _of(
        "InternVLProcessor",
        _INTERNVL,
        _CHAT,
        image=(
            "GotOcr2ImageProcessor",
            {"size": {"height": 448, "width": 448}, "crop_to_patches": True, "min_patches": 1, "max_patches": 12},
        ),
        video=("InternVLVideoProcessor", {"size": {"height": 448, "width": 448}}),
        image_seq_length=256,
    ),
    "paligemma": _of(
        "PaliGemmaProcessor",
        {},
        image=("SiglipImageProcessor", {"size": {"height": 224, "width": 224}, "image_seq_length": 256}),
    ),
    "glm4v": _of(
        "Glm4vProcessor",
        {"image_token": "<|image|>", "video_token": "<|video|>"},
        _GLM,
        image="Glm4vImageProcessor",
        video="Glm4vVideoProcessor",
    ),
    "glm46v": _of(
        "Glm46VProcessor",
        {"image_token": "<|image|>", "video_token": "<|video|>"},
        _GLM,
        image="Glm46VImageProcessor",
        video="Glm46VVideoProcessor",
    ),
    "kimi_k25": _of(
        "Kimi_K25Processor",
        {"image_token": "<|media_pad|>", "video_token": "<|kimi_k25_video_placeholder|>"},
        ("<|media_begin|>", "<|media_content|>", "<|media_end|>"),
        image="Kimi_K25ImageProcessor",
        video="Kimi_K25VideoProcessor",
    ),
    "phi4_multimodal": _of(
        "Phi4MultimodalProcessor",
        {"image_token": "<|endoftext10|>", "audio_token": "<|endoftext11|>"},
        image="Phi4MultimodalImageProcessor",
        audio="Phi4MultimodalFeatureExtractor",
        audio_part="audio_processor",
    ),
    "llama4": _of(
        "Llama4Processor",
        {"image_token": "<|image|>"},
        ("<|patch|>", "<|image_start|>", "<|image_end|>", "<|tile_x_separator|>", "<|tile_y_separator|>"),
        image="Llama4ImageProcessor",
    ),
    "mllama": _of(
        "MllamaProcessor",
        {"image_token": "<|image|>"},
        image=("MllamaImageProcessor", {"size": {"height": 560, "width": 560}}),
        writes_bos=False,
    ),
    "clip": _of("CLIPProcessor", {}, image="CLIPImageProcessor"),
    "siglip": _of("SiglipProcessor", {}, image="SiglipImageProcessor"),
    "siglip2": _of("Siglip2Processor", {}, image="Siglip2ImageProcessor"),
    "align": _of("AlignProcessor", {}, image="EfficientNetImageProcessor"),
    "blip": _of("BlipProcessor", {}, image="BlipImageProcessor"),
    "tipsv2": _of("Tipsv2Processor", {}, image="Tipsv2ImageProcessor"),
    "aria": _of("AriaProcessor", {"image_token": "<|img|>"}, image="AriaImageProcessor"),
    "aya_vision": _of(
        "AyaVisionProcessor",
        _IMAGE,
        ("<|START_OF_IMG|>", "<|END_OF_IMG|>", "<|IMG_PATCH|>", "<|IMG_LINE_BREAK|>", "TILE", "TILE_GLOBAL"),
        image=(
            "GotOcr2ImageProcessor",
            {"size": {"height": 364, "width": 364}, "crop_to_patches": True, "max_patches": 12},
        ),
        patch_size=28,
        img_size=364,
    ),
    "cohere2_vision": _of(
        "Cohere2VisionProcessor",
        {
            "image_token": "<|IMG_PATCH|>",
            "boi_token": "<|START_OF_IMG|>",
            "eoi_token": "<|END_OF_IMG|>",
            "img_line_break_token": "<|IMG_LINE_BREAK|>",
        },
        image="Cohere2VisionImageProcessor",
    ),
    "deepseek_vl": _of("DeepseekVLProcessor", {"image_token": "<image_placeholder>"}, image="DeepseekVLImageProcessor"),
    "deepseek_vl_hybrid": _of(
        "DeepseekVLHybridProcessor", {"image_token": "<image_placeholder>"}, image="DeepseekVLHybridImageProcessor"
    ),
    "janus": _of(
        "JanusProcessor",
        {"image_token": "<image_placeholder>", "boi_token": "<begin_of_image>", "eoi_token": "<end_of_image>"},
        image="JanusImageProcessor",
    ),
    "lfm2_vl": _of(
        "Lfm2VlProcessor",
        {
            "image_token": "<image>",
            "image_start_token": "<|image_start|>",
            "image_end_token": "<|image_end|>",
            "image_thumbnail": "<|img_thumbnail|>",
        },
        _grid("<|img_row_{}_col_{}|>", 10),
        image="Lfm2VlImageProcessor",
    ),
    "ovis2": _of(
        "Ovis2Processor",
        _IMAGE,
        ("<IMG_START>", "<IMG_END>", "<IMG_GRID>", "<IMG_COL>", "<IMG_ROW>", "<IMG_ATOM>"),
        image="Ovis2ImageProcessor",
    ),
    "paddleocr_vl": _of(
        "PaddleOCRVLProcessor", {"image_token": "<|IMAGE_PLACEHOLDER|>"}, image="PaddleOCRVLImageProcessor"
    ),
    "perception_lm": _of(
        "PerceptionLMProcessor",
        {"image_token": "<|image|>", "video_token": "<|video|>"},
        image=("PerceptionLMImageProcessor", {"max_num_tiles": 4}),
        video="PerceptionLMVideoProcessor",
        patch_size=14,
        pooling_ratio=2,
    ),
    "video_llama_3": _of(
        "VideoLlama3Processor",
        {"image_token": "<image>", "video_token": "<video>"},
        image="VideoLlama3ImageProcessor",
        video="VideoLlama3VideoProcessor",
    ),
    "granite4_vision": _of("Granite4VisionProcessor", _IMAGE, image="LlavaNextImageProcessor", patch_size=14),
    "exaone4_5": _of("Exaone4_5_Processor", _QWEN, image="Qwen2VLImageProcessor", video="Qwen2VLVideoProcessor"),
    "chameleon": _of("ChameleonProcessor", {**_IMAGE, "sep_token": "<reserved08706>"}, image="ChameleonImageProcessor"),
    "qwen2_audio": _of(
        "Qwen2AudioProcessor",
        {"audio_token": "<|AUDIO|>", "audio_bos_token": "<|audio_bos|>", "audio_eos_token": "<|audio_eos|>"},
        _CHAT,
        audio=_WHISPER_128,
    ),
    "qwen2_5_omni": _of(
        "Qwen2_5OmniProcessor",
        _OMNI,
        _CHAT,
        image="Qwen2VLImageProcessor",
        video="Qwen2VLVideoProcessor",
        audio=_WHISPER_128,
    ),
    "qwen3_omni": _of(
        "Qwen3OmniMoeProcessor",
        _OMNI,
        _CHAT,
        image=("Qwen2VLImageProcessor", {"patch_size": 16}),
        video=("Qwen2VLVideoProcessor", {"patch_size": 16}),
        audio=("WhisperFeatureExtractor", {"feature_size": 128, "n_fft": 400}),
    ),
    "audioflamingo3": _of("AudioFlamingo3Processor", {"audio_token": "<sound>"}, audio=_WHISPER_128),
    "musicflamingo": _of(
        "MusicFlamingoProcessor",
        {"audio_token": "<sound>", "audio_bos_token": "<|sound_bos|>", "audio_eos_token": "<|sound_eos|>"},
        audio=_WHISPER_128,
    ),
    "glmasr": _of("GlmAsrProcessor", {"audio_token": "<|pad|>"}, audio=_WHISPER_128),
    "clap": _of("ClapProcessor", {}, audio="ClapFeatureExtractor"),
    "pe_audio": _of("PeAudioProcessor", {}, audio="PeAudioFeatureExtractor"),
}
"""By name."""

__all__ = ["FAMILIES", "Family"]
