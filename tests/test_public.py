"""The public face: every name importable, lazily, and nothing heavy with it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import lazymedia

SOURCE = Path(lazymedia.__file__)
HEAVY = ("PIL", "av", "soundfile", "torch", "torchvision", "transformers", "httpx2", "httpx", "numpy", "tokenizers")


def names_for_type_checkers() -> set[str]:
    """What the ``if TYPE_CHECKING`` block imports."""
    for node in ast.parse(SOURCE.read_text()).body:
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return {alias.name for part in node.body if isinstance(part, ast.ImportFrom) for alias in part.names}
    raise AssertionError("no such block")


def test_what_type_checkers_see_is_what_there_is() -> None:
    assert {"__version__", *names_for_type_checkers()} == set(lazymedia.__all__)
    assert sorted(lazymedia.__all__) == lazymedia.__all__


@pytest.mark.parametrize("name", lazymedia.__all__)
def test_every_name_is_there_and_documented(name: str) -> None:
    value = getattr(lazymedia, name)

    assert name in dir(lazymedia)
    assert name == "__version__" or (value.__doc__ and value.__module__.startswith("lazymedia."))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        lazymedia.no_such_name  # noqa: B018  # the access is the point


def run(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


def test_importing_lazymedia_loads_nothing_heavy() -> None:
    loaded = run(f"import sys, lazymedia; print([name for name in {HEAVY} if name in sys.modules])")

    assert loaded == "[]"


@pytest.mark.parametrize("module", ["media", "parse", "cache", "processing", "models", "pipeline", "chat", "renderer"])
def test_no_package_of_the_core_loads_a_codec_or_a_model_library(module: str) -> None:
    heavy = ("PIL", "av", "soundfile", "torch", "torchvision", "transformers")
    loaded = run(f"import sys, lazymedia.{module}; print([name for name in {heavy} if name in sys.modules])")

    assert loaded == "[]"


def test_importing_executes_few_modules_of_its_own() -> None:
    """A count instead of a time: what an import costs is what it executes. `benchmarks.imports` prints the time."""
    own = run("import sys, lazymedia; print(sum(name.startswith('lazymedia') for name in sys.modules))")

    assert own == "1"
