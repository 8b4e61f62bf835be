"""Video items: frames and metadata as one stored item, two views of it, selections that keep both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from lazymedia.media.ref import MediaRef
from lazymedia.parse.video import VideoProcessorItems, parse_video_data

FRAMES = np.zeros((5, 20, 30, 3), np.uint8)


class Decoder:
    """Counts its calls."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.calls = 0

    def __call__(self) -> Any:
        self.calls += 1
        return FRAMES + self.number, {"fps": float(self.number)}


def parsed(data: object, **options: Any) -> VideoProcessorItems:
    items = parse_video_data(data, **options)
    assert items is not None
    return items


def test_metadata_of_one_video_decodes_no_sibling() -> None:
    decoders = [Decoder(number) for number in range(3)]
    items = parsed([MediaRef(decoder, bytes([number])) for number, decoder in enumerate(decoders)])
    assert items.get_metadata(1) == {"fps": 1.0}
    assert [decoder.calls for decoder in decoders] == [0, 1, 0]

    assert [known and known["fps"] for known in items.metadata] == [0.0, 1.0, 2.0]
    assert [decoder.calls for decoder in decoders] == [1, 1, 1]


def test_the_view_follows_the_model_and_the_store_keeps_both() -> None:
    ref = MediaRef(Decoder(7), b"x")
    plain, wanting = parsed(ref), parsed(ref, needs_metadata=True)

    assert plain.get(0).shape == (5, 20, 30, 3)
    frames, metadata = wanting.get(0)
    assert (frames.shape, metadata) == ((5, 20, 30, 3), {"fps": 7.0})
    assert plain.get_metadata(0) == {"fps": 7.0}
    assert wanting.get_frames(0) is frames
    assert plain.get_raw(0) is ref


def test_a_selection_keeps_metadata_and_view_and_places() -> None:
    items = parsed([MediaRef(Decoder(number), bytes([number])) for number in range(4)], needs_metadata=True)
    chosen = items.select([3, 1]).select([1])

    assert chosen.get_original_index(0) == 1
    assert chosen.get(0)[1] == {"fps": 1.0}


def test_metadata_that_is_missing_is_told_when_the_video_is_wanted() -> None:
    items = parsed([FRAMES, FRAMES], needs_metadata=True)
    assert items.metadata == [None, None]
    with pytest.raises(ValueError, match="video at index 1: metadata is required"):
        items.select([1]).get(0)


@pytest.mark.parametrize(
    ("data", "count", "frames"),
    [
        (FRAMES, 1, 5),
        ([FRAMES, FRAMES[:2]], 2, 5),
        ([Image.new("RGB", (30, 20))] * 4, 1, 4),
        ([list(FRAMES), list(FRAMES)], 2, 5),
        (np.zeros((2, 5, 20, 30, 3), np.uint8), 2, 5),
        (torch.zeros(6, 3, 20, 30, dtype=torch.uint8), 1, 6),
        ((FRAMES, {"fps": 1}), 1, 5),
        ([(FRAMES, {"fps": 1}), FRAMES], 2, 5),
        ((FRAMES, FRAMES), 2, 5),
    ],
)
def test_one_video_or_several(data: object, count: int, frames: int) -> None:
    items = parsed(data)

    assert (len(items), items.get_num_frames(0), items.get_frame_size(0)) == (count, frames, (30, 20))


@pytest.mark.parametrize("data", [None, [], ()])
def test_no_video(data: object) -> None:
    assert parse_video_data(data) is None


@pytest.mark.parametrize(
    "frames",
    [
        torch.zeros(6, 3, 20, 30),
        np.zeros((6, 20, 30, 3), np.float32),
        np.zeros((6, 20, 30, 3), np.int64),
        np.zeros((6, 20, 30, 5), np.uint8),
        np.zeros((6, 0, 30, 3), np.uint8),
        [torch.zeros(1, 576, 4096)],
        [np.zeros((20, 30, 3), np.uint8), np.zeros((20, 30, 3))],
        [np.zeros((20, 30), np.uint8)],
        torch.zeros(1, 576, 4096),
        torch.zeros(2, 6, 3, 20, 30),
    ],
    ids=[
        *("tensor", "float", "int64", "five channels", "no rows"),
        *("embeddings", "one odd frame", "grey", "one embedding", "a batch"),
    ],
)
def test_no_array_is_a_video_by_its_shape(frames: Any) -> None:
    for data in (frames, [frames], (frames, {"fps": 1})):
        with pytest.raises(TypeError, match="video"):
            parse_video_data(data)


@pytest.mark.parametrize("data", ["http://x", 3, [3], np.zeros(3), [np.zeros((2, 2))], [Image.new("RGB", (1, 1)), 3]])
def test_what_is_no_video_is_refused(data: object) -> None:
    with pytest.raises(TypeError, match="video"):
        parse_video_data(data)


def test_a_video_named_by_uuid_alone_keeps_its_place() -> None:
    assert parsed([None, FRAMES]).get_raw(0) is None
