"""The program that takes a folder of odd files: what it says, and when it fails."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from lazymedia.testing import make_audio, make_image, make_video

PROGRAM = Path(__file__).parents[1] / "scripts" / "try_files.py"


def run(folder: Path, kinds: dict[str, str]) -> subprocess.CompletedProcess[str]:
    manifest = folder / "manifest.json"
    manifest.write_text(json.dumps({"files": [{"file": name, "kind": kind} for name, kind in kinds.items()]}))
    return subprocess.run([sys.executable, PROGRAM, folder, manifest], capture_output=True, text=True, check=False)


def test_each_file_is_decoded_or_refused_with_a_status(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(make_image(7, 5, format="PNG"))
    (tmp_path / "b.mp4").write_bytes(make_video(3))
    (tmp_path / "c.flac").write_bytes(make_audio(0.1, format="FLAC"))
    (tmp_path / "d.wav").write_bytes(b"no sound")

    done = run(tmp_path, {"a.png": "image", "b.mp4": "video", "c.flac": "audio", "d.wav": "audio"})

    assert done.returncode == 0
    for line in ("pixels (5, 7, 3)", "frames (3, 64, 128, 3)", "samples (1600,), 16000 Hz", "422 not a supported"):
        assert line in done.stdout
    assert done.stdout.endswith("3 decoded, 1 refused, 0 FAILED\n")


def test_an_error_that_is_none_of_ours_fails_the_program(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")

    done = run(tmp_path, {"a": "smell"})

    assert done.returncode == 1
    assert "FAILED  a\n    KeyError" in done.stdout
