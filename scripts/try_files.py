"""Every file of a manifest through `probe` and its decoder, beside what the manifest says should happen.

Comes in: a folder, and a JSON file whose ``files`` are objects with ``file`` (a path in the folder), ``kind`` (image,
video or audio) and ``should`` (words for the reader). Goes out: a table and counts. The exit status is 1 where
anything but a documented error was raised.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from lazymedia import AudioMediaIO, ImageMediaIO, LazyMediaError, MediaIO, MediaRef, VideoMediaIO
from lazymedia.media.image import probe

DECODERS: dict[str, MediaIO[Any]] = {
    "image": ImageMediaIO(output="array"),
    "video": VideoMediaIO(num_frames=64),
    "audio": AudioMediaIO(),
}


def main(folder: Path, manifest: Path) -> int:
    """Print the table; the exit status."""
    counts = {"decoded": 0, "refused": 0, "FAILED": 0}
    for entry in json.loads(manifest.read_text())["files"]:
        outcome, told = attempt((folder / entry["file"]).read_bytes(), entry["kind"])
        counts[outcome] += 1
        print(f"{outcome}  {entry['file']}\n    {told}\n    should: {entry.get('should', '')}")
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    return int(counts["FAILED"] > 0)


def attempt(data: bytes, kind: str) -> tuple[str, str]:
    """Decoded, refused with one of lazymedia's own errors, or FAILED; and what is worth telling of it."""
    try:
        header = f"{probe(data)}; " if kind == "image" else ""
        ref: MediaRef[Any] = DECODERS[kind].load_bytes_ref(data)
        return "decoded", header + shown(ref.decode(), kind)
    except LazyMediaError as exc:
        return "refused", f"{exc.status_hint} {exc}"
    except Exception as exc:  # noqa: BLE001  # what this program looks for
        return "FAILED", f"{type(exc).__name__}: {exc}"


def shown(media: Any, kind: str) -> str:
    """One line on decoded media."""
    if kind == "image":
        return f"pixels {media.shape} {media.dtype}, mean {media.mean():.1f}"
    if kind == "audio":
        return f"samples {media[0].shape}, {media[1]} Hz, peak {abs(media[0]).max():.3f}"
    frames, metadata = media
    missing = metadata.total_num_frames - len(metadata.frames_indices)
    return f"frames {frames.shape}, {metadata.fps:.3f} fps, {metadata.duration:.3f} s, {missing} frames missing"


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: scripts/try_files DIR MANIFEST")
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
