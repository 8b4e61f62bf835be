"""The decoder for pictures: settings, references, identity.

Comes in: a payload, or a picture that somebody opened with Pillow. Goes out: a reference, or an upright Pillow image or
array in the configured mode. Never here: a format's bytes, or Pillow before the first decode.
"""

from __future__ import annotations

import hashlib
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, Literal, TypeAlias

from lazymedia.errors import LazyMediaError
from lazymedia.limits import DEFAULT_LIMITS, Limits
from lazymedia.media.image import exif, header, heif, memory
from lazymedia.media.image.outline import refused
from lazymedia.media.io import MediaIO
from lazymedia.media.payload import Payload
from lazymedia.media.ref import MediaRef
from lazymedia.media.spec import DecodeSpec
from lazymedia.media.stopping import checkpoint

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy import typing as npt
    from PIL import Image

    from lazymedia.media.image.convert import Target

Picture: TypeAlias = "Image.Image | npt.NDArray[np.uint8]"
"""A Pillow image without a file behind it, or uint8 (H, W, C)."""

MODES: Final = ("RGB", "RGBA", "L")
"""Modes that a picture can be asked for in."""

WHITE: Final = (255, 255, 255)
_ID_DOMAIN: Final = b"lazymedia: picture by EXIF ImageID and decode spec"


class ImageMediaIO(MediaIO[Picture]):
    """Decodes pictures: upright, flat on a background where the mode has no alpha, eight bits a channel.

    The orientation of EXIF (or ImageMagick's raw profile, or XMP where EXIF is silent; irot and imir in an AVIF) is
    applied. Of an animation the first frame is taken, of an MPO the first picture. Colour profiles are ignored. A
    truncated picture is an error, never a part of one. Limits alone decide what is too large, whatever Pillow's
    global switches say.

    Args:
        image_mode: "RGB", "RGBA" or "L". None keeps the stored mode; as an array, the nearest of L, LA, RGB and RGBA.
        rgba_background_color: Red, green and blue, 0 to 255, behind see-through pixels; None means white.
        output: "pil" for a `PIL.Image.Image`, "array" for a read-only uint8 array (H, W, C) with C = 1 for grey. With
            simplejpeg, JPEGs become arrays in less than half the time; the pixels are those of Pillow all the same.
        image_id: "trust" lets a UUID in the EXIF tag ImageID stand for the payload (see `load_ref`). Whoever
            sends a picture chooses that tag: trust it only where all senders are trusted.
        limits: `Limits.image_formats` and the limits on pictures are taken from here.

    Raises:
        ValueError: A setting that is not one of these, or a format that cannot be read.
    """

    modality: ClassVar[str] = "image"
    operator_only: ClassVar[frozenset[str]] = frozenset({"limits", "output", "image_id"})
    reads_quickly: ClassVar[bool] = True

    def __init__(
        self,
        image_mode: str | None = "RGB",
        *,
        rgba_background_color: Sequence[int] | None = WHITE,
        output: Literal["pil", "array"] = "pil",
        image_id: Literal["ignore", "trust"] = "ignore",
        limits: Limits | None = None,
    ) -> None:
        self._mode = _one_of("image_mode", image_mode, (*MODES, None))
        self._background = _colour(rgba_background_color)
        self._output = _one_of("output", output, ("pil", "array"))
        self._trust_id = _one_of("image_id", image_id, ("ignore", "trust")) == "trust"
        self._limits = DEFAULT_LIMITS if limits is None else limits
        unknown = sorted(set(self._limits.image_formats) - set(header.FORMATS))
        if unknown:
            raise ValueError(f"image_formats: {', '.join(unknown)} cannot be read, only {', '.join(header.FORMATS)}")
        self._spec = DecodeSpec(
            {"image_mode": self._mode, "rgba_background_color": list(self._background)}
            | ({} if self._output == "pil" else {"output": self._output})
        )

    def get_decode_spec(self) -> DecodeSpec:
        return self._spec

    def get_max_bytes(self) -> int:
        return self._limits.max_image_bytes

    def load_ref(self, payload: Payload) -> MediaRef[Picture]:
        """A reference to a picture. Reads its header and takes its key; decodes nothing and does not load Pillow.

        With ``image_id="trust"``, two payloads that carry one UUID in the EXIF tag ImageID (0x800D) get one key,
        which also covers the spec and never equals a key made from content. Payloads without one, and PNGs whose EXIF
        does not come before the pixels, are identified by content as always.

        Raises:
            PayloadTooLargeError: More bytes than `Limits.max_image_bytes`.
            UnprocessableMediaError: The header tells more pixels, a longer side, more scans or more chunks than is
                allowed.
        """
        data = payload.data
        self._check_size(len(data))
        _, outline = self._read(data)
        key = self._key_by_id(data, outline) if self._trust_id and outline is not None else None
        changed = type(self).load_bytes is not ImageMediaIO.load_bytes  # by a subclass that may, for example, crop
        decoded_bytes = None
        if outline is not None:
            decoded_bytes = memory.decoded_bytes(data, outline, self._mode, as_array=self._output == "array")
        return MediaRef(
            partial(self.load_bytes, data),
            payload,
            self._spec,
            key=key,
            decoded_bytes=decoded_bytes,
            probe=None if outline is None or changed else partial(header.describe, data, outline),
        )

    def check_header(self, prefix: bytes, declared: int | None) -> bool:  # noqa: ARG002  # the header is enough
        """Check a picture's size, scans and chunks as soon as its header is there; see `MediaIO.check_header`."""
        _, outline = header.read_outline(prefix, self._limits)
        return outline is not None

    def load_bytes(self, data: bytes) -> Picture:
        """Decode a picture.

        Raises:
            UnprocessableMediaError: Not a picture of an allowed format, damaged, truncated, or over a limit. A damaged
                one has the library's own exception as its cause, one over a limit has none.
        """
        kind, outline = self._read(data)
        checkpoint()
        from lazymedia.media.image import convert, raster, turbo

        if outline is None:
            raise self._unreadable(kind, data)
        try:
            array = turbo.decode(data, outline, self._target())
            if array is not None:
                return array
            return convert.finish(raster.rasterise(data, outline, self._limits), self._target())
        except (LazyMediaError, ImportError, MemoryError):
            raise
        except Exception as exc:
            raise refused(f"the {kind} picture cannot be decoded: {exc}") from exc

    def admit(self, image: Image.Image) -> None:
        """Load a picture that is already open, if it is within the limits on size.

        Raises:
            UnprocessableMediaError: Over a limit, or pixels that cannot be loaded.
        """
        from lazymedia.media.image.outline import check_size

        check_size(*image.size, self._limits)
        try:
            image.load()
        except (ImportError, MemoryError):
            raise
        except Exception as exc:
            raise refused(f"the picture cannot be loaded: {exc}") from exc

    def convert(self, image: Image.Image) -> Picture:
        """What this decoder makes of a picture that is already open: upright, flat and in mode by the same rules.

        The picture is left as it is, apart from being loaded; the result shares no memory with it. Of several frames
        the one that it stands at is taken. Its orientation is read from ``image.info``.

        Raises:
            UnprocessableMediaError: Over a limit, or pixels that cannot be loaded or have no meaning in eight bits.
        """
        from lazymedia.media.image import convert

        try:
            return convert.finish(convert.adopt(image, self._limits), self._target())
        except (LazyMediaError, ImportError, MemoryError):
            raise
        except Exception as exc:
            raise refused(f"the picture cannot be converted: {exc}") from exc

    def _read(self, data: bytes) -> tuple[str | None, header.AnyOutline | None]:
        """Format and header of a whole payload."""
        kind, outline = header.read_outline(data, self._limits)
        if outline is not None:
            header.check_cost(outline, len(data), self._limits)
        return kind, outline

    def _target(self) -> Target:
        from lazymedia.media.image.convert import Target

        return Target(self._mode, self._background, as_array=self._output == "array")

    def _unreadable(self, kind: str | None, data: bytes) -> LazyMediaError:
        from PIL import UnidentifiedImageError

        found = header.sniff(data)
        if kind is None and found == "HEIF" and not heif.is_available():
            error = refused("HEIF pictures (HEIC) are not supported here")
            error.__cause__ = ImportError('pillow-heif is not installed: the extra "heif" of lazymedia')
            return error
        if kind is None:
            supported = f"supported: {', '.join(header.readable(self._limits))}"
            error = refused(f"not a supported picture format ({supported})")
            error.__cause__ = UnidentifiedImageError("no format's signature matches")
        else:
            error = refused(f"the header of the {kind} picture cannot be read")
            error.__cause__ = UnidentifiedImageError(f"no complete {kind} header")
        return error

    def _key_by_id(self, data: bytes, outline: header.AnyOutline) -> bytes | None:
        block = header.early_exif(data, outline)
        named = None if block is None else exif.image_id(block)
        if named is None:
            return None
        digest = hashlib.sha256()
        for part in (_ID_DOMAIN, named, self._spec.canonical_bytes()):
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
        return digest.digest()


def _one_of(name: str, value: str | None, allowed: tuple[str | None, ...]) -> str | None:
    if value in allowed:
        return value
    raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}")


def _colour(value: Sequence[int] | None) -> tuple[int, int, int]:
    if value is None:
        return WHITE
    if isinstance(value, list | tuple) and len(value) == 3 and all(type(part) is int for part in value):
        red, green, blue = value
        if all(0 <= part <= 255 for part in (red, green, blue)):
            return red, green, blue
    raise ValueError("rgba_background_color must be exactly three integers from 0 to 255")


__all__ = ["MODES", "ImageMediaIO", "Picture"]
