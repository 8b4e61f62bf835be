"""One request as processing sees it, and the cache identity of each of its items.

Comes in: prompt, parsed items, and every option that changes what they are processed to. Goes out: `ProcessorInputs`,
and hashes of its items. Never here: a look into a cache, or a decode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from lazymedia.errors import BadRequestError
from lazymedia.identity import Algorithm, MultiModalHasher
from lazymedia.media.ref import MediaRef
from lazymedia.parse.items import MultiModalDataItems

if TYPE_CHECKING:
    from lazymedia.cache import ProcessorCache

_SCOPES: Final = {"images_kwargs": "image", "videos_kwargs": "video", "audio_kwargs": "audio"}
"""Processor arguments that concern one modality alone."""


@dataclass(frozen=True)
class ProcessorInputs:
    """One request: prompt, items, options, and the cache it may use.

    Attributes:
        prompt: Text with one placeholder for each item.
        mm_data_items: The parsed items.
        mm_uuid_items: For each modality, one UUID or None per item, chosen by the client. An item with a UUID is cached
            under it instead of its content; whoever chooses it answers for it, within their own ``cache_scope``.
        hf_processor_mm_kwargs: Options of the Hugging Face processor, flat or under ``images_kwargs`` and the like.
        media_io_kwargs: Options of the decoders, by modality.
        cache: The processed-output cache; None processes everything.
        cache_scope: Whose UUIDs these are, such as a tenant's name. UUIDs of different scopes never meet.
    """

    prompt: str
    mm_data_items: MultiModalDataItems
    mm_uuid_items: Mapping[str, Sequence[str | None]] | None = None
    hf_processor_mm_kwargs: Mapping[str, object] = field(default_factory=dict)
    media_io_kwargs: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    cache: ProcessorCache[Any] | None = None
    cache_scope: str | None = None

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
            return {"uuid": uuid, "scope": self.cache_scope, "media_io": self.media_io_kwargs.get(modality, {})}
        if isinstance(raw, MediaRef):
            return {"content": raw}
        return {"content": raw, "media_io": self.media_io_kwargs.get(modality, {})}

    def _processor_factors(self, modality: str) -> dict[str, object]:
        return {
            name: value
            for name, value in self.hf_processor_mm_kwargs.items()
            if _SCOPES.get(name, modality) == modality and name != "text_kwargs"
        }

    def checked_uuids(self) -> dict[str, Sequence[str | None]]:
        """One UUID or None for each item.

        Raises:
            BadRequestError: UUIDs that do not match the items, or an item with neither media nor UUID. The client's
                fault.
        """
        given = dict(self.mm_uuid_items or {})
        for modality, named in given.items():
            if isinstance(named, str | bytes) or not all(uuid is None or isinstance(uuid, str) for uuid in named):
                raise BadRequestError(f"UUIDs of {modality} must be a list of texts and None")
        found: dict[str, Sequence[str | None]] = {}
        for modality, items in self.mm_data_items.items():
            uuids = given.pop(modality, None)
            uuids = [None] * len(items) if uuids is None else uuids
            if len(uuids) != len(items):
                raise BadRequestError(f"{len(uuids)} UUIDs for {len(items)} items of {modality}")
            for index, (raw, uuid) in enumerate(zip(items.get_all_raw(), uuids)):
                if raw is None and uuid is None:
                    raise BadRequestError(f"{modality} at index {index} has neither media nor UUID")
            found[modality] = uuids
        if given:
            raise BadRequestError(f"UUIDs for {', '.join(sorted(given))}, of which there are no items")
        return found

    def fork(self) -> ProcessorInputs:
        """The same request with each reference forked; see `MultiModalDataItems.fork`."""
        return replace(self, mm_data_items=self.mm_data_items.fork())


__all__ = ["ProcessorInputs"]
