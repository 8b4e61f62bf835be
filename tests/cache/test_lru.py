"""The processed-output cache: bytes, order, pins, and what is handed out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import torch

from lazymedia.cache import CacheStats, ProcessorCache
from lazymedia.cache.handing_out import handed_out
from lazymedia.errors import CacheMissError


@dataclass(frozen=True)
class Thing:
    """The smallest entry."""

    nbytes: int
    features: dict[str, Any] = field(default_factory=dict)

    def handed_out(self, *, share_tensors: bool = False) -> Thing:
        return replace(self, features=handed_out(self.features, share_tensors=share_tensors))


def filled(capacity: int, *sizes: int) -> ProcessorCache[Thing]:
    cache: ProcessorCache[Thing] = ProcessorCache(capacity)
    for name, size in zip("abcdefgh", sizes):
        cache.get_and_update(name, Thing(size))
    return cache


def names(cache: ProcessorCache[Thing]) -> str:
    return "".join(name for name in "abcdefgh" if cache.is_cached(name))


def test_the_least_recently_used_leaves_first() -> None:
    cache = filled(30, 10, 10, 10)
    cache.get_and_update("a")
    cache.touch("b")
    cache.get_and_update("d", Thing(10))

    assert names(cache) == "abd"


def test_looking_changes_no_order() -> None:
    cache = filled(20, 10, 10)
    cache.is_cached("a")
    cache.pin("a")
    cache.get_and_update("c", Thing(10))

    assert names(cache) == "bc"


def test_room_is_made_by_bytes_and_not_by_number() -> None:
    cache = filled(100, 10, 10, 10, 60)
    cache.get_and_update("e", Thing(35))

    assert names(cache) == "de"
    assert cache.stats() == CacheStats(
        entries=2, nbytes=95, capacity_bytes=100, hits=0, misses=5, evictions=3, too_large=0
    )


def test_an_entry_larger_than_the_cache_is_served_and_not_kept(caplog: pytest.LogCaptureFixture) -> None:
    cache = filled(20, 10)
    for name in "bc":
        assert cache.get_and_update(name, Thing(21)).nbytes == 21

    assert names(cache) == "a"
    assert cache.stats().too_large == 2
    assert len(caplog.records) == 1


def test_a_miss_without_an_entry_is_an_error_that_names_the_hash() -> None:
    with pytest.raises(CacheMissError) as caught:
        ProcessorCache[Thing](10).get_and_update("gone")

    assert caught.value.hashes == ("gone",)


def test_a_held_entry_wins_over_a_given_one() -> None:
    cache = filled(100, 10)

    assert cache.get_and_update("a", Thing(99)).nbytes == 10


def test_a_request_never_evicts_its_own_items_when_they_fit() -> None:
    cache = filled(30, 10, 10, 10)
    cache.update_all([("a", Thing(10)), ("x", Thing(10)), ("b", Thing(10)), ("x", Thing(10))])

    assert [cache.is_cached(name) for name in "abxc"] == [True, True, True, False]
    assert (cache.stats().hits, cache.stats().misses) == (2, 5)


def test_a_pin_outlives_eviction_but_not_invalidation_or_clearing() -> None:
    cache = filled(20, 10, 10)
    pins = [cache.pin("a"), cache.pin("b")]
    cache.get_and_update("c", Thing(20))

    assert names(cache) == "c"
    assert all(pin is not None and pin.entry is not None for pin in pins)
    assert cache.pin("a") is pins[0]
    cache.invalidate("a")
    assert [pin is not None and pin.entry is not None for pin in pins] == [False, True]
    cache.clear()
    assert [pin is not None and pin.entry is not None for pin in pins] == [False, False]
    assert cache.pin("a") is None
    assert cache.stats().nbytes == 0


def test_a_commit_leaves_out_what_was_invalidated_since_it_began() -> None:
    cache = filled(1000)
    moment = cache.moment
    cache.invalidate("b")
    cache.update_all([("a", Thing(1)), ("b", Thing(1))], moment)
    assert names(cache) == "a"

    cache.update_all([("b", Thing(1))], cache.moment)
    assert names(cache) == "ab"

    moment = cache.moment
    for number in range(1000):
        cache.invalidate(f"other {number}")
    cache.update_all([("c", Thing(1))], moment)
    assert names(cache) == "ab", "too long ago to tell"


def test_invalidating_what_is_not_held_does_nothing() -> None:
    cache = filled(20, 10)
    cache.invalidate("z")

    assert names(cache) == "a"


def test_a_negative_capacity_is_refused() -> None:
    with pytest.raises(ValueError, match="capacity"):
        ProcessorCache(-1)


@pytest.mark.parametrize("held", ["miss", "hit"])
def test_arrays_are_handed_out_as_views_that_cannot_be_written(held: str) -> None:
    stored = np.arange(4.0)
    stored.flags.writeable = False
    cache: ProcessorCache[Thing] = ProcessorCache(100)
    out = cache.get_and_update("a", Thing(1, {"x": stored}))
    out = out if held == "miss" else cache.get_and_update("a")

    assert out.features["x"].base is stored
    with pytest.raises(ValueError, match="read-only"):
        out.features["x"][0] = 9
    with pytest.raises(ValueError, match="WRITEABLE"):
        out.features["x"].flags.writeable = True


@pytest.mark.parametrize("held", ["miss", "hit"])
def test_tensors_are_cloned_where_the_operator_wants_it(held: str) -> None:
    cache: ProcessorCache[Thing] = ProcessorCache(100, share_tensors=False)
    out = cache.get_and_update("a", Thing(1, {"x": torch.arange(4.0)}))
    out = out if held == "miss" else cache.get_and_update("a")
    out.features["x"].zero_()

    assert cache.get_and_update("a").features["x"].tolist() == [0, 1, 2, 3]


def test_tensors_are_shared_by_default() -> None:
    stored = torch.arange(4.0)
    cache: ProcessorCache[Thing] = ProcessorCache(100)
    cache.get_and_update("a", Thing(1, {"x": stored}))

    assert cache.get_and_update("a").features["x"] is stored
