"""The face that a server uses: chat messages or a prompt in, `MultiModalInputs` out."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, Literal, final
from weakref import WeakSet

from anyio import CapacityLimiter

from lazymedia.cache import ProcessorCache
from lazymedia.chat.fetching import fetch_parts
from lazymedia.chat.messages import MediaPart, parse_chat, parse_tools
from lazymedia.contexts import asynccontextmanager
from lazymedia.errors import BadRequestError, UnprocessableMediaError
from lazymedia.fetch import DownloadCache, MediaConnector, get_connector
from lazymedia.limits import Limits
from lazymedia.models import processing_info
from lazymedia.nursery import frees_when_cancelled
from lazymedia.pipeline import MultiModalProcessor
from lazymedia.processing import ProcessingInfo
from lazymedia.processing.inputs import ProcessorInputs, match_uuids
from lazymedia.processing.kwargs import ValidOptions
from lazymedia.public import publish
from lazymedia.worker import run_in_thread

if TYPE_CHECKING:
    from lazymedia.identity import Algorithm
    from lazymedia.processing import MultiModalInputs, RequestPlan


_TEMPLATES: Final = 4
"""Chat templates that are rendered at once; each takes well under a millisecond."""

_entered_by_renderers: Final[WeakSet[MediaConnector]] = WeakSet()
"""Connectors that a renderer has entered and will leave."""


@final
class Renderer:
    """Turns requests into model inputs; from `open_renderer`.

    Attributes:
        processor: What decodes and processes.
        connector: What fetches.
    """

    def __init__(self, processor: MultiModalProcessor, connector: MediaConnector, *, trust_uuids: bool = False) -> None:
        self.processor = processor
        self.connector = connector
        self._trust_uuids = trust_uuids
        self._templates = CapacityLimiter(_TEMPLATES)

    @frees_when_cancelled
    async def render_chat(
        self,
        messages: Iterable[Any],
        *,
        tools: Iterable[Any] | None = None,
        chat_template: str | None = None,
        chat_template_kwargs: Mapping[str, object] | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        media_io_kwargs: Mapping[str, Mapping[str, object]] | None = None,
        mm_processor_kwargs: Mapping[str, object] | None = None,
        skip_mm_cache: bool = False,
        cache_scope: str | None = None,
    ) -> MultiModalInputs:
        """One chat request. Its media are fetched at once; what the cache does not hold is decoded and processed.

        Args:
            messages: OpenAI chat messages; see docs/chat.md for their forms.
            tools: JSON schemas of tools that the model may call.
            chat_template: A Jinja template, or the name of one of the processor's, instead of the processor's own. The
                operator chooses it: a template is a program, and one of a client's can take all time and memory.
            chat_template_kwargs: Variables of the template, such as ``enable_thinking``.
            add_generation_prompt: Whether the prompt asks for the next answer.
            continue_final_message: Whether the prompt ends within the last message, so that the model continues it. No
                answer is asked for then.
            media_io_kwargs: Options of the decoders, by modality.
            mm_processor_kwargs: Options of the Hugging Face processor, flat or under ``images_kwargs`` and the like.
            skip_mm_cache: Process every item, and keep nothing.
            cache_scope: Whose UUIDs the messages hold, such as a tenant's name. Without one (None or ""), UUIDs in
                messages are rejected, unless the renderer was opened with ``trust_uuids=True``.

        Raises:
            BadRequestError: Malformed messages, messages that the chat template has no place for, UUIDs without a
                scope, or a modality that the model does not take. The client's fault.
            LazyMediaError: The first item in request order that cannot be fetched or decoded, with modality and index.
            TypeError, ValueError: A chat template that cannot be used. The operator's fault.
        """
        inputs, seconds = await self._chat_inputs(
            messages,
            tools=tools,
            chat_template=chat_template,
            chat_template_kwargs=chat_template_kwargs,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message,
            media_io_kwargs=media_io_kwargs,
            mm_processor_kwargs=mm_processor_kwargs,
            skip_mm_cache=skip_mm_cache,
            cache_scope=cache_scope,
        )
        return await self._apply(inputs, seconds)

    @frees_when_cancelled
    async def plan_chat(
        self,
        messages: Iterable[Any],
        *,
        tools: Iterable[Any] | None = None,
        chat_template: str | None = None,
        chat_template_kwargs: Mapping[str, object] | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        media_io_kwargs: Mapping[str, Mapping[str, object]] | None = None,
        mm_processor_kwargs: Mapping[str, object] | None = None,
        skip_mm_cache: bool = False,
        cache_scope: str | None = None,
    ) -> RequestPlan:
        """What `render_chat` makes of the same request, but for the arrays: its media are fetched, and neither decoded
        nor processed. The cache is read and left as it is.

        See docs/planning.md for what can be planned. Arguments are those of `render_chat`.

        Raises:
            NotPlannableError: An item of which only a decode shows what it becomes, with modality and index.
            Exception: As `render_chat`, as far as headers show it.
        """
        inputs, _ = await self._chat_inputs(
            messages,
            tools=tools,
            chat_template=chat_template,
            chat_template_kwargs=chat_template_kwargs,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message,
            media_io_kwargs=media_io_kwargs,
            mm_processor_kwargs=mm_processor_kwargs,
            skip_mm_cache=skip_mm_cache,
            cache_scope=cache_scope,
        )
        return await self.processor.plan(inputs)

    async def _chat_inputs(
        self,
        messages: Iterable[Any],
        *,
        tools: Iterable[Any] | None,
        chat_template: str | None,
        chat_template_kwargs: Mapping[str, object] | None,
        add_generation_prompt: bool,
        continue_final_message: bool,
        media_io_kwargs: Mapping[str, Mapping[str, object]] | None,
        mm_processor_kwargs: Mapping[str, object] | None,
        skip_mm_cache: bool,
        cache_scope: str | None,
    ) -> tuple[ProcessorInputs, float]:
        """A chat request with its media fetched, and the seconds that fetching took."""
        self.processor.check_open()
        chat = parse_chat(messages, max_parts=self.processor.limits.max_chat_parts)
        self._check_limits(chat.parts)
        if not (cache_scope or self._trust_uuids):
            _reject_uuids(chat.parts)
        info = self.processor.info
        options = info.validate_options(media_io_kwargs, mm_processor_kwargs)
        given_tools = parse_tools(tools, max_parts=self.processor.limits.max_chat_parts)

        def render() -> str:
            for number, message in enumerate(chat.messages):
                info.check_texts(message, f"message {number}")
            info.check_texts([given_tools, chat_template_kwargs], "a tool or template variable")
            try:
                return info.apply_chat_template(
                    chat.messages,
                    tools=given_tools,
                    chat_template=chat_template,
                    chat_template_kwargs=chat_template_kwargs,
                    add_generation_prompt=add_generation_prompt,
                    continue_final_message=continue_final_message,
                )
            except RecursionError as exc:
                raise BadRequestError("the request is nested too deeply") from exc

        # Texts may be long; a template may take long, and waits for the tokenizer where that is in use.
        prompt = await run_in_thread(render, self._templates)
        self.processor.info.check_prompt(prompt, Counter(part.modality for part in chat.parts))
        data, uuids, seconds = await self._fetch(chat.parts, options)
        inputs = self.processor.inputs_with(
            options, prompt, data, uuids, skip_mm_cache=skip_mm_cache, cache_scope=cache_scope
        )
        return inputs, seconds

    @frees_when_cancelled
    async def render(
        self,
        prompt: str,
        mm_data: Mapping[str, object] | None,
        *,
        mm_uuids: Mapping[str, Sequence[str | None] | None] | None = None,
        media_io_kwargs: Mapping[str, Mapping[str, object]] | None = None,
        mm_processor_kwargs: Mapping[str, object] | None = None,
        skip_mm_cache: bool = False,
        cache_scope: str | None = None,
    ) -> MultiModalInputs:
        """One request whose prompt is ready: text with one placeholder for each item.

        Args:
            prompt: The text.
            mm_data: Modality to one item or a list: URLs as strings, references, PIL images, arrays, or None for an
                item that is named by its UUID alone. None in the place of a modality's items means that it has none.
            mm_uuids: For each modality, one UUID or None per item; None in the place of either list means none.
            media_io_kwargs: As for `render_chat`.
            mm_processor_kwargs: As for `render_chat`.
            skip_mm_cache: As for `render_chat`.
            cache_scope: As for `render_chat`.

        Raises:
            LazyMediaError: As `render_chat`.
            TypeError: An item of a type that is not known. The caller's fault.
        """
        self.processor.check_open()
        info = self.processor.info
        options = info.validate_options(media_io_kwargs, mm_processor_kwargs)
        listed = _listed(mm_data)
        seconds = 0.0
        if any(isinstance(item, str) for items in listed.values() for item in items):
            parts = [
                MediaPart(modality, url=item if isinstance(item, str) else None, media=item)
                for modality, items in listed.items()
                for item in items
            ]
            self._check_limits(parts)
            # Everything else about the request is checked before the first download.
            still_to_fetch = {
                (modality, index)
                for modality, items in listed.items()
                for index, item in enumerate(items)
                if isinstance(item, str)
            }
            present = {
                modality: [None if isinstance(item, str) else item for item in items]
                for modality, items in listed.items()
            }
            parsed = info.get_data_parser(options).parse_mm_data(present)
            info.check_prompt(prompt, parsed.get_all_counts())
            match_uuids(parsed, mm_uuids, still_to_fetch)
            mm_data, _, seconds = await self._fetch(parts, options)
        inputs = self.processor.inputs_with(
            options, prompt, mm_data, mm_uuids, skip_mm_cache=skip_mm_cache, cache_scope=cache_scope
        )
        return await self._apply(inputs, seconds)

    def _check_limits(self, parts: Sequence[MediaPart]) -> None:
        """Refuse what would be fetched for nothing."""
        limits = self.processor.limits
        self.processor.info.check_modalities(part.modality for part in parts)
        if len(parts) > limits.max_items_per_request:
            raise UnprocessableMediaError(
                f"{len(parts)} items are more than the {limits.max_items_per_request} that a request may have"
            )

    async def _fetch(
        self, parts: Sequence[MediaPart], options: ValidOptions
    ) -> tuple[dict[str, list[object]], dict[str, list[str | None]], float]:
        """Items and UUIDs by modality, and the seconds that fetching took."""
        start = time.perf_counter()
        limits = self.processor.limits
        uuids: dict[str, list[str | None]] = {}
        for part in parts:
            uuids.setdefault(part.modality, []).append(part.uuid)
        items = await fetch_parts(self.connector, parts, options.decoder, max_bytes=limits.max_request_download_bytes)
        return items, uuids, time.perf_counter() - start

    async def _apply(self, inputs: ProcessorInputs, fetch_seconds: float) -> MultiModalInputs:
        result = await self.processor.apply(inputs)
        return replace(result, timings={"fetch": fetch_seconds, **result.timings})


def _reject_uuids(parts: Sequence[MediaPart]) -> None:
    """Reject UUIDs that came without a scope: a client that guesses one of another's would get its item."""
    indices: Counter[str] = Counter()
    for part in parts:
        if part.uuid is not None:
            raise BadRequestError(
                "a UUID counts only within a cache scope, and this request has none",
            ).at(part.modality, indices[part.modality])
        indices[part.modality] += 1


@asynccontextmanager
async def open_renderer(
    processor: object,
    *,
    cache_bytes: int = 4 << 30,
    connector: MediaConnector | str | None = None,
    limits: Limits | None = None,
    warm_up: Literal["background", "await", "off"] = "background",
    media_io_kwargs: Mapping[str, Mapping[str, object]] | None = None,
    decode_workers: int | None = None,
    share_tensors: bool = True,
    hash_algorithm: Algorithm = "sha256",
    allowed_local_media_path: str | PathLike[str] | None = None,
    allowed_media_domains: Sequence[str] | None = None,
    denied_media_domains: Sequence[str] = (),
    download_cache: DownloadCache | None = None,
    allowed_networks: Sequence[str] = (),
    trust_uuids: bool = False,
) -> AsyncIterator[Renderer]:
    """Open a renderer; enter it once per process, in a server's lifespan, and share it among requests.

    Enter and leave it in one task; a web framework's per-request dependency is the wrong place.

    Args:
        processor: A Hugging Face processor, the path of one that was saved, or a `ProcessingInfo`.
        cache_bytes: Capacity of the processed-output cache; 0 keeps nothing.
        connector: What fetches: None for `MediaConnector`, an instance, or the name under which a connector was
            registered. An instance that is open already is used and stays open, and can be shared by renderers of one
            loop; another is entered here, for this renderer alone.
        limits: See `Limits`; not for a `ProcessingInfo`, which has its own. A connector's instance has its own besides.
        warm_up: Process a dummy request in the ``"background"`` before any other, ``"await"`` it here, or not at all.
        media_io_kwargs: Default options of the decoders, by modality; not for a `ProcessingInfo`, which has its own.
        decode_workers: Decodes that run at once; by default one for each core.
        share_tensors: Return torch tensors as the cache holds them, not to be written to; False returns clones. See
            `ProcessorCache`.
        hash_algorithm: What identifies items in the cache.
        allowed_local_media_path: See `MediaConnector`, as for the four below; not for a connector's instance.
        allowed_media_domains: Domains that media may come from.
        denied_media_domains: Domains that media may not come from, whatever is allowed.
        download_cache: Keeps downloads on disk; see `MediaConnector`.
        allowed_networks: Networks that would otherwise be rejected, such as ``"127.0.0.0/8"``.
        trust_uuids: Whether UUIDs in chat messages count without a ``cache_scope``. All clients share them then: each
            can read every item whose UUID it knows, and put another under a UUID.

    Raises:
        ValueError: Arguments that exclude each other. The caller's fault.
        RuntimeError: The connector is open in another loop, or was entered by another renderer. The caller's fault.
    """
    # Loads transformers and the processor's files, where it was given by its path.
    info = await run_in_thread(partial(_info, processor, media_io_kwargs, limits), CapacityLimiter(1))
    limits = info.limits
    options: dict[str, Any] = {
        "allowed_local_media_path": allowed_local_media_path,
        "allowed_media_domains": allowed_media_domains,
        "allowed_networks": allowed_networks,
    }
    if denied_media_domains:  # which a connector from outside may not know
        options["denied_media_domains"] = denied_media_domains
    if download_cache is not None:
        options["download_cache"] = download_cache
    async with AsyncExitStack() as stack:
        opened = _connector(connector, limits, options)
        if opened in _entered_by_renderers:
            raise RuntimeError(
                "this connector is open in another renderer, which will close it; "
                "give it an async with block of its own, around both renderers"
            )
        if opened.is_open:
            opened.check_open()  # it may belong to another loop
        else:
            _entered_by_renderers.add(opened)
            stack.callback(_entered_by_renderers.discard, opened)
            await stack.enter_async_context(opened)
        cache: ProcessorCache[Any] | None = (
            ProcessorCache(cache_bytes, share_tensors=share_tensors) if cache_bytes else None
        )
        owner = MultiModalProcessor(
            info,
            cache=cache,
            limits=limits,
            decode_workers=decode_workers,
            warm_up="background" if warm_up == "background" else "off",
            hash_algorithm=hash_algorithm,
        )
        await stack.enter_async_context(owner)
        if warm_up == "await":
            await owner.warm_up()
        yield Renderer(owner, opened, trust_uuids=trust_uuids)


def _listed(mm_data: Mapping[str, object] | None) -> dict[str, list[object]]:
    """The items of each modality as lists; without modalities whose data is None.

    Raises:
        BadRequestError: No mapping. The client's fault.
    """
    if mm_data is not None and not isinstance(mm_data, Mapping):
        raise BadRequestError(f"media must be a mapping from modality to items, not {type(mm_data).__name__}")
    return {
        modality: list(items) if isinstance(items, list | tuple) else [items]
        for modality, items in (mm_data or {}).items()
        if items is not None
    }


def _info(processor: object, media_io_kwargs: Mapping[str, Any] | None, limits: Limits | None) -> ProcessingInfo:
    if not isinstance(processor, ProcessingInfo):
        return processing_info(processor, media_io_kwargs=media_io_kwargs, limits=limits)
    if media_io_kwargs is not None or (limits is not None and limits != processor.limits):
        raise ValueError("a ProcessingInfo has its own media_io_kwargs and limits")
    return processor


def _connector(connector: MediaConnector | str | None, limits: Limits, options: dict[str, Any]) -> MediaConnector:
    if isinstance(connector, MediaConnector):
        if any(options.values()):
            raise ValueError(
                f"a connector's instance has its own {', '.join(name for name in options if options[name])}"
            )
        return connector
    kind = MediaConnector if connector is None else get_connector(connector)
    return kind(limits=limits, **options)


__all__ = ["Renderer", "open_renderer"]

publish(__name__)
