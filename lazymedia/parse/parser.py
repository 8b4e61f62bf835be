"""From a request's media, however it was handed in, to items by modality."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lazymedia.errors import BadRequestError
from lazymedia.limits import Limits
from lazymedia.parse.audio import audio_rules, parse_audio_data
from lazymedia.parse.image import PictureRules, parse_image_data
from lazymedia.parse.items import ModalityDataItems, MultiModalDataItems
from lazymedia.parse.video import parse_video_data


class MultiModalDataParser:
    """Parses media once; later stages select among what was parsed.

    Args:
        image_io: The decoder whose rules make a PIL image that came decoded equal to one decoded from bytes. None
            leaves such images as they are, and so does a decoder that has no such rules.
        target_sr: Hz to which clips are brought, by soxr, as part of their decode. None leaves each at its own.
        target_channels: Channels that clips are brought to, likewise. None leaves each with its own.
        video_needs_metadata: Whether a video is given as frames and metadata, or as frames alone.
        limits: The limits on audio are taken from here.

    Raises:
        ValueError: A rate or a number of channels that cannot be. The operator's fault.
    """

    def __init__(
        self,
        *,
        image_io: object | None = None,
        target_sr: float | None = None,
        target_channels: int | None = None,
        video_needs_metadata: bool = False,
        limits: Limits | None = None,
    ) -> None:
        self._image_io = image_io
        self._audio_rules = audio_rules(target_sr, target_channels, limits=limits)
        self._video_needs_metadata = video_needs_metadata

    def _parsers(self) -> dict[str, Callable[[Any], ModalityDataItems[Any] | None]]:
        rules = self._image_io if isinstance(self._image_io, PictureRules) else None
        return {
            "image": lambda data: parse_image_data(data, rules),
            "video": lambda data: parse_video_data(data, needs_metadata=self._video_needs_metadata),
            "audio": lambda data: parse_audio_data(data, self._audio_rules),
        }

    def parse_mm_data(self, mm_data: Mapping[str, object] | None) -> MultiModalDataItems:
        """The items of a request.

        Args:
            mm_data: Modality to one item or a list of items; None means none, in the place of either. Modalities
                without items are left out.

        Raises:
            BadRequestError: A modality that is not known, or data that is no mapping. The client's fault.
            TypeError: An item of a type that is not known. The caller's fault.
        """
        parsers = self._parsers()
        parsed: dict[str, ModalityDataItems[Any]] = {}
        if mm_data is not None and not isinstance(mm_data, Mapping):
            raise BadRequestError(f"media must be a mapping from modality to items, not {type(mm_data).__name__}")
        for modality, data in (mm_data or {}).items():
            if modality not in parsers:
                raise BadRequestError(f"no modality {modality!r} here: expected one of {', '.join(sorted(parsers))}")
            items = parsers[modality](data)
            if items is not None:
                parsed[modality] = items
        return MultiModalDataItems(parsed)


__all__ = ["MultiModalDataParser"]
