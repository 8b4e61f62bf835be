"""Every snippet runs, every link leads somewhere, and every shell line names a command that exists."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest

from tests.programs import Programs

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(*languages: str) -> list[tuple[str, str]]:
    return [
        (page.name, block)
        for page in PAGES
        for language, block in FENCE.findall(page.read_text())
        if language in languages
    ]


def test_every_block_is_of_a_kind_that_is_tested() -> None:
    """An unmarked block is a drawing."""
    languages = {language for page in PAGES for language, _ in FENCE.findall(page.read_text())}

    assert languages <= {"", "python", "console", "mermaid"}
    assert blocks("python")


@pytest.mark.parametrize(("page", "block"), blocks("python"))
def test_every_python_block_runs(page: str, block: str, programs: Programs) -> None:
    done = programs.run("-c", block)

    assert done.returncode == 0, f"{page}: {done.stderr}"
    assert done.stdout
    if page == "README.md":
        cold, hot = done.stdout.splitlines()
        assert cold.startswith("{'image': [False]}")
        assert hot.startswith("{'image': [True]}")


def test_the_readmes_program_is_short() -> None:
    (_, block), *others = [entry for entry in blocks("python") if entry[0] == "README.md"]

    assert not others
    assert len([line for line in block.splitlines() if line]) <= 15


@pytest.mark.parametrize(("page", "block"), blocks("console"))
def test_every_shell_line_names_a_command_that_exists(page: str, block: str) -> None:
    for line in block.splitlines():
        assert line.startswith("$ "), f"{page}: {line}"
        command, *arguments = shlex.split(line[2:], comments=True)
        if command == "pip":
            extras = re.findall(r"\[(\w+)\]", " ".join(arguments))
            assert all(f"\n{extra} = [" in (ROOT / "pyproject.toml").read_text() for extra in extras)
        else:
            assert os.access(ROOT / command, os.X_OK), f"{page}: {line}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", page.read_text())

    assert not [link for link in links if not (page.parent / link).exists()]


def test_every_named_test_and_module_exists() -> None:
    """Pages name files in backquotes too."""
    for page in PAGES:
        for name in re.findall(r"`((?:tests|lazymedia|benchmarks|scripts)/[\w./]+)`", page.read_text()):
            assert (ROOT / name).exists(), f"{page.name}: {name}"


def test_nothing_says_to_install_the_package_of_this_name_from_the_public_index() -> None:
    """It is another project there."""
    folders = ("lazymedia", "docs", "examples", "benchmarks", "scripts", "changelog.d", "tests")
    files = [path for name in folders for path in sorted((ROOT / name).rglob("*")) if path.is_file()]
    texts = {path: path.read_bytes().decode(errors="ignore") for path in [*PAGES, ROOT / "CHANGELOG.md", *files]}
    command = re.compile(r"(?:pip|uv|pipx|conda)\s+(?:\w+\s+)*(?:-\S+\s+)*[\"'`]?lazymedia\b(?!-)")

    assert command.search("pip install 'lazymedia[hf]'")
    assert command.search("uv pip install -U lazymedia")
    assert not [path for path, text in texts.items() if path != Path(__file__) and command.search(text)]
