"""Imports point down: every import of every module, function-level ones too, is held against the house's plan."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import lazymedia
from lazymedia import media

ROOT = Path(lazymedia.__file__).parent

FLOORS: dict[str, int] = {
    "errors": 0,
    "limits": 0,
    "foreign": 0,
    "media": 1,
    "hops": 2,
    "parse": 2,
    "identity": 2,
    "cache": 2,
    "owners": 3,
    "fetch": 4,
    "processing": 4,
    "models": 5,
    "pipeline": 6,
    "chat": 7,
    "renderer": 8,
    "offline": 9,
    "testing": 10,
    "cli": 11,
}
"""The lowest first. A module imports from its own package, and from packages on lower floors."""

SIDEWAYS = {("pipeline", "fetch")}
"""Lower, but none of its business."""

CORE = {"errors", "limits", "foreign", "media", "parse", "identity", "cache", "processing", "models"}
SHELL = {"hops", "owners", "fetch", "pipeline", "chat", "renderer", "offline", "cli", "testing"}

FETCH_SEES_OF_MEDIA = {
    "lazymedia.media",
    *(f"lazymedia.media.{name}" for name in ("io", "ref", "spec", *media.__all__)),
}

FOREIGN: dict[str, set[str]] = {
    "anyio": {f"{name}.py" for name in ("hops", "owners", "renderer", "offline")}
    | {f"{package}/" for package in ("fetch", "pipeline", "chat", "cli", "testing")},
    "asyncio": {"testing/"},
    "trio": {"testing/"},
    "httpx2": {"fetch/guarded.py"},
    "httpcore2": {"fetch/guarded.py", "fetch/pool.py"},
    "httpx": set(),
    "httpcore": set(),
    "PIL": {"media/image", "testing/"},
    "simplejpeg": {"media/image/jpeg_turbo.py"},
    "av": {"media/audio/", "media/video/", "testing/"},
    "soundfile": {"media/audio/", "testing/"},
    "soxr": {"media/audio/"},
    "torchcodec": {"media/system_ffmpeg.py"},
    "transformers": {"processing/", "models/", "testing/"},
    "tokenizers": {"processing/", "models/", "testing/"},
    "torch": {"media/system_ffmpeg.py", "processing/", "models/", "testing/"},
    "torchvision": {"processing/", "models/", "testing/"},
}
"""Which files may import what; an entry that ends in "/" or has no suffix stands for everything that begins so."""


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
        ("media/ref.py", "def f():\n    from lazymedia.hops import Hop"),
        ("parse/items.py", "from lazymedia.pipeline import MultiModalProcessor"),
        ("parse/items.py", "from lazymedia import pipeline"),
        ("fetch/connector.py", "from lazymedia.media.image import ImageMediaIO"),
        ("fetch/connector.py", "import httpx2"),
        ("processing/hf.py", "if True:\n    import lazymedia.fetch.connector"),
        ("pipeline/state.py", "import asyncio"),
        ("pipeline/state.py", "def f():\n    import trio.lowlevel"),
        ("identity.py", "from PIL import Image"),
        ("processing/info.py", "from lazymedia.hops import run_in_thread"),
        ("models/llava.py", "from lazymedia.fetch import MediaConnector"),
        ("cache/lru.py", "import torch"),
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
