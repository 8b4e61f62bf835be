"""How outputs merge, found out from a few items; what is kept of it; and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lazymedia.extend import ProcessingInfo
from lazymedia.processing.calibration import Calibration, UncertainLayoutError, calibrate, infer_layouts
from lazymedia.processing.calibration_store import find_calibration, folder
from lazymedia.processing.fields import (
    Batched,
    Flat,
    Hidden,
    Layout,
    Listed,
    Shared,
    layout_from_plain,
    layout_to_plain,
)
from lazymedia.testing.processors import make_processor

KINDS: dict[str, Callable[[Any], Any]] = {"np": np.asarray, "pt": torch.tensor}


def noise(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).random(shape).astype(np.float32)


def padded(parts: Sequence[Any], dim: int, pad: float) -> Any:
    return Flat(dim, pad).merge(parts)


RULES: list[tuple[str, list[Any], Callable[[list[Any]], Any], Layout]] = [
    ("one row each", [noise(1, 3), noise(1, 3), noise(1, 3)], np.concatenate, Flat()),
    ("rows", [noise(2, 3), noise(5, 3), noise(1, 3)], np.concatenate, Flat()),
    ("columns", [noise(1, 2, 3), noise(1, 5, 3), noise(1, 1, 3)], lambda parts: np.concatenate(parts, 1), Flat(1)),
    ("filled up", [noise(1, 2), noise(1, 5), noise(1, 1)], lambda parts: padded(parts, 0, -1), Flat(0, -1)),
    ("filled in a list's way", [[1, 2], [3], []], lambda parts: [x for part in parts for x in part], Listed()),
    ("nested", [[[1]], [[2]], [[3, 4]]], lambda parts: [[x for part in parts for x in part[0]]], Listed(1)),
    ("one for all", ["a", "a", "a"], lambda parts: parts[0], Shared()),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("parts", "join", "layout"), [rule[1:] for rule in RULES], ids=[rule[0] for rule in RULES])
def test_a_rule_is_found_and_makes_the_whole(kind: str, parts: list[Any], join: Any, layout: Layout) -> None:
    def converted(value: Any) -> Any:
        return KINDS[kind](value) if isinstance(value, np.ndarray) else value

    together = [(pair, {"x": converted(join([parts[index] for index in pair]))}) for pair in ((0, 1), (1, 0, 2))]
    found = infer_layouts([{"x": converted(part)} for part in parts], together)

    assert found == {"x": layout}


UNCERTAIN: dict[str, tuple[list[Any], Callable[[list[Any]], Any]]] = {
    "depends on the neighbours": ([noise(1, 3), noise(1, 3)], lambda parts: np.concatenate(parts) / len(parts)),
    "another order": ([noise(1, 3), noise(1, 4)[:, :3]], lambda parts: np.concatenate(parts[::-1])),
    "filled up with several values": ([noise(1, 3), noise(1, 5)], lambda parts: noise(2, 5)),
}


@pytest.mark.parametrize("what", UNCERTAIN)
def test_what_no_rule_explains_is_refused_by_name(what: str) -> None:
    parts, join = UNCERTAIN[what]
    with pytest.raises(UncertainLayoutError, match=r"^x: "):
        infer_layouts([{"x": part} for part in parts], [((0, 1), {"x": join(parts)})])


def test_what_only_several_items_have_is_refused() -> None:
    with pytest.raises(UncertainLayoutError, match="mask is there for some items and not for others"):
        infer_layouts([{}, {}], [((0, 1), {"mask": noise(2, 3)})])


def test_steps_that_differ_from_the_call_are_refused() -> None:
    items = [noise(1, index + 1) for index in range(4)]

    def process(chosen: Sequence[Any]) -> dict[str, Any]:
        return {"x": Flat(pad=0).merge(chosen), "rows": [1] * len(chosen)}

    assert calibrate(process, items, {"x": items[0]}) == {"x": Flat(pad=0), "rows": Hidden()}
    with pytest.raises(UncertainLayoutError, match="x differs"):
        calibrate(process, items, {"x": items[0] + 1})
    with pytest.raises(UncertainLayoutError, match="y is made outside"):
        calibrate(process, items, {"y": items[0]})


@pytest.mark.parametrize(
    "layout", [Batched(), Batched(0.5), Flat(1), Flat(0, -1), Listed(), Listed(1), Shared(), Hidden()]
)
def test_layouts_are_data(layout: Layout) -> None:
    plain = json.loads(json.dumps(layout_to_plain(layout)))

    assert layout_from_plain(plain) == layout


@pytest.mark.parametrize("plain", [{}, {"kind": "folded"}, {"kind": "flat", "axis": 1}, {"kind": ["flat"]}])
def test_what_is_no_layout_is_refused(plain: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no layout"):
        layout_from_plain(plain)


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAZYMEDIA_CACHE_DIR", str(tmp_path))
    return tmp_path / "layouts"


@pytest.mark.parametrize(
    "found", [Calibration("steps", {"x": Flat(1, 0.0)}), Calibration("whole", {}, "steps: x: no rule")], ids=str
)
def test_what_was_found_out_is_kept(own_folder: Path, found: Calibration) -> None:
    calls: list[str] = []

    def calibration(modality: str) -> Calibration:
        calls.append(modality)
        return found

    assert [find_calibration("f" * 64, "image", calibration) for _ in range(3)] == [found] * 3
    assert calls == ["image"]
    (path,) = own_folder.iterdir()
    for damaged in ("", "{", "[]", '{"version": 1}', '{"version": 0, "route": "steps", "reason": "", "layouts": {}}'):
        path.write_text(damaged)
        assert find_calibration("f" * 64, "image", calibration) == found
    assert calls == ["image"] * 6
    assert [each.name for each in own_folder.iterdir()] == [path.name]


def test_a_folder_that_cannot_be_written_costs_a_calibration_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LAZYMEDIA_CACHE_DIR", str(tmp_path / "file"))

    assert find_calibration("0", "image", lambda _: Calibration("steps", {})) == Calibration("steps", {})


def test_without_a_folder_of_its_own_the_users_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAZYMEDIA_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    assert folder() == tmp_path / "lazymedia" / "layouts"


def test_a_processor_is_calibrated_once_and_then_read_back(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = ProcessingInfo(make_processor("llava"))
    layouts = first.layouts_of("image")
    monkeypatch.setattr("lazymedia.processing.info.calibrate", None)

    assert ProcessingInfo(make_processor("llava")).layouts_of("image") == layouts == {"pixel_values": Flat()}
    assert len(list(own_folder.iterdir())) == 1


def with_own_call(call: Callable[..., Any]) -> ProcessingInfo:
    """LLaVA without its steps: only its call remains, as in processors that are older than the steps."""
    made = make_processor("llava")
    theirs = type(made)

    def without(*_: Any, **__: Any) -> Any:
        raise NotImplementedError("this processor has no steps")

    def __call__(self: Any, **arguments: Any) -> Any:  # noqa: N807  # a method of the class that is made here
        inner = make_processor("llava")
        return call(inner, **arguments)

    made.__class__ = type("OnlyACall", (theirs,), {"_process_images": without, "__call__": __call__})
    return ProcessingInfo(made)


def test_a_processor_without_steps_is_called_for_one_item_at_a_time(own_folder: Path) -> None:
    info = with_own_call(lambda inner, **arguments: inner(**arguments))
    picture, other = noise(30, 20, 3), noise(40, 70, 3)
    media = [(each * 255).astype(np.uint8) for each in (picture, other)]
    items = [info.process_item("image", item) for item in media]
    rendered = info.build_prompt("One <image> and <image> more", {"image": items})
    whole = make_processor("llava")(text="One <image> and <image> more", images=media, return_tensors="pt")

    assert info.calibration_of("image").route == "call"
    assert rendered.token_ids == whole["input_ids"][0].tolist()
    assert torch.equal(info.merge("image", [item.features for item in items])["pixel_values"], whole["pixel_values"])


def test_a_call_whose_items_depend_on_each_other_is_not_cached(own_folder: Path) -> None:
    def call(inner: Any, **arguments: Any) -> Any:
        outputs = inner(**arguments)
        outputs["pixel_values"] = outputs["pixel_values"] * len(outputs["pixel_values"])
        return outputs

    calibration = with_own_call(call).calibration_of("image")

    assert calibration.route == "whole"
    assert "no steps" in calibration.reason
    assert "items together are not what they are alone" in calibration.reason
