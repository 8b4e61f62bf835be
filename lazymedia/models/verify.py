"""Compares what a family makes of items one by one with one call of its processor on all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lazymedia.foreign import is_array
from lazymedia.processing.fields import same
from lazymedia.processing.hooks import call_whole
from lazymedia.processing.info import ProcessingInfo
from lazymedia.processing.outputs import MultiModalInputs


def verify_family(
    info: ProcessingInfo,
    items: Mapping[str, Sequence[object]],
    prompt: str | None = None,
    mm_processor_kwargs: Mapping[str, object] | None = None,
) -> list[str]:
    """What differs between items processed alone, put together, and one call of the processor on all of them.

    Args:
        info: The family, of a processor.
        items: Decoded media by modality, such as ``{"image": [picture, another]}``.
        prompt: Text with a placeholder for each; None makes one.
        mm_processor_kwargs: Options of the processor.

    Returns:
        A line for each output that differs, with both shapes; empty where all are equal, bit for bit.

    Raises:
        Exception: What the processor raises.
    """
    if prompt is None:
        prompt = "".join(f"{_placeholder(info, name)} and " for name, media in items.items() for _ in media) + "done"
    kwargs = info.prepare_kwargs(mm_processor_kwargs)
    processed = {name: [info.process_item(name, item, kwargs) for item in media] for name, media in items.items()}
    rendered = info.build_prompt(prompt, processed, kwargs)
    got = MultiModalInputs(
        prompt=prompt,
        prompt_token_ids=rendered.token_ids,
        mm_kwargs={name: [item.features for item in of_modality] for name, of_modality in processed.items()},
        mm_hashes={name: [""] * len(media) for name, media in items.items()},
        mm_placeholders=rendered.placeholders,
        timings={},
        layouts={name: info.layouts_of(name) for name in items},
        text_columns=info.text_columns(rendered),
        request_outputs=info.request_outputs(rendered, processed),
        return_tensors=info.return_tensors,
    ).merged()
    prepared = {name: [info.prepare_item(name, item) for item in media] for name, media in items.items()}
    whole = call_whole(info.hf_processor, prepared, prompt, kwargs.chosen, info.torch_threads, info.return_tensors)
    return [
        f"{name}: {_shown(got.get(name))} put together, {_shown(whole.get(name))} in one call"
        for name in dict.fromkeys([*whole, *got])
        if name not in got or name not in whole or not same(got[name], whole[name])
    ]


def _placeholder(info: ProcessingInfo, modality: str) -> str:
    try:
        return info.placeholder(modality)
    except NotImplementedError:
        return ""


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    return f"{value.dtype} {tuple(value.shape)}" if is_array(value) else type(value).__name__


__all__ = ["verify_family"]
