"""The two phases of a request as plain functions from values to values.

Comes in: a request's inputs, what a processor can do (`ProcessingInfo`), and the cache. Goes out: from phase 1,
hashes and the items to decode; from phase 2, the finished request, or the items that must be decoded first. Never
here: an event loop, a thread, a wait. The caller makes sure that no two phases run at once.

Other requests' phases run between the two, so phase 2 looks again: a miss may have become a hit, and a hit may be gone.

Phase 2 goes in an order that leaves nothing behind when it fails:

1. look up, without changing anything; whatever is neither held nor decoded is asked for, and that is all;
2. process what is missing, and lay out the prompt; a failure here has touched nothing;
3. touch and insert everything, in request order; no failure is possible from here on;
4. hand the result over, still under the caller's exclusion; if the receiver fails, what was held is invalidated.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from lazymedia.cache import Pin, ProcessorCache
from lazymedia.contexts import contextmanager
from lazymedia.errors import CacheMissError, DecoderCrashedError, LazyMediaError, UnprocessableMediaError
from lazymedia.foreign import is_picture
from lazymedia.media.cancellation import checkpoint
from lazymedia.media.image import ImageHeader
from lazymedia.media.ref import MediaRef
from lazymedia.parse.image import ImageSize, is_pixels, size_of
from lazymedia.parse.video import VideoProcessorItems
from lazymedia.processing.inputs import ProcessorInputs
from lazymedia.processing.media import InvalidItemError
from lazymedia.processing.outputs import MultiModalInputs

if TYPE_CHECKING:
    from lazymedia.identity import Algorithm
    from lazymedia.limits import Limits
    from lazymedia.parse.items import ModalityDataItems
    from lazymedia.processing.info import ProcessingInfo
    from lazymedia.processing.items import ProcessedItem
    from lazymedia.processing.kwargs import PreparedKwargs, ValidOptions

Place = tuple[str, int]
"""Modality, and position among the items of that modality in this request."""

ITEM_FAULTS = (ValueError, TypeError, LookupError, ZeroDivisionError, OverflowError)
"""What a Hugging Face processor raises for media of a shape it cannot take, such as one pixel by a thousand, or for an
option that names nothing."""


@dataclass(frozen=True)
class Looked:
    """What phase 1 found. True at that moment only.

    Attributes:
        hashes: Each item's identity, by modality.
        pins: The hits, by identity.
        to_decode: The items whose media will be needed, in request order, each identity once.
        timings: Seconds by stage.
    """

    hashes: dict[str, list[str]]
    pins: Mapping[str, Pin[ProcessedItem]]
    to_decode: tuple[Place, ...]
    timings: dict[str, float]


@dataclass(frozen=True)
class NeedDecodes:
    """Phase 2 cannot go on before these items are decoded. It has changed nothing."""

    places: tuple[Place, ...]


@dataclass
class Clock:
    """Seconds by stage, added up."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


def places_of(inputs: ProcessorInputs) -> Iterator[Place]:
    """Every item of the request, in order."""
    for modality, items in inputs.mm_data_items.items():
        for index in range(len(items)):
            yield modality, index


def look(inputs: ProcessorInputs, info: ProcessingInfo, model_id: str, algorithm: Algorithm, limits: Limits) -> Looked:
    """Phase 1: check what costs nothing to check, identify every item, look each up, and say what must be decoded.

    Without a cache nothing is looked up; equal items are still decoded and processed once.

    Raises:
        CacheMissError: Items named by UUID alone that the cache does not hold; all of them are listed.
        UnprocessableMediaError: The items to decode or to process would take more together than a request may.
        PayloadTooLargeError: The prompt is too long.
        BadRequestError: Placeholders or UUIDs that do not match the items, or options that are no mappings.
    """
    clock = Clock()
    options = _check_request(inputs, info)
    with clock.stage("get_mm_hashes"):
        hashes = inputs.get_mm_hashes(model_id, algorithm)
    with clock.stage("get_cache_missing_items"):
        cache = inputs.cache if inputs.can_use_cache else None
        pins = {} if cache is None else {mm_hash: pin for mm_hash in _each(hashes) if (pin := cache.pin(mm_hash))}
        missing = _first_of_each(inputs, hashes, pins)
        _reject_absent(inputs, [place for place in missing if _raw(inputs, place) is None], model_id, algorithm)
        if not info.processes_alone(inputs.mm_data_items):
            pins, missing = {}, list(places_of(inputs))
            _reject_absent(inputs, [place for place in missing if _raw(inputs, place) is None], model_id, algorithm)
        places = tuple(place for place in missing if _undecoded(inputs, place))
    if missing:
        _check_pixels(inputs, missing, info, options.prepared, limits)
    _check_limits(inputs, places, limits)
    return Looked(hashes, pins, places, clock.seconds)


def everything_to_decode(inputs: ProcessorInputs, info: ProcessingInfo, limits: Limits) -> tuple[Place, ...]:
    """Every item that is not decoded yet, in request order, after the checks of phase 1.

    Raises:
        LazyMediaError: As `look`, but for what a cache does not hold.
    """
    options = _check_request(inputs, info)
    _check_pixels(inputs, list(places_of(inputs)), info, options.prepared, limits)
    places = tuple(place for place in places_of(inputs) if _undecoded(inputs, place))
    _check_limits(inputs, places, limits)
    return places


def options_of(inputs: ProcessorInputs, info: ProcessingInfo) -> ValidOptions:
    """The request's options; validated here where its inputs were not made by `MultiModalProcessor.make_inputs`, or
    were changed since.
    """
    options = inputs.options
    if options is not None and options.info is info:
        same = options.mm_processor_kwargs is inputs.hf_processor_mm_kwargs
        if same and options.media_io_kwargs is inputs.media_io_kwargs:
            return options
    return info.validate_options(inputs.media_io_kwargs, inputs.hf_processor_mm_kwargs)


def _check_request(inputs: ProcessorInputs, info: ProcessingInfo) -> ValidOptions:
    """Check what needs neither an identity nor a decode."""
    options = options_of(inputs, info)
    info.check_prompt(inputs.prompt, inputs.mm_data_items.get_all_counts())
    inputs.checked_uuids()
    _check_decoded(inputs)
    return options


def finish(
    inputs: ProcessorInputs,
    looked: Looked,
    info: ProcessingInfo,
    model_id: str,
    algorithm: Algorithm,
    limits: Limits,
    on_commit: Callable[[MultiModalInputs], None] | None = None,
    *,
    ask_for_all: bool = False,
) -> MultiModalInputs | NeedDecodes:
    """Phase 2: process what the cache does not hold, merge, and only then change the cache.

    Args:
        inputs: The request.
        looked: What phase 1 found.
        info: The processor.
        model_id: As in phase 1.
        algorithm: As in phase 1.
        limits: As in phase 1.
        on_commit: Receives the result under the caller's exclusion, right after the cache has changed. Must not wait.
        ask_for_all: When anything must be decoded, ask for everything that is not: the second request for decodes is
            then the last.

    Raises:
        UnprocessableMediaError: The processor cannot take an item, or the items take more than allowed.
        CacheMissError: An item named by UUID alone has been invalidated since.
        BadRequestError: The prompt's placeholders do not match the items.
    """
    if not info.processes_alone(inputs.mm_data_items):
        return _finish_whole(inputs, looked, info, on_commit)
    clock = Clock()
    cache = inputs.cache if inputs.can_use_cache else None
    since = None if cache is None else cache.moment
    hashes = looked.hashes
    known = {} if cache is None else _look_again(cache, looked)
    missing = _first_of_each(inputs, hashes, known)
    _reject_absent(inputs, [place for place in missing if _raw(inputs, place) is None], model_id, algorithm)
    needed = [place for place in missing if _undecoded(inputs, place)]
    if needed:
        places = tuple(filter(partial(_undecoded, inputs), places_of(inputs) if ask_for_all else needed))
        decoded = [place for place in places_of(inputs) if _is_decoded_ref(inputs, place)]
        _check_limits(inputs, (*decoded, *places), limits)
        return NeedDecodes(places)

    kwargs = options_of(inputs, info).prepared
    _check_pixels(inputs, missing, info, kwargs, limits)
    with clock.stage("apply_hf_processor"):
        fresh: dict[Place, ProcessedItem] = {}
        total = 0
        for place in missing:
            fresh[place] = _process(inputs, place, info, kwargs)
            total += fresh[place].nbytes
            _reject_excess(inputs, place, total, limits)
    by_hash = known | {hashes[modality][index]: entry for (modality, index), entry in fresh.items()}
    entries = {
        modality: [fresh.get((modality, index)) or by_hash[mm_hash] for index, mm_hash in enumerate(of_modality)]
        for modality, of_modality in hashes.items()
    }
    with clock.stage("apply_prompt_updates"):
        rendered = info.build_prompt(inputs.prompt, entries, kwargs)
        text_columns = info.text_columns(rendered)
        request_outputs = info.request_outputs(rendered, entries)
    with clock.stage("merge_mm_kwargs"):
        # Without a cache the tensors are held by no one else.
        share = cache is None or cache.share_tensors
        features = {
            modality: [entry.handed_out(share_tensors=share).features for entry in of_modality]
            for modality, of_modality in entries.items()
        }
    result = MultiModalInputs(
        prompt=inputs.prompt,
        prompt_token_ids=rendered.token_ids,
        mm_kwargs=features,
        mm_hashes=hashes,
        mm_placeholders=rendered.placeholders,
        timings=clock.seconds,
        cached={modality: [mm_hash in known for mm_hash in of_modality] for modality, of_modality in hashes.items()},
        layouts={modality: dict(info.layouts_of(modality)) for modality in features},
        text_columns=text_columns,
        request_outputs=request_outputs,
        return_tensors=info.return_tensors,
    )
    commit(cache, [(mm_hash, by_hash[mm_hash]) for mm_hash in chain(*hashes.values())], since, result, on_commit)
    return result


def _finish_whole(
    inputs: ProcessorInputs,
    looked: Looked,
    info: ProcessingInfo,
    on_commit: Callable[[MultiModalInputs], None] | None,
) -> MultiModalInputs | NeedDecodes:
    """Phase 2 of a request with items that cannot be processed one by one: one call of the processor, and no cache."""
    needed = tuple(place for place in places_of(inputs) if _undecoded(inputs, place))
    if needed:
        return NeedDecodes(needed)
    clock = Clock()
    with clock.stage("apply_hf_processor"):
        media = {
            modality: [media_at(items, index) for index in range(len(items))]
            for modality, items in inputs.mm_data_items.items()
        }
        try:
            kwargs = options_of(inputs, info).prepared
            rendered, outputs = info.process_whole(inputs.prompt, media, kwargs)
        except ITEM_FAULTS as exc:
            if isinstance(exc, LazyMediaError) or not all(map(info.works, media)):
                raise
            raise UnprocessableMediaError(f"the model's processor cannot take the request's items: {exc}") from exc
    result = MultiModalInputs(
        prompt=inputs.prompt,
        prompt_token_ids=rendered.token_ids,
        mm_kwargs={modality: [{} for _ in items] for modality, items in media.items()},
        mm_hashes=looked.hashes,
        mm_placeholders=rendered.placeholders,
        timings=clock.seconds,
        cached={modality: [False] * len(items) for modality, items in media.items()},
        text_columns={"input_ids": rendered.token_ids, **rendered.outputs},
        request_outputs=outputs,
        return_tensors=info.return_tensors,
    )
    commit(None, (), None, result, on_commit)
    return result


def _look_again(cache: ProcessorCache[ProcessedItem], looked: Looked) -> dict[str, ProcessedItem]:
    """The entries that are held, by hash: in the cache now, or pinned by phase 1 and evicted since."""
    known: dict[str, ProcessedItem] = {}
    for mm_hash in _each(looked.hashes):
        pin = cache.pin(mm_hash) or looked.pins.get(mm_hash)
        if pin is not None and pin.entry is not None:
            known[mm_hash] = pin.entry
    return known


def _process(inputs: ProcessorInputs, place: Place, info: ProcessingInfo, kwargs: PreparedKwargs) -> ProcessedItem:
    modality, index = place
    items = inputs.mm_data_items[modality]
    checkpoint()  # a request that was given up holds the others up no longer than one item takes
    media = media_at(items, index)
    with item_at(items, index, info):
        try:
            return info.process_item(modality, media, kwargs)
        except InvalidItemError as exc:
            if not isinstance(items.get_raw(index), MediaRef):
                raise
            raise DecoderCrashedError(
                f"{modality} at index {items.get_original_index(index)}: from its decoder, {exc}",
                modality=modality,
                index=items.get_original_index(index),
            ) from exc


def media_at(items: ModalityDataItems[Any], index: int) -> Any:
    """An item as `ProcessingInfo.prepare_item` takes it: a video with what is known of it."""
    if isinstance(items, VideoProcessorItems):
        return items.get_frames(index), items.get_metadata(index)
    return items.get(index)


@contextmanager
def item_at(items: ModalityDataItems[Any], index: int, info: ProcessingInfo) -> Iterator[None]:
    """Name an item in the errors that are its fault, and leave alone those that are an integrator's."""
    modality, original = items.modality, items.get_original_index(index)
    try:
        yield
    except UnprocessableMediaError as exc:
        raise exc.at(modality, original) from exc
    except LazyMediaError:
        raise
    except ITEM_FAULTS as exc:
        if not info.works(modality):
            raise
        raise UnprocessableMediaError(
            f"the model's processor cannot take {modality} at index {original}: {exc}",
            modality=modality,
            index=original,
        ) from exc


def _check_pixels(
    inputs: ProcessorInputs, places: Sequence[Place], info: ProcessingInfo, kwargs: PreparedKwargs, limits: Limits
) -> None:
    """Check the shapes of pictures, and how large they become inside the processor together.

    The size of a picture that is not decoded is what its header says; where that says nothing, the picture is checked
    once it is decoded.

    Raises:
        UnprocessableMediaError: A picture is over a limit by itself, or with those before it.
    """
    total = 0
    for modality, index in places:
        items = inputs.mm_data_items[modality]
        size = _size_of(items.get_raw(index)) if modality == "image" else None
        if size is None:
            continue
        with item_at(items, index, info):
            settings = kwargs.settings[modality]
            info.check_picture(size.height, size.width, settings)
            total += info.working_pixels(size.height, size.width, settings) or 0
            if total > limits.max_request_processor_pixels:
                raise UnprocessableMediaError(
                    f"the processor would make more than the {limits.max_request_processor_pixels} pixels allowed "
                    "out of this picture and those before it"
                )


def _size_of(raw: object) -> ImageSize | None:
    """Width and height of a picture; of one that is not decoded, by its header. None where neither says."""
    if isinstance(raw, MediaRef):
        if not raw.is_decoded:
            try:
                header = raw.probe()
            except UnprocessableMediaError:  # its decode fails too, and says it with the picture's place
                return None
            return ImageSize(*header.upright_size) if isinstance(header, ImageHeader) else None
        raw = raw.decode()
    return size_of(raw) if is_picture(raw) or is_pixels(raw) else None


def commit(
    cache: ProcessorCache[ProcessedItem] | None,
    entries: Sequence[tuple[str, ProcessedItem]],
    since: int | None,
    result: MultiModalInputs,
    on_commit: Callable[[MultiModalInputs], None] | None,
) -> None:
    """Change the cache and hand the result over, or leave nothing of this request in the cache."""
    if cache is not None:
        cache.update_all(entries, since)
    if on_commit is None:
        return
    try:
        on_commit(result)
    except BaseException:
        if cache is not None:
            for mm_hash in _each(result.mm_hashes):
                cache.invalidate(mm_hash)
        raise


def _each(hashes: Mapping[str, list[str]]) -> Iterator[str]:
    return iter(dict.fromkeys(chain(*hashes.values())))


def _first_of_each(inputs: ProcessorInputs, hashes: Mapping[str, list[str]], known: Container[str]) -> list[Place]:
    """The item that stands for each identity which is not known, in request order.

    That is the first that has media; an identity none of whose items has any is stood for by the first.
    """
    found: dict[str, Place] = {}
    for place in places_of(inputs):
        mm_hash = hashes[place[0]][place[1]]
        if mm_hash not in known and (mm_hash not in found or _raw(inputs, found[mm_hash]) is None):
            found[mm_hash] = place
    chosen = set(found.values())
    return [place for place in places_of(inputs) if place in chosen]


def _raw(inputs: ProcessorInputs, place: Place) -> object:
    return inputs.mm_data_items[place[0]].get_raw(place[1])


def _undecoded(inputs: ProcessorInputs, place: Place) -> bool:
    raw = _raw(inputs, place)
    return isinstance(raw, MediaRef) and not raw.is_decoded


def _is_decoded_ref(inputs: ProcessorInputs, place: Place) -> bool:
    raw = _raw(inputs, place)
    return isinstance(raw, MediaRef) and raw.is_decoded


def _check_decoded(inputs: ProcessorInputs) -> None:
    """Hold media that came decoded against the limits before anything reads all of it.

    Raises:
        UnprocessableMediaError: An item is over a limit or cannot be loaded.
    """
    for modality, index in places_of(inputs):
        items = inputs.mm_data_items[modality]
        try:
            items.check_limits(index)
        except UnprocessableMediaError as exc:
            raise exc.at(modality, items.get_original_index(index)) from exc


def _reject_excess(inputs: ProcessorInputs, place: Place, nbytes: int, limits: Limits) -> None:
    """Bound what one request becomes: small pictures grow as large as a request's options say."""
    if nbytes > limits.max_request_processed_bytes:
        modality, index = place
        original = inputs.mm_data_items[modality].get_original_index(index)
        raise UnprocessableMediaError(
            f"{modality} at index {original}: the request becomes more than the {limits.max_request_processed_bytes} "
            "processed bytes allowed",
            modality=modality,
            index=original,
        )


def _reject_absent(inputs: ProcessorInputs, absent: list[Place], model_id: str, algorithm: Algorithm) -> None:
    if not absent:
        return
    hashes = inputs.get_mm_hashes(model_id, algorithm)
    modality, index = absent[0]
    raise CacheMissError(
        [hashes[modality][index] for modality, index in absent],
        modality=modality,
        index=inputs.mm_data_items[modality].get_original_index(index),
    )


def _check_limits(inputs: ProcessorInputs, places: tuple[Place, ...], limits: Limits) -> None:
    """Refuse a request whose decoded media would not fit, before anything is decoded."""
    total = 0
    for modality, index in places:
        raw = inputs.mm_data_items[modality].get_raw(index)
        assert isinstance(raw, MediaRef)
        total += raw.decoded_bytes or 0
        if total > limits.max_request_decoded_bytes:
            original = inputs.mm_data_items[modality].get_original_index(index)
            raise UnprocessableMediaError(
                f"{modality} at index {original}: the request's media would take more than the "
                f"{limits.max_request_decoded_bytes} decoded bytes allowed",
                modality=modality,
                index=original,
            )


__all__ = [
    "ITEM_FAULTS",
    "Clock",
    "Looked",
    "NeedDecodes",
    "Place",
    "commit",
    "everything_to_decode",
    "finish",
    "item_at",
    "look",
    "media_at",
    "options_of",
    "places_of",
]
