"""The steps of a Hugging Face processor's call, one by one, under the names that each modality has for them.

Comes in: a processor and one item. Goes out: the arrays and the text of that item. Never here: a second item; whatever
sees two at once could make one depend on the other.

`ProcessorMixin.__call__` is made of these steps, so a request put together from single items equals one call of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

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
}
"""By modality. Video and audio have the same steps."""


def process_alone(
    hf_processor: Any, modality: str, media: object, kwargs: Mapping[str, Any], threads: int
) -> tuple[dict[str, Any], str]:
    """One item's outputs, hidden ones included, and the text that its placeholder becomes.

    Args:
        hf_processor: A processor with the steps of `ProcessorMixin`.
        modality: A key of `HOOKS`.
        media: Decoded media in a form whose axes need no guess.
        kwargs: The merged options of this modality.
        threads: How many threads torch may take.

    Raises:
        Exception: Whatever the processor raises, as it is, but for a bare RuntimeError, by which torch reports shapes
            that do not fit and memory that it cannot get.
        ValueError: torch cannot work with these shapes. The item's fault, or its options'.
        MemoryError: torch cannot get the memory.
    """
    hooks = HOOKS[modality]
    # Options may make values overflow, which is checked in the result; NumPy would warn of each.
    with bounded_torch_threads(threads), np.errstate(all="ignore"):
        try:
            laid_out = hf_processor.prepare_inputs_layout(**{hooks.argument: [media]})[hooks.position]
            # The options are the request's; no item may leave its mark on them.
            outputs, texts = getattr(hf_processor, hooks.process)(laid_out, **deepcopy(dict(kwargs)))
        except RuntimeError as exc:
            if type(exc) is not RuntimeError:
                raise
            if "allocate" in str(exc):
                raise MemoryError("torch cannot allocate the memory that an item's arrays take") from exc
            raise ValueError(str(exc)) from exc
    return dict(outputs), texts[0] if texts else ""


__all__ = ["HOOKS", "Hooks", "process_alone"]
