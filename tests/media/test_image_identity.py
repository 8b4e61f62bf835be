"""EXIF's ImageID: ignored unless an operator trusts it, then an identity in a namespace of its own."""

from __future__ import annotations

import pickle
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from PIL import Image

from lazymedia.limits import Limits
from lazymedia.media import derive_media_key
from lazymedia.media.image import ImageMediaIO
from lazymedia.media.image.io import Picture
from tests.media import pictures

NAME = uuid.UUID("6f1c2a34-5b6d-4e7f-8a90-b1c2d3e4f506")
EVERYTHING = Limits(image_formats=pictures.ALL_FORMATS)
TRUSTING = ImageMediaIO(image_id="trust", limits=EVERYTHING)


class Counting(ImageMediaIO):
    """Counts decodes of a real decoder."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.decodes = 0
        self._lock = threading.Lock()

    def load_bytes(self, data: bytes) -> Picture:
        with self._lock:
            self.decodes += 1
        return super().load_bytes(data)


def named(kind: str, block: bytes, seed: int = 0) -> bytes:
    picture = pictures.photo(seed=seed)
    if kind == "TIFF":
        return pictures.encode(picture, kind, tiffinfo={0x800D: str(NAME)})
    return pictures.encode(picture, kind, exif=b"Exif\0\0" + block)


TEXT = str(NAME).encode() + b"\0"


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "AVIF", "TIFF"])
def test_two_payloads_of_one_name_get_one_key_when_the_name_is_trusted(kind: str) -> None:
    first, second = named(kind, pictures.id_exif(TEXT)), named(kind, pictures.id_exif(TEXT), seed=1)
    image_io = Counting(image_id="trust", limits=EVERYTHING)
    keys = {image_io.load_bytes_ref(data).key for data in (first, second)}
    assert len(keys) == 1
    assert len(keys.pop()) == 32
    assert image_io.decodes == 0
    ignoring = ImageMediaIO(limits=EVERYTHING)
    for data in (first, second):
        assert ignoring.load_bytes_ref(data).key == derive_media_key(data, ignoring.get_decode_spec())


def test_one_name_is_one_key_in_every_format_and_spelling() -> None:
    blocks = [
        pictures.id_exif(TEXT),
        pictures.id_exif(TEXT[:-1]),
        pictures.id_exif(TEXT.upper()),
        pictures.id_exif(NAME.hex.encode() + b"\0"),
        pictures.id_exif(b"{" + TEXT[:-1] + b"}\0"),
        pictures.id_exif(b"urn:uuid:" + TEXT),
        pictures.id_exif(b"  " + TEXT[:-1] + b" \0\0"),
        pictures.id_exif(TEXT, kind=7),
        pictures.id_exif(NAME.bytes, kind=7),
        pictures.id_exif(NAME.bytes, kind=1),
    ]
    payloads = [named("JPEG", block) for block in blocks] + [named("PNG", blocks[0]), named("WEBP", blocks[0])]
    assert len({TRUSTING.load_bytes_ref(data).key for data in payloads}) == 1


def test_a_name_is_a_key_only_together_with_the_spec() -> None:
    data = named("JPEG", pictures.id_exif(TEXT))
    variants: list[dict[str, Any]] = [
        {}, {"image_mode": None}, {"image_mode": "L"}, {"rgba_background_color": (0, 0, 0)}, {"output": "array"},
    ]  # fmt: skip
    keys = {ImageMediaIO(**variant, image_id="trust").load_bytes_ref(data).key for variant in variants}
    assert len(keys) == len(variants)


def test_a_name_never_equals_a_key_made_from_content() -> None:
    """Nor the key of a payload that is what is hashed for the name: lengths stand before each part."""
    key = TRUSTING.load_bytes_ref(named("JPEG", pictures.id_exif(TEXT))).key
    spec = TRUSTING.get_decode_spec()
    contents = [NAME.bytes, TEXT, str(NAME).encode(), b"", spec.canonical_bytes(), NAME.bytes + spec.canonical_bytes()]
    assert key not in {derive_media_key(content, spec) for content in contents}


UNNAMED: dict[str, bytes] = {
    "no tag": pictures.orientation_exif(1),
    "empty": pictures.id_exif(b""),
    "not a UUID": pictures.id_exif(b"Not a UUID\0"),
    "nil": pictures.id_exif(str(uuid.UUID(int=0)).encode()),
    "too short": pictures.id_exif(TEXT[:-3]),
    "too long": pictures.id_exif(TEXT.ljust(65, b"\0")),
    "a megabyte": pictures.id_exif(b"6" * 60_000),
    "NUL inside": pictures.id_exif(TEXT[:10] + b"\0" + TEXT[11:]),
    "not ASCII": pictures.id_exif(b"\xe9" * 36),
    "underscores": pictures.id_exif(b"6f1c2a34_5b6d_4e7f_8a90_b1c2d3e4f506"),
    "a sign": pictures.id_exif(b"+f1c2a345b6d4e7f8a90b1c2d3e4f506"),
    "sixteen bytes of a checksum": pictures.id_exif(b"\xff" * 16, kind=7),
    "sixteen letters": pictures.id_exif(NAME.bytes, kind=2),
    "a number": pictures.exif((0x800D, 4, 1, b"\1\2\3\4")),
    "twice": pictures.exif((0x800D, 2, 37, TEXT), (0x800D, 2, 37, TEXT)),
    "beyond the end": pictures.id_exif(TEXT)[:-5],
}


@pytest.mark.parametrize("kind", UNNAMED)
def test_whatever_is_not_one_uuid_falls_back_to_content(kind: str) -> None:
    data = named("JPEG", UNNAMED[kind])
    assert TRUSTING.load_bytes_ref(data).key == derive_media_key(data, TRUSTING.get_decode_spec())


@pytest.mark.parametrize(
    "added",
    [
        lambda block: pictures.chunk(b"eXIf", block),
        lambda block: pictures.chunk(b"tEXt", b"Raw profile type exif\0" + pictures.raw_profile(block)),
    ],
    ids=["eXIf", "raw profile"],
)
def test_a_png_whose_exif_comes_behind_the_pixels_is_identified_by_content(added: Callable[[bytes], bytes]) -> None:
    png = pictures.encode(pictures.photo(), "PNG")
    data = pictures.with_chunks(png, added(pictures.id_exif(TEXT)), before=b"IEND")
    image_io = Counting(image_id="trust")
    ref = image_io.load_bytes_ref(data)
    assert ref.key == derive_media_key(data, image_io.get_decode_spec())
    assert not ref.is_decoded
    assert image_io.decodes == 0


def test_eight_threads_that_ask_one_reference_decode_once() -> None:
    image_io = Counting()
    ref = image_io.load_bytes_ref(pictures.encode(pictures.photo(800, 600), "PNG"))
    together = threading.Barrier(8)

    def decode() -> Picture:
        together.wait()
        return ref.decode()

    with ThreadPoolExecutor(8) as pool:
        results = [future.result() for future in [pool.submit(decode) for _ in range(8)]]
    assert image_io.decodes == 1
    assert all(result is results[0] for result in results)


def test_decodes_in_many_threads_agree_with_one_alone() -> None:
    """Every format at once, each from four threads: nothing is shared between decodes."""
    payloads = [
        pictures.encode(pictures.photo(300, 200, seed=seed), kind)
        for seed, kind in enumerate(("JPEG", "PNG", "WEBP", "GIF", "AVIF", "BMP", "TIFF"))
    ]
    image_io = ImageMediaIO(output="array", limits=EVERYTHING)
    alone = [image_io.load_bytes(data) for data in payloads]
    with ThreadPoolExecutor(8) as pool:
        many = list(pool.map(image_io.load_bytes, payloads * 4))
    for at, array in enumerate(many):
        assert not isinstance(array, Image.Image)
        assert not isinstance(alone[at % 7], Image.Image)
        assert (array == alone[at % 7]).all()


def test_a_reference_restored_from_a_pickle_is_decoded_and_keeps_its_key() -> None:
    ref = ImageMediaIO().load_bytes_ref(pictures.encode(pictures.photo(), "PNG"))
    again = pickle.loads(pickle.dumps(ref))
    assert again.is_decoded
    assert (again.key, again.data, again.spec) == (ref.key, b"", ref.spec)
    assert again.decode().tobytes() == pictures.photo().tobytes()
