"""Real Hugging Face processors, built in memory: nothing is downloaded and no file is read.

What each is made of is in `family_table`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, Final, Literal

from lazymedia.testing.family_table import FAMILIES, Family

Backend = Literal["torchvision", "pil"]

_BASE: Final = ("<pad>", "<s>", "</s>", "<unk>")
_MODALITIES: Final = {
    "image_processor": "image",
    "video_processor": "video",
    "feature_extractor": "audio",
    "audio_processor": "audio",
}
"""By the part of a processor."""
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
    return tuple(FAMILIES)


def make_processor(family: str = "llava", *, backend: Backend | None = None, chat_template: str | None = None) -> Any:
    """A real processor of a family, built offline. Two calls give two processors that are equal and share nothing.

    Every family with a video processor needs torch and torchvision, and so do some image and audio families.
    With `return_tensors="np"`, these need neither: llava, llava_next, idefics3, gemma3, gemma3n, lighton_ocr,
    paligemma, mllama, clip, siglip, siglip2, align, blip, aria, aya_vision, deepseek_vl, deepseek_vl_hybrid, janus,
    ovis2, paddleocr_vl, granite4_vision, chameleon, qwen2_audio and pe_audio.

    Args:
        family: One of `families`.
        backend: Which of the two image processors that Hugging Face has for each family; they differ in the last bits.
            None takes torchvision's where it is installed.
        chat_template: A Jinja template; None leaves the processor without one.

    Raises:
        ValueError: No such family.
        ImportError: transformers, or what the family or backend needs, is not installed.
    """
    import transformers

    row = _row(family)
    tokenizer = make_tokenizer(dict(row.specials), row.extra, writes_bos=row.writes_bos)
    parts = {name: _part(kind, settings, backend) for name, (kind, settings) in row.parts.items()}
    processor = getattr(transformers, row.processor)(tokenizer=tokenizer, **parts, **deepcopy(dict(row.settings)))
    if backend is not None and processor.image_processor.backend != backend:
        raise ImportError(f"the {backend} backend of {type(processor).__name__} needs a library that is not installed")
    processor.chat_template = chat_template
    return processor


def plain_chat_template(hf_processor: Any) -> str:
    """A chat template that writes a role, texts and placeholders in their order, for a processor that has none."""
    cases = "".join(
        f"{{% elif part.type == '{modality}' %}}{getattr(hf_processor, f'{modality}_token')}"
        for modality in ("image", "video", "audio")
        if getattr(hf_processor, f"{modality}_token", None) is not None
    )
    return (
        "{% for message in messages %}{{ message.role }}: "
        "{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content %}"
        "{% if part.type == 'text' %}{{ part.text }}" + cases + "{% endif %}{% endfor %}{% endif %}\n{% endfor %}"
        "{% if add_generation_prompt %}assistant: {% endif %}"
    )


def family_modalities(family: str) -> tuple[str, ...]:
    """What the processor of a family takes, of ``"image"``, ``"video"`` and ``"audio"``.

    Raises:
        ValueError: No such family.
    """
    return tuple(modality for part, modality in _MODALITIES.items() if part in _row(family).parts)


def _row(family: str) -> Family:
    if family not in FAMILIES:
        raise ValueError(f"no family {family!r}; there are {', '.join(FAMILIES)}")
    return FAMILIES[family]


def _part(name: str, settings: Mapping[str, Any], backend: Backend | None) -> Any:
    import transformers

    # Without torchvision the plain name of an image processor is an alias of the Pillow class.
    pillow = f"{name}Pil" if backend == "pil" and hasattr(transformers, f"{name}Pil") else name
    own = {key: value for key, value in settings.items() if key != "image_seq_length"}
    part = getattr(transformers, pillow)(**deepcopy(own))
    if "image_seq_length" in settings:  # an attribute that a checkpoint brings, and the class does not know
        part.image_seq_length = settings["image_seq_length"]
    return part


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


__all__ = ["Backend", "families", "family_modalities", "make_processor", "make_tokenizer", "plain_chat_template"]
