"""One request as processing sees it, and the cache identity of each of its items."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from lazymedia.cache import ProcessorCache
from lazymedia.errors import BadRequestError
from lazymedia.identity import Algorithm, MultiModalHasher
from lazymedia.media.ref import MediaRef
from lazymedia.parse.items import ModalityDataItems, MultiModalDataItems
from lazymedia.processing.kwargs import ValidOptions

_SCOPES: Final = {"images_kwargs": "image", "videos_kwargs": "video", "audio_kwargs": "audio"}
"""Processor arguments that concern one modality alone."""


@dataclass(frozen=True)
class ProcessorInputs:
    """One request: prompt, items, options, and the cache it may use.

    Attributes:
        prompt: Text with one placeholder for each item.
        mm_data_items: The parsed items.
        mm_uuid_items: For each modality, one UUID or None per item, chosen by the client. An item with a UUID is cached
            under it instead of its content; it is valid within the ``cache_scope`` only.
        hf_processor_mm_kwargs: Options of the Hugging Face processor, flat or under ``images_kwargs`` and the like.
        media_io_kwargs: Options of the decoders, by modality.
        cache: The processed-output cache; None processes everything.
        cache_scope: Whose UUIDs these are, such as a tenant's name. UUIDs of different scopes never meet.
        options: The options, validated, where `MultiModalProcessor.make_inputs` made this.
    """

    prompt: str
    mm_data_items: MultiModalDataItems
    mm_uuid_items: Mapping[str, Sequence[str | None] | None] | None = None
    hf_processor_mm_kwargs: Mapping[str, object] = field(default_factory=dict)
    media_io_kwargs: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    cache: ProcessorCache[Any] | None = None
    cache_scope: str | None = None
    options: ValidOptions | None = field(default=None, repr=False, compare=False)

    @property
    def can_use_cache(self) -> bool:
        """Whether the cache decides what is processed: there is one, and no item hands data past the processor."""
        return self.cache is not None and not any(items.get_passthrough_data() for items in self.mm_data_items.values())

    def get_mm_hashes(self, model_id: str, algorithm: Algorithm = "sha256") -> dict[str, list[str]]:
        """The cache identity of each item, by modality, in request order. Decodes nothing.

        An item is identified by its content (a reference by its key), the model and every option that concerns its
        modality. A reference's key holds its decode settings already, so media_io_kwargs are hashed beside content
        that is no reference only. An item with a UUID is identified by that, the scope, and all options,
        media_io_kwargs too; no UUID ever equals a content's hash.

        Args:
            model_id: Names the model and everything about its processor that changes outputs.
            algorithm: See `MultiModalHasher.hash_kwargs`.

        Raises:
            BadRequestError: UUIDs that do not match the items, or an item with neither media nor UUID. The client's
                fault.
        """
        uuids = self.checked_uuids()
        hashes: dict[str, list[str]] = {}
        for modality, items in self.mm_data_items.items():
            common = MultiModalHasher.hash_kwargs(
                algorithm, model_id=model_id, modality=modality, processor=self._processor_factors(modality)
            )
            hashes[modality] = [
                MultiModalHasher.hash_kwargs(algorithm, common=common, **self._item_factors(modality, raw, uuid))
                for raw, uuid in zip(items.get_all_raw(), uuids[modality])
            ]
        return hashes

    def _item_factors(self, modality: str, raw: object, uuid: str | None) -> dict[str, object]:
        if uuid is not None:
            return {"uuid": uuid, "scope": self.cache_scope, "media_io": self.media_io_kwargs.get(modality) or {}}
        if isinstance(raw, MediaRef):
            return {"content": raw}
        return {"content": raw, "media_io": self.media_io_kwargs.get(modality) or {}}

    def _processor_factors(self, modality: str) -> dict[str, object]:
        return {
            name: value
            for name, value in self.hf_processor_mm_kwargs.items()
            if _SCOPES.get(name, modality) == modality and name != "text_kwargs" and not (name in _SCOPES and not value)
        }

    def checked_uuids(self) -> dict[str, Sequence[str | None]]:
        """One UUID or None for each item.

        Raises:
            BadRequestError: As `match_uuids`.
        """
        return match_uuids(self.mm_data_items, self.mm_uuid_items)

    def __repr__(self) -> str:
        return f"<ProcessorInputs of {len(self.prompt)} characters, {self.mm_data_items.get_all_counts()}>"

    def fork(self) -> ProcessorInputs:
        """The same request with each reference forked; see `MultiModalDataItems.fork`."""
        return replace(self, mm_data_items=self.mm_data_items.fork())


def match_uuids(
    items: Mapping[str, ModalityDataItems[Any]],
    uuids: object,
    fetched: Container[tuple[str, int]] = (),
) -> dict[str, Sequence[str | None]]:
    """One UUID or None for each item.

    Args:
        items: The items by modality; None among them stands for an item that is named by its UUID alone.
        uuids: For each modality a list of texts and None, or None for no UUIDs; or None altogether.
        fetched: Modality and position of items that are None here because their media are still to be fetched.

    Raises:
        BadRequestError: UUIDs that do not match the items, or an item with neither media nor UUID. The client's fault.
    """
    if uuids is not None and not isinstance(uuids, Mapping):
        raise BadRequestError(f"UUIDs must be a mapping from modality to a list, not {type(uuids).__name__}")
    given = {modality: named for modality, named in (uuids or {}).items() if named is not None}
    for modality, named in given.items():
        if not isinstance(named, list | tuple) or not all(uuid is None or isinstance(uuid, str) for uuid in named):
            raise BadRequestError(f"UUIDs of {modality} must be a list of texts and None")
    found: dict[str, Sequence[str | None]] = {}
    for modality, of_modality in items.items():
        named = given.pop(modality, [None] * len(of_modality))
        if len(named) != len(of_modality):
            raise BadRequestError(f"{len(named)} UUIDs for {len(of_modality)} items of {modality}", modality=modality)
        for index, (raw, uuid) in enumerate(zip(of_modality.get_all_raw(), named)):
            if raw is None and uuid is None and (modality, index) not in fetched:
                original = of_modality.get_original_index(index)
                raise BadRequestError(
                    f"{modality} at index {original} has neither media nor UUID", modality=modality, index=original
                )
        found[modality] = named
    excess = sorted(str(modality) for modality, named in given.items() if named)
    if excess:
        raise BadRequestError(f"UUIDs for {', '.join(excess)}, of which there are no items")
    return found


__all__ = ["ProcessorInputs", "match_uuids"]
