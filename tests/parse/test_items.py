"""The two views of a batch, selections, forks."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from lazymedia.errors import BadRequestError, ReleasedError
from lazymedia.media.image import ImageMediaIO
from lazymedia.media.ref import MediaRef
from lazymedia.parse import ImageProcessorItems, ImageSize, MultiModalDataParser


class Decoder:
    """Counts its calls."""

    def __init__(self, media: Any) -> None:
        self.media = media
        self.calls = 0

    def __call__(self) -> Any:
        self.calls += 1
        return self.media


def refs(count: int) -> tuple[list[MediaRef[Any]], list[Decoder]]:
    decoders = [Decoder(Image.new("RGB", (n + 1, 2))) for n in range(count)]
    return [MediaRef(decoder, bytes([n])) for n, decoder in enumerate(decoders)], decoders


def parse(data: object, image_io: ImageMediaIO | None = None) -> ImageProcessorItems:
    items = MultiModalDataParser(image_io=image_io).parse_mm_data({"image": data})["image"]
    assert isinstance(items, ImageProcessorItems)
    return items


def test_only_get_decodes() -> None:
    stored, decoders = refs(3)
    items = parse(stored)
    items.get_all_raw()
    items.select([2, 0]).get_raw(0)
    repr(items)
    items.fork().release()
    len(items)

    assert [decoder.calls for decoder in decoders] == [0, 0, 0]
    assert items.get(1).size == (2, 2)
    assert [decoder.calls for decoder in decoders] == [0, 1, 0]
    assert items.get_raw(1) is stored[1]


def test_a_selection_keeps_class_references_and_places() -> None:
    stored, _ = refs(5)
    chosen = parse(stored).select([4, 1, 3]).select([2, 0])

    assert type(chosen) is ImageProcessorItems
    assert chosen.get_all_raw() == [stored[3], stored[4]]
    assert [chosen.get_original_index(index) for index in range(2)] == [3, 4]
    assert len(parse(stored).select([])) == 0


def test_sizes_are_those_of_the_upright_media() -> None:
    media = [
        Image.new("L", (4, 2)),
        np.zeros((2, 4, 3), np.uint8),
        np.zeros((3, 2, 4), np.uint8)[:, :, :2].repeat(4, axis=2)[:, :, :8],
        torch.zeros(3, 2, 5, dtype=torch.uint8),
        np.zeros((2, 4), np.uint8),
    ]
    items = parse(media)

    assert [items.get_image_size(index) for index in range(5)] == [
        ImageSize(4, 2),
        ImageSize(4, 2),
        ImageSize(8, 2),
        ImageSize(5, 2),
        ImageSize(4, 2),
    ]


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (Image.new("RGB", (1, 1)), 1),
        ([Image.new("RGB", (1, 1))] * 2, 2),
        ((Image.new("RGB", (1, 1)), None), 2),
        (np.zeros((2, 2, 3), np.uint8), 1),
        (np.zeros((5, 2, 2, 3), np.uint8), 5),
        (torch.zeros(4, 3, 2, 2, dtype=torch.uint8), 4),
        (MediaRef(list, b"x"), 1),
        ([None], 1),
    ],
)
def test_one_item_or_several(data: object, count: int) -> None:
    assert len(parse(data)) == count


@pytest.mark.parametrize("data", [5, "image", ["image"], [("image", None)]])
def test_media_that_are_no_mapping_are_refused(data: Any) -> None:
    with pytest.raises(BadRequestError, match="media must be a mapping"):
        MultiModalDataParser().parse_mm_data(data)


def test_none_means_no_media() -> None:
    assert len(MultiModalDataParser().parse_mm_data(None)) == 0
    assert len(MultiModalDataParser().parse_mm_data({"image": None, "video": None, "audio": None})) == 0


@pytest.mark.parametrize("data", [[], None, ()])
def test_a_modality_without_items_is_left_out(data: object) -> None:
    items = MultiModalDataParser().parse_mm_data({"image": data})

    assert (len(items), items.get_all_counts()) == (0, {})


@pytest.mark.parametrize("data", ["http://x", b"bytes", 3, [3], ["x"], [np.zeros(3)], object(), {"a": 1}])
def test_what_is_no_picture_is_refused(data: object) -> None:
    with pytest.raises(TypeError, match="image"):
        MultiModalDataParser().parse_mm_data({"image": data})


NO_PIXELS = [
    pytest.param(torch.zeros(1, 576, 4096), r"float32 with shape \(1, 576, 4096\)", id="embeddings"),
    pytest.param(torch.zeros(3, 576, 4096), r"float32 with shape \(3, 576, 4096\)", id="three of them"),
    pytest.param(torch.zeros(576, 4096, dtype=torch.bfloat16), "bfloat16", id="of one picture"),
    pytest.param(np.zeros((1, 576, 4096), np.float16), "float16", id="of NumPy"),
    pytest.param(np.full((8, 8, 3), 0.5, np.float32), "float32", id="values up to one"),
    pytest.param(np.full((8, 8, 3), 7.5, np.float64), "float64", id="values above one"),
    pytest.param(np.full((8, 8, 3), -1.0), "float64", id="negative values"),
    pytest.param(torch.rand(3, 224, 224), "float32", id="a float tensor"),
    pytest.param(np.zeros((8, 8, 3), np.int64), "int64", id="int64"),
    pytest.param(np.zeros((8, 8), np.uint16), "uint16", id="uint16"),
    pytest.param(np.zeros((8, 8), np.bool_), "bool", id="bool"),
    pytest.param(np.zeros((8, 8, 3), np.int8), "int8", id="int8"),
    pytest.param(np.zeros((8, 8, 3), object), "object", id="objects"),
    pytest.param(torch.zeros(3, 8, 8, dtype=torch.complex64), "complex64", id="complex"),
    pytest.param(np.zeros((8, 8, 5), np.uint8), r"\(8, 8, 5\)", id="five channels"),
    pytest.param(np.zeros((0, 8, 3), np.uint8), r"\(0, 8, 3\)", id="no rows"),
    pytest.param(np.zeros(8, np.uint8), r"\(8,\)", id="one axis"),
]


@pytest.mark.parametrize(("array", "text"), NO_PIXELS)
def test_no_array_is_a_picture_by_its_shape(array: Any, text: str) -> None:
    """Embeddings have as many axes as pictures, and a float picture's values may mean anything."""
    for data in (array, [array], (array, array)):
        with pytest.raises(TypeError, match=f"{text}.*uint8"):
            parse(data)
    with pytest.raises(TypeError, match=f"image at index 1 is .*{text}"):
        parse([np.zeros((4, 4, 3), np.uint8), array])


@pytest.mark.parametrize("axes", [4, 5])
def test_no_batch_of_arrays_is_pictures_by_its_shape(axes: int) -> None:
    for data in (torch.zeros([2] * (axes - 1) + [3]), np.zeros([2] * (axes - 1) + [3])):
        with pytest.raises(TypeError, match="float"):
            parse(data)


def test_an_unknown_modality_is_the_clients_fault() -> None:
    with pytest.raises(BadRequestError, match="smell"):
        MultiModalDataParser().parse_mm_data({"smell": []})


def test_forks_can_be_released_without_touching_the_callers_references() -> None:
    stored, _ = refs(2)
    items = MultiModalDataParser().parse_mm_data({"image": stored})
    forked = items.fork()
    forked.release()

    assert [ref.data for ref in stored] == [b"\x00", b"\x01"]
    assert [raw.data for raw in forked["image"].get_all_raw()] == [b"", b""]  # type: ignore[attr-defined]


def test_forking_is_all_or_nothing() -> None:
    stored, _ = refs(3)
    items = MultiModalDataParser().parse_mm_data({"image": stored})
    stored[2].release()
    with pytest.raises(ReleasedError):
        items.fork()

    assert stored[0].decode().size == (1, 2)


def test_a_picture_that_came_decoded_gives_the_pixels_that_its_file_gives() -> None:
    picture = Image.new("RGBA", (4, 2), (200, 0, 0, 0))
    picture.paste((0, 0, 200, 255), (0, 0, 1, 1))
    exif = Image.Exif()
    exif[0x0112] = 6
    file = io.BytesIO()
    picture.save(file, "PNG", exif=exif)
    decoder = ImageMediaIO()

    from_bytes = parse(decoder.load_bytes_ref(file.getvalue()), decoder).get(0)
    from_object = parse(Image.open(io.BytesIO(file.getvalue())), decoder).get(0)

    assert from_bytes.size == from_object.size == (2, 4)
    assert np.array_equal(np.asarray(from_bytes), np.asarray(from_object))
