"""Every family builds offline, twice alike, and its processor gives finite arrays for one item of each modality."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import pytest

from lazymedia.testing.processors import families, family_modalities, make_processor

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")

PAIRS: Final = [(family, modality) for family in families() for modality in family_modalities(family)]
PARTS: Final = ("tokenizer", "image_processor", "video_processor", "feature_extractor", "audio_processor")
FRAMES: Final = 8
ARGUMENTS: Final = {"image": "images", "video": "videos", "audio": "audio"}


def item(processor: Any, modality: str) -> Any:
    draw = np.random.default_rng(5)
    if modality == "audio":
        extractor = getattr(processor, "feature_extractor", None) or processor.audio_processor
        return (draw.standard_normal(2 * extractor.sampling_rate) * 0.1).astype(np.float32)
    shape = (240, 320, 3) if modality == "image" else (FRAMES, 96, 128, 3)
    return draw.integers(0, 256, shape, dtype=np.uint8)


def numbers(value: Any) -> Iterator[Any]:
    """Every tensor in an output, nested lists included."""
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from numbers(part)
    else:
        yield torch.as_tensor(value)


def mutable_parts(value: Any) -> Iterator[Any]:
    """Every list and dict in the attributes of an object."""
    for part in value.values() if isinstance(value, Mapping) else value:
        if isinstance(part, (dict, list)):
            yield part
            yield from mutable_parts(part)


@pytest.mark.parametrize(("family", "modality"), PAIRS, ids=str)
def test_a_plain_call_gives_finite_arrays(family: str, modality: str) -> None:
    processor = make_processor(family)
    placeholder = getattr(processor, f"{modality}_token", None) or ""
    kwargs: dict[str, Any] = {}
    if modality == "video":
        metadata = {"total_num_frames": FRAMES, "fps": 4.0, "duration": 2.0, "frames_indices": list(range(FRAMES))}
        kwargs = {"do_sample_frames": False, "video_metadata": [metadata]}

    made = processor(
        text=[f"Look: {placeholder} now"],
        return_tensors="pt",
        **{ARGUMENTS[modality]: [item(processor, modality)]},
        **kwargs,
    )

    media = {
        name for name in made if name not in {"input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids"}
    }
    assert media
    for name, value in made.items():
        for array in numbers(value):
            assert array.numel() > 0, name
            assert bool(torch.isfinite(array).all()), name


@pytest.mark.parametrize("family", families())
def test_two_builds_are_equal_and_share_nothing(family: str) -> None:
    one, other = make_processor(family), make_processor(family)

    assert one.to_dict() == other.to_dict()
    assert one.tokenizer.get_vocab() == other.tokenizer.get_vocab()
    for name in PARTS:
        if (part := getattr(one, name, None)) is not None:
            twin = getattr(other, name)
            assert part is not twin
            if name == "tokenizer":
                assert part.backend_tokenizer.to_str() == twin.backend_tokenizer.to_str()
                continue
            assert part.to_dict() == twin.to_dict()
            assert not {id(value) for value in mutable_parts(vars(part))} & {
                id(value) for value in mutable_parts(vars(twin))
            }


def test_a_name_that_is_no_family_is_rejected() -> None:
    with pytest.raises(ValueError, match="no family 'llama_5'"):
        make_processor("llama_5")
    with pytest.raises(ValueError, match="no family 'llama_5'"):
        family_modalities("llama_5")
