"""Imports point down, libraries stay in their files, and imports inside functions defer the load of a library.

Every import of every module is checked, those inside functions too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import lazymedia
from lazymedia import media

ROOT = Path(lazymedia.__file__).parent

FLOORS: dict[str, int] = {
    "public": -1,
    "contexts": 0,
    "errors": 0,
    "limits": 0,
    "lru": 0,
    "outcome": 0,
    "foreign": 0,
    "media": 1,
    "nursery": 2,
    "worker": 3,
    "parse": 2,
    "identity": 2,
    "cache": 2,
    "owners": 4,
    "fetch": 5,
    "processing": 4,
    "models": 5,
    "pipeline": 6,
    "chat": 7,
    "renderer": 8,
    "offline": 9,
    "testing": 10,
    "extend": 10,
    "cli": 11,
}
"""The lowest first. A module imports from its own package, and from packages on lower floors."""

SIDEWAYS = {("pipeline", "fetch")}
"""Lower, but none of its business."""

CORE = {
    "public",
    "contexts",
    "errors",
    "limits",
    "lru",
    "outcome",
    "foreign",
    "media",
    "parse",
    "identity",
    "cache",
    "processing",
    "models",
}
SHELL = {"nursery", "worker", "owners", "fetch", "pipeline", "chat", "renderer", "offline", "cli", "testing", "extend"}

FETCH_CORE = {"policy", "http_rules"}
"""Packages of ``fetch`` that wait for nothing: neither anyio nor the rest of ``fetch`` is known there."""

FETCH_SEES_OF_MEDIA = {
    "lazymedia.media",
    *(f"lazymedia.media.{name}" for name in ("io", "ref", "spec", *media.__all__)),
}

MODALITIES = {"image", "video", "audio"}
"""Packages of decoders, which ``media.containers`` does not know of."""

FOREIGN: dict[str, set[str]] = {
    "anyio": {f"{name}.py" for name in ("nursery", "worker", "owners", "renderer", "offline")}
    | {f"{package}/" for package in ("fetch", "pipeline", "chat", "cli", "testing")},
    "asyncio": {"testing/"},
    "trio": {"testing/"},
    "httpx2": {"fetch/transport/guarded.py"},
    "httpcore2": {"fetch/transport/guarded.py", "fetch/transport/pool.py"},
    "httpx": set(),
    "httpcore": set(),
    "PIL": {"media/image", "testing/"},
    "simplejpeg": {"media/image/jpeg_turbo.py"},
    "av": {"media/ffmpeg.py", "media/audio/", "media/video/", "testing/"},
    "soundfile": {"media/audio/", "testing/"},
    "soxr": {"media/audio/"},
    "torchcodec": {"media/system_ffmpeg.py"},
    "transformers": {"processing/", "models/", "testing/"},
    "tokenizers": {"processing/", "models/", "testing/"},
    "torch": {"media/system_ffmpeg.py", "processing/", "models/", "testing/"},
    "torchvision": {"processing/", "models/", "testing/"},
}
"""Which files may import what; an entry that ends in "/" or has no suffix stands for everything that begins so."""

DEFERRED = {
    "PIL": "a plugin registers its format and loads its codec",
    "av": "loads FFmpeg",
    "blake3": "optional",
    "fcntl": "exists on POSIX only",
    "httpx2": "0.1 s",
    "huggingface_hub": "optional, 0.3 s",
    "jinja2": "optional",
    "numpy": "0.1 s",
    "pillow_heif": "optional",
    "safetensors": "optional",
    "simplejpeg": "optional",
    "soundfile": "loads libsndfile",
    "soxr": "optional",
    "tokenizers": "optional",
    "torch": "optional, seconds",
    "torchcodec": "optional, loads the system's FFmpeg",
    "transformers": "optional, seconds",
}
"""Libraries that are slow to load or may be missing, and why. An import inside a function loads one of them, or a
module of lazymedia that does; every other import stands at the top of its file."""


def modules() -> list[Path]:
    return sorted(path.relative_to(ROOT) for path in ROOT.rglob("*.py"))


def imports(source: str, module: Path) -> Iterator[tuple[str, int]]:
    """Absolute dotted names that a module imports, ``from a import b`` giving both ``a`` and ``a.b``."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno} is a relative import"
            assert node.module is not None
            yield node.module, node.lineno
            for alias in node.names:
                yield f"{node.module}.{alias.name}", node.lineno


def faults(source: str, module: Path) -> list[str]:
    """Every import that the plan does not allow."""
    own = module.parts[0].removesuffix(".py")
    found = []
    for name, line in imports(source, module):
        top, *rest = name.split(".")
        if top == "lazymedia" and rest and rest[0] in FLOORS and own != "__init__":
            other = rest[0]
            upward = FLOORS[other] >= FLOORS[own] or (own in CORE and other in SHELL) or (own, other) in SIDEWAYS
            if other != own and upward:
                found.append(f"{module}:{line} imports {name}, which is not below it")
            if own == "fetch" and other == "media" and name not in FETCH_SEES_OF_MEDIA:
                found.append(f"{module}:{line} imports {name}; fetch knows of media only how references are made")
        if module.parts[0] == "fetch" and module.parts[1] in FETCH_CORE:
            is_shell = (
                top == "lazymedia"
                and rest[:1]
                and (rest[0] in SHELL - {"fetch"} or (rest[0] == "fetch" and rest[1:2] and rest[1] not in FETCH_CORE))
            )
            if is_shell or top == "anyio":
                found.append(f"{module}:{line} imports {name}, which waits")
        if (
            module.parts[:2] == ("media", "containers")
            and rest[:1] == ["media"]
            and rest[1:2]
            and rest[1] in MODALITIES
        ):
            found.append(f"{module}:{line} imports {name}; containers are checked before a decoder is chosen")
        if top in FOREIGN and not any(module.as_posix().startswith(place) for place in FOREIGN[top]):
            found.append(f"{module}:{line} imports {name}, which has its place elsewhere")
    return found


@pytest.mark.parametrize("module", modules(), ids=str)
def test_imports_point_down_and_libraries_stay_in_their_place(module: Path) -> None:
    assert not faults((ROOT / module).read_text(), module)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("media/ref.py", "import anyio"),
        ("media/ref.py", "def f():\n    from lazymedia.worker import ThreadCall"),
        ("parse/items.py", "from lazymedia.pipeline import MultiModalProcessor"),
        ("parse/items.py", "from lazymedia import pipeline"),
        ("fetch/connector.py", "from lazymedia.media.image import ImageMediaIO"),
        ("fetch/connector.py", "import httpx2"),
        ("fetch/policy/url.py", "import anyio"),
        ("fetch/policy/url.py", "from lazymedia.worker import run_in_thread"),
        ("fetch/http_rules/ranges.py", "from lazymedia.fetch.download import Downloader"),
        ("processing/hf.py", "if True:\n    import lazymedia.fetch.connector"),
        ("pipeline/state.py", "import asyncio"),
        ("pipeline/state.py", "def f():\n    import trio.lowlevel"),
        ("identity.py", "from PIL import Image"),
        ("processing/info.py", "from lazymedia.worker import run_in_thread"),
        ("models/llava.py", "from lazymedia.fetch import MediaConnector"),
        ("cache/lru.py", "import torch"),
        ("media/containers/ogg.py", "from lazymedia.media.audio.bounds import check_layout"),
        ("errors.py", "from lazymedia.limits import Limits\nimport lazymedia.media"),
    ],
)
def test_the_check_sees_what_it_is_there_to_see(module: str, source: str) -> None:
    assert faults(source, Path(module))


def test_every_module_has_a_floor_and_says_what_it_is_for() -> None:
    for module in modules():
        tree = ast.parse((ROOT / module).read_text())
        own = module.parts[0].removesuffix(".py")

        assert own in FLOORS or own == "__init__", module
        assert (own in CORE) != (own in SHELL) or own == "__init__", module
        assert ast.get_docstring(tree), module


Import = ast.Import | ast.ImportFrom


def split_imports(source: str) -> tuple[list[Import], list[Import]]:
    """The imports that run when a module is loaded, and those inside its functions. What only type checkers read is in
    neither.
    """
    top: list[Import] = []
    inner: list[Import] = []

    def walk(node: ast.AST, found: list[Import]) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, Import):
                found.append(child)
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                walk(child, inner)
            elif not (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
                walk(child, found)

    walk(ast.parse(source), top)
    return top, inner


def imported(statement: Import) -> set[str]:
    """Everything that a statement loads: the modules that it names and the packages that they are in."""
    if isinstance(statement, ast.Import):
        named = {alias.name for alias in statement.names}
    else:
        named = {f"{statement.module}.{alias.name}" for alias in statement.names}
    return {".".join(parts[:end]) for name in named for parts in [name.split(".")] for end in range(1, len(parts) + 1)}


@cache
def imported_at_load(name: str) -> frozenset[str]:
    """What a module of lazymedia imports when it is loaded; nothing for a name that is no such module."""
    path = ROOT.parent / name.replace(".", "/")
    files = [file for file in (path.with_suffix(".py"), path / "__init__.py") if file.exists()]
    if name.split(".", maxsplit=1)[0] != "lazymedia" or not files:
        return frozenset()
    top, _ = split_imports(files[0].read_text())
    return frozenset().union(*map(imported, top))


@cache
def loaded_by(name: str) -> frozenset[str]:
    """The deferred libraries that the import of a module loads; of Pillow each plugin by itself."""
    seen: set[str] = set()
    pending = {name}
    while pending:
        each = pending.pop()
        seen.add(each)
        pending |= imported_at_load(each) - seen
    return frozenset(each for each in seen if each in DEFERRED or (each.startswith("PIL.") and each.endswith("Plugin")))


def needless(module: str, source: str) -> list[str]:
    """Imports inside functions that load no deferred library which the module has not loaded already."""
    top, inner = split_imports(source)
    already = set().union(*(loaded_by(name) for statement in top for name in imported(statement)))
    return [
        f"{module}:{statement.lineno} {ast.unparse(statement)}"
        for statement in inner
        if not set().union(*map(loaded_by, imported(statement))) - already
    ]


@pytest.mark.parametrize("module", modules(), ids=str)
def test_imports_inside_functions_defer_a_library(module: Path) -> None:
    assert not needless(str(module), (ROOT / module).read_text())


@pytest.mark.parametrize(
    ("source", "is_needless"),
    [
        ("def f():\n    import numpy", False),
        ("import numpy\ndef f():\n    import numpy", True),
        ("from numpy import array\ndef f():\n    from numpy import zeros", True),
        ("def f():\n    import json", True),
        ("def f():\n    from lazymedia.errors import LazyMediaError", True),
        ("def f():\n    from lazymedia.processing import ProcessingInfo", False),
        ("from lazymedia.processing.fields import Flat\ndef f():\n    from lazymedia.processing import Batched", True),
        ("if TYPE_CHECKING:\n    import numpy\ndef f():\n    import numpy", False),
        ("class C:\n    async def f(self):\n        if self:\n            import json", True),
        ("from PIL import Image\ndef f():\n    from PIL import WebPImagePlugin", False),
        ("try:\n    import json\nexcept ImportError:\n    pass", False),
    ],
)
def test_the_check_of_imports_inside_functions(source: str, is_needless: bool) -> None:
    assert bool(needless("media/ref.py", source)) is is_needless


def test_every_deferred_library_is_imported_inside_a_function() -> None:
    """A library that is no longer deferred leaves the list."""
    found = {
        name.split(".")[0]
        for module in modules()
        for statement in split_imports((ROOT / module).read_text())[1]
        for name in set().union(*map(loaded_by, imported(statement)))
    }

    assert found == DEFERRED.keys()
