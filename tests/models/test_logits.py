"""Small random models give the same logits for what lazymedia made of a request, cold and from the cache, as for the
processor's own call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from lazymedia.cache import ProcessorCache
from lazymedia.models import processing_info
from lazymedia.pipeline import MultiModalProcessor
from lazymedia.processing.hooks import call_whole
from lazymedia.testing.processors import make_processor

pytest.importorskip("torchvision")

TEXT = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
}
VISION = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
QWEN = {"rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]}, "tie_word_embeddings": False}


def llava(processor: Any) -> Any:
    import transformers  # noqa: PLC0415  # slow to load

    config = transformers.LlavaConfig(
        vision_config=transformers.CLIPVisionConfig(**VISION, image_size=336, patch_size=14),
        text_config=transformers.LlamaConfig(**TEXT, vocab_size=len(processor.tokenizer)),
        image_token_index=processor.image_token_id,
    )
    return transformers.LlavaForConditionalGeneration(config)


def llava_next(processor: Any) -> Any:
    import transformers  # noqa: PLC0415  # slow to load

    config = transformers.LlavaNextConfig(
        vision_config=transformers.CLIPVisionConfig(**VISION, image_size=336, patch_size=14),
        text_config=transformers.LlamaConfig(**TEXT, vocab_size=len(processor.tokenizer)),
        image_token_index=processor.image_token_id,
    )
    return transformers.LlavaNextForConditionalGeneration(config)


def gemma3(processor: Any) -> Any:
    import transformers  # noqa: PLC0415  # slow to load

    tokenizer = processor.tokenizer
    config = transformers.Gemma3Config(
        vision_config={**VISION, "num_hidden_layers": 1, "image_size": 896, "patch_size": 14},
        text_config=transformers.Gemma3TextConfig(**TEXT, head_dim=16, vocab_size=len(tokenizer)),
        image_token_index=tokenizer.image_token_id,
        boi_token_index=tokenizer.boi_token_id,
        eoi_token_index=tokenizer.eoi_token_id,
        mm_tokens_per_image=256,
    )
    return transformers.Gemma3ForConditionalGeneration(config)


def qwen2_vl(processor: Any) -> Any:
    import transformers  # noqa: PLC0415  # slow to load

    config = transformers.Qwen2VLConfig(
        vision_config={"depth": 1, "embed_dim": 32, "hidden_size": 32, "num_heads": 2, "mlp_ratio": 2},
        text_config={**TEXT, **QWEN, "vocab_size": len(processor.tokenizer)},
        **qwen_tokens(processor),
    )
    return transformers.Qwen2VLForConditionalGeneration(config)


def qwen2_5_vl(processor: Any) -> Any:
    import transformers  # noqa: PLC0415  # slow to load

    config = transformers.Qwen2_5_VLConfig(
        vision_config={
            "depth": 1,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_heads": 2,
            "out_hidden_size": 32,
            "fullatt_block_indexes": [0],
        },
        text_config={**TEXT, **QWEN, "vocab_size": len(processor.tokenizer)},
        **qwen_tokens(processor),
    )
    return transformers.Qwen2_5_VLForConditionalGeneration(config)


def qwen_tokens(processor: Any) -> dict[str, int]:
    tokenizer = processor.tokenizer
    return {
        "image_token_id": processor.image_token_id,
        "video_token_id": processor.video_token_id,
        "vision_start_token_id": tokenizer.convert_tokens_to_ids("<|vision_start|>"),
        "vision_end_token_id": tokenizer.convert_tokens_to_ids("<|vision_end|>"),
    }


def idefics3(processor: Any) -> Any:
    import transformers  # noqa: PLC0415  # slow to load

    config = transformers.Idefics3Config(
        vision_config={**VISION, "num_hidden_layers": 1, "image_size": 364, "patch_size": 14},
        text_config=transformers.LlamaConfig(**TEXT, vocab_size=len(processor.tokenizer), pad_token_id=0),
        image_token_id=processor.image_token_id,
        scale_factor=2,
        pad_token_id=0,
    )
    return transformers.Idefics3ForConditionalGeneration(config)


def internvl(processor: Any) -> Any:
    import transformers  # noqa: PLC0415  # slow to load

    config = transformers.InternVLConfig(
        vision_config={**VISION, "num_hidden_layers": 1, "image_size": [448, 448], "patch_size": [14, 14]},
        text_config=transformers.Qwen2Config(**TEXT, vocab_size=len(processor.tokenizer)),
        image_token_id=processor.image_token_id,
        downsample_ratio=0.5,
        vision_feature_layer=-1,
    )
    return transformers.InternVLForConditionalGeneration(config)


def qwen2_audio(processor: Any) -> Any:
    import transformers  # noqa: PLC0415  # slow to load

    config = transformers.Qwen2AudioConfig(
        audio_config={
            "d_model": 32,
            "encoder_layers": 1,
            "encoder_attention_heads": 2,
            "encoder_ffn_dim": 64,
            "num_mel_bins": 128,
        },
        text_config={**TEXT, "model_type": "qwen2", "vocab_size": len(processor.tokenizer)},
        audio_token_index=processor.audio_token_id,
    )
    return transformers.Qwen2AudioForConditionalGeneration(config)


MODELS: list[tuple[str, str, Callable[[Any], Any]]] = [
    ("llava", "image", llava),
    ("llava_next", "image", llava_next),
    ("gemma3", "image", gemma3),
    ("qwen2_vl", "image", qwen2_vl),
    ("qwen2_vl", "video", qwen2_vl),
    ("qwen2_5_vl", "image", qwen2_5_vl),
    ("qwen2_5_vl", "video", qwen2_5_vl),
    ("idefics3", "image", idefics3),
    ("internvl", "image", internvl),
    ("internvl", "video", internvl),
    ("qwen2_audio", "audio", qwen2_audio),
]


def items(modality: str) -> list[Any]:
    draw = np.random.default_rng(5)
    if modality == "audio":
        return [(draw.standard_normal(int(seconds * 16_000)) * 0.1).astype(np.float32) for seconds in (1, 2.2)]
    shapes = [(60, 90, 3), (150, 80, 3)] if modality == "image" else [(4, 60, 90, 3), (4, 64, 64, 3)]
    return [draw.integers(0, 256, shape, dtype=np.uint8) for shape in shapes]


@pytest.mark.parametrize(("family", "modality", "make"), MODELS, ids=[f"{row[0]}-{row[1]}" for row in MODELS])
async def test_logits_are_those_of_the_plain_path(family: str, modality: str, make: Callable[[Any], Any]) -> None:
    torch.manual_seed(0)
    info = processing_info(make_processor(family))
    model = make(info.hf_processor).eval()
    media = items(modality)
    text = " and ".join([info.placeholder(modality)] * len(media)) + " what?"
    prepared = [info.prepare_item(modality, item) for item in media]
    plain = call_whole(info.hf_processor, {modality: prepared}, text, {}, 1, "pt")
    cache: ProcessorCache[Any] = ProcessorCache(1 << 30)
    async with MultiModalProcessor(info, cache=cache) as processor:
        results = [await processor.apply(processor.make_inputs(text, {modality: media})) for _ in range(2)]

    assert [result.cached[modality] for result in results] == [[False] * 2, [True] * 2]
    with torch.no_grad():
        expected = model(**plain).logits
        for result in results:
            logits = model(**result.merged()).logits
            assert torch.isfinite(logits).all()
            assert torch.equal(logits, expected)
