"""What lazymedia knows about one Hugging Face processor, and how it runs it.

Every item is processed alone, always. So an item's output never depends on its neighbours, and what a cache holds
equals what a miss gives, by construction.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Final, final

from lazymedia.errors import BadRequestError, PayloadTooLargeError, UnprocessableMediaError
from lazymedia.limits import DEFAULT_LIMITS, Limits
from lazymedia.media.io import MediaIO
from lazymedia.parse.parser import MultiModalDataParser
from lazymedia.processing.calibration import Calibration, Route, UncertainLayoutError, calibrate
from lazymedia.processing.calibration_store import find_calibration
from lazymedia.processing.chat_style import ChatStyle
from lazymedia.processing.chat_template import TemplateOptions, find_placeholder, find_template, render_template
from lazymedia.processing.declarations import check_declarations
from lazymedia.processing.decoders import decoder_class, make_decoder
from lazymedia.processing.dummies import calibration_items, dummy_item
from lazymedia.processing.fields import (
    Array,
    Layout,
    ReturnTensors,
    check_finite,
    merge_fields,
    owned,
    same,
    split_fields,
    text_arrays,
)
from lazymedia.processing.fingerprint import fingerprint
from lazymedia.processing.hooks import HOOKS, call_whole, part_of, process_items, split_text
from lazymedia.processing.items import ProcessedItem, Replacement
from lazymedia.processing.kwargs import PreparedKwargs, RequestOptions, ValidOptions, merge_options, validate_options
from lazymedia.processing.media import ItemMedia, prepare
from lazymedia.processing.options import check_options
from lazymedia.processing.prompt import PromptLayout, RenderedPrompt, placeholders_of
from lazymedia.processing.sizes import SIZE_OPTIONS
from lazymedia.processing.torch_threads import bounded_torch_threads
from lazymedia.processing.video_sampling import sampling_of

log = logging.getLogger("lazymedia.processing")

_CANNOT: Final = (UncertainLayoutError, AttributeError, LookupError, NotImplementedError, TypeError, ValueError)
"""What a processor raises where it cannot be used in some way."""

_MODALITIES: Final = ("image", "video", "audio", "vision_chunk")
"""What decoder options may be for; those of modalities that a model does not take do nothing."""


class ProcessingInfo:
    """One Hugging Face processor, as a processor of single items. Subclass it for a family that lazymedia does not
    know.

    It takes any processor. How outputs merge is found out by processing a few items alone and together
    (`calibration`), and kept for the next start. A subclass may name its outputs in `layouts`, and overrides what is
    special about it. It is safe to call from any thread. The processor's settings are read when they are needed and
    identified once (`fingerprint`): change them before.

    Args:
        hf_processor: An instance of a `transformers.ProcessorMixin` subclass.
        media_io_kwargs: The operator's decoder options, by modality.
        limits: What the operator allows.
        return_tensors: ``"pt"`` for torch tensors, ``"np"`` for NumPy arrays. None takes torch where it is installed.

    Raises:
        TypeError, ValueError: A declaration of the class or an argument that cannot be used, or a processor without the
            steps that are needed. The integrator's fault; see `declarations`.
    """

    modalities: tuple[str, ...] = ()
    """What the processor takes. Empty in a class means whatever the processor has a part for."""

    layouts: ClassVar[Mapping[str, Mapping[str, Layout]]] = {}
    """For each modality, each output of the processor and how it is merged. Those of a modality that is missing here
    are found out; see `layouts_of`."""

    embed_tokens: Mapping[str, tuple[str, ...]] = {}
    """For each modality, the tokens that a model replaces by an item's embeddings, where the processor does not say."""

    operator_only: ClassVar[frozenset[str]] = frozenset()
    """Options of the processor that no request may choose, beside those of `kwargs.OPERATOR_ONLY`: such as change the
    shapes that the model was built for."""

    chat_style: ClassVar[ChatStyle | None] = None
    """How a conversation is written where the processor has no chat template."""

    torch_threads: ClassVar[int] = 1
    """How many threads torch may take for one item; other requests' decodes run on the other cores meanwhile."""

    def __init__(
        self,
        hf_processor: Any,
        *,
        media_io_kwargs: Mapping[str, Mapping[str, Any]] | None = None,
        limits: Limits | None = None,
        return_tensors: ReturnTensors | None = None,
    ) -> None:
        self.hf_processor = hf_processor
        self.limits = DEFAULT_LIMITS if limits is None else limits
        self.media_io_kwargs = {modality: dict(kwargs) for modality, kwargs in (media_io_kwargs or {}).items()}
        self.return_tensors: ReturnTensors = _default_tensors() if return_tensors is None else return_tensors
        if not self.modalities:
            self.modalities = tuple(modality for modality in HOOKS if part_of(hf_processor, modality) is not None)
        check_declarations(self, ProcessingInfo, _MODALITIES)
        self._prompts = PromptLayout(hf_processor, placeholders_of(hf_processor, self.modalities, self.embed_tokens))
        self._working: set[str] = set()
        self._calibrations = {
            modality: Calibration("steps", layouts) for modality, layouts in self.layouts.items() if layouts
        }
        self._calibrating = threading.RLock()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {type(self.hf_processor).__name__}, {', '.join(self.modalities)}>"

    @cached_property
    def fingerprint(self) -> str:
        """What identifies the processor in the identity of every item: 64 hexadecimal digits. Taken once, in 0.1 s."""
        own = type(self)
        return fingerprint(
            self.hf_processor,
            info=f"{own.__module__}.{own.__qualname__}",
            return_tensors=self.return_tensors,
            media_io_kwargs=self.media_io_kwargs,
        )

    # Decoders

    def media_io_class(self, modality: str) -> type[MediaIO[Any]]:
        """The decoder class for a modality.

        Raises:
            UnprocessableMediaError: The processor does not take this modality. The client's fault.
        """
        self._check_modality(modality)
        return decoder_class(modality)

    def model_media_io_kwargs(self, modality: str) -> Mapping[str, Any]:
        """The decoder options that the model's own processor asks for: for videos, the frames that it would take. The
        operator's options win over them.
        """
        video_processor = getattr(self.hf_processor, "video_processor", None)
        if modality != "video" or video_processor is None:
            return {}
        return sampling_of(video_processor, self.limits.max_video_frames)

    def get_media_io(self, modality: str, media_io_kwargs: Mapping[str, Any] | None = None) -> MediaIO[Any]:
        """The decoder for a modality, under the model's options, the operator's and a request's, of which the later
        win.

        Args:
            modality: One of `modalities`.
            media_io_kwargs: The request's options for this modality.

        Raises:
            UnprocessableMediaError: An option of the request that there is none of, that is the operator's, or that has
                no such value. The client's fault.
            TypeError, ValueError: An option of the operator's that cannot be used. The operator's fault.
        """
        kind = self.media_io_class(modality)
        operator, model = self.media_io_kwargs.get(modality), self.model_media_io_kwargs(modality)
        return make_decoder(kind, modality, self.limits, operator, media_io_kwargs, model)

    def get_data_parser(
        self, media_io_kwargs: Mapping[str, Mapping[str, Any]] | ValidOptions | None = None
    ) -> MultiModalDataParser:
        """What parses a request's media; pictures that came decoded are converted by the rules of the request's
        decoder.

        Args:
            media_io_kwargs: The request's decoder options, by modality, or all of its options, validated.

        Raises:
            UnprocessableMediaError: As `get_media_io`.
        """
        image_io = None
        if "image" in self.modalities:
            if isinstance(media_io_kwargs, ValidOptions):
                image_io = media_io_kwargs.decoder("image")
            else:
                image_io = self.get_media_io("image", (media_io_kwargs or {}).get("image"))
        return MultiModalDataParser(
            image_io=image_io,
            target_sr=self.audio_rate,
            target_channels=None if self.audio_rate is None else 1,
            limits=self.limits,
        )

    @property
    def audio_rate(self) -> int | None:
        """The rate of the samples that the processor takes, in Hz; None where it takes no audio."""
        part = part_of(self.hf_processor, "audio") if "audio" in self.modalities else None
        return getattr(part, "sampling_rate", None)

    # Items

    def prepare_kwargs(self, mm_processor_kwargs: Mapping[str, object] | PreparedKwargs | None) -> PreparedKwargs:
        """A request's processor options, checked and merged with the processor's own. Once for each request (0.2 ms).

        The result is opaque; every other method that takes options takes it as well.

        Raises:
            UnprocessableMediaError: An option that is unknown, the operator's, out of bounds, or of no use. The
                client's fault.
        """
        if isinstance(mm_processor_kwargs, PreparedKwargs):
            return mm_processor_kwargs
        rejected = self.operator_only
        if type(self).working_pixels is ProcessingInfo.working_pixels:
            rejected |= SIZE_OPTIONS
        options = validate_options(self.hf_processor, self.modalities, mm_processor_kwargs or {}, rejected, self.limits)
        return merge_options(self.hf_processor, self.rewrite_options(options), self.return_tensors)

    def rewrite_options(self, options: RequestOptions) -> RequestOptions:
        """A request's options, by modality, before they are merged. A family translates old spellings here."""
        return options

    def process_item(
        self,
        modality: str,
        media: object,
        mm_processor_kwargs: Mapping[str, object] | PreparedKwargs | None = None,
    ) -> ProcessedItem:
        """One item, processed alone. Synchronous; runs in a worker thread, under `torch_threads`.

        Args:
            modality: One of `modalities`.
            media: Decoded media: a PIL image, an array or a tensor (`pictures.as_picture` says how axes are read).
            mm_processor_kwargs: The request's options, as they are or prepared.

        Raises:
            UnprocessableMediaError: No picture, or one that would grow beyond the limits inside the processor. The
                item's fault.
            ValueError, TypeError, IndexError, ZeroDivisionError, OverflowError: The processor cannot take it, or makes
                values of it that are not finite. Raised as the processor raised them; a bare RuntimeError of torch's
                comes as a ValueError. The item's fault or its options', unless `works` is false.
            MemoryError, NotImplementedError, ImportError: Not the item's fault.
        """
        self._check_modality(modality)
        kwargs = self.prepare_kwargs(mm_processor_kwargs)
        item = self.prepare_item(modality, media)
        outputs, replacement = self._outputs_and_replacement(modality, item, kwargs)
        features, hidden = split_fields(outputs, self.layouts_of(modality))
        with bounded_torch_threads(self.torch_threads):
            check_finite(features)
        features = {name: owned(array, item.media) for name, array in features.items()}
        return ProcessedItem(features, hidden, replacement)

    def replacement_of(
        self,
        modality: str,
        media: object,
        mm_processor_kwargs: Mapping[str, object] | PreparedKwargs | None = None,
    ) -> Replacement:
        """What the item's placeholder becomes; that of `process_item`, whose arguments these are.

        Raises:
            As `process_item`, but for values that are not finite.
        """
        self._check_modality(modality)
        kwargs = self.prepare_kwargs(mm_processor_kwargs)
        return self._outputs_and_replacement(modality, self.prepare_item(modality, media), kwargs)[1]

    def _outputs_and_replacement(
        self, modality: str, item: ItemMedia, kwargs: PreparedKwargs
    ) -> tuple[dict[str, Any], Replacement]:
        if modality == "image":
            self.check_picture(item.height, item.width, kwargs.settings[modality])
        elif modality == "video":
            self._check_aspect("video", item.height, item.width)
        outputs, replacement = self._process_alone(modality, item, kwargs, self.calibration_of(modality).route)
        if modality in self._prompts.placeholders and not (replacement.text or replacement.token_ids):
            raise UnprocessableMediaError(f"the processor makes no token of this {modality}: it is too short or small")
        return outputs, replacement

    def _process_alone(
        self, modality: str, item: ItemMedia, kwargs: PreparedKwargs, route: Route
    ) -> tuple[dict[str, Any], Replacement]:
        if route == "steps":
            outputs, texts = self.process_items(modality, [item], kwargs)
            return outputs, self._prompts.replacement(modality, texts[0] if texts else "")
        outputs, token_ids = self._call(modality, [item], kwargs)
        return outputs, self._prompts.replacement_in(modality, token_ids)

    def prepare_item(self, modality: str, media: object) -> ItemMedia:
        """Decoded media in the form in which the processor takes it.

        Raises:
            UnprocessableMediaError: Nothing that could be an item of this modality.
        """
        return prepare(modality, media, rate=self.audio_rate, tensors=self.return_tensors == "pt")

    def process_items(
        self, modality: str, items: Sequence[ItemMedia], kwargs: PreparedKwargs
    ) -> tuple[dict[str, Any], list[str]]:
        """The processor's outputs for some items in one call, and the text that each item's placeholder becomes.

        One item in every request, several to find out how they merge. Override where the processor's own steps need
        something else.
        """
        by_modality = kwargs.by_modality[modality]
        return process_items(self.hf_processor, modality, items, by_modality, self.torch_threads, self.return_tensors)

    def calibration_of(self, modality: str) -> Calibration:
        """How items are processed, and how each output merges: as declared, or as found out once for this processor."""
        self._check_modality(modality)
        with self._calibrating:
            if modality not in self._calibrations:
                found = find_calibration(self.fingerprint, modality, self._calibrate)
                if found.route == "whole":
                    kind = type(self.hf_processor).__name__
                    log.warning("what %s makes of %s is not cached: %s", kind, modality, found.reason)
                self._calibrations[modality] = found
            return self._calibrations[modality]

    def layouts_of(self, modality: str) -> Mapping[str, Layout]:
        """How each output for a modality merges."""
        return self.calibration_of(modality).layouts

    def processes_alone(self, modalities: Iterable[str]) -> bool:
        """Whether the items of these modalities are processed one by one, so that a cache can hold each."""
        return all(self.calibration_of(modality).route != "whole" for modality in modalities)

    def process_whole(
        self, prompt: str, items: Mapping[str, Sequence[object]], kwargs: PreparedKwargs
    ) -> tuple[RenderedPrompt, dict[str, Any]]:
        """All items of a request in one call of the processor: the prompt's tokens, and all other outputs.

        Raises:
            As `process_item`.
        """
        media = {
            modality: [self.prepare_item(modality, item) for item in of_modality]
            for modality, of_modality in items.items()
        }
        outputs = call_whole(self.hf_processor, media, prompt, kwargs.chosen, self.torch_threads, self.return_tensors)
        features, columns = split_text(outputs)
        check_finite(features)
        counts = {modality: len(of_modality) for modality, of_modality in items.items()}
        return self._prompts.found_in(columns, counts), features

    def works(self, modality: str) -> bool:
        """Whether the processor can take a plain picture under its own options.

        Where it cannot, an item on which it failed is not at fault, but the processor or what an integrator declared or
        overrode. Processes `dummy_item` until that has succeeded once.
        """
        if modality not in self._working:
            try:
                self._process_dummy(modality)
            except Exception:  # noqa: BLE001  # whatever it is, a plain picture is not the reason
                return False
            self._working.add(modality)
        return True

    def check_picture(self, height: int, width: int, settings: Mapping[str, Any]) -> None:
        """Refuse a picture of an extreme shape, or that would become too large inside the processor, before it does.

        Args:
            height: Pixels.
            width: Pixels.
            settings: Those in force for pictures.

        Raises:
            UnprocessableMediaError: The picture, or the sizes that the request chose, are at fault.
        """
        self._check_aspect("picture", height, width)
        pixels = self.working_pixels(height, width, settings)
        if pixels is not None and pixels > self.limits.max_processor_pixels:
            raise UnprocessableMediaError(
                f"the processor would make {pixels} pixels out of a picture of {width} x {height}; "
                f"{self.limits.max_processor_pixels} are allowed"
            )

    def _check_aspect(self, what: str, height: int, width: int) -> None:
        if max(height, width) > self.limits.max_image_aspect * min(height, width):
            raise UnprocessableMediaError(
                f"a {what} of {width} x {height} is too long: one side may have "
                f"{self.limits.max_image_aspect:g} times the pixels of the other"
            )

    def working_pixels(
        self,
        height: int,  # noqa: ARG002  # for those that override this
        width: int,  # noqa: ARG002
        settings: Mapping[str, Any],  # noqa: ARG002
    ) -> int | None:
        """Pixels of the largest picture that the processor makes out of one of this size; None where no rule is known.

        Without a rule, a request chooses no sizes.
        """
        return None

    @final
    def merge(self, modality: str, items: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
        """The features of all items of a modality, keys and shapes as in one call of the processor.

        One item's arrays are returned as they are, not copied.

        Raises:
            UnprocessableMediaError: The items' shapes cannot be joined, as when a request turned resizing off.
        """
        return merge_fields(items, self.layouts_of(modality))

    def dummy_item(self, modality: str) -> Any:
        """Media that the processor can take, to warm it up with."""
        self._check_modality(modality)
        return dummy_item(modality, self.audio_rate)

    def _calibrate(self, modality: str) -> Calibration:
        reasons: list[str] = []
        routes: tuple[Route, ...] = ("steps", "call")
        for route in routes:
            try:
                return Calibration(route, self._calibrate_route(modality, route), "; ".join(reasons))
            except _CANNOT as exc:
                reasons.append(f"{route}: {exc}"[:300])
        return Calibration("whole", {}, "; ".join(reasons))

    def _calibrate_route(self, modality: str, route: Route) -> dict[str, Layout]:
        kwargs = self.prepare_kwargs(None)
        items = [self.prepare_item(modality, media) for media in calibration_items(modality, self.audio_rate)]
        # With one item and its prompt first: that is what every request is made of.
        outputs, replacement = self._process_alone(modality, items[0], kwargs, route)
        text = self._text_for(modality, 1)
        rendered = self.build_prompt(text, {modality: [ProcessedItem({}, outputs, replacement)]}, kwargs)
        columns = {
            **self.text_outputs(rendered),
            **self.request_outputs(rendered, {modality: [ProcessedItem({}, outputs, replacement)]}),
        }
        whole = call_whole(self.hf_processor, {modality: items[:1]}, text, {}, self.torch_threads, self.return_tensors)
        public, text_outputs = split_text(whole)
        if not same(columns, text_outputs | {name: whole[name] for name in columns if name in public}):
            raise UncertainLayoutError("the processor makes something else of a prompt than its steps do")
        public = {name: value for name, value in public.items() if name not in columns}

        def process(chosen: Sequence[ItemMedia]) -> dict[str, Any]:
            by_steps = route == "steps"
            return (self.process_items if by_steps else self._call)(modality, chosen, kwargs)[0]

        return calibrate(process, items, public)

    def _call(
        self, modality: str, items: Sequence[ItemMedia], kwargs: PreparedKwargs
    ) -> tuple[dict[str, Any], list[int]]:
        """The outputs of the processor's own call for some items of one modality, and the prompt's tokens."""
        chosen = {modality: kwargs.chosen.get(modality, {})}
        text = self._text_for(modality, len(items))
        outputs = call_whole(
            self.hf_processor, {modality: items}, text, chosen, self.torch_threads, self.return_tensors
        )
        features, columns = split_text(outputs)
        return features, columns["input_ids"][0].tolist() if "input_ids" in columns else []

    def _text_for(self, modality: str, count: int) -> str:
        placeholder = self._prompts.placeholders.get(modality)
        return "text" if placeholder is None else placeholder.text * count

    def warm_up(self) -> None:
        """Process one dummy item of each modality and lay out its prompt, so that no request pays for what is done
        once.

        Raises:
            Exception: Whatever the processor raises.
        """
        for modality in self.modalities:
            self._process_dummy(modality)
            self._working.add(modality)

    def _process_dummy(self, modality: str) -> None:
        text = self._text_for(modality, 1)
        if not self.processes_alone([modality]):
            self.process_whole(text, {modality: [self.dummy_item(modality)]}, self.prepare_kwargs(None))
            return
        self.build_prompt(text, {modality: [self.process_item(modality, self.dummy_item(modality))]})

    # Prompts

    def placeholder(self, modality: str) -> str:
        """What stands for one item in a prompt, such as ``"<image>"``.

        Raises:
            UnprocessableMediaError: The processor does not take this modality. The client's fault.
            NotImplementedError: Its prompts do not mention items.
        """
        self._check_modality(modality)
        if modality not in self._prompts.placeholders:
            raise NotImplementedError(f"{type(self.hf_processor).__name__} has no placeholder for {modality}")
        return self._prompts.placeholders[modality].text

    def build_prompt(
        self,
        prompt: str,
        items: Mapping[str, Sequence[ProcessedItem]],
        mm_processor_kwargs: Mapping[str, object] | PreparedKwargs | None = None,
    ) -> RenderedPrompt:
        """The prompt's tokens, with each placeholder replaced by what its item needs.

        Args:
            prompt: Text with one placeholder for each item; each modality's items in the order of its placeholders.
            items: The processed items, by modality.
            mm_processor_kwargs: The request's options, as they are or prepared.

        Raises:
            BadRequestError: The numbers of placeholders and items differ, or the text is no Unicode. The client's
                fault.
        """
        kwargs = self.prepare_kwargs(mm_processor_kwargs)
        replacements = {modality: [item.replacement for item in of_modality] for modality, of_modality in items.items()}
        return self._prompts.lay_out(prompt, replacements, kwargs.text, mm_token_type_ids=kwargs.mm_token_type_ids)

    def check_prompt(self, prompt: str, counts: Mapping[str, int]) -> None:
        """Check a prompt's length, and its placeholders against the numbers of items, before any of those is used.

        Raises:
            PayloadTooLargeError: More characters than `Limits.max_prompt_characters`. The client's fault.
            BadRequestError: The numbers differ, or the prompt is no text. The client's fault.
        """
        if not isinstance(prompt, str):
            raise BadRequestError(f"a prompt is text, not {type(prompt).__name__}")
        self._check_length(len(prompt))
        self._prompts.check_counts(prompt, counts)

    def _check_length(self, characters: int) -> None:
        if characters > self.limits.max_prompt_characters:
            raise PayloadTooLargeError(
                f"a prompt of {characters} characters is too long: {self.limits.max_prompt_characters} are allowed"
            )

    def validate_options(self, media_io_kwargs: object, mm_processor_kwargs: object) -> ValidOptions:
        """A request's options, validated before anything is fetched or decoded for it.

        Raises:
            BadRequestError: Options that are no mappings, or decoder options of an unknown modality. The client's
                fault.
            UnprocessableMediaError: An option that is unknown, the operator's, out of bounds, or has no such value.
        """
        decoders = _mapping(media_io_kwargs, "decoder options")
        check_options(decoders, "decoder options", self.limits)
        unknown = sorted(str(modality)[:32] for modality in decoders if modality not in _MODALITIES)
        if unknown:
            raise BadRequestError(f"decoder options of {', '.join(unknown)}: expected {', '.join(_MODALITIES)}")
        decoders = {name: _mapping(options, f"decoder options of {name}") for name, options in decoders.items()}
        prepared = self.prepare_kwargs(_mapping(mm_processor_kwargs, "processor options"))
        grouped = {HOOKS[modality].group: chosen for modality, chosen in prepared.chosen.items() if chosen}
        options = ValidOptions(self, decoders, grouped, prepared)
        for modality in decoders.keys() & set(self.modalities):
            options.decoder(modality)
        return options

    def request_outputs(
        self,
        rendered: RenderedPrompt,  # noqa: ARG002  # for those that override this
        items: Mapping[str, Sequence[ProcessedItem]],  # noqa: ARG002
    ) -> dict[str, Array]:
        """What one call of the processor returns that belongs neither to an item nor to a token, ready to be used."""
        return {}

    def text_columns(self, rendered: RenderedPrompt) -> dict[str, list[int]]:
        """What one call of the processor returns beside the features, one value for each token: ``input_ids`` and the
        like.
        """
        columns = {"input_ids": rendered.token_ids, **rendered.outputs}
        if rendered.mm_token_type_ids:
            (columns["mm_token_type_ids"],) = self.token_types(rendered)
        unused = self.hf_processor.unused_input_names
        return {name: values for name, values in columns.items() if name not in unused}

    @final
    def text_outputs(self, rendered: RenderedPrompt) -> dict[str, Array]:
        """`text_columns` as arrays of shape (1, tokens)."""
        return text_arrays(self.text_columns(rendered), self.return_tensors)

    def token_types(self, rendered: RenderedPrompt) -> list[list[int]]:
        """The modality of each token, numbered as the processor does it."""
        types: list[list[int]] = self.hf_processor.create_mm_token_type_ids([rendered.token_ids])
        return types

    def apply_chat_template(
        self,
        messages: Sequence[Mapping[str, object]],
        *,
        tools: Sequence[Any] | None = None,
        chat_template: str | None = None,
        chat_template_kwargs: Mapping[str, object] | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
    ) -> str:
        """A conversation as a prompt, with one placeholder for each item.

        A chat template is used where there is one, `chat_style` otherwise. Content is given to the template in the form
        that it takes: text or parts. A beginning-of-sequence token that the template writes is left out where the
        tokenizer writes it anyway, or the prompt would begin with two. A user's text that contains a placeholder counts
        as one; `check_texts` rejects such texts.

        Args:
            messages: In Hugging Face's form: ``content`` is text or a list of ``{"type": "text", "text": …}`` and
                ``{"type": "image"}``, or is not there.
            tools: JSON schemas of tools, or functions that transformers makes them of.
            chat_template: A Jinja template, or the name of one of the processor's; None takes the processor's own, or
                its tokenizer's. A template is a program: transformers runs it in a sandbox, which bounds neither time
                nor memory. Never one of a client's.
            chat_template_kwargs: Variables of the template. Those that it does not use are ignored.
            add_generation_prompt: Whether the prompt asks for the next answer.
            continue_final_message: Whether the prompt ends within the last message. No answer is asked for then.

        Raises:
            BadRequestError: The template rejects the messages, has no place for one of them, or takes no tools. The
                client's fault.
            ValueError: No Jinja template, or one that has no place for a user's text or items. The integrator's fault.
            TypeError: ``chat_template`` is no text. The caller's fault.
            PayloadTooLargeError: Their texts have more characters than a prompt may have. The client's fault.
            ImportError: A template needs jinja2, which is not installed.
        """
        if not messages:
            raise BadRequestError("a conversation has no messages")
        options = TemplateOptions.check(
            tools,
            chat_template_kwargs,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message,
        )
        self._check_length(_characters([messages, options.tools, options.variables]))
        template = find_template(self.hf_processor, chat_template, has_tools=bool(options.tools))
        texts = {modality: placeholder.text for modality, placeholder in self._prompts.placeholders.items()}
        if template is not None:
            written = {modality: f"{text}\n" for modality, text in texts.items()}
            if self.chat_style is not None:
                written = self.chat_style.items_of(texts)
            return render_template(
                self.hf_processor, template, messages, self._prompts.first_token, texts, written, options
            )
        if self.chat_style is None:
            raise NotImplementedError(f"neither the processor nor {type(self).__name__} knows how to write a chat")
        if options.tools:
            raise BadRequestError("this model has no chat template, and takes no tools")
        return self.chat_style.render(
            messages,
            texts,
            add_generation_prompt=options.add_generation_prompt,
            continue_final_message=options.continue_final_message,
        )

    def check_texts(self, texts: object, where: str) -> None:
        """Reject what a client wrote where it contains the placeholder of an item: it would stand for one.

        Args:
            texts: A value as JSON has it, with any number of texts in it.
            where: What the error calls it.

        Raises:
            BadRequestError: It contains one. The client's fault.
        """
        found = find_placeholder(texts, self.hf_processor)
        if found is not None:
            raise BadRequestError(f"{where} contains {found}, the placeholder that stands for an item in a prompt")

    def check_modalities(self, modalities: Iterable[str]) -> None:
        """Reject items of a modality that the model does not take, before anything is done for any.

        Raises:
            UnprocessableMediaError: The first of them, with modality and index. The client's fault.
        """
        for modality in modalities:
            self._check_modality(modality, 0)

    def _check_modality(self, modality: str, index: int | None = None) -> None:
        if modality not in self.modalities:
            raise UnprocessableMediaError(
                f"this model takes {', '.join(self.modalities)}, not {modality[:32]}", modality=modality, index=index
            )


def _characters(value: object) -> int:
    """Characters of all texts in a value as JSON has it; everything else in it counts as one."""
    total, pending = 0, [value]
    while pending:
        part = pending.pop()
        if isinstance(part, Mapping):
            pending += [*part.keys(), *part.values()]
        elif isinstance(part, list | tuple):
            pending += part
        total += len(part) if isinstance(part, str) else 1
    return total


def _mapping(options: object, what: str) -> Mapping[str, Any]:
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise BadRequestError(f"{what} must be a mapping, not {type(options).__name__}")
    return options


def _default_tensors() -> ReturnTensors:
    from transformers.utils import is_torch_available

    return "pt" if is_torch_available() else "np"


__all__ = ["ProcessingInfo", "ReturnTensors"]
