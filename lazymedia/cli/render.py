"""``lazymedia render``: a chat request in a file becomes a model's inputs."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio

from lazymedia.cli.options import UsageError, limits, open_connector, usage_errors
from lazymedia.cli.show import item_rows, milliseconds, stages, table
from lazymedia.foreign import is_array

if TYPE_CHECKING:
    from lazymedia.processing import MultiModalInputs, ProcessingInfo


_HUB_NAME: Final = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
"""An organisation and a model, as huggingface_hub spells the names of repositories."""


def run(arguments: Namespace) -> int:
    """Render the request once or more, and show each."""
    if arguments.out is not None and not Path(arguments.out).absolute().parent.is_dir():
        raise UsageError(f"no such folder: {Path(arguments.out).parent}")
    if arguments.out is not None and Path(arguments.out).is_dir():
        raise UsageError(f"{arguments.out} is a folder")
    body = read_body(arguments.request)
    anyio.run(_render, arguments, body, backend=arguments.backend)
    return 0


async def _render(arguments: Namespace, body: dict[str, Any]) -> None:
    from lazymedia.renderer import open_renderer

    info = processor(arguments)
    # The UUIDs are those of the person who wrote the file; the cache is this process's own.
    async with open_renderer(info, warm_up="await", connector=open_connector(arguments), trust_uuids=True) as renderer:
        for _ in range(arguments.repeat):
            start = time.perf_counter()
            result = await renderer.render_chat(body["messages"], **chat_options(body))
            _show(result, time.perf_counter() - start, as_json=arguments.json)
        if arguments.out is not None:
            write_tensors(Path(arguments.out), result)


def processor(arguments: Namespace) -> ProcessingInfo:
    """The processor of a saved model, or the built-in one for demonstrations, which needs no hub and no torch.

    Raises:
        UsageError: There is none, or it cannot be used with these options.
    """
    # What transformers says of libraries that are not installed is no news: the built-in processor needs none of them.
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    from lazymedia.models import processing_info

    path = getattr(arguments, "processor", None)
    if path is not None and not Path(path).is_dir() and not _HUB_NAME.fullmatch(path):
        raise UsageError(f"no such folder: {path}")
    with usage_errors():
        try:
            from lazymedia.testing.processors import make_processor

            info = processing_info(
                path or make_processor("llava"), media_io_kwargs=arguments.media_io_kwargs, limits=limits()
            )
        except ImportError as exc:
            raise UsageError(f"this needs the extra 'hf' of lazymedia, Hugging Face's transformers ({exc})") from exc
        for modality in arguments.media_io_kwargs or {}:
            info.get_media_io(modality)
    return info


def read_body(source: str) -> dict[str, Any]:
    """A chat request in a file.

    Raises:
        UsageError: It cannot be read, or is none.
    """
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
        body = json.loads(text)
    except OSError as exc:
        raise UsageError(f"cannot read {source}: {exc.strerror}") from exc
    except (ValueError, RecursionError) as exc:
        raise UsageError(f"{source} is not JSON: {exc}") from exc
    if not isinstance(body, dict) or "messages" not in body:
        raise UsageError(f'{source} must be an OpenAI chat body: {{"messages": [...]}}')
    return body


def chat_options(body: dict[str, Any]) -> dict[str, Any]:
    """The keyword arguments of `Renderer.render_chat` that a body has."""
    return {
        "tools": body.get("tools"),
        "chat_template_kwargs": body.get("chat_template_kwargs"),
        "add_generation_prompt": body.get("add_generation_prompt", True),
        "continue_final_message": body.get("continue_final_message", False),
        "media_io_kwargs": body.get("media_io_kwargs"),
        "mm_processor_kwargs": body.get("mm_processor_kwargs"),
    }


def _show(result: MultiModalInputs, seconds: float, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(as_dict(result)))
        return
    print(table(list(item_rows(result))))
    print(f"{len(result.prompt_token_ids)} tokens in {milliseconds(seconds)}: {stages(result)}\n")


def as_dict(result: MultiModalInputs) -> dict[str, Any]:
    """A rendered request for programs: everything but the tensors' values."""
    return {
        "prompt": result.prompt,
        "prompt_token_ids": result.prompt_token_ids,
        "items": {
            modality: [
                {
                    "hash": mm_hash,
                    "cached": result.cached[modality][index],
                    **_place(result, modality, index),
                    "arrays": {
                        name: {"shape": list(array.shape), "dtype": str(array.dtype).removeprefix("torch.")}
                        for name, array in (result.mm_kwargs[modality][index] or {}).items()
                        if is_array(array)
                    },
                }
                for index, mm_hash in enumerate(hashes)
            ]
            for modality, hashes in result.mm_hashes.items()
        },
        "timings": result.timings,
    }


def _place(result: MultiModalInputs, modality: str, index: int) -> dict[str, int | None]:
    """Where an item stands in the prompt; None for an item that has no place there."""
    places = result.mm_placeholders.get(modality)
    if not places:
        return {"offset": None, "length": None}
    return {"offset": places[index].offset, "length": places[index].length}


def write_tensors(path: Path, result: MultiModalInputs) -> None:
    """The arrays of what one call of the processor on the whole request returns, as a safetensors file."""
    arrays = {name: array for name, array in result.merged().items() if is_array(array)}
    try:
        if result.return_tensors == "pt":
            from safetensors.torch import save_file as save_tensors

            save_tensors({name: tensor.contiguous() for name, tensor in arrays.items()}, path)
            return
        import numpy as np
        from safetensors.numpy import save_file

        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, path)
    except ImportError as exc:
        raise UsageError("--out needs the extra 'hf' of lazymedia, with safetensors") from exc


__all__ = ["as_dict", "chat_options", "processor", "read_body", "run", "write_tensors"]
