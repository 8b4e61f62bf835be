"""The decoder that does not decode, for processors that open the container themselves."""

from __future__ import annotations

from typing import Final

from lazymedia.limits import DEFAULT_LIMITS, Limits
from lazymedia.media.io import MediaIO
from lazymedia.media.spec import DecodeSpec
from lazymedia.public import publish

_CAPS: Final = {"image": "max_image_bytes", "video": "max_video_bytes", "audio": "max_audio_bytes"}


class RawBytesMediaIO(MediaIO[bytes]):
    """Media is the payload itself; the spec declares ``{"<modality>_decode": "raw_bytes"}``, so no other decoder's
    key equals.

    The media keeps the payload alive after the reference is released.

    Args:
        modality: ``"image"``, ``"video"`` or ``"audio"``.
        limits: The cap on encoded bytes is taken from here.
    """

    operator_only = frozenset({"limits", "modality"})
    reads_quickly = True

    def __init__(self, modality: str, *, limits: Limits | None = None) -> None:
        self.modality = modality  # type: ignore[misc]  # here one class serves every modality
        self._limits = DEFAULT_LIMITS if limits is None else limits

    def load_bytes(self, data: bytes) -> bytes:
        return data

    def get_decode_spec(self) -> DecodeSpec:
        return DecodeSpec({f"{self.modality}_decode": "raw_bytes"})

    def get_max_bytes(self) -> int:
        cap: int = getattr(self._limits, _CAPS.get(self.modality, "max_download_bytes"))
        return cap


__all__ = ["RawBytesMediaIO"]

publish(__name__)
