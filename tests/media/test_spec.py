"""Decode specs and keys."""

from __future__ import annotations

import hashlib
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazymedia.media import DecodeSpec, Payload, derive_media_key

GOLDEN = [
    (b"", None, "d34d0feea31457a5633bae0a62fbf315182980f49571ed760d41eb1bdb95df87"),
    (b"abc", {"a": 1}, "998d2c446733f78a801894114792ea38f09e13aa1dba4715ae21e47bcda32ab0"),
    (
        b"\x00" * 1000,
        {"image_mode": "RGB", "rgba_background_color": [255, 255, 255]},
        "a6594d72a009db081e27fb5abe682a70365c028424de5d66bd2a6e6a658abb2f",
    ),
]


def _by_hand(data: bytes, canonical: bytes) -> bytes:
    chunks = (data, canonical)
    return hashlib.sha256(b"".join(len(chunk).to_bytes(8, "little") + chunk for chunk in chunks)).digest()


@pytest.mark.parametrize(("data", "settings", "key"), GOLDEN)
def test_keys_are_pinned(data: bytes, settings: dict[str, object] | None, key: str) -> None:
    """A change of these values would empty every cache that outlives a process."""
    assert derive_media_key(data, DecodeSpec(settings)).hex() == key


def test_a_key_is_the_digest_of_length_prefixed_payload_and_spec() -> None:
    spec = DecodeSpec({"b": [1, 2], "a": None})

    assert spec.canonical_bytes() == b'{"a":null,"b":[1,2]}'
    assert derive_media_key(b"payload", spec) == _by_hand(b"payload", b'{"a":null,"b":[1,2]}')


def test_nothing_can_be_shifted_between_payload_and_spec() -> None:
    spec = DecodeSpec()

    assert derive_media_key(b"ab" + spec.canonical_bytes(), spec) != derive_media_key(b"ab", spec)


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        ({"a": (1, 2)}, {"a": [1, 2]}, True),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        (None, {}, True),
        ({"a": 1}, {"a": 1.0}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": "1"}, {"a": 1}, False),
        ({"a": None}, {}, False),
        ({"a": {"b": 1}}, {"a": {"c": 1}}, False),
        ({"a": "\ud800"}, {"a": "\udfff"}, False),
        ({"a": 10**40}, {"a": 10**40 + 1}, False),
    ],
)
def test_specs_are_equal_by_canonical_bytes(
    left: dict[str, object] | None, right: dict[str, object], equal: bool
) -> None:
    a, b = DecodeSpec(left), DecodeSpec(right)

    assert (a == b) is equal
    assert (derive_media_key(b"x", a) == derive_media_key(b"x", b)) is equal
    assert not equal or hash(a) == hash(b)


def _nested(depth: int) -> dict[str, object]:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return {"a": value}


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"a": {1: 2}}, TypeError),
        ({1: 2}, TypeError),
        ({"a": [{None: 2}]}, TypeError),
        ({"a": b"bytes"}, TypeError),
        ({"a": {1, 2}}, TypeError),
        ({"a": object()}, TypeError),
        ({"a": [1, 2j]}, TypeError),
        ({"a": float("nan")}, ValueError),
        ({"a": [float("inf")]}, ValueError),
        ({"a": {"b": -float("inf")}}, ValueError),
        (_nested(10_000), ValueError),
    ],
)
def test_what_has_no_canonical_form_is_refused(settings: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        DecodeSpec(settings)


def test_settings_are_copies() -> None:
    given_settings: dict[str, object] = {"a": [1]}
    spec = DecodeSpec(given_settings)
    given_settings["a"] = 2
    spec.settings["a"].append(2)

    assert spec.settings == {"a": [1]}


def test_a_spec_cannot_be_changed_but_extended() -> None:
    spec = DecodeSpec({"a": 1, "b": 1})

    with pytest.raises(AttributeError):
        spec.settings = {}  # type: ignore[misc]
    with pytest.raises(AttributeError):
        spec._canonical = b""

    assert spec.extend(b=2, c=3).settings == {"a": 1, "b": 2, "c": 3}
    assert spec.settings == {"a": 1, "b": 1}


def test_specs_pickle() -> None:
    spec = DecodeSpec({"a": [1, "x", None]})

    assert pickle.loads(pickle.dumps(spec)) == spec


def test_a_payload_is_read_once_for_all_its_keys() -> None:
    data = b"x" * 100
    specs = [DecodeSpec({"n": n}) for n in range(3)]
    keys = [derive_media_key(data, spec) for spec in specs]

    payload = Payload(data)
    assert payload.derive_key(specs[0]) == keys[0]
    payload.data = b"other"
    assert [payload.derive_key(spec) for spec in specs] == keys


settings = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.text(), settings, max_size=4))
def test_a_spec_made_of_a_specs_settings_is_that_spec(values: dict[str, object]) -> None:
    spec = DecodeSpec(values)

    assert DecodeSpec(spec.settings) == spec
