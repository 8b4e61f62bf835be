"""A request laid out from its media's headers: prompt tokens, identities and placeholders, with nothing decoded.

What an item's placeholder becomes depends, for most processors, on the item's shape alone. Their own steps run on media
that have the shape and no values, so there is no second rule that could differ. Whether that is so for a processor and
a modality is verified once, on real items.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from lazymedia.errors import LazyMediaError, NotPlannableError
from lazymedia.lru import LruDict
from lazymedia.media.audio.formats import sniff
from lazymedia.media.audio.header import read_header
from lazymedia.media.audio.io import AudioMediaIO
from lazymedia.media.audio.transforms import resampled_length
from lazymedia.media.image import ImageHeader
from lazymedia.media.ref import MediaRef
from lazymedia.media.video import VideoMetadata
from lazymedia.processing.dummies import calibration_items
from lazymedia.processing.items import ProcessedItem, Replacement
from lazymedia.processing.phases import ITEM_FAULTS, Looked, item_at, media_at, options_of, places_of
from lazymedia.processing.prompt import PlaceholderRange

if TYPE_CHECKING:
    from lazymedia.processing.info import ProcessingInfo
    from lazymedia.processing.inputs import ProcessorInputs
    from lazymedia.processing.kwargs import PreparedKwargs
    from lazymedia.processing.media import ItemMedia

_KEPT_BYTES: Final = 16 << 20
"""Of replacements by shape. One of a picture has some 20 KB, so these are hundreds of sizes."""


@dataclass(frozen=True, slots=True)
class RequestPlan:
    """A request, laid out; each attribute equals that of `MultiModalInputs` for the same request.

    Attributes:
        prompt: The text as it was given, one placeholder for each item.
        prompt_token_ids: Token ids of the text, each placeholder replaced by what its item needs.
        mm_hashes: For each modality, each item's cache identity, hexadecimal.
        mm_placeholders: For each modality, where each item's tokens stand in ``prompt_token_ids``.
        cached: For each modality, whether the cache holds each item at this moment.
    """

    prompt: str
    prompt_token_ids: list[int]
    mm_hashes: dict[str, list[str]]
    mm_placeholders: dict[str, list[PlaceholderRange]]
    cached: dict[str, list[bool]]


class Shape(NamedTuple):
    """What is known of an item before its decode.

    Attributes:
        lengths: (height, width) of a picture, (frames, height, width) of a video, (samples,) of a clip at the
            processor's rate.
        metadata: Of a video, what the decode will tell of it.
    """

    lengths: tuple[int, ...]
    metadata: Any = None


class Planner:
    """What items become in a prompt, by their shapes, for one processor. Not for several threads at once.

    Args:
        info: The processor.
    """

    def __init__(self, info: ProcessingInfo) -> None:
        self._info = info
        self._reasons: dict[str, str] = {}
        self._known: LruDict[tuple[str, ...], Replacement] = LruDict(_KEPT_BYTES)

    def plan(self, inputs: ProcessorInputs, looked: Looked) -> RequestPlan:
        """A request, laid out. The cache is read and not changed.

        Args:
            inputs: The request.
            looked: What phase 1 found.

        Raises:
            NotPlannableError: An item that only its pixels or samples could place, with modality and index.
            UnprocessableMediaError: An item's header shows that it cannot be decoded or processed. The client's fault.
        """
        kwargs = options_of(inputs, self._info).prepared
        held = {mm_hash: pin.entry for mm_hash, pin in looked.pins.items() if pin.entry is not None}
        found: dict[str, Replacement] = {mm_hash: entry.replacement for mm_hash, entry in held.items()}
        for modality, index in places_of(inputs):
            mm_hash = looked.hashes[modality][index]
            if mm_hash not in found:
                found[mm_hash] = self._replacement_at(inputs, modality, index, kwargs)
        items = {
            modality: [ProcessedItem({}, {}, found[mm_hash]) for mm_hash in hashes]
            for modality, hashes in looked.hashes.items()
        }
        rendered = self._info.build_prompt(inputs.prompt, items, kwargs)
        return RequestPlan(
            inputs.prompt,
            rendered.token_ids,
            looked.hashes,
            rendered.placeholders,
            {modality: [mm_hash in held for mm_hash in hashes] for modality, hashes in looked.hashes.items()},
        )

    def _replacement_at(
        self, inputs: ProcessorInputs, modality: str, index: int, kwargs: PreparedKwargs
    ) -> Replacement:
        items = inputs.mm_data_items[modality]
        try:
            with item_at(items, index, self._info):
                shape = self._shape_of(inputs, modality, index)
                self._check_plannable(modality)
                return self.replacement(modality, shape, kwargs)
        except NotImplementedError as exc:
            if isinstance(exc, LazyMediaError) and exc.index is not None:
                raise
            original = items.get_original_index(index)
            raise NotPlannableError(
                f"{modality} at index {original} cannot be planned: {exc}", modality=modality, index=original
            ) from exc

    def replacement(self, modality: str, shape: Shape, kwargs: PreparedKwargs) -> Replacement:
        """What an item of this shape becomes, by the processor's steps.

        Raises:
            NotImplementedError: That depends on the item's values.
            Exception: As `ProcessingInfo.replacement_of`.
        """
        key = (modality, repr(shape), repr(kwargs.chosen.get(modality)))
        known = self._known.get(key)
        if known is None:
            known = self._info.replacement_of(modality, self._without_values(modality, shape), kwargs)
            self._known.put(key, known)
        self._known.touch(key)
        return known

    def _without_values(self, modality: str, shape: Shape) -> Any:
        if modality == "audio":
            return np.zeros(shape.lengths, np.float32)
        *count, height, width = shape.lengths
        try:
            from lazymedia.processing.shape_only import ShapeOnly
        except ImportError:  # without torch processors take arrays, and work on every pixel
            media: Any = np.zeros((*count, height, width, 3), np.uint8)
        else:
            media = ShapeOnly.of(*count, 3, height, width)
        return media if modality == "image" else (media, shape.metadata)

    def _check_plannable(self, modality: str) -> None:
        """Compare with what is really made of some items, once for each modality.

        Raises:
            NotImplementedError: It differs.
        """
        if modality not in self._reasons:
            self._reasons[modality] = self._reason_against(modality)
        if self._reasons[modality]:
            raise NotImplementedError(self._reasons[modality])

    def _reason_against(self, modality: str) -> str:
        """Why items of a modality cannot be planned; empty where they can."""
        info = self._info
        kind = type(info.hf_processor).__name__
        if not info.processes_alone([modality]):
            return f"{kind} does not process items of {modality} one by one"
        kwargs = info.prepare_kwargs(None)
        # Noise, and one item without any: what depends on values differs between the two.
        for media in (*calibration_items(modality, info.audio_rate), info.dummy_item(modality)):
            shape = _shape_of_item(modality, info.prepare_item(modality, media))
            try:
                planned = self.replacement(modality, shape, kwargs)
            except (NotImplementedError, *ITEM_FAULTS):
                return f"what {kind} makes of {modality} cannot be found out from shapes"
            if planned != info.replacement_of(modality, media, kwargs):
                return f"what {kind} makes of {modality} depends on more than shapes"
        return ""

    def _shape_of(self, inputs: ProcessorInputs, modality: str, index: int) -> Shape:
        """By the header; of an item that is decoded, its own.

        Raises:
            NotImplementedError: The header does not say it.
            UnprocessableMediaError: The header shows that the media cannot be decoded.
        """
        items = inputs.mm_data_items[modality]
        raw = items.get_raw(index)
        if not isinstance(raw, MediaRef) or raw.is_decoded:
            return _shape_of_item(modality, self._info.prepare_item(modality, media_at(items, index)))
        shape = self._audio_shape(raw) if modality == "audio" else _shape_in_header(raw.probe())
        if shape is None:
            raise NotImplementedError("its header does not say how large it is when decoded")
        return shape

    def _audio_shape(self, ref: MediaRef[Any]) -> Shape | None:
        """From WAV, AIFF and FLAC. Other headers tell a length that a decode does not keep to, to the sample."""
        if "audio_backend" not in ref.spec.settings or self._info.media_io_class("audio") is not AudioMediaIO:
            return None  # not decoded by `AudioMediaIO`
        kind = sniff(ref.data)
        header = None if kind is None else read_header(ref.data, kind)
        if header is None or header.declared is None or header.info.samples is None:
            return None
        samples, rate = header.info.samples, header.info.rate
        target = ref.spec.settings.get("target_sr")
        return Shape((resampled_length(samples, rate, int(target)) if isinstance(target, int) else samples,))


def _shape_in_header(header: object) -> Shape | None:
    if isinstance(header, ImageHeader):
        width, height = header.upright_size
        return Shape((height, width))
    if isinstance(header, VideoMetadata):
        return Shape((len(header.frames_indices), header.height, header.width), header)
    return None


def _shape_of_item(modality: str, item: ItemMedia) -> Shape:
    if modality == "image":
        return Shape((item.height, item.width))
    if modality == "audio":
        return Shape(tuple(item.media.shape))
    return Shape((int(item.media.shape[0]), item.height, item.width), item.per_item.get("video_metadata"))


__all__ = ["Planner", "RequestPlan", "Shape"]
