"""Layouts that were found out once, kept as files that a person can read.

One file for each processor's fingerprint and modality, in the folder that ``LAZYMEDIA_CACHE_DIR`` names, or in the
user's cache folder. A file that is damaged or cannot be written costs another calibration and nothing else.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from lazymedia.processing.calibration import UncertainLayoutError
from lazymedia.processing.fields import Layout, layout_from_plain, layout_to_plain

log = logging.getLogger("lazymedia.processing")

_VERSION: Final = 1
"""Of the file's form, and of the rules of calibration."""


def find_layouts(
    fingerprint: str, modality: str, calibrate: Callable[[str], Mapping[str, Layout]]
) -> Mapping[str, Layout]:
    """The layouts of a processor's outputs for a modality: from the file, or from ``calibrate``, which is then kept.

    Raises:
        UncertainLayoutError: There are none, now or when they were looked for.
    """
    path = folder() / f"{fingerprint}-{modality}.json"
    kept = _read(path)
    if kept is not None:
        if isinstance(kept, str):
            raise UncertainLayoutError(kept)
        return kept
    try:
        layouts = calibrate(modality)
    except UncertainLayoutError as exc:
        _write(path, {"version": _VERSION, "uncertain": str(exc)})
        raise
    plain = {name: layout_to_plain(layout) for name, layout in layouts.items()}
    _write(path, {"version": _VERSION, "layouts": plain})
    return layouts


def folder() -> Path:
    """Where the files are."""
    chosen = os.environ.get("LAZYMEDIA_CACHE_DIR")
    if chosen:
        return Path(chosen) / "layouts"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lazymedia" / "layouts"


def _read(path: Path) -> Mapping[str, Layout] | str | None:
    """Layouts, the reason why there are none, or None where nothing of use is stored."""
    try:
        stored = json.loads(path.read_text("utf-8"))
        if stored["version"] != _VERSION:
            return None
        if "uncertain" in stored:
            return str(stored["uncertain"])
        return {str(name): layout_from_plain(plain) for name, plain in stored["layouts"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _write(path: Path, plain: Mapping[str, object]) -> None:
    """Write the file whole or not at all: other processes may read it now."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, name = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(plain, file, indent=1)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as exc:
        log.info("the layouts of a processor's outputs cannot be kept: %s", exc.strerror)


__all__ = ["find_layouts", "folder"]
