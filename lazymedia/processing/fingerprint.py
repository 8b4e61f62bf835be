"""What identifies a processor in the identity of everything it processes.

The same pictures come out of the two image processors that Hugging Face has for a family with other last bits, and
other versions of the libraries may round differently; so class, backend, settings and versions all count.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from importlib import metadata
from typing import Any, Final

_LIBRARIES: Final = (
    "transformers",
    "tokenizers",
    "torch",
    "torchvision",
    "pillow",
    "numpy",
    "av",
    "soundfile",
    "soxr",
    "simplejpeg",
    "pillow-heif",
    "torchcodec",
    "lazymedia",
)
"""Libraries that touch the data between the encoded bytes and the arrays."""
_WHERE_FROM: Final = frozenset(
    {"_commit_hash", "cache_dir", "is_local", "local_files_only", "name_or_path", "revision", "subfolder", "token"}
)
"""Options of a tokenizer that say where it was read from, beside those that name files."""
_ADDRESS: Final = re.compile("0x[0-9a-fA-F]+")
"""A heap address, which differs in every process."""
_PARTS: Final = ("image_processor", "video_processor", "feature_extractor", "tokenizer")
_ON_THE_CLASS: Final = (
    "images_kwargs",
    "videos_kwargs",
    "audio_kwargs",
    "text_kwargs",
    "return_mm_token_type_ids",
    "return_text_replacement_offsets",
)


def fingerprint(hf_processor: Any, **factors: object) -> str:
    """A processor's identity: 64 hexadecimal digits, equal in every process with the same libraries.

    Counted in: classes of the processor and its parts, backends, ``to_dict()``, settings that Hugging Face keeps on the
    class, the tokenizer with its whole vocabulary, the versions of the libraries, and ``factors``. The chat template is
    not, since it acts before there is a prompt. Code that a class of your own adds is seen by its name only.

    Takes about as long as writing out the tokenizer: 0.1 s for a vocabulary of 150,000.
    """
    described = {
        "classes": [_name(hf_processor), *(_name(getattr(hf_processor, part, None)) for part in _PARTS)],
        "backends": [getattr(getattr(hf_processor, part, None), "backend", None) for part in _PARTS],
        "processor": hf_processor.to_dict(),
        "on_the_class": {name: getattr(hf_processor, name, None) for name in _ON_THE_CLASS},
        "versions": {library: _version(library) for library in _LIBRARIES},
        "factors": factors,
    }
    digest = hashlib.sha256()
    for part in (_dumped(_plain(described)), _tokenizer(hf_processor.tokenizer)):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


def _tokenizer(tokenizer: Any) -> bytes:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        # Padding and truncation, which stand before this, are state that the last call left behind.
        written = backend.to_str()
        described: Any = written.partition('"added_tokens"')[2] or written
    else:
        described = {"vocabulary": tokenizer.get_vocab(), "added": str(tokenizer.added_tokens_decoder)}
    options = {
        name: value
        for name, value in tokenizer.init_kwargs.items()
        if name not in _WHERE_FROM and not name.endswith("_file")
    }
    return _dumped({"tokenizer": described, "options": _plain(options)})


def _dumped(plain: object) -> bytes:
    return json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(element) for key, element in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(element) for element in value]
    if isinstance(value, set | frozenset):
        return sorted(json.dumps(_plain(element)) for element in value)
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    return f"{_name(value)}:{_ADDRESS.sub('', repr(value))}"


def _name(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _version(library: str) -> str | None:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None


__all__ = ["fingerprint"]
