"""Which `ProcessingInfo` goes with which class of Hugging Face processor."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from lazymedia.limits import Limits
from lazymedia.processing.info import ProcessingInfo, ReturnTensors

_HUB_NAME: Final = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
"""What a repository on the Hugging Face hub may be called."""

_FAMILIES: Final[dict[str, str | type[ProcessingInfo]]] = {
    "LlavaProcessor": "lazymedia.models.llava:LlavaInfo",
    "Qwen2VLProcessor": "lazymedia.models.qwen_vl:QwenVLInfo",
    "Qwen2_5_VLProcessor": "lazymedia.models.qwen_vl:QwenVLInfo",
    "Qwen3VLProcessor": "lazymedia.models.qwen_vl:QwenVLInfo",
    "Idefics3Processor": "lazymedia.models.idefics3:Idefics3Info",
    "Gemma3Processor": "lazymedia.models.gemma3:Gemma3Info",
    "Gemma3nProcessor": "lazymedia.models.gemma3:Gemma3nInfo",
    "PaliGemmaProcessor": "lazymedia.models.paligemma:PaliGemmaInfo",
    "InternVLProcessor": "lazymedia.models.internvl:InternVLInfo",
    "Phi4MultimodalProcessor": "lazymedia.models.phi4_multimodal:Phi4MultimodalInfo",
    "Qwen3OmniMoeProcessor": "lazymedia.models.qwen_omni:Qwen3OmniInfo",
    "MllamaProcessor": "lazymedia.models.mllama:MllamaInfo",
    "Lfm2VlProcessor": "lazymedia.models.lfm2_vl:Lfm2VlInfo",
}


def processing_info(
    hf_processor_or_path: Any,
    *,
    media_io_kwargs: Mapping[str, Mapping[str, Any]] | None = None,
    limits: Limits | None = None,
    return_tensors: ReturnTensors | None = None,
) -> ProcessingInfo:
    """A `ProcessingInfo` for a processor of a known family; subclasses of a family's class belong to it.

    Args:
        hf_processor_or_path: A processor, or the folder (or name in the local Hugging Face cache) where one is stored.
            Nothing is downloaded, and no code of the folder is run.
        media_io_kwargs: The operator's decoder options, by modality.
        limits: What the operator allows.
        return_tensors: ``"pt"``, ``"np"``, or None for torch where it is installed.

    Raises:
        TypeError: A processor of no known family.
        FileNotFoundError: There is neither such a folder, nor a processor of this name in the local cache.
        OSError, ValueError: The folder holds no processor, or one that needs code of its own. As transformers raises
            it.
    """
    hf_processor = hf_processor_or_path
    if isinstance(hf_processor, str | os.PathLike):
        hf_processor = _load(os.fspath(hf_processor))
    kind = family_of(type(hf_processor))
    return kind(hf_processor, media_io_kwargs=media_io_kwargs, limits=limits, return_tensors=return_tensors)


def _load(where: str) -> Any:
    """The processor in a folder, or in the local cache under a name. Uses no network.

    A name is resolved to its folder in the cache first: ``from_pretrained`` with a name asks the hub for some files
    even with ``local_files_only`` (seen in transformers 5.24).
    """
    from transformers import AutoProcessor

    if where and Path(where).is_dir():
        return AutoProcessor.from_pretrained(where, local_files_only=True)
    if not _HUB_NAME.fullmatch(where):
        raise FileNotFoundError(f"there is no folder {where!r} to load a processor from")
    from huggingface_hub import snapshot_download

    try:
        return AutoProcessor.from_pretrained(snapshot_download(where, local_files_only=True), local_files_only=True)
    except (OSError, ValueError) as exc:  # ValueError: some of its files are there, and do not suffice
        if "trust_remote_code" in str(exc):
            raise
        raise FileNotFoundError(
            f"the local Hugging Face cache holds no complete processor {where!r}, and nothing is downloaded here: "
            f"run `hf download {where}` first"
        ) from exc


def family_of(processor_class: type) -> type[ProcessingInfo]:
    """The `ProcessingInfo` class for a class of processors: its own, or that of the nearest class that it inherits
    from.

    Raises:
        TypeError: No known family.
    """
    for ancestor in processor_class.__mro__:
        found = _FAMILIES.get(ancestor.__name__)
        if isinstance(found, str):
            module, _, name = found.partition(":")
            kind: type[ProcessingInfo] = getattr(import_module(module), name)
            return kind
        if found is not None:
            return found
    return ProcessingInfo


def register_family(processor_class: str, kind: type[ProcessingInfo]) -> None:
    """Let `processing_info` use ``kind`` for processors of this class name and their subclasses. Once known, always
    known.

    Args:
        processor_class: The bare name of the class, such as ``"LlavaProcessor"``.
        kind: Its `ProcessingInfo`. Takes the place of what was registered before.
    """
    _FAMILIES[processor_class] = kind


__all__ = ["family_of", "processing_info", "register_family"]
