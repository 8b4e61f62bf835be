"""`LruDict`: sizes, order, and what leaves."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from lazymedia.lru import LruDict

CAPACITY = 30


@dataclass(frozen=True)
class Value:
    nbytes: int


def pairs_of(lru: LruDict[str, Value]) -> list[tuple[str, Value | None]]:
    """The least recently used first."""
    return [(key, lru.get(key)) for key in lru]


@pytest.mark.parametrize("seed", range(20))
def test_any_order_of_calls_gives_what_a_plain_list_gives(seed: int) -> None:
    """The list holds the pairs, the least recently used first."""
    draw = random.Random(seed)
    lru: LruDict[str, Value] = LruDict(CAPACITY)
    expected: list[tuple[str, Value]] = []

    for _ in range(300):
        key, value = draw.choice("abcdef"), Value(draw.randrange(CAPACITY + 5))
        found = dict(expected).get(key)
        others = [pair for pair in expected if pair[0] != key]
        match "clear" if draw.random() < 0.02 else draw.choice(["put", "put", "touch", "pop"]):
            case "put":
                fits = value.nbytes <= CAPACITY
                expected = [*others, (key, value)] if fits else others
                dropped = 0
                while sum(held.nbytes for _, held in expected) > CAPACITY:
                    del expected[0]
                    dropped += 1
                assert lru.put(key, value) == dropped
            case "touch":
                lru.touch(key)
                expected = others if found is None else [*others, (key, found)]
            case "pop":
                assert lru.pop(key) == found
                expected = others
            case "clear":
                lru.clear()
                expected = []
        assert pairs_of(lru) == expected
        assert {name for name in "abcdef" if name in lru} == {name for name, _ in expected}
        assert lru.nbytes == sum(held.nbytes for _, held in expected)
        assert len(lru) == len(expected)


def test_a_value_as_large_as_the_capacity_is_held_alone() -> None:
    lru: LruDict[str, Value] = LruDict(CAPACITY)
    lru.put("a", Value(1))
    lru.put("b", Value(CAPACITY))

    assert pairs_of(lru) == [("b", Value(CAPACITY))]


def test_a_value_that_is_too_large_leaves_the_others_and_drops_the_former_one_of_its_key() -> None:
    lru: LruDict[str, Value] = LruDict(CAPACITY)
    lru.put("a", Value(1))
    lru.put("b", Value(1))

    assert lru.put("b", Value(CAPACITY + 1)) == 0
    assert pairs_of(lru) == [("a", Value(1))]


def test_looking_changes_no_order() -> None:
    lru: LruDict[str, Value] = LruDict(CAPACITY)
    lru.put("a", Value(10))
    lru.put("b", Value(20))
    lru.get("a")

    assert lru.put("c", Value(10)) == 1
    assert pairs_of(lru) == [("b", Value(20)), ("c", Value(10))]


def test_a_negative_capacity_is_an_error() -> None:
    with pytest.raises(ValueError, match="capacity_bytes"):
        LruDict(-1)
