"""How arrays of single items are joined, for NumPy and torch alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from lazymedia.errors import UnprocessableMediaError
from lazymedia.processing.fields import Batched, Flat, Hidden, Layout, merge_fields, owned, split_fields

KINDS = ["numpy", "torch"]


def make(kind: str, shape: tuple[int, ...], value: float, dtype: str = "float32") -> Any:
    array = np.full(shape, value, dtype)
    return torch.from_numpy(array) if kind == "torch" else array


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("layout", "shapes", "merged"),
    [
        (Batched(), [(1, 3, 2), (1, 3, 2)], (2, 3, 2)),
        (Flat(), [(4, 5), (7, 5), (1, 5)], (12, 5)),
        (Flat(dim=1), [(1, 4, 3), (1, 2, 3)], (1, 6, 3)),
        (Flat(dim=2), [(2, 1, 3), (2, 1, 4)], (2, 1, 7)),
        (Batched(pad=0), [(1, 3, 2), (1, 2, 5)], (2, 3, 5)),
        (Flat(dim=1, pad=-1), [(1, 4, 2), (1, 2, 6)], (1, 6, 6)),
    ],
)
def test_arrays_are_joined_by_their_layout(
    kind: str, layout: Layout, shapes: list[tuple[int, ...]], merged: tuple[int, ...]
) -> None:
    items = [{"x": make(kind, shape, index + 1, "int64")} for index, shape in enumerate(shapes)]
    joined = merge_fields(items, {"x": layout})["x"]

    assert tuple(joined.shape) == merged
    assert joined.dtype == items[0]["x"].dtype
    filled = int(np.prod(merged)) - sum(int(np.prod(shape)) for shape in shapes)
    assert isinstance(layout, Batched | Flat)
    assert int((np.asarray(joined) == (0 if layout.pad is None else layout.pad)).sum()) == filled


@pytest.mark.parametrize("kind", KINDS)
def test_padding_goes_behind_each_item(kind: str) -> None:
    items = [{"x": make(kind, (1, 2), 1)}, {"x": make(kind, (1, 3), 2)}, {"x": make(kind, (1, 1), 3)}]
    joined = merge_fields(items, {"x": Batched(pad=9)})["x"]

    assert np.asarray(joined).tolist() == [[1, 1, 9], [2, 2, 2], [3, 9, 9]]


@pytest.mark.parametrize("kind", KINDS)
def test_shapes_that_differ_without_padding_are_refused(kind: str) -> None:
    items = [{"x": make(kind, (1, 2), 1)}, {"x": make(kind, (1, 3), 2)}]

    with pytest.raises(UnprocessableMediaError, match=r"one x: shapes \(1, 2\), \(1, 3\)"):
        merge_fields(items, {"x": Batched()})
    with pytest.raises(UnprocessableMediaError, match="shapes"):
        merge_fields([items[0], {"x": make(kind, (1, 2, 2), 2)}], {"x": Batched(pad=0)})


def test_more_rows_than_one_are_no_batched_item() -> None:
    with pytest.raises(ValueError, match="one item has 2 rows"):
        merge_fields([{"x": np.zeros((2, 3))}], {"x": Batched()})


def test_items_with_different_fields_are_refused() -> None:
    with pytest.raises(ValueError, match=r"items 0 and 1 have different fields: \['x'\] and \['y'\]"):
        merge_fields([{"x": np.zeros((1, 3))}, {"y": np.zeros((1, 3))}], {"x": Batched(), "y": Batched()})


def test_a_field_without_a_layout_cannot_be_merged() -> None:
    with pytest.raises(NotImplementedError, match="'x' has no layout"):
        merge_fields([{"x": np.zeros((1, 3))}], {})


def test_hidden_outputs_are_set_apart() -> None:
    features, hidden = split_fields({"x": np.zeros(2), "rows": [[3]]}, {"x": Flat(), "rows": Hidden()})

    assert list(features) == ["x"]
    assert hidden == {"rows": [[3]]}


@pytest.mark.parametrize(
    ("outputs", "text"), [({"new": np.zeros(2)}, "'new', which has no layout"), ({"x": [1, 2]}, "'x' as list")]
)
def test_outputs_that_nobody_declared_are_refused(outputs: dict[str, Any], text: str) -> None:
    with pytest.raises(NotImplementedError, match=text):
        split_fields(outputs, {"x": Flat()})


def test_an_array_becomes_read_only_for_good_and_a_tensor_of_its_own_is_kept() -> None:
    array = np.arange(6.0).reshape(2, 3)
    tensor = torch.arange(6.0)
    kept = owned(array, None)

    assert np.array_equal(kept, array)
    assert kept.dtype == array.dtype
    with pytest.raises(ValueError, match="WRITEABLE"):
        kept.flags.writeable = True
    assert owned(np.zeros((0, 3)), None).shape == (0, 3)
    assert owned(tensor, None).data_ptr() == tensor.data_ptr()


@pytest.mark.parametrize(
    "view",
    [
        np.arange(6.0)[:3],
        np.asarray(torch.arange(6.0)[:3]),
        np.asarray(torch.arange(6.0))[2:4],
        np.frombuffer(bytes(64), np.uint8)[:8],
        torch.arange(6.0)[:3],
    ],
    ids=["a slice", "a slice of a tensor", "a slice of a tensor's array", "a slice of bytes", "a tensor's slice"],
)
def test_a_view_of_something_larger_is_copied(view: Any) -> None:
    kept = owned(view, None)

    assert np.array_equal(np.asarray(kept), np.asarray(view))
    assert not np.shares_memory(np.asarray(kept), np.asarray(view))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("media_kind", KINDS)
def test_what_shares_memory_with_the_media_is_copied(kind: str, media_kind: str) -> None:
    media = np.arange(6.0)
    media_seen = torch.from_numpy(media) if media_kind == "torch" else media
    kept = owned(torch.from_numpy(media) if kind == "torch" else media.reshape(2, 3), media_seen)
    media[:] = 0

    assert float(kept.max()) == 5
