"""The families of Hugging Face processors, one file each.

A family says how its outputs are merged, how large a picture may become inside its processor, and how a conversation is
written where the processor has no chat template. Everything else is common to all and lives in `lazymedia.processing`.

* `registry`: `processing_info`, from a processor to what is known about it
* `llava`: LLaVA-1.5
* `qwen_vl`: Qwen2-VL, Qwen2.5-VL, Qwen3-VL
* `idefics3`: Idefics3

Importing this package loads neither transformers nor torch.
"""

from __future__ import annotations

from lazymedia.models.registry import family_of, processing_info, register_family
from lazymedia.public import publish

__all__ = ["family_of", "processing_info", "register_family"]

publish(__name__)
