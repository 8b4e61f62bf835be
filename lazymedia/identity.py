"""The cache identity of an item together with everything that changes what a processor makes of it.

Every leaf is written as a tag for its type, the length of its bytes, and its bytes; every container as a tag, the
number of its members, and its members. So ``1``, ``1.0``, ``True`` and ``"1"`` differ, nothing can be shifted into a
neighbour, and the order in which a mapping was filled does not matter.
"""

from __future__ import annotations

import hashlib
import struct
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, Protocol

from lazymedia.media.ref import MediaRef
from lazymedia.media.spec import DecodeSpec
from lazymedia.public import publish

Algorithm = Literal["blake3", "sha256", "sha512"]


class _Digest(Protocol):
    def update(self, data: Any, /) -> object: ...

    def hexdigest(self) -> str: ...


class MultiModalHasher:
    """Hashes keyword arguments; a namespace of class methods, kept under the name that its users know."""

    @classmethod
    def hash_kwargs(cls, algorithm: Algorithm, **kwargs: object) -> str:
        """The digest of ``kwargs``, as hexadecimal text.

        Leaves may be None, booleans, integers, floats, strings, bytes, `MediaRef` (hashed as its key, never decoded),
        `DecodeSpec`, NumPy arrays and scalars, PIL images and torch tensors; containers lists, tuples and mappings with
        string keys. A PIL image is identified by its pixels, mode, palette, transparency and EXIF orientation.

        Args:
            **kwargs: What is hashed.
            algorithm: ``"sha256"``, ``"sha512"``, or ``"blake3"``, which needs the package of that name.

        Raises:
            ValueError: No such algorithm. The operator's fault.
            TypeError: A value that has no stable bytes. The caller's fault.
            ImportError: blake3 was asked for and is not installed.
        """
        digest = _new(algorithm)
        for chunk in _mapping(kwargs, "kwargs"):
            digest.update(chunk)
        return digest.hexdigest()


def _new(algorithm: str) -> _Digest:
    match algorithm:
        case "sha256":
            return hashlib.sha256()
        case "sha512":
            return hashlib.sha512()
        case "blake3":
            from blake3 import blake3

            digest: _Digest = blake3()
            return digest
        case _:
            raise ValueError(f"no hash algorithm {algorithm!r}: choose blake3, sha256 or sha512")


Chunk = bytes | memoryview


def _leaf(tag: bytes, *parts: Chunk) -> Iterator[Chunk]:
    for part in parts:
        yield tag + memoryview(part).nbytes.to_bytes(8, "little")
        yield part


def _mapping(value: Mapping[Any, object], where: str) -> Iterator[Chunk]:
    for key in value:
        if not isinstance(key, str):
            raise TypeError(f"{where}: key {key!r} is {type(key).__name__}, not a string")
    yield b"M" + len(value).to_bytes(8, "little")
    for key in sorted(value):
        yield from _leaf(b"s", key.encode("utf-8", "surrogatepass"))
        yield from _chunks(value[key], f"{where}[{key!r}]")


def _sequence(value: Sequence[object], where: str) -> Iterator[Chunk]:
    yield b"L" + len(value).to_bytes(8, "little")
    for position, element in enumerate(value):
        yield from _chunks(element, f"{where}[{position}]")


def _chunks(value: object, where: str) -> Iterator[Chunk]:  # noqa: C901  # a flat table of types
    match value:
        case None:
            yield from _leaf(b"0", b"")
        case MediaRef():
            yield from _leaf(b"b", value.key)
        case bool():
            yield from _leaf(b"?", b"\1" if value else b"\0")
        case int():
            yield from _leaf(b"i", value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))
        case float():
            yield from _leaf(b"f", struct.pack("<d", value))
        case str():
            yield from _leaf(b"s", value.encode("utf-8", "surrogatepass"))
        case bytes() | bytearray() | memoryview():
            yield from _leaf(b"b", bytes(value) if isinstance(value, bytearray) else value)
        case DecodeSpec():
            yield from _leaf(b"d", value.canonical_bytes())
        case list() | tuple():
            yield from _sequence(value, where)
        case Mapping():
            yield from _mapping(value, where)
        case _:
            yield from _foreign(value, where)


def _foreign(value: object, where: str) -> Iterator[Chunk]:
    """Objects of libraries that are recognised only once the program has imported them."""
    for module, name, chunks in _FOREIGN:
        kind = getattr(sys.modules.get(module), name, None)
        if kind is not None and isinstance(value, kind):
            return chunks(value, where)
    raise TypeError(f"{where}: {type(value).__name__} has no stable bytes to be identified by")


def _array(value: Any, where: str) -> Iterator[Chunk]:
    if value.dtype.hasobject:
        raise TypeError(f"{where}: an array of Python objects has no stable bytes")
    if value.dtype.names is not None:
        raise TypeError(f"{where}: an array of records is no media, and its type says too little to identify it")
    np = sys.modules["numpy"]
    shape = ",".join(map(str, value.shape))
    contiguous = np.ascontiguousarray(value)
    return _leaf(b"A", value.dtype.str.encode(), shape.encode(), contiguous.reshape(-1).view(np.uint8).data)


def _tensor(value: Any, where: str) -> Iterator[Chunk]:
    torch = sys.modules["torch"]
    shape = ",".join(map(str, value.shape))
    try:
        flat = value.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
    except (RuntimeError, NotImplementedError) as exc:
        raise TypeError(f"{where}: a {value.layout} tensor on {value.device} has no bytes to be identified by") from exc
    return _leaf(b"T", str(value.dtype).encode(), shape.encode(), flat.view(torch.uint8).numpy().data)


def _picture(value: Any, where: str) -> Iterator[Chunk]:
    del where
    from lazymedia.media.image.convert import orientation_of

    value.load()  # some formats give their transparency and orientation only now
    palette = value.palette
    return _leaf(
        b"P",
        f"{value.mode} {value.width} {value.height} {orientation_of(value)}".encode(),
        b"" if palette is None else f"{palette.mode} ".encode() + palette.tobytes(),
        repr(value.info.get("transparency")).encode(),
        value.tobytes(),
    )


_FOREIGN: Final[tuple[tuple[str, str, Callable[[Any, str], Iterator[Chunk]]], ...]] = (
    ("numpy", "ndarray", _array),
    ("numpy", "generic", _array),
    ("torch", "Tensor", _tensor),
    ("PIL.Image", "Image", _picture),
)

__all__ = ["Algorithm", "MultiModalHasher"]

publish(__name__)
