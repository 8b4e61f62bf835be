"""A processor's fingerprint: equal where outputs are, different where anything that changes them is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lazymedia.models import processing_info
from lazymedia.models.llava import LlavaInfo
from lazymedia.processing.info import ReturnTensors
from lazymedia.testing.processors import Backend, make_processor
from tests.infos import FAMILIES
from tests.programs import Programs


def of(
    family: str = "llava",
    change: Callable[[Any], object] = lambda processor: None,
    *,
    backend: Backend | None = None,
    return_tensors: ReturnTensors = "pt",
) -> str:
    processor = make_processor(family, backend=backend)
    change(processor)
    return processing_info(processor, return_tensors=return_tensors).fingerprint


def test_equal_processors_have_one_fingerprint_in_every_process(programs: Programs) -> None:
    code = (
        "from lazymedia.models import processing_info\n"
        "from lazymedia.testing.processors import make_processor\n"
        "print(processing_info(make_processor('idefics3'), return_tensors='pt').fingerprint)"
    )
    elsewhere = programs.run("-c", code).stdout.strip()

    assert of("idefics3") == of("idefics3") == elsewhere
    assert len(elsewhere) == 64
    assert int(elsewhere, 16) >= 0


def test_where_a_processor_is_stored_changes_nothing(tmp_path: Path) -> None:
    processor = make_processor("qwen2_vl")
    found = set()
    for folder in ("one", "other"):
        processor.save_pretrained(tmp_path / folder)
        found.add(processing_info(tmp_path / folder).fingerprint)

    assert len(found) == 1


def test_families_backends_and_kinds_of_arrays_differ() -> None:
    found = [of(family) for family in FAMILIES]
    found += [of(backend="pil"), of(return_tensors="np"), of(backend="pil", return_tensors="np")]

    assert len(set(found)) == len(found)


CHANGES: dict[str, Callable[[Any], object]] = {
    "size": lambda processor: setattr(processor.image_processor, "size", {"shortest_edge": 224}),
    "mean": lambda processor: setattr(processor.image_processor, "image_mean", (0.5, 0.5, 0.5)),
    "patch size": lambda processor: setattr(processor, "patch_size", 16),
    "strategy": lambda processor: setattr(processor, "vision_feature_select_strategy", "full"),
    "options on the instance": lambda processor: setattr(processor, "images_kwargs", {"do_rescale": False}),
    "token types": lambda processor: setattr(processor, "return_mm_token_type_ids", True),
    "vocabulary": lambda processor: processor.tokenizer.add_tokens(["new"]),
    "first token": lambda processor: setattr(processor.tokenizer.backend_tokenizer, "post_processor", None),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_setting_that_changes_outputs_changes_the_fingerprint(name: str) -> None:
    try:
        changed = of(change=CHANGES[name])
    except TypeError:  # the backend's post-processor cannot be set to None by every version
        pytest.fail("this change cannot be made")

    assert changed != of()


def test_a_call_of_the_tokenizer_changes_nothing() -> None:
    """Padding and truncation are state of a fast tokenizer; the last call's must not count."""

    def call(processor: Any) -> None:
        processor.tokenizer("some text", padding="max_length", truncation=True, max_length=5)

    assert of(change=call) == of()


def test_a_chat_template_changes_nothing() -> None:
    assert of(change=lambda processor: setattr(processor, "chat_template", "x")) == of()


def test_another_class_of_info_differs() -> None:
    class Mine(LlavaInfo):
        pass

    processor = make_processor("llava")

    assert Mine(processor).fingerprint != LlavaInfo(processor).fingerprint


def test_another_version_of_a_library_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    before = of()
    monkeypatch.setattr("lazymedia.processing.fingerprint.metadata.version", lambda library: f"{library} 0")

    assert of() != before
