"""From decoded items and a prompt to what a model takes, without a loop, a thread or a wait.

* `info`: `ProcessingInfo`, what is known about one Hugging Face processor, and the face of everything below
* `hooks`: the steps of a processor's call, taken for one item alone
* `calibration`, `calibration_store`, `dummies`: how the outputs for single items merge, found out and kept
* `kwargs`, `sizes`, `media`: what a request may choose, what it costs, and media that leave nothing to guess
* `items`: `ProcessedItem`, what a cache holds; `fields`, how many of them are merged
* `prompt`, `tokens`: prompts laid out around items, and when their tokens may be spliced
* `chat_template`, `chat_style`: conversations as text, for processors with a template and without one
* `decoders`: a decoder under an operator's options and a request's
* `fingerprint`, `torch_threads`: a processor's identity, and the threads it may take
* `inputs`, `phases`, `outputs`: one request, its two phases, and its result; `batch`: several results together
* `planning`, `shape_only`: a request laid out from headers alone

Core: plain synchronous Python. Importing this package loads neither transformers nor torch.
"""

from __future__ import annotations

from lazymedia.processing.batch import collate
from lazymedia.processing.chat_style import ChatStyle
from lazymedia.processing.fields import Batched, Flat, Hidden, Layout, Listed, ReturnTensors, Shared
from lazymedia.processing.info import ProcessingInfo
from lazymedia.processing.inputs import ProcessorInputs
from lazymedia.processing.items import ProcessedItem, Replacement
from lazymedia.processing.kwargs import PreparedKwargs, RequestOptions, ValidOptions
from lazymedia.processing.media import ItemMedia
from lazymedia.processing.outputs import MultiModalInputs
from lazymedia.processing.planning import RequestPlan
from lazymedia.processing.prompt import PlaceholderRange, RenderedPrompt
from lazymedia.processing.torch_threads import bounded_torch_threads
from lazymedia.public import publish

__all__ = [
    "Batched",
    "ChatStyle",
    "Flat",
    "Hidden",
    "ItemMedia",
    "Layout",
    "Listed",
    "MultiModalInputs",
    "PlaceholderRange",
    "PreparedKwargs",
    "ProcessedItem",
    "ProcessingInfo",
    "ProcessorInputs",
    "RenderedPrompt",
    "Replacement",
    "RequestOptions",
    "RequestPlan",
    "ReturnTensors",
    "Shared",
    "ValidOptions",
    "bounded_torch_threads",
    "collate",
]

publish(__name__)
