"""The two phases of a request as plain functions from values to values.

Comes in: a request's inputs, what a processor can do (`ProcessingInfo`), and the cache. Goes out: from phase 1,
hashes and the items to decode; from phase 2, the finished request, or the items that must be decoded first. Never
here: an event loop, a thread, a wait. Whoever calls makes sure that no two phases run at once.

Other requests' phases run between the two, so phase 2 looks again: a miss may have become a hit, and a hit may be gone.

Phase 2 goes in an order that leaves nothing behind when it fails:

1. look up, without changing anything; whatever is neither held nor decoded is asked for, and that is all;
2. process what is missing, and lay out the prompt; a failure here has touched nothing;
3. touch and insert everything, in request order; no failure is possible from here on;
4. hand the result over, still under the caller's exclusion; if the receiver fails, what was held is invalidated.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from lazymedia.cache import Pin, ProcessorCache
from lazymedia.errors import CacheMissError, LazyMediaError, UnprocessableMediaError
from lazymedia.media.ref import MediaRef
from lazymedia.media.stopping import checkpoint
from lazymedia.processing.inputs import ProcessorInputs
from lazymedia.processing.outputs import MultiModalInputs

if TYPE_CHECKING:
    from lazymedia.identity import Algorithm
    from lazymedia.limits import Limits
    from lazymedia.processing.info import ProcessingInfo
    from lazymedia.processing.items import ProcessedItem

Place = tuple[str, int]
"""Modality, and position among the items of that modality in this request."""

ITEM_FAULTS = (ValueError, TypeError, LookupError, ZeroDivisionError, OverflowError)
"""What a Hugging Face processor raises for media of a shape it cannot take, such as one pixel by a thousand, or for an
option that names nothing."""


@dataclass(frozen=True)
class Looked:
    """What phase 1 found. True at that moment only.

    Attributes:
        hashes: Each item's identity, by modality; None without a cache, where identities are taken after processing.
        pins: The hits, by identity.
        to_decode: The items whose media will be needed, in request order, each identity once.
        timings: Seconds by stage.
    """

    hashes: dict[str, list[str]] | None
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
    """Phase 1: judge what costs nothing to judge, identify every item, look each up, and say what must be decoded.

    Raises:
        CacheMissError: Items named by UUID alone that the cache does not hold; all of them are listed.
        UnprocessableMediaError: The items to decode would take more memory together than a request may.
        BadRequestError: Placeholders or UUIDs that do not match the items, or options that are no mappings.
    """
    clock = Clock()
    info.check_options(inputs.media_io_kwargs, inputs.hf_processor_mm_kwargs)
    info.check_prompt(inputs.prompt, inputs.mm_data_items.get_all_counts())
    inputs.checked_uuids()
    _admit_direct(inputs)
    if not inputs.can_use_cache:
        _refuse_absent(
            inputs, [place for place in places_of(inputs) if _raw(inputs, place) is None], model_id, algorithm
        )
        return Looked(None, {}, everything_to_decode(inputs, limits), clock.seconds)
    with clock.stage("get_mm_hashes"):
        hashes = inputs.get_mm_hashes(model_id, algorithm)
    with clock.stage("get_cache_missing_items"):
        assert inputs.cache is not None
        pins = {mm_hash: pin for mm_hash in _each(hashes) if (pin := inputs.cache.pin(mm_hash)) is not None}
        missing = _first_of_each(inputs, hashes, pins)
        _refuse_absent(inputs, [place for place in missing if _raw(inputs, place) is None], model_id, algorithm)
        places = tuple(place for place in missing if _undecoded(inputs, place))
    _admit(inputs, places, limits)
    return Looked(hashes, pins, places, clock.seconds)


def everything_to_decode(inputs: ProcessorInputs, limits: Limits) -> tuple[Place, ...]:
    """Every item that is not decoded yet, in request order.

    Raises:
        UnprocessableMediaError: They would take more memory together than a request may.
    """
    places = tuple(place for place in places_of(inputs) if _undecoded(inputs, place))
    _admit(inputs, places, limits)
    return places


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
        UnprocessableMediaError: The processor cannot take an item, or what must be decoded late is more than allowed.
        CacheMissError: An item named by UUID alone has been invalidated since.
        BadRequestError: The prompt's placeholders do not match the items.
    """
    clock = Clock()
    since = None if inputs.cache is None else inputs.cache.moment
    known = _look_again(inputs, looked)
    missing = list(places_of(inputs)) if looked.hashes is None else _first_of_each(inputs, looked.hashes, known)
    _refuse_absent(inputs, [place for place in missing if _raw(inputs, place) is None], model_id, algorithm)
    needed = [place for place in missing if _undecoded(inputs, place)]
    if needed:
        places = tuple(filter(partial(_undecoded, inputs), places_of(inputs) if ask_for_all else needed))
        decoded = [place for place in places_of(inputs) if _is_decoded_ref(inputs, place)]
        _admit(inputs, (*decoded, *places), limits)
        return NeedDecodes(places)

    kwargs = info.prepare_kwargs(inputs.hf_processor_mm_kwargs)
    with clock.stage("apply_hf_processor"):
        fresh: dict[Place, ProcessedItem] = {}
        total = 0
        for place in missing:
            fresh[place] = _process(inputs, place, info, kwargs)
            total += fresh[place].nbytes
            _refuse_excess(inputs, place, total, limits)
    hashes = looked.hashes
    if hashes is None:
        with clock.stage("get_mm_hashes"):
            hashes = inputs.get_mm_hashes(model_id, algorithm)
    by_hash = known | {hashes[modality][index]: entry for (modality, index), entry in fresh.items()}
    entries = {
        modality: [fresh.get((modality, index)) or by_hash[mm_hash] for index, mm_hash in enumerate(of_modality)]
        for modality, of_modality in hashes.items()
    }
    with clock.stage("apply_prompt_updates"):
        rendered = info.build_prompt(inputs.prompt, entries, kwargs)
    cache = None if looked.hashes is None else inputs.cache
    with clock.stage("merge_mm_kwargs"):
        # Without a cache nobody else holds the tensors.
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
        _merge=partial(_merged, info, rendered, features),
    )
    _commit(cache, [(mm_hash, by_hash[mm_hash]) for mm_hash in chain(*hashes.values())], since, result, on_commit)
    return result


def _look_again(inputs: ProcessorInputs, looked: Looked) -> dict[str, ProcessedItem]:
    """The entries that are held, by hash: in the cache now, or pinned by phase 1 and evicted since."""
    known: dict[str, ProcessedItem] = {}
    if looked.hashes is not None:
        assert inputs.cache is not None
        for mm_hash in _each(looked.hashes):
            pin = inputs.cache.pin(mm_hash) or looked.pins.get(mm_hash)
            if pin is not None and pin.entry is not None:
                known[mm_hash] = pin.entry
    return known


def _process(inputs: ProcessorInputs, place: Place, info: ProcessingInfo, kwargs: Any) -> ProcessedItem:
    modality, index = place
    items = inputs.mm_data_items[modality]
    original = items.get_original_index(index)
    checkpoint()  # a request that was given up holds the others up no longer than one item takes
    try:
        return info.process_item(modality, items.get(index), kwargs)
    except UnprocessableMediaError as exc:
        raise exc.at(modality, original) from exc
    except LazyMediaError:
        raise
    except ITEM_FAULTS as exc:
        raise UnprocessableMediaError(
            f"the model's processor cannot take {modality} at index {original}: {exc}",
            modality=modality,
            index=original,
        ) from exc


def _commit(
    cache: ProcessorCache[ProcessedItem] | None,
    entries: list[tuple[str, ProcessedItem]],
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
            for mm_hash, _ in entries:
                cache.invalidate(mm_hash)
        raise


def _merged(info: ProcessingInfo, rendered: Any, features: Mapping[str, list[Mapping[str, Any]]]) -> dict[str, Any]:
    merged: dict[str, Any] = dict(info.text_outputs(rendered))
    for modality, items in features.items():
        merged.update(info.merge(modality, items))
    return merged


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


def _admit_direct(inputs: ProcessorInputs) -> None:
    """Hold media that came decoded against the limits before anything reads all of it.

    Raises:
        UnprocessableMediaError: An item is over a limit or cannot be loaded.
    """
    for modality, index in places_of(inputs):
        items = inputs.mm_data_items[modality]
        try:
            items.admit(index)
        except UnprocessableMediaError as exc:
            raise exc.at(modality, items.get_original_index(index)) from exc


def _refuse_excess(inputs: ProcessorInputs, place: Place, nbytes: int, limits: Limits) -> None:
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


def _refuse_absent(inputs: ProcessorInputs, absent: list[Place], model_id: str, algorithm: Algorithm) -> None:
    if not absent:
        return
    hashes = inputs.get_mm_hashes(model_id, algorithm)
    modality, index = absent[0]
    raise CacheMissError(
        [hashes[modality][index] for modality, index in absent],
        modality=modality,
        index=inputs.mm_data_items[modality].get_original_index(index),
    )


def _admit(inputs: ProcessorInputs, places: tuple[Place, ...], limits: Limits) -> None:
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


__all__ = ["Clock", "Looked", "NeedDecodes", "Place", "everything_to_decode", "finish", "look", "places_of"]
