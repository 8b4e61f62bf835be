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
from typing import Final, get_args

from lazymedia.processing.calibration import Calibration, Route
from lazymedia.processing.fields import layout_from_plain, layout_to_plain

log = logging.getLogger("lazymedia.processing")

_VERSION: Final = 1
"""Of the file's form, and of the rules of calibration."""


def find_calibration(fingerprint: str, modality: str, calibrate: Callable[[str], Calibration]) -> Calibration:
    """What was found out about a modality: from the file, or from ``calibrate``, which is then kept."""
    path = folder() / f"{fingerprint}-{modality}.json"
    kept = _read(path)
    if kept is not None:
        return kept
    found = calibrate(modality)
    layouts = {name: layout_to_plain(layout) for name, layout in found.layouts.items()}
    _write(path, {"version": _VERSION, "route": found.route, "reason": found.reason, "layouts": layouts})
    return found


def folder() -> Path:
    """Where the files are."""
    chosen = os.environ.get("LAZYMEDIA_CACHE_DIR")
    if chosen:
        return Path(chosen) / "layouts"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lazymedia" / "layouts"


def _read(path: Path) -> Calibration | None:
    """None where nothing of use is stored."""
    try:
        stored = json.loads(path.read_text("utf-8"))
        if stored["version"] != _VERSION:
            return None
        if stored["route"] not in get_args(Route):
            return None
        layouts = {str(name): layout_from_plain(plain) for name, plain in stored["layouts"].items()}
        return Calibration(stored["route"], layouts, str(stored["reason"]))
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


__all__ = ["find_calibration", "folder"]
