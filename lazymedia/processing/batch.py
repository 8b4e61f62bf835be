"""Several requests as one padded batch, as one call of the processor on a list of prompts gives it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

from lazymedia.processing.fields import Batched, Flat, Hidden, Layout, ReturnTensors, text_arrays
from lazymedia.processing.outputs import MultiModalInputs

Side = Literal["left", "right"]

_TEXT_PADDING: Final = {"attention_mask": 0, "token_type_ids": 0, "mm_token_type_ids": 0, "labels": -100}
"""With what a tokenizer fills each of its outputs up, beside ``input_ids``."""


def collate(results: Sequence[MultiModalInputs], *, pad_token_id: int, padding_side: Side = "right") -> dict[str, Any]:
    """Everything that one call of the Hugging Face processor on all of these requests returns, with ``padding=True``.

    Needs neither transformers nor the process in which the results were made.

    Args:
        results: Of one processor, at least one. Their items' arrays stand in this order.
        pad_token_id: The tokenizer's, with which ``input_ids`` are filled up.
        padding_side: Where texts are filled up: the tokenizer's ``padding_side``. Generation wants ``"left"``.

    Returns:
        ``input_ids`` and the other outputs for text, (requests, tokens), int64; the items' arrays as in
        `MultiModalInputs.merged`.

    Raises:
        ValueError: No results, results of different processors, or a side that is none. The caller's fault.
        NotImplementedError: The processor makes outputs that belong to a whole prompt, as Mllama does.
        UnprocessableMediaError: The items' shapes cannot be joined.
    """
    if padding_side not in {"left", "right"}:
        raise ValueError(f"padding_side must be 'left' or 'right', not {padding_side!r}")
    if not results:
        raise ValueError("there are no results to put together")
    _check_alike(results)
    batch = _padded(results, pad_token_id, padding_side)
    merged = [result.merged() for result in results]
    for name in dict.fromkeys(name for arrays in merged for name in arrays):
        if name not in batch:
            values = [arrays[name] for arrays in merged if name in arrays]
            layout = _of_requests(_layout(results, name))
            assert not isinstance(layout, Hidden)  # is no part of what is merged
            batch[name] = layout.merge(values)
    return batch


def _check_alike(results: Sequence[MultiModalInputs]) -> None:
    first = results[0]
    for result in results:
        if result.request_outputs:
            raise NotImplementedError(f"{', '.join(result.request_outputs)} of several prompts cannot be put together")
        if result.return_tensors != first.return_tensors or result.text_columns.keys() != first.text_columns.keys():
            raise ValueError("the results are of different processors")
    for modality in {name for result in results for name in result.layouts}:
        layouts = [result.layouts[modality] for result in results if modality in result.layouts]
        if any(each != layouts[0] for each in layouts):
            raise ValueError("the results are of different processors")


def _padded(results: Sequence[MultiModalInputs], pad_token_id: int, side: Side) -> dict[str, Any]:
    length = max(len(result.prompt_token_ids) for result in results)
    rows: dict[str, list[list[int]]] = {}
    for name in results[0].text_columns:
        fill = pad_token_id if name == "input_ids" else _TEXT_PADDING.get(name)
        for result in results:
            values = list(result.text_columns[name])
            missing = length - len(values)
            if missing and fill is None:
                raise NotImplementedError(f"it is not known with what {name} is filled up")
            filling = [fill or 0] * missing
            rows.setdefault(name, []).append(filling + values if side == "left" else values + filling)
    tensors: ReturnTensors = results[0].return_tensors
    return {
        name: Flat().merge([text_arrays({name: row}, tensors)[name] for row in of_name])
        for name, of_name in rows.items()
    }


def _layout(results: Sequence[MultiModalInputs], name: str) -> Layout:
    return next(layouts[name] for result in results for layouts in result.layouts.values() if name in layouts)


def _of_requests(layout: Layout) -> Layout:
    """How arrays of requests are put together, given how those of items are.

    Where items stand one after the other along a later axis, as in Idefics3, the first axis counts requests.
    """
    if isinstance(layout, Flat) and layout.dim > 0:
        return Batched(layout.pad or 0)
    return Flat(0, layout.pad) if isinstance(layout, Batched) else layout


__all__ = ["Side", "collate"]
