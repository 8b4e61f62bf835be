"""The steps of a Hugging Face processor's call, one by one, under the names that each modality has for them.

`ProcessorMixin.__call__` is made of these steps, so a request put together from single items equals one call of it.
Items are processed one at a time; several together only to find out how they merge (`calibration`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from lazymedia.contexts import contextmanager
from lazymedia.processing.media import ItemMedia
from lazymedia.processing.torch_threads import bounded_torch_threads


@dataclass(frozen=True, slots=True)
class Hooks:
    """What the processor classes of Hugging Face call the things of one modality.

    Attributes:
        argument: The argument of the call that takes the items.
        position: Where ``prepare_inputs_layout`` returns them.
        group: The group of options that concern them.
        part: The attribute that holds the part of the processor which handles them.
        process: The method that processes them.
        token: The attribute that holds the placeholder's text; ``<token>_id`` and ``<token>_ids`` hold token ids.
        replacements: The argument of ``get_text_with_replacements`` for what the placeholders become.
    """

    argument: str
    position: int
    group: str
    part: str
    process: str
    token: str
    replacements: str


HOOKS: Final[Mapping[str, Hooks]] = {
    "image": Hooks(
        argument="images",
        position=0,
        group="images_kwargs",
        part="image_processor",
        process="_process_images",
        token="image_token",  # noqa: S106  # no password
        replacements="images_replacements",
    ),
    "video": Hooks(
        argument="videos",
        position=2,
        group="videos_kwargs",
        part="video_processor",
        process="_process_videos",
        token="video_token",  # noqa: S106  # no password
        replacements="videos_replacements",
    ),
    "audio": Hooks(
        argument="audio",
        position=3,
        group="audio_kwargs",
        part="_audio_processor",
        process="_process_audio",
        token="audio_token",  # noqa: S106  # no password
        replacements="audio_replacements",
    ),
}
"""By modality."""


def part_of(hf_processor: Any, modality: str) -> Any:
    """The part of a processor that handles a modality; None where it has none."""
    return getattr(hf_processor, HOOKS[modality].part, None)


def process_items(
    hf_processor: Any,
    modality: str,
    items: Sequence[ItemMedia],
    kwargs: Mapping[str, Any],
    threads: int,
    return_tensors: str,
) -> tuple[dict[str, Any], list[str]]:
    """The outputs for some items in one call, hidden ones included, and the text that each placeholder becomes.

    Args:
        hf_processor: A processor with the steps of `ProcessorMixin`.
        modality: A key of `HOOKS`.
        items: Items whose `ItemMedia.options` are equal.
        kwargs: The merged options: of this modality, or of all for a processor whose step takes those.
        threads: How many threads torch may take.
        return_tensors: ``"pt"`` or ``"np"``.

    Raises:
        Exception: Whatever the processor raises, as it is, but for a bare RuntimeError, by which torch reports shapes
            that do not fit and memory that it cannot get.
        ValueError: torch cannot work with these shapes. The item's fault, or its options'.
        MemoryError: torch cannot get the memory.
    """
    from transformers import BatchFeature

    hooks = HOOKS[modality]
    # The options are the request's; no item may leave its mark on them.
    options: dict[str, Any] = deepcopy(dict(kwargs))
    own: dict[str, Any] = options.get(hooks.group, options)
    own |= deepcopy(items[0].options)
    own |= {name: [deepcopy(item.per_item[name]) for item in items] for name in items[0].per_item}
    # Options may make values overflow, which is checked in the result; NumPy would warn of each.
    with bounded_torch_threads(threads), _errors_of_torch(), np.errstate(all="ignore"):
        laid_out = hf_processor.prepare_inputs_layout(**{hooks.argument: [item.media for item in items]})
        position = hooks.position if len(laid_out) > hooks.position else 0
        outputs, texts = getattr(hf_processor, hooks.process)(laid_out[position], **options)
        skipped = {*hf_processor.skip_tensor_conversion, *hf_processor.unused_input_names}
        shown = {name: value for name, value in dict(outputs).items() if name not in skipped}
        converted = BatchFeature(shown, tensor_type=return_tensors)
    return {**dict(outputs), **dict(converted)}, list(texts or ())


@contextmanager
def _errors_of_torch() -> Iterator[None]:
    """Torch reports shapes that do not fit, and memory that it cannot get, by a bare RuntimeError."""
    try:
        yield
    except RuntimeError as exc:
        if type(exc) is not RuntimeError:
            raise
        if "allocate" in str(exc):
            raise MemoryError("torch cannot allocate the memory that an item's arrays take") from exc
        raise ValueError(str(exc)) from exc


_TEXT_OUTPUTS: Final = frozenset(
    {"attention_mask", "input_ids", "labels", "mm_token_type_ids", "text_replacement_offsets", "token_type_ids"}
)
"""What the tokenizer and the processor return for text."""


def call_whole(
    hf_processor: Any,
    items: Mapping[str, Sequence[ItemMedia]],
    text: str | None,
    options: Mapping[str, Mapping[str, Any]],
    threads: int,
    return_tensors: str,
) -> dict[str, Any]:
    """The processor's own call on a whole request.

    Args:
        hf_processor: The processor.
        items: By modality; within one, `ItemMedia.options` are equal.
        text: The prompt, with its placeholders.
        options: The request's, by modality.
        threads: How many threads torch may take.
        return_tensors: ``"pt"`` or ``"np"``.
    """
    arguments: dict[str, Any] = {"text": text} if text is not None else {}
    for modality, of_modality in items.items():
        if not of_modality:
            continue
        hooks, first = HOOKS[modality], of_modality[0]
        per_item = {name: [deepcopy(item.per_item[name]) for item in of_modality] for name in first.per_item}
        arguments[hooks.argument] = [item.media for item in of_modality]
        arguments[hooks.group] = {**options.get(modality, {}), **deepcopy(first.options), **per_item}
    with bounded_torch_threads(threads), _errors_of_torch(), np.errstate(all="ignore"):
        return dict(hf_processor(**arguments, return_tensors=return_tensors))


def split_text(outputs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The outputs of a processor's call, as (those for items, those for text)."""
    text = {name: value for name, value in outputs.items() if name in _TEXT_OUTPUTS}
    return {name: value for name, value in outputs.items() if name not in text}, text


__all__ = ["HOOKS", "Hooks", "call_whole", "part_of", "process_items", "split_text"]
