"""The families of Hugging Face processors for which the general rule is not enough, one file each.

A family says how its outputs merge, how large a picture may become inside its processor, or how a conversation is
written where the processor has no chat template. Everything else is common to all and lives in `lazymedia.processing`.

* `registry`: `processing_info`, from a processor to what is known about it
* `verify`: `verify_family`, which compares a family with whole calls of its processor

Importing this package loads neither transformers nor torch.
"""

from __future__ import annotations

from lazymedia.models.registry import family_of, processing_info, register_family
from lazymedia.models.verify import verify_family
from lazymedia.public import publish

__all__ = ["family_of", "processing_info", "register_family", "verify_family"]

publish(__name__)
