"""What a `ProcessingInfo` declares, checked when it is made.

A mistake in a declaration would otherwise show in the first request, as a KeyError or as an error of the
client's picture.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from lazymedia.processing.chat_style import ChatStyle
from lazymedia.processing.fields import Layout
from lazymedia.processing.hooks import HOOKS
from lazymedia.processing.kwargs import merge_options

if TYPE_CHECKING:
    from lazymedia.processing.info import ProcessingInfo

_NEEDED: Final = (
    "_merge_kwargs",
    "get_text_with_replacements",
    "prepare_inputs_layout",
    "to_dict",
    "tokenizer",
    "valid_processor_kwargs",
)
"""Attributes of `transformers.ProcessorMixin` that processing uses for every modality."""
_TENSORS: Final = ("np", "pt")


def check_declarations(info: ProcessingInfo, base: type[ProcessingInfo], decoders_for: tuple[str, ...]) -> None:
    """Check what a class declares, what an instance of it was given, and the steps of its processor.

    Args:
        info: What is being made; its arguments are set.
        base: `ProcessingInfo`.
        decoders_for: The modalities that decoder options may be for.

    Raises:
        TypeError: A declaration of a wrong type, an override that results do not use, or a processor that lacks a step
            or wants an argument that it would not get.
        ValueError: A modality that is not supported, one without layouts, or an argument that has no such value.
    """
    _check_modalities(info)
    name = type(info).__name__
    if isinstance(info.operator_only, str):
        raise TypeError(f"{name}.operator_only must be a set of names, not one text")
    if info.chat_style is not None and not isinstance(info.chat_style, ChatStyle):
        raise TypeError(f"{name}.chat_style must be a ChatStyle or None")
    for final in ("merge", "text_outputs"):
        if getattr(type(info), final) is not getattr(base, final):
            raise TypeError(f"{name} overrides {final}(), which results do not use: declare layouts instead")
    if info.return_tensors not in _TENSORS:
        raise ValueError(f"return_tensors must be one of {', '.join(_TENSORS)}, not {info.return_tensors!r}")
    unknown = sorted(set(info.media_io_kwargs) - set(decoders_for))
    if unknown:
        raise ValueError(f"media_io_kwargs: {', '.join(map(repr, unknown))}: expected {', '.join(decoders_for)}")
    _check_steps(info, own_steps=_overrides(info, base))


def _overrides(info: ProcessingInfo, base: type[ProcessingInfo]) -> bool:
    """Whether a class processes items by other steps than those that are checked."""
    return any(getattr(type(info), name) is not getattr(base, name) for name in ("process_item", "process_items"))


def _check_modalities(info: ProcessingInfo) -> None:
    name = type(info).__name__
    modalities: object = info.modalities
    if not isinstance(modalities, list | tuple):
        raise TypeError(f"{name}.modalities must be a tuple of {', '.join(HOOKS)}")
    if not info.modalities:
        raise TypeError(f"{type(info.hf_processor).__name__} is no processor of media: it has no part for any")
    for modality in info.modalities:
        if modality not in HOOKS:
            raise ValueError(f"{name}.modalities: {modality!r} is no modality: expected {', '.join(HOOKS)}")
    for modality, layouts in info.layouts.items():
        if modality not in HOOKS:
            raise ValueError(f"{name}.layouts: {modality!r} is no modality: expected {', '.join(HOOKS)}")
        if modality not in info.modalities:
            raise ValueError(f"{name}.layouts: {modality!r} is none of the modalities {', '.join(info.modalities)}")
        for output, layout in layouts.items():
            if not isinstance(layout, Layout):
                raise TypeError(f"{name}.layouts[{modality!r}][{output!r}] must be a layout, such as Batched()")


def _check_steps(info: ProcessingInfo, *, own_steps: bool) -> None:
    """Check that the processor's steps exist and can be called; those that process items only if they are used."""
    processor, kind = info.hf_processor, type(info.hf_processor).__name__
    hooks = {} if own_steps else {modality: HOOKS[modality] for modality in info.modalities}
    steps = [step for hook in hooks.values() for step in (hook.part, hook.process)]
    missing = [step for step in (*_NEEDED, *steps) if getattr(processor, step, None) is None]
    if missing:
        raise TypeError(f"{kind} is no processor that {type(info).__name__} can use: it has no {', '.join(missing)}")
    options = merge_options(processor, {modality: {} for modality in info.modalities}, info.return_tensors)
    for modality, hook in hooks.items():
        calls: list[tuple[str, tuple[object, ...], Mapping[str, Any]]] = [
            ("prepare_inputs_layout", (), {hook.argument: []}),
            (hook.process, ([],), options.by_modality[modality]),
        ]
        for step, args, kwargs in calls:
            try:
                inspect.signature(getattr(processor, step)).bind(*args, **kwargs)
            except TypeError as exc:
                raise TypeError(
                    f"{kind}.{step} cannot be called for one item ({exc}): "
                    f"override {type(info).__name__}.process_item()"
                ) from exc


__all__ = ["check_declarations"]
