"""From a processor, its subclass or its folder to what is known about it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import transformers

from lazymedia.models import family_of, processing_info, register_family
from lazymedia.models.idefics3 import Idefics3Info
from lazymedia.models.llava import LlavaInfo
from lazymedia.models.qwen_vl import QwenVLInfo
from lazymedia.processing import Batched, ProcessingInfo
from lazymedia.testing.media import picture
from lazymedia.testing.processors import make_processor, make_tokenizer
from tests.infos import FAMILIES

KINDS = {
    "llava": LlavaInfo,
    "qwen2_vl": QwenVLInfo,
    "qwen2_5_vl": QwenVLInfo,
    "qwen3_vl": QwenVLInfo,
    "idefics3": Idefics3Info,
}


@pytest.mark.parametrize("family", FAMILIES)
def test_each_family_has_its_info(family: str) -> None:
    info = processing_info(make_processor(family))

    assert type(info) is KINDS[family]
    assert info.modalities == (("image", "video") if family.startswith("qwen") else ("image",))
    assert info.placeholder("image") == info.hf_processor.image_token
    modalities = ", ".join(info.modalities)
    assert repr(info) == f"<{KINDS[family].__name__} of {type(info.hf_processor).__name__}, {modalities}>"


def test_a_subclass_of_a_known_class_belongs_to_its_family() -> None:
    class Mine(transformers.LlavaProcessor):  # type: ignore[misc]  # transformers is not typed
        pass

    assert family_of(Mine) is LlavaInfo


def test_an_unknown_class_of_processors_is_processed_by_the_general_rule() -> None:
    info = processing_info(transformers.CLIPProcessor(transformers.CLIPImageProcessor(), make_tokenizer({})))

    assert type(info) is ProcessingInfo
    assert info.modalities == ("image",)
    assert info.process_item("image", picture(30, 20)).features["pixel_values"].shape == (1, 3, 224, 224)


def test_what_is_no_processor_is_rejected() -> None:
    with pytest.raises(TypeError, match="no processor of media"):
        processing_info(transformers.CLIPImageProcessor())


def test_a_family_can_be_added(monkeypatch: pytest.MonkeyPatch) -> None:
    class ClipInfo(ProcessingInfo):
        layouts = {"image": {"pixel_values": Batched()}}  # noqa: RUF012  # a ClassVar in the base

    monkeypatch.setattr("lazymedia.models.registry._FAMILIES", {})
    register_family("CLIPProcessor", ClipInfo)
    info = processing_info(transformers.CLIPProcessor(transformers.CLIPImageProcessor(), make_tokenizer({})))
    item = info.process_item("image", picture(30, 20))

    assert isinstance(info, ClipInfo)
    assert item.features["pixel_values"].shape == (1, 3, 224, 224)
    assert info.build_prompt("a photo", {"image": [item]}).token_ids == info.hf_processor.tokenizer("a photo").input_ids


def test_an_output_without_a_layout_is_refused_and_not_dropped() -> None:
    """The fault of whoever declared the layouts; dropping it would show in a model's answers only."""

    class Forgetful(ProcessingInfo):
        layouts = {"image": {"image_grid_thw": Batched()}}  # noqa: RUF012  # a ClassVar in the base

    with pytest.raises(NotImplementedError, match="'pixel_values', which has no layout"):
        Forgetful(make_processor("qwen2_vl")).process_item("image", picture(60, 60))


@pytest.mark.parametrize("family", ["llava", "qwen2_vl"])
def test_a_folder_gives_the_same_as_the_processor_that_was_saved_there(family: str, tmp_path: Path) -> None:
    made = make_processor(family)
    made.save_pretrained(tmp_path)
    for path in (tmp_path, str(tmp_path)):
        info = processing_info(path)

        assert type(info) is KINDS[family]
        assert info.hf_processor.image_processor.to_dict() == made.image_processor.to_dict()


def test_a_folder_without_a_processor_is_refused_as_transformers_does_it(tmp_path: Path) -> None:
    with pytest.raises((OSError, ValueError)):
        processing_info(tmp_path)


NO_NETWORK = """
import json, socket, sys
tried = []
def refused(*args, **kwargs):
    tried.append(args)
    raise OSError("no network here")
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = socket.create_connection = refused
from lazymedia.models import processing_info
def outcome(name):
    try:
        return type(processing_info(name)).__name__
    except Exception as exc:
        return f"{type(exc).__name__} {exc}"
found = {name: outcome(name) for name in sys.argv[1:]}
assert not tried, tried
print(json.dumps(found))
"""

CACHED: dict[str, tuple[str, ...]] = {
    "org/whole": (),
    "org/tokenizer": ("tokenizer.json", "tokenizer_config.json"),
    "org/config": ("processor_config.json",),
    "org/empty": ("none",),
}
"""The files of a processor that a cache has; all where none is named."""

MISSING = ("org/other", "other")


@pytest.fixture(scope="module")
def by_name(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What comes of names, in a process whose Hugging Face cache is a folder and whose network fails."""
    cache = tmp_path_factory.mktemp("cache")
    for name, files in CACHED.items():
        keep(cache, name, *files)
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "TRANSFORMERS_"))}
    environ |= {"HF_HOME": str(cache), "HF_HUB_CACHE": str(cache)}
    command = [sys.executable, "-c", NO_NETWORK, *CACHED, *MISSING]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environ, cwd=cache)
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


def keep(cache: Path, name: str, *files: str) -> None:
    """Put a processor into a cache as `hf download` would, or only some of its files."""
    folder = cache / f"models--{name.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs/main").write_text("0" * 40)
    make_processor("llava").save_pretrained(folder / "snapshots" / ("0" * 40))
    for path in (folder / "snapshots" / ("0" * 40)).iterdir():
        if files and path.name not in files:
            path.unlink()


def test_a_name_is_looked_up_in_the_local_cache_and_nowhere_else(by_name: dict[str, str]) -> None:
    assert by_name["org/whole"] == "LlavaInfo"


@pytest.mark.parametrize("name", MISSING)
def test_a_name_that_the_cache_does_not_hold_is_no_download(name: str, by_name: dict[str, str]) -> None:
    assert by_name[name].startswith("FileNotFoundError ")
    assert f"nothing is downloaded here: run `hf download {name}` first" in by_name[name]
    assert "connection" not in by_name[name]


@pytest.mark.parametrize("name", [name for name, files in CACHED.items() if files])
def test_a_processor_of_which_some_files_are_cached_is_no_download(name: str, by_name: dict[str, str]) -> None:
    assert f"run `hf download {name}` first" in by_name[name]


@pytest.mark.parametrize("path", ["./folder", "/no/such/folder", "a/b/c", "~/folder", ""])
def test_a_folder_that_is_not_there_is_no_name(path: str) -> None:
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        processing_info(path)


def test_importing_the_packages_loads_neither_transformers_nor_torch() -> None:
    code = (
        "import sys, lazymedia.processing, lazymedia.models\n"
        "print([name for name in ('torch', 'torchvision', 'transformers', 'PIL', 'tokenizers', 'jinja2') "
        "if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "[]"


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = sys.modules["torchvision"] = None  # as if neither were installed
import numpy as np
from lazymedia.models import processing_info
from lazymedia.testing.media import picture
from lazymedia.testing.processors import make_processor

for family in ("llava", "idefics3"):
    info = processing_info(make_processor(family))
    media = [picture(300, 200), picture(40, 90, seed=1), picture(300, 200)]
    prompt = "{0} and {0}\\n{0}".format(info.placeholder("image"))
    items = [info.process_item("image", item) for item in media]
    rendered = info.build_prompt(prompt, {"image": items})
    got = {**info.text_outputs(rendered), **info.merge("image", [item.features for item in items])}
    wanted = info.hf_processor(text=prompt, images=media, return_tensors="np")
    assert info.return_tensors == "np" and info.hf_processor.image_processor.backend == "pil"
    assert set(got) == set(wanted)
    assert all(got[name].dtype == wanted[name].dtype and np.array_equal(got[name], wanted[name]) for name in wanted)
    array = info.process_item("image", np.asarray(media[0]))
    assert all(np.array_equal(array.features[name], items[0].features[name]) for name in array.features)
for name, backend in (("llava", "torchvision"), ("qwen2_vl", None)):
    try:
        make_processor(name, backend=backend)
    except ImportError as exc:
        assert "torchvision" in str(exc).lower()
    else:
        raise AssertionError("made without what it needs")
print("equal")
"""


def test_llava_and_idefics3_run_without_torch() -> None:
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_TORCH], capture_output=True, text=True, check=False
    )

    assert (found.returncode, found.stdout.strip()) == (0, "equal"), found.stderr


def test_an_unknown_name_of_a_family_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ValueError, match="no family 'gpt'; there are llava, "):
        make_processor("gpt")


def test_two_processors_are_equal_and_share_nothing() -> None:
    one, other = make_processor("idefics3"), make_processor("idefics3")

    assert one.tokenizer.get_vocab() == other.tokenizer.get_vocab()
    assert one.to_dict() == other.to_dict()
    assert one.tokenizer is not other.tokenizer
