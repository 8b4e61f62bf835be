"""Real Hugging Face processors, built in memory: nothing is downloaded and no file is read.

Comes in: a family's name. Goes out: the processor class of that family, with its own image processor and a byte-level
tokenizer of a few hundred tokens. Never here: a fake of a processor, or a model.

Settings are those of published checkpoints wherever they change what the processor does: 336 pixels and 576 tokens for
a picture in LLaVA-1.5, patches of 14 (16 in Qwen3-VL), 364 pixels and 169 tokens for a tile in Idefics3, and a
tokenizer that writes a beginning-of-sequence token where theirs does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

Backend = Literal["torchvision", "pil"]

_BASE: Final = ("<pad>", "<s>", "</s>", "<unk>")
_MERGES: Final = (
    ("Ċ", "Ċ"),  # two line feeds are one token in most vocabularies, so a prompt's line feeds may merge
    ("Ġ", "Ġ"),
    ("Ġ", "t"),
    ("h", "e"),
    ("Ġt", "he"),
    ("i", "n"),
    ("in", "g"),
    ("a", "n"),
    ("an", "d"),
    ("Ġ", "a"),
    ("e", "r"),
    ("o", "u"),
)


def families() -> tuple[str, ...]:
    """The names that `make_processor` takes."""
    return tuple(_FAMILIES)


def make_processor(family: str = "llava", *, backend: Backend | None = None, chat_template: str | None = None) -> Any:
    """A real processor of a family, built offline. Two calls give two processors that are equal and share nothing.

    ``llava`` and ``idefics3`` need neither torch nor torchvision; the others own a video processor, which needs both.

    Args:
        family: One of `families`.
        backend: Which of the two image processors that Hugging Face has for each family; they differ in the last bits.
            None takes torchvision's where it is installed.
        chat_template: A Jinja template; None leaves the processor without one.

    Raises:
        ValueError: No such family.
        ImportError: transformers, or what the family or backend needs, is not installed.
    """
    if family not in _FAMILIES:
        raise ValueError(f"no family {family!r}; there are {', '.join(_FAMILIES)}")
    processor = _FAMILIES[family](backend)
    if backend is not None and processor.image_processor.backend != backend:
        raise ImportError(f"the {backend} backend of {type(processor).__name__} needs a library that is not installed")
    processor.chat_template = chat_template
    return processor


def _llava(backend: Backend | None) -> Any:
    import transformers

    return transformers.LlavaProcessor(
        _image_processor("CLIPImageProcessor", backend)(
            size={"shortest_edge": 336}, crop_size={"height": 336, "width": 336}
        ),
        make_tokenizer({"image_token": "<image>"}, writes_bos=True),
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
    )


def _qwen(name: str, video: str, backend: Backend | None, **settings: object) -> Any:
    import transformers

    processor = getattr(transformers, name)
    image_processor = _image_processor("Qwen2VLImageProcessor", backend)(**settings)
    specials = {
        "image_token": "<|image_pad|>",
        "video_token": "<|video_pad|>",
        "vision_start_token": "<|vision_start|>",
        "vision_end_token": "<|vision_end|>",
    }
    tokenizer = make_tokenizer(specials, ["<|im_start|>", "<|im_end|>"])
    return processor(image_processor, tokenizer, getattr(transformers, video)())


def _qwen2_vl(backend: Backend | None) -> Any:
    return _qwen("Qwen2VLProcessor", "Qwen2VLVideoProcessor", backend)


def _qwen2_5_vl(backend: Backend | None) -> Any:
    return _qwen("Qwen2_5_VLProcessor", "Qwen2VLVideoProcessor", backend)


def _qwen3_vl(backend: Backend | None) -> Any:
    half = [0.5, 0.5, 0.5]
    return _qwen("Qwen3VLProcessor", "Qwen3VLVideoProcessor", backend, patch_size=16, image_mean=half, image_std=half)


def _idefics3(backend: Backend | None) -> Any:
    import transformers

    tiles = [f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)]
    tokenizer = make_tokenizer(
        {"image_token": "<image>"},
        ["<fake_token_around_image>", "<global-img>", "<end_of_utterance>", *tiles],
        writes_bos=True,
    )
    return transformers.Idefics3Processor(
        _image_processor("Idefics3ImageProcessor", backend)(), tokenizer, image_seq_len=169
    )


_FAMILIES: Final[dict[str, Callable[[Backend | None], Any]]] = {
    "llava": _llava,
    "qwen2_vl": _qwen2_vl,
    "qwen2_5_vl": _qwen2_5_vl,
    "qwen3_vl": _qwen3_vl,
    "idefics3": _idefics3,
}


def _image_processor(name: str, backend: Backend | None) -> Any:
    import transformers

    # Without torchvision the plain name is an alias of the Pillow class.
    return getattr(transformers, f"{name}Pil" if backend == "pil" else name)


def make_tokenizer(specials: dict[str, str], extra: Sequence[str] = (), *, writes_bos: bool = False) -> Any:
    """A byte-level tokenizer that encodes any text, built without training, so that its ids never change.

    Args:
        specials: Special tokens with the attribute names under which processors look for them.
        extra: Special tokens without such a name.
        writes_bos: Whether every text is encoded with ``<s>`` before it, as Llama's tokenizers do.
    """
    import transformers
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

    added = list(dict.fromkeys([*_BASE, *specials.values(), *extra]))
    pieces = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *("".join(merge) for merge in _MERGES)]
    vocabulary = {token: index for index, token in enumerate([*added, *pieces])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=list(_MERGES)))
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in added])
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    if writes_bos:
        tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    roles = dict(zip(("pad_token", "bos_token", "eos_token", "unk_token"), _BASE))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, extra_special_tokens=specials, **roles)


__all__ = ["Backend", "families", "make_processor", "make_tokenizer"]
