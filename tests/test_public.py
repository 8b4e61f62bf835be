"""The public names: each importable, lazily, under one path, as listed in a file, and nothing heavy with it."""

from __future__ import annotations

import ast
import difflib
import inspect
import pickle
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType
from typing import get_type_hints

import pytest

import lazymedia
import lazymedia.extend
import lazymedia.testing
from tests import public_names

HEAVY = ("PIL", "av", "soundfile", "torch", "torchvision", "transformers", "httpx2", "httpx", "numpy", "tokenizers")
LAZY = (lazymedia, lazymedia.extend)
NAMES = [(module, name) for module in (*LAZY, lazymedia.testing) for name in module.__all__ if name != "__version__"]
ROOT = Path(__file__).parents[1]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
DEFINED = [(module, name) for module, name in NAMES if isinstance(getattr(module, name), type | FunctionType)]
CLASSES = [(module, name) for module, name in DEFINED if isinstance(getattr(module, name), type)]


def shown_path(module: ModuleType, name: str) -> str:
    """Where a name says that it is from: the first of the public modules that has it."""
    return next(each.__name__ for each in (lazymedia, module) if name in each.__all__)


def names_for_type_checkers(module: ModuleType) -> set[str]:
    """What the ``if TYPE_CHECKING`` block imports."""
    assert module.__file__ is not None
    for node in ast.parse(Path(module.__file__).read_text()).body:
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return {alias.name for part in node.body if isinstance(part, ast.ImportFrom) for alias in part.names}
    raise AssertionError("no such block")


@pytest.mark.parametrize("module", LAZY)
def test_type_checkers_see_the_names_that_exist(module: ModuleType) -> None:
    assert names_for_type_checkers(module) == {*module.__all__} - {"__version__"}
    assert sorted(module.__all__) == module.__all__


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_every_name_exists_and_is_documented(module: ModuleType, name: str) -> None:
    value = getattr(module, name)

    assert name in dir(module)
    assert value.__doc__ or (module, name) not in DEFINED  # an alias has no docstring at run time


@pytest.mark.parametrize(("module", "name"), DEFINED)
def test_classes_and_functions_show_their_public_path(module: ModuleType, name: str) -> None:
    value = getattr(module, name)

    assert f"{value.__module__}.{value.__qualname__}" == f"{shown_path(module, name)}.{name}"
    assert pickle.loads(pickle.dumps(value)) is value
    assert value.__module__.encode() in pickle.dumps(value)


@pytest.mark.parametrize(("module", "name"), CLASSES)
def test_annotations_of_public_classes_can_be_evaluated(module: ModuleType, name: str) -> None:
    value = getattr(module, name)
    # A class with the same annotations and without bases: anyio's own cannot be evaluated.
    own = inspect.get_annotations(value)
    hints = get_type_hints(type(name, (), {"__annotations__": own, "__module__": value.__module__}))

    assert hints.keys() == own.keys()
    assert not any(isinstance(hint, str) for hint in own.values())
    assert not any(isinstance(field.type, str) for field in getattr(value, "__dataclass_fields__", {}).values())


def test_the_path_does_not_depend_on_how_a_name_is_imported() -> None:
    program = """
from lazymedia.errors import BadUrlError
from lazymedia.media.ref import MediaRef
from lazymedia.processing.fields import Batched
from lazymedia.renderer import Renderer
print(BadUrlError, MediaRef, Batched, Renderer)
"""
    paths = ("lazymedia.BadUrlError", "lazymedia.MediaRef", "lazymedia.extend.Batched", "lazymedia.Renderer")

    assert run(program) == " ".join(f"<class '{path}'>" for path in paths)


def test_tracebacks_show_the_public_path() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from lazymedia.errors import BadUrlError; raise BadUrlError('no URL')"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stderr.splitlines()[-1] == "lazymedia.BadUrlError: no URL"


@pytest.mark.parametrize(("module", "names"), [("lazymedia.errors", None), ("lazymedia.media", ["checkpoint"])])
def test_some_names_stay_at_a_second_path(module: str, names: list[str] | None) -> None:
    second = import_module(module)
    errors = [name for name in lazymedia.__all__ if name.endswith("Error")]

    for name in errors if names is None else names:
        assert getattr(second, name) is getattr(lazymedia, name)


def imported_names(source: str) -> set[tuple[str, str]]:
    """Module and name of each import of lazymedia's."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("lazymedia"):
            found |= {(node.module, alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {(alias.name, "") for alias in node.names if alias.name.startswith("lazymedia.")}
    return found


@pytest.mark.parametrize("path", [*(ROOT / "examples").glob("*.py"), *PAGES], ids=lambda path: path.name)
def test_examples_and_documentation_import_public_names_only(path: Path) -> None:
    text = path.read_text()
    public = {(module.__name__, name) for module, name in NAMES} | {(name, "") for name in public_names.MODULES}

    for source in [text] if path.suffix == ".py" else PYTHON.findall(text):
        assert imported_names(source) <= public


INTERNAL = {"PacketIndex", "Resampler"}
"""Types that only lazymedia passes to public methods of decoders and of their caches."""


def own_types() -> set[str]:
    """Classes and type aliases at the top of lazymedia's modules."""
    found = set()
    for path in (ROOT / "lazymedia").rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            match node:
                case ast.ClassDef(name):
                    found.add(name)
                case ast.AnnAssign(ast.Name(name), ast.Name("TypeAlias")):
                    found.add(name)
    return found


def test_signatures_of_media_use_public_types() -> None:
    homes = lazymedia._HOMES["lazymedia"]
    names = [name for home in homes if home.startswith("lazymedia.media") for name in homes[home]]
    signatures = "\n".join(
        line
        for name in names
        if isinstance(value := getattr(lazymedia, name), type)
        for line in public_names.lines_of_class(name, value)
    )
    unknown = set(re.findall(r"[^\W\d]\w*", signatures)) & own_types() - set(lazymedia.__all__)

    assert unknown - set(lazymedia.extend.__all__) == INTERNAL


def test_the_list_of_public_names_is_up_to_date() -> None:
    was, is_now = public_names.FILE.read_text(), public_names.listed()
    difference = difflib.unified_diff(was.splitlines(), is_now.splitlines(), "listed", "found", n=1, lineterm="")

    assert was == is_now, "\n".join(
        [
            "The public names differ from tests/public_names.txt. If that is intended, run",
            "`python -m tests.public_names` and commit the file; see CONTRIBUTING.md.",
            *difference,
        ]
    )


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


def test_the_lists_of_names_load_nothing_heavy() -> None:
    loaded = run(f"import sys, lazymedia.extend; print([name for name in {HEAVY} if name in sys.modules])")

    assert loaded == "[]"


def test_importing_executes_few_modules_of_its_own() -> None:
    """A count instead of a time: what an import costs is what it executes. `benchmarks.imports` prints the time."""
    own = run("import sys, lazymedia; print(sum(name.startswith('lazymedia') for name in sys.modules))")

    assert own == "1"
