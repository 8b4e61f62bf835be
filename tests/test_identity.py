"""Hashes of items: injective over types, stable over runs, never decoding."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from lazymedia.identity import Algorithm, MultiModalHasher
from lazymedia.media.ref import MediaRef
from lazymedia.media.spec import DecodeSpec


def hash_of(value: Any, algorithm: Algorithm = "sha256") -> str:
    return MultiModalHasher.hash_kwargs(algorithm, value=value)


def picture(mode: str, size: tuple[int, int], raw: bytes, **info: object) -> Image.Image:
    image = Image.frombytes(mode, size, raw)
    image.info.update(info)
    return image


def with_palette(first: int) -> Image.Image:
    image = Image.frombytes("P", (4, 4), bytes(16))
    image.putpalette([first, 0, 0])
    return image


def turned(orientation: int) -> Image.Image:
    image, exif = Image.new("RGB", (2, 2)), Image.Exif()
    exif[0x0112] = orientation
    image.info["exif"] = exif.tobytes()
    return image


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, 1.0),
        (1, True),
        (0, False),
        (0, None),
        ("1", 1),
        ("1", b"1"),
        ("", b""),
        (b"", None),
        ([], None),
        ([], {}),
        ([1], [[1]]),
        ([1, 2], [2, 1]),
        ([[1], 2], [1, [2]]),
        (["a", "b"], ["ab"]),
        (["a", ""], ["", "a"]),
        ({"a": 1}, [("a", 1)]),
        ({"a": {"b": 1}}, {"a": {"b": 2}}),
        ({"a": 1, "b": 2}, {"a": 2, "b": 1}),
        (1.0, 4607182418800017408),
        (2**64, 2**64 + 1),
        (-1, 255),
        (0.0, -0.0),
        (DecodeSpec({"a": 1}), b'{"a":1}'),
        (np.zeros((2, 3)), np.zeros((3, 2))),
        (np.zeros(4, np.uint8), np.zeros(4, np.int8)),
        (np.zeros(4, np.uint8), np.zeros(1, np.uint32)),
        (np.array([1], ">i4"), np.array([1], "<i4")),
        (np.float32(1), 1.0),
        (torch.zeros(2), np.zeros(2, np.float32)),
        (torch.zeros(2, dtype=torch.bfloat16), torch.zeros(2, dtype=torch.float16)),
        (torch.zeros(2, 1), torch.zeros(1, 2)),
        (picture("RGB", (6, 4), bytes(range(72))), picture("RGB", (4, 6), bytes(range(72)))),
        (picture("L", (4, 4), bytes(16)), picture("P", (4, 4), bytes(16))),
        (picture("RGBA", (2, 2), bytes(16)), picture("CMYK", (2, 2), bytes(16))),
        (picture("L", (4, 4), bytes(16)), picture("L", (4, 4), bytes(16), transparency=0)),
        (with_palette(0), with_palette(9)),
        (turned(1), turned(6)),
    ],
)
def test_what_differs_hashes_differently(left: object, right: object) -> None:
    assert hash_of(left) != hash_of(right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((1, 2), [1, 2]),
        ({"a": 1, "b": {"c": 1, "d": 2}}, {"b": {"d": 2, "c": 1}, "a": 1}),
        (np.arange(6).reshape(2, 3).T, np.ascontiguousarray(np.arange(6).reshape(2, 3).T)),
        (torch.arange(6).reshape(2, 3).T, torch.arange(6).reshape(2, 3).T.contiguous()),
        (bytearray(b"x"), b"x"),
        (memoryview(b"x"), b"x"),
        (picture("RGB", (2, 2), bytes(12), dpi=(72, 72)), picture("RGB", (2, 2), bytes(12))),
        (torch.tensor([1 + 2j]).conj(), torch.tensor([1 - 2j])),
    ],
)
def test_what_is_the_same_hashes_the_same(left: object, right: object) -> None:
    assert hash_of(left) == hash_of(right)


def test_a_reference_is_hashed_by_its_key_and_never_decoded() -> None:
    calls: list[int] = []
    ref = MediaRef(lambda: calls.append(1), b"payload")
    before = hash_of(ref)
    ref.release()

    assert before == hash_of(ref) == hash_of(ref.key)
    assert not calls


@pytest.mark.parametrize(
    "value",
    [
        object(),
        {1: 2},
        {1, 2},
        np.array([object()]),
        np.zeros(2, [("a", "i4"), ("b", "f4")]),
        torch.eye(2).to_sparse(),
        torch.zeros(2, device="meta"),
        1j,
        lambda: 1,
    ],
)
def test_what_has_no_stable_bytes_is_refused_by_its_place(value: object) -> None:
    with pytest.raises(TypeError, match="value"):
        MultiModalHasher.hash_kwargs("sha256", outer={"value": [value]})


@pytest.mark.parametrize(("algorithm", "length"), [("sha256", 64), ("sha512", 128), ("blake3", 64)])
def test_algorithms(algorithm: Algorithm, length: int) -> None:
    assert len(hash_of("x", algorithm)) == length


def test_an_unknown_algorithm_is_refused() -> None:
    with pytest.raises(ValueError, match="md5"):
        hash_of("x", "md5")  # type: ignore[arg-type]


def test_hashes_are_pinned() -> None:
    """A change of this value would empty every cache that outlives a process."""
    value = {
        "a": [1, -2.5, None, True, "é", b"\x00"],
        "spec": DecodeSpec({"m": "RGB"}),
        "array": np.eye(2, dtype=np.uint8),
    }

    assert hash_of(value) == "c0030dfc7c989cbc6d1b3774f048a4ee93241a7bb28559a7536c457e667a3075"


def test_hashes_do_not_depend_on_the_process() -> None:
    program = "import lazymedia; print(lazymedia.MultiModalHasher.hash_kwargs('sha256', b={'y': 1, 'x': 2}, a='t'))"
    printed = {
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout.strip()
        for seed in ("1", "2")
    }

    assert printed == {MultiModalHasher.hash_kwargs("sha256", a="t", b={"x": 2, "y": 1})}


leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
values = st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3))


def canonical(value: object) -> object:
    """What makes two values the same for hashing: type and content of each leaf, bit by bit."""
    match value:
        case list():
            return ("list", *map(canonical, value))
        case dict():
            return ("dict", *sorted((key, repr(canonical(element))) for key, element in value.items()))
        case _:
            return (type(value).__name__, repr(value))


@given(values, values)
def test_values_hash_equal_exactly_when_they_are_the_same(left: object, right: object) -> None:
    assert (hash_of(left) == hash_of(right)) == (repr(canonical(left)) == repr(canonical(right)))
