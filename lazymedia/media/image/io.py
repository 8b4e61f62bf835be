"""The decoder for pictures: options, references, identity. Pillow is loaded at the first decode, or with the header of
a GIF, BMP or TIFF.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, Literal, NamedTuple, TypeAlias

from lazymedia.contexts import contextmanager
from lazymedia.errors import LazyMediaError
from lazymedia.limits import DEFAULT_LIMITS, Limits
from lazymedia.media.cancellation import checkpoint
from lazymedia.media.image import header, memory
from lazymedia.media.image.exif import find_image_id
from lazymedia.media.image.header import FormatHeader, rejected
from lazymedia.media.io import MediaIO
from lazymedia.media.payload import Payload
from lazymedia.media.ref import MediaRef
from lazymedia.media.spec import DecodeSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy import typing as npt
    from PIL import Image

Picture: TypeAlias = "Image.Image | npt.NDArray[np.uint8]"
"""A Pillow image without a file behind it, or uint8 (H, W, C)."""

MODES: Final = ("RGB", "RGBA", "L")
"""Modes that a picture can be asked for in."""

WHITE: Final = (255, 255, 255)
_ID_DOMAIN: Final = b"lazymedia: picture by EXIF ImageID and decode spec"


class Target(NamedTuple):
    """What a picture is converted to.

    Attributes:
        mode: One of `MODES`, or None to keep what is stored.
        background: Red, green, blue, 0 to 255.
        as_array: Whether it becomes uint8 (H, W, C) rather than an image.
    """

    mode: str | None
    background: tuple[int, int, int]
    as_array: bool


class ImageMediaIO(MediaIO[Picture]):
    """Decodes pictures: orientation applied, on a background where the mode has no alpha, eight bits a channel.

    The orientation is that of EXIF, of ImageMagick's raw profile, or of XMP where EXIF has none; of irot and imir in an
    AVIF or HEIF. Of an animation the first frame is taken, of an MPO the first picture. Colour profiles are ignored. A
    truncated picture is an error, never a part of one. `Limits` apply, and Pillow's global switches do not.

    Args:
        image_mode: "RGB", "RGBA" or "L". None keeps the stored mode; as an array, the nearest of L, LA, RGB and RGBA.
        rgba_background_color: Red, green and blue, 0 to 255, behind transparent pixels; None means white.
        output: "pil" for a `PIL.Image.Image`, "array" for a read-only uint8 array (H, W, C) with C = 1 for grey. With
            simplejpeg, JPEGs become arrays in less than half the time; the pixels are those of Pillow all the same.
        image_id: "trust" lets a UUID in the EXIF tag ImageID stand for the payload (see `load_ref`). The sender
            of a picture chooses that tag: trust it only where all senders are trusted.
        limits: `Limits.image_formats` and the limits on pictures are taken from here.

    Raises:
        ValueError: An option has none of these values, or a format cannot be read.
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
        self._target = Target(
            _one_of("image_mode", image_mode, (*MODES, None)),
            _colour(rgba_background_color),
            as_array=_one_of("output", output, ("pil", "array")) == "array",
        )
        self._trust_id = _one_of("image_id", image_id, ("ignore", "trust")) == "trust"
        self._limits = DEFAULT_LIMITS if limits is None else limits
        unknown = sorted(set(self._limits.image_formats) - set(header.FORMATS))
        if unknown:
            raise ValueError(f"image_formats: {', '.join(unknown)} cannot be read, only {', '.join(header.FORMATS)}")
        self._spec = DecodeSpec(
            {"image_mode": self._target.mode, "rgba_background_color": list(self._target.background)}
            | ({"output": "array"} if self._target.as_array else {})
        )

    def get_decode_spec(self) -> DecodeSpec:
        return self._spec

    def get_max_bytes(self) -> int:
        return self._limits.max_image_bytes

    def load_ref(self, payload: Payload) -> MediaRef[Picture]:
        """A reference to a picture. Reads its header and computes its key; decodes nothing.

        With ``image_id="trust"``, two payloads that carry one UUID in the EXIF tag ImageID (0x800D) get one key,
        which also covers the spec and never equals a key made from content. Payloads without one, and PNGs whose EXIF
        does not come before the pixels, are identified by content as always.

        Raises:
            PayloadTooLargeError: More bytes than `Limits.max_image_bytes`.
            UnprocessableMediaError: By the header, more pixels, a longer side, more scans or more chunks than are
                allowed.
        """
        data = payload.data
        self._check_size(len(data))
        _, found = self._read_header(data)
        if found is None:
            return MediaRef(partial(self.load_bytes, data), payload, self._spec)
        changed = type(self).load_bytes is not ImageMediaIO.load_bytes  # by a subclass that may, for example, crop
        return MediaRef(
            partial(self.load_bytes, data),
            payload,
            self._spec,
            key=self._key_by_id(data, found) if self._trust_id else None,
            decoded_bytes=memory.decoded_bytes(data, found, self._target.mode, as_array=self._target.as_array),
            probe=None if changed else partial(found.describe, data),
        )

    def check_header(self, prefix: bytes, declared: int | None) -> bool:  # noqa: ARG002  # the header is enough
        """Check a picture's size, scans and chunks as soon as its header is there; see `MediaIO.check_header`."""
        _, found = header.read_header(prefix, self._limits)
        return found is not None

    def load_bytes(self, data: bytes) -> Picture:
        """Decode a picture.

        Raises:
            UnprocessableMediaError: Not a picture of an allowed format, damaged, truncated, or over a limit. A damaged
                one has the library's own exception as its cause, one over a limit has none.
        """
        name, found = self._read_header(data)
        checkpoint()
        if found is None:
            raise self._unreadable(name, data)
        from lazymedia.media.image import convert, jpeg_turbo

        with _rejecting(f"the {name} picture cannot be decoded"):
            array = jpeg_turbo.decode(data, found, self._target)
            if array is not None:
                return array
            return convert.finish(found.decode(data, self._limits), self._target)

    def check_limits(self, image: Image.Image) -> None:
        """Load a picture that is already open, if it is within the limits on size.

        Raises:
            UnprocessableMediaError: Over a limit, or pixels that cannot be loaded.
        """
        header.check_size(*image.size, self._limits)
        with _rejecting("the picture cannot be loaded"):
            image.load()

    def convert(self, image: Image.Image) -> Picture:
        """What this decoder makes of a picture that is already open, by the same rules.

        The picture is left as it is, apart from being loaded; the result shares no memory with it. Of several frames
        the one that it stands at is taken. Its orientation is read from ``image.info``.

        Raises:
            UnprocessableMediaError: Over a limit, or pixels that cannot be loaded or have no meaning in eight bits.
        """
        from lazymedia.media.image import convert

        with _rejecting("the picture cannot be converted"):
            return convert.finish(convert.adopt(image, self._limits), self._target)

    def _read_header(self, data: bytes) -> tuple[str | None, FormatHeader | None]:
        """Format and header of a whole payload."""
        name, found = header.read_header(data, self._limits)
        if found is not None and found.takes_too_long(len(data), self._limits):
            raise rejected("the scans of the picture take too long to decode for its size")
        return name, found

    def _unreadable(self, name: str | None, data: bytes) -> LazyMediaError:
        """The error for a payload without a header; ``name`` is its format, if that is an allowed one."""
        from PIL import UnidentifiedImageError

        if name is not None:
            error = rejected(f"the header of the {name} picture cannot be read")
            error.__cause__ = UnidentifiedImageError(f"no complete {name} header")
        elif header.identify(data) == "HEIF" and not header.has_heif():
            error = rejected("HEIF pictures (HEIC) are not supported here")
            error.__cause__ = ImportError('pillow-heif is not installed: the extra "heif" of lazymedia')
        else:
            supported = ", ".join(header.supported(self._limits))
            error = rejected(f"not a supported picture format (supported: {supported})")
            error.__cause__ = UnidentifiedImageError("no format's signature matches")
        return error

    def _key_by_id(self, data: bytes, found: FormatHeader) -> bytes | None:
        block = found.early_exif(data)
        image_id = None if block is None else find_image_id(block)
        if image_id is None:
            return None
        digest = hashlib.sha256()
        for part in (_ID_DOMAIN, image_id, self._spec.canonical_bytes()):
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
        return digest.digest()


@contextmanager
def _rejecting(message: str) -> Iterator[None]:
    """Report whatever a library raises for a picture as the picture's fault. A missing codec and a lack of memory are
    not.
    """
    try:
        yield
    except (LazyMediaError, ImportError, MemoryError):
        raise
    except Exception as exc:
        raise rejected(f"{message}: {exc}") from exc


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
