"""How far memory grows while something is decoded, each time in a fresh process.

Comes in: the name of a piece of work and a file. Goes out: bytes. Never here: a time.

Run as a program, it does the work and prints what it found. Libraries are loaded, and used once on something small,
before the first look at the memory; the payload is read after it and counts as held.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

_STATUS: Final = Path("/proc/self/status")
_CLEAR: Final = Path("/proc/self/clear_refs")


@dataclass(frozen=True, slots=True)
class Growth:
    """Bytes: by how much resident memory grew at its peak, what of that is the result, and the payload."""

    grown: int
    result: int
    payload: int


def grows(work: str, path: Path) -> Growth | None:
    """What a fresh process finds; None where the system does not tell a peak that can be reset."""
    if not _CLEAR.exists():
        return None
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.peak", work, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=Path(__file__).parents[1],
    )
    return Growth(*map(int, done.stdout.split()))


def _kib(field: str) -> int:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(field))
    return int(line.split()[1])


def _eight_videos(data: bytes) -> int:
    from benchmarks.at_once import at_once
    from benchmarks.videos import eight_refs

    return sum(frames.nbytes for frames, _ in at_once([ref.decode for ref in eight_refs(data)]))


def _eight_videos_torchcodec(data: bytes) -> int:
    from benchmarks.at_once import at_once
    from benchmarks.videos import torchcodec_frames, wanted_frames

    wanted = wanted_frames(data)
    return sum(frames.nbytes for frames in at_once([partial(torchcodec_frames, data, wanted, 1)] * 8))


def _audio(data: bytes) -> int:
    from benchmarks.audio import lazymedia_direct

    samples: Any = lazymedia_direct(data)
    return int(samples.nbytes)


def _audio_mapped(data: bytes) -> int:
    from benchmarks.audio import lazymedia_mapped

    samples: Any = lazymedia_mapped(data)
    return int(samples.nbytes)


WORK: Final[dict[str, Callable[[bytes], int]]] = {
    "eight videos": _eight_videos,
    "eight videos, torchcodec": _eight_videos_torchcodec,
    "audio": _audio,
    "audio, mapped": _audio_mapped,
}
"""Each gives the bytes of what it decoded, of which all was held until the end."""


def _load_libraries(work: Callable[[bytes], int], name: str) -> None:
    """Threads' own stacks and arenas too, which a server has long since."""
    from lazymedia.testing.audio import make_audio
    from lazymedia.testing.video import make_video

    if "video" in name:
        work(make_video(64, 64, 64))
    else:
        for kind in ("WAV", "M4A"):
            work(make_audio(6, 44_100, 2, format=kind))
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(len, [b""] * 2))


def main(name: str, path: Path) -> None:
    """Do it and print three numbers."""
    work = WORK[name]
    _load_libraries(work, name)
    _CLEAR.write_text("5")
    before = _kib("VmRSS")
    data = path.read_bytes()
    result = work(data)
    print((_kib("VmHWM") - before) << 10, result, len(data))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
