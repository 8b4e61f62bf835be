"""A request's options for the processor: which it may choose, and what holds in the end.

Hugging Face ignores an option that it does not know, with a line in a log. Here it is rejected, or a misspelt option
would silently not hold.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import Limits
from lazymedia.media.io import MediaIO
from lazymedia.processing.hooks import HOOKS, part_of
from lazymedia.processing.options import check_options, shortened
from lazymedia.processing.sizes import settings_in_force

OPERATOR_ONLY: Final = frozenset(
    {
        "add_special_tokens",
        "audio",
        "common_kwargs",
        "data_format",
        "device",
        "do_sample_frames",
        "fps",
        "image_seq_length",
        "images",
        "input_data_format",
        "load_audio_from_video",
        "max_length",
        "num_frames",
        "pad_to_multiple_of",
        "padding",
        "padding_side",
        "sampling_rate",
        "sanitize_control_tokens",
        "stride",
        "text",
        "text_kwargs",
        "truncation",
        "use_audio_in_video",
        "verbose",
        "video_metadata",
        "videos",
    }
)
"""Options that no request may choose, beside all that begin with ``return_``: they decide in which form outputs are
handed on, where they are made, or what a prompt's text becomes; or, such as which frames a video has, they are the
decoder's."""

_GROUPS: Final = frozenset({"images_kwargs", "videos_kwargs", "audio_kwargs"})
_TEXT_OUTPUTS: Final = ("return_tensors", "return_mm_token_type_ids", "return_text_replacement_offsets")

RequestOptions = dict[str, dict[str, Any]]
"""Options that a request chose, by modality."""


@dataclass(frozen=True, slots=True, eq=False)
class PreparedKwargs:
    """The options that hold for one request. Made once, given to every call that the request causes.

    Attributes:
        chosen: What the request chose, by modality.
        by_modality: What each modality's part of the processor is called with.
        settings: Every setting of that part, unchanged ones included; sizes in one form.
        text: What the tokenizer is called with.
        mm_token_type_ids: Whether the modality of each token belongs to the output.
    """

    chosen: Mapping[str, Mapping[str, Any]]
    by_modality: Mapping[str, Mapping[str, Any]]
    settings: Mapping[str, Mapping[str, Any]]
    text: Mapping[str, Any]
    mm_token_type_ids: bool


@dataclass(frozen=True, slots=True, eq=False)
class ValidOptions:
    """The options of one request, validated once, for everything that the request causes.

    Attributes:
        info: For which processor they are; `ProcessingInfo`.
        media_io_kwargs: Options of the decoders, by modality.
        mm_processor_kwargs: Options of the processor in one spelling: under ``images_kwargs`` and the like, without
            empty groups, however the request wrote them.
        prepared: The latter, merged with the processor's own.
    """

    info: Any
    media_io_kwargs: Mapping[str, Mapping[str, Any]]
    mm_processor_kwargs: Mapping[str, Mapping[str, Any]]
    prepared: PreparedKwargs
    _decoders: dict[str, MediaIO[Any]] = field(default_factory=dict, repr=False)

    def decoder(self, modality: str) -> MediaIO[Any]:
        """The decoder of a modality under these options, made once."""
        if modality not in self._decoders:
            self._decoders[modality] = self.info.get_media_io(modality, self.media_io_kwargs.get(modality))
        return self._decoders[modality]


def validate_options(
    hf_processor: Any,
    modalities: Iterable[str],
    request: Mapping[str, object],
    operator_only: Collection[str],
    limits: Limits,
) -> RequestOptions:
    """A request's options by modality, each known, within bounds, and each the request's to choose.

    Raises:
        UnprocessableMediaError: An option that is the operator's, unknown, out of bounds, or given twice. The client's
            fault.
    """
    check_options(request, "processor options", limits)
    options: RequestOptions = {modality: {} for modality in modalities}
    group_of = {HOOKS[modality].group: modality for modality in options}
    known = {modality: _known(hf_processor, modality) for modality in options}
    for name, value in request.items():
        _check_choice(name, operator_only)
        if name in _GROUPS:
            modality = group_of.get(name)
            if value is None:
                continue
            if modality is None or not isinstance(value, Mapping):
                raise UnprocessableMediaError(f"processor options: {name} must be options of {', '.join(options)}")
            for inner, inner_value in value.items():
                _check_choice(inner, operator_only)
                _add(options[modality], inner, inner_value, known[modality])
            continue
        concerned = [modality for modality in options if name in known[modality]]
        for modality in concerned or list(options)[:1]:
            _add(options[modality], name, value, known[modality])
    return options


def merge_options(hf_processor: Any, options: RequestOptions, return_tensors: str) -> PreparedKwargs:
    """What holds in the end: the request's options over the processor's own settings.

    Raises:
        UnprocessableMediaError: A value that the processor does not accept. The client's fault.
    """
    groups = {HOOKS[modality].group: chosen for modality, chosen in options.items() if chosen}
    try:
        merged = hf_processor._merge_kwargs(  # noqa: SLF001  # the step of the processor's call that has no public name
            tokenizer_init_kwargs=hf_processor.tokenizer.init_kwargs, return_tensors=return_tensors, **groups
        )
        settings = {
            modality: settings_in_force(part_of(hf_processor, modality), merged[HOOKS[modality].group])
            for modality in options
        }
        # The videos' step of processors that also take audio wants the options of all modalities.
        takes_all = hasattr(hf_processor, "load_audio_from_video")
        by_modality = {
            modality: merged if takes_all and modality == "video" else merged[HOOKS[modality].group]
            for modality in options
        }
    except Exception as exc:
        if not groups:
            raise
        names = sorted(name for chosen in options.values() for name in chosen)
        raise UnprocessableMediaError(f"processor options: {', '.join(names)}: {exc}") from exc
    text = dict(merged["text_kwargs"])
    mm_token_type_ids = text.get("return_mm_token_type_ids", merged.get("return_mm_token_type_ids", False))
    text = {name: value for name, value in text.items() if name not in _TEXT_OUTPUTS}
    return PreparedKwargs(options, by_modality, settings, text, bool(mm_token_type_ids))


def _known(hf_processor: Any, modality: str) -> frozenset[str]:
    hooks = HOOKS[modality]
    declared = hf_processor.valid_processor_kwargs.__annotations__[hooks.group].__annotations__
    own = getattr(getattr(hf_processor, hooks.part, None), "valid_kwargs", None)
    return frozenset(declared) | frozenset(getattr(own, "__annotations__", {}))


def _check_choice(name: str, operator_only: Collection[str]) -> None:
    if name in OPERATOR_ONLY or name in operator_only or name.startswith("return_"):
        raise UnprocessableMediaError(f"processor options: {shortened(name)} cannot be chosen by a request")


def _add(chosen: dict[str, Any], name: str, value: object, known: frozenset[str]) -> None:
    if name not in known:
        raise UnprocessableMediaError(f"processor options: the processor has no option {shortened(name)}")
    if name in chosen:
        raise UnprocessableMediaError(f"processor options: {name} is given twice")
    chosen[name] = value


__all__ = ["OPERATOR_ONLY", "PreparedKwargs", "RequestOptions", "ValidOptions", "merge_options", "validate_options"]
